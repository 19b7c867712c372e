"""``qubolearn solve``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from qubolearn.cli import main
from qubolearn.qubo import SparseQubo, energies, to_bqm, to_coo


def ring(n: int, field: float = 0.0) -> SparseQubo:
    """Write a ring whose neighbors differ: 0101... has -n/2."""
    i = torch.arange(n - 1)
    edges = torch.cat([torch.stack([i, i + 1]), torch.tensor([[0], [n - 1]])], 1)
    return SparseQubo(torch.full((1, n), -1.0 + field), edges, torch.ones(1, n))


def solved(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> tuple[np.ndarray, float]:
    """Return the bits and the energy that the command writes."""
    out = path.with_name("out.npz")
    capsys.readouterr()
    assert main(["solve", str(path), "--out", str(out), *words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    with np.load(out) as found:
        assert found["energies"].item() == pytest.approx(result["energy"])
        return found["states"][0], result["energy"]


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["solve", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_qubo_of_ten_thousand_bits_is_never_dense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dense(self: SparseQubo) -> torch.Tensor:
        raise AssertionError("a dense matrix")

    n = 10_000
    A = ring(n)
    (tmp_path / "ring.coo").write_text(to_coo(A))
    with to_bqm(A).change_vartype("SPIN", inplace=False).to_file() as file:
        (tmp_path / "ring.bqm").write_bytes(file.read())
    monkeypatch.setattr(SparseQubo, "dense", dense)
    for name in ("ring.coo", "ring.bqm"):
        options = ("--solver", "annealing:reads=4,sweeps=300,seed=0", "--clamp", "0=1,1=1")
        bits, energy = solved(capsys, tmp_path / name, *options)
        assert bits.shape == (n,)
        assert bits[:2].tolist() == [1, 1]
        want = energies(A.to(torch.float64), torch.from_numpy(bits[None, None])).item()
        assert energy == pytest.approx(want)
        assert -n / 2 < energy < -0.8 * n / 2


def test_clamps_and_groups_come_from_files_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, groups = (tmp_path / name for name in ("a.coo", "groups.txt"))
    path.write_text(to_coo(torch.diag(torch.tensor([3.0, 1.0, 2.0, -1.0, 1.0, 2.0, 5.0]))))
    assert solved(capsys, path)[0].tolist() == [0, 0, 0, 1, 0, 0, 0]
    groups.write_text("0 1 2\n\n4, 5\n")
    options = "--clamp", "1=0,6=1", "--groups", str(groups), "--solver", "exhaustive"
    bits, energy = solved(capsys, path, *options)
    assert bits.tolist() == [0, 0, 1, 1, 1, 0, 1]
    assert energy == 2 - 1 + 1 + 5
    np.savez(tmp_path / "clamp.npz", clamp=np.array([[-1, -1, -1, 0, -1, -1, 1]], np.int8))
    assert solved(capsys, path, "--clamp", str(tmp_path / "clamp.npz"))[0].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert solved(capsys, path, "--groups", "7", "--clamp", "3=0")[0].tolist() == [0, 1, 0, 0, 0, 0, 0]


def test_bad_clamps_and_groups_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, bad = tmp_path / "a.coo", tmp_path / "bad.txt"
    path.write_text(to_coo(ring(12)))
    for options, message in {
        ("--clamp", "3=2"): "--clamp 3=2",
        ("--clamp", "12=1"): "bits 0 to 11",
        ("--groups", "nowhere"): "cannot read nowhere",
        ("--groups", "5"): "--groups 5",
        ("--groups", "4", "--clamp", "0=1,3=1"): "more than one bit of group 0",
        ("--groups", str(path)): "is not a list of bits",
        ("--out", str(path)): "--out",
    }.items():
        assert message in fails(capsys, str(path), *options), options
    for text, message in {"0 1\n1 2": "bit 1 is in groups 0 and 1", "0 99": "bit 99"}.items():
        bad.write_text(text)
        assert message in fails(capsys, str(path), "--groups", str(bad))
    bad.write_text("0 1 nan")
    assert "bad.txt: line 1: value nan is not finite" in fails(capsys, str(bad))
    assert "is a folder" in fails(capsys, str(tmp_path))
