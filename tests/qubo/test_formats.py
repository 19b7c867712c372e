"""Standard formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from qubolearn import ExhaustiveSearch, QubolearnError, SparseQubo, energies, solve
from qubolearn.cli import main
from qubolearn.data import instance_names, load_instance
from qubolearn.qubo import all_states, max_cut, parse_qubo, read_qubo, write_qubo

TRIANGLE = "3 3\n1 2 1\n1 3 -2\n2 3 4\n"


def test_the_energy_of_a_graph_is_minus_the_cut() -> None:
    instance = parse_qubo(TRIANGLE)
    x = all_states(3).double()
    cut = (x[:, 0] != x[:, 1]) * 1 + (x[:, 0] != x[:, 2]) * -2 + (x[:, 1] != x[:, 2]) * 4
    assert (instance.format, instance.is_cut) == ("rudy", True)
    torch.testing.assert_close(energies(instance.A, x[None])[0], -cut.double())


def test_biqmac_counts_pairs_twice_and_qbsolv_once() -> None:
    assert parse_qubo("2 2\n1 1 3\n1 2 -5\n").A.dense().tolist() == [[[3, -10], [0, 0]]]
    text = "c comment\np qubo 0 3 1 2\n0 0 3\nc between\n0 1 -5\n1 2 2.5\n"
    assert parse_qubo(text).A.dense().tolist() == [[[3, -5, 0], [0, 0, 2.5], [0, 0, 0]]]
    assert parse_qubo("0 0 3\n0 1 -5\n").A.dense().tolist() == [[[3, -5], [0, 0]]]


@pytest.mark.parametrize("format", ["biqmac", "qbsolv", "coo"])
def test_a_written_qubo_is_read_again(format: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(1, 9))
        A = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.5))
        A[n - 1, n - 1] = 1 / 3  # a diagonal marks BiqMac
        found = parse_qubo(write_qubo(torch.from_numpy(A), format))
        assert (found.format, len(found.notes)) == (format, int(format == "biqmac"))
        assert torch.equal(found.A.dense()[0], torch.from_numpy(A))


def test_a_written_graph_is_read_again() -> None:
    A = max_cut([[0, 1, 0], [1, 2, 3]], [1, -7, 0.25], 5)
    found = parse_qubo(write_qubo(A, "rudy"))
    assert found.format == "rudy"
    assert torch.equal(found.A.dense(), A.dense())
    with pytest.raises(QubolearnError, match="fields"):
        write_qubo(torch.eye(3), "rudy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no entries"),
        ("3 2\n1 2 1\n", "2 by the first line"),
        ("3 1\n1 2 1\n2 3 1\n", "1 by the first line"),
        ("3 1\n1 4 1\n", "n=3"),
        ("3 2\n0 1 1\n2 3 1\n", "0 to 3"),
        ("3 1\n-1 2 1\n", "-1"),
        ("0 0\n", "n=0"),
        ("99999999999 0\n", "99999999999"),
        ("3 1\n1 2 nan\n", "nan"),
        ("3 1\n1 2 1e999\n", "1e999"),
        ("3 2\n1 2 1e308\n1 2 1e308\n", "inf"),  # without a warning
        ("3 1\n1 2 1 7\n", "1 2 1 7"),
        ("3 1\n1 x 1\n", "x"),
        ("p qubo 0 3 1 1\n0 0 1\n1 1 1\n", "2 \\+ 0"),
        ("p qubo 0 3 1\n0 0 1\n", "p qubo 0 3 1"),
        ("p qubo 0 3 1 0\n3 3 1\n", "3 to 3"),
    ],
)
def test_bad_files(text: str, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        parse_qubo(text)


def test_unusual_files_are_read_with_a_note() -> None:
    found = parse_qubo("3 3\n1 2 1\n2 1 1\n2 3 1\n")
    assert found.A.quadratic.tolist() == [[4, 2]]
    assert "1 repeat" in found.notes[0]
    zero = parse_qubo("3 2\n0 1 1\n1 2 1\n")
    assert torch.equal(zero.A.dense(), parse_qubo("3 2\n1 2 1\n2 3 1\n").A.dense())
    assert "from 0" in zero.notes[0]
    assert "rudy" in parse_qubo("3 2\n1 1 5\n2 3 1\n").notes[0]  # may be meant
    loop = parse_qubo("3 2\n1 1 5\n2 3 1\n", "rudy")
    assert loop.A.linear.tolist() == [[0, -1, -1]]
    assert "1 self-loop" in loop.notes[0]
    assert parse_qubo("3 1\n1 2\n").A.quadratic.tolist() == [[2]]  # edges without weights


def test_empty_graphs_and_weights_beyond_float32_are_solved() -> None:
    assert solve(parse_qubo("4 0\n").A, ExhaustiveSearch(), 1).energies.item() == 0
    found = solve(parse_qubo("3 2\n1 2 1e300\n2 3 -1e39\n").A, ExhaustiveSearch(), 1)
    assert found.energies.item() == pytest.approx(-1e300)


def test_the_command_prints_cut_and_energy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "triangle.txt"
    path.write_text(TRIANGLE)
    assert main(["solve", str(path)]) in (0, None)
    message = capsys.readouterr()
    assert "cut" in message.out + message.err
    with np.load(tmp_path / "triangle.solved.npz") as solved:
        assert solved["energies"].tolist() == [-5]
        assert solved["states"].shape == (1, 3)


def test_instances_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "instances"
    folder.mkdir()
    (folder / "mine.mc").write_text(TRIANGLE)
    ring = {"ring_edges": np.array([[0, 1, 0], [1, 2, 2]], np.int32), "ring_weights": np.ones(3, np.int8)}
    qubo = {
        "q_i": np.array([0, 0]),
        "q_j": np.array([0, 1]),
        "q_value": np.array([2, -5], np.int16),
        "q_n": np.int64(2),
    }
    np.savez(folder / "some.npz", **ring, ring_n=np.int64(3), **qubo)
    (folder / "some_best.json").write_text(json.dumps({"ring": {"best_cut": 2}, "q": {"best_energy": -3}}))
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    assert sorted(instance_names()) == ["mine", "q", "ring"]
    assert torch.equal(load_instance("mine").A.dense(), read_qubo(folder / "mine.mc").A.dense())
    for name in ("ring", "q"):
        instance = load_instance(name)
        assert isinstance(instance.A, SparseQubo)
        assert solve(instance.A, ExhaustiveSearch(), 1).energies.item() == instance.best
    with pytest.raises(QubolearnError, match="G22"):
        load_instance("G22")


@pytest.mark.data("instances")
def test_best_known_values_of_published_solutions() -> None:
    for name, n, best in (("G22", 2000, -13359), ("bqp50_1", 50, -2098)):
        instance = load_instance(name)
        assert (instance.A.n, instance.best) == (n, best)
