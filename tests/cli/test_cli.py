"""The command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dimod
import numpy as np
import pytest
import torch

from qubolearn.cli import main
from qubolearn.qubo import parse_qubo, upper_triangular

Call = Callable[[str], Any]

TRAIN = (
    "train randgraph --k 3 --topology dense --hidden 32 --epochs 4"
    " --instances 500 --batch-size 100 --validation 50 --test 200"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trained run and a file of instances."""
    made = tmp_path_factory.mktemp("cli")
    for command in (
        f"{TRAIN} --out {made}/run --json",
        f"instances randgraph --k 3 --count 7 --out {made}/p.npz",
    ):
        assert main(command.split()) == 0
    return made


def fails(capsys: pytest.CaptureFixture[str], command: str) -> str:
    """Run a command that must fail with exit code 2 and one line."""
    capsys.readouterr()
    assert main([*command.split(), "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("qubolearn: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_train_writes_a_run_and_a_second_call_does_not_train_again(folder: Path, call: Call) -> None:
    stamp = (folder / "run" / "model.safetensors").stat().st_mtime_ns
    again = call(f"{TRAIN} --out {folder}/run")
    assert (folder / "run" / "model.safetensors").stat().st_mtime_ns == stamp
    stored = json.loads((folder / "run" / "result.json").read_text())
    assert again["accuracy"] == stored["accuracy"] > 0.2
    assert {"accuracy_projected", "seconds", "versions", "machine", "seed", "hamming"} <= stored.keys()


def test_evaluate_with_several_solvers_and_seeds(folder: Path, call: Call) -> None:
    evaluate = f"evaluate {folder}/run --instances 100 --seed"
    exact = call(f"{evaluate} 3")
    neal = call(f"{evaluate} 3 --solver neal:reads=20,sweeps=50,seed=0")
    other = call(f"{evaluate} 4")
    assert neal["accuracy"] == exact["accuracy"]
    assert neal["source"] == "simulated"
    assert exact["hamming"] != other["hamming"]
    projected = call(f"{evaluate} 3 --project")
    assert projected["headline"] == exact["accuracy_projected"]


def test_solve_writes_qubos_bits_and_answers(folder: Path, call: Call) -> None:
    assert call(f"solve {folder}/run {folder}/p.npz --out {folder}/solved.npz")["count"] == 7
    solved, instances = np.load(folder / "solved.npz"), np.load(folder / "p.npz")
    A, states = torch.from_numpy(solved["A"]).double(), torch.from_numpy(solved["states"]).double()
    np.testing.assert_allclose(torch.einsum("bi,bij,bj->b", states, A, states), solved["energies"], atol=1e-6)
    right = (solved["answers"] == instances["answer"]).all(1)
    assert (right == (solved["states"] == instances["x_true"]).all(1)).all()


@pytest.mark.parametrize("form", ["coo", "bqm"])
def test_export_writes_the_same_qubos_as_solve(
    folder: Path, call: Call, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    export = f"export {folder}/run {folder}/p.npz --format {form} --out {folder}/{form}"
    call(export)
    call(f"solve {folder}/run {folder}/p.npz --out {folder}/{form}.npz")
    A = upper_triangular(torch.from_numpy(np.load(folder / f"{form}.npz")["A"]).double())
    files = sorted((folder / form).iterdir())
    assert [file.name for file in files] == [f"{i:04d}.{form}" for i in range(7)]
    if form == "coo":
        torch.testing.assert_close(parse_qubo(files[3].read_text()).A.dense()[0], A[3])
    else:
        bqm = dimod.BinaryQuadraticModel.from_file(files[3].read_bytes())
        assert bqm.energy(np.ones(6)) == pytest.approx(A[3].sum().item())
    assert "not an empty folder" in fails(capsys, export)


def test_plot_draws_pictures(folder: Path, call: Call) -> None:
    files = call(f"plot {folder}/run --out {folder}/pictures")["files"]
    assert len(files) == 2
    assert all(Path(file).read_bytes().startswith(b"\x89PNG") for file in files)


def test_demo_shows_what_couplings_buy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.delenv("QUBOLEARN_DATA", raising=False)
    result = call(f"demo --out {tmp_path} --epochs 4")
    assert result["maxcut"]["coupled"] > 0.5 + max(result["maxcut"][head] for head in ("uncoupled", "direct"))
    sudoku = result["sudoku"]
    assert (sudoku["rules"], sudoku["of"], sudoku["others"]) == (7290, 7290, 0)
    assert sudoku["solved"] == sudoku["puzzles"] > sudoku["solved_by_biases"] == 0
    assert set(result["accuracy"]) == {"coupled", "uncoupled", "direct"}
    assert result["picture"] == str(tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("trian randgraph", "did you mean train"),
        ("train randgrph --out {new}", "did you mean randgraph"),
        ("reproduce randgraph", "quant reproduce"),
        ("train randgraph --k 99 --out {new}", "k=99"),
        ("train randgraph --solver annealing:reeds=3 --out {new}", "did you mean reads"),
        ("train randgraph --out {here}", "not empty"),
        ("train randgraph --k 4 --out {run}", "another configuration"),
        ("evaluate {new}", "holds no run"),
        ("evaluate {run} --instances 0", "--instances: 0"),
        ("solve {run} {new}", "no file"),
        ("solve {run} {other}", "another problem"),
        ("solve {run} {nan} --out {new}", "not finite"),
        ("train randgraph --device meta --out {new}", "not usable"),
        ("train randgraph --seed 18446744073709551616 --out {new}", "2**63"),
        ("evaluate {run} --instances 4611686018427387904", "not enough memory"),
        ("evaluate {run} --solver annealing:reads=abc", "reads='abc'"),
        ("instances randgraph --out /", "cannot write /: it is a folder"),
        ("export {run} {good} --out {nan}/x", "cannot use the folder"),
    ],
)
def test_bad_input_is_one_line_exit_code_two_and_nothing_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    other, nan, new = tmp_path / "other.npz", tmp_path / "nan.npz", tmp_path / "new"
    np.savez(other, p=np.zeros((2, 5), np.float32))
    np.savez(nan, p=np.full((2, 81), np.nan, np.float32))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    given = {"run": folder / "run", "good": folder / "p.npz", "here": tmp_path}
    assert says in fails(capsys, words.format(new=new, other=other, nan=nan, **given))
    assert not new.exists()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_importing_takes_no_optional_dependency_and_no_numba() -> None:
    heavy = ["matplotlib", "tensorboard", "dwave.system", "minorminer", "ray", "numba", "networkx", "rich"]
    code = f"import sys, qubolearn; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "code"), [("--help >&-", 0), ("--help <&- >&- 2>&-", 0), ("trian 2>&-", 2)]
)
def test_closed_standard_streams(words: str, code: int) -> None:
    command = f'"{sys.executable}" -m qubolearn {words}'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_problems_beyond_exhaustive_search_are_trained_and_scored(tmp_path: Path, call: Call) -> None:
    """Exhaustive search would take hours, and raises at 40 bits."""
    sizes = "--layers 2 --hidden 8 --network mlp --epochs 1 --instances 20 --batch-size 10 --validation 3 --test 3"
    assert call(f"train randgraph --k 9 {sizes} --out {tmp_path}/run")["source"] == "simulated"
