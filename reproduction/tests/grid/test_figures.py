"""Figures of tiny runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from quant_reproduction.cli import main
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.grid.figures import all_reads, second_best, second_lowest
from quant_reproduction.grid.models import Model, seeded
from qubolearn.cli import main as train
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies
from qubolearn.random import stream
from qubolearn.runs import Run
from qubolearn.solvers import make_solver

pytest.importorskip("matplotlib")

TINY = (
    *("--hidden", "8", "--layers", "2", "--epochs", "1", "--batch-size", "50", "--instances", "100"),
    *("--validation", "20", "--test", "20", "--json"),
)
SAMPLERS = (
    *("--solver", "quantum:reads=50", "--solver", "annealing:reads=50,sweeps=2"),
    *("--solver", "neal:reads=50,sweeps=2", "--solver", "dimod:reads=5,sweeps=2"),
)


def trained(folder: Path, problem: str, *options: str) -> str:
    """Return a run of a problem; skip if its data is missing."""
    needs = {"pointset": "shapes2d", "rotation": "modelnet10", "willow": "willow"}
    if problem in needs:
        try:
            data_folder(needs[problem])
        except QubolearnError as error:
            pytest.skip(f"no data for {problem}: {error}")
    if not (folder / "config.json").exists():
        assert train(["train", problem, *options, *TINY, "--out", str(folder)]) == 0
    return str(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def graphs(made: Path) -> str:
    return trained(made / "graphs", "randgraph", "--k", "3", "--topology", "dense")


def draw(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Run the command; return its numbers."""
    capsys.readouterr()
    assert main(["figure", *words, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    for path in map(Path, result["files"]):
        assert path.stat().st_size > 500
    stored = json.loads(Path(result.pop("files")[-1]).read_text())
    assert stored == result
    assert {"versions", "machine", "seed", "instances", "runs"} <= result.keys()
    return result


def refused(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> str:
    capsys.readouterr()
    assert main(["figure", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_errors_count_the_same_instances_for_each_solver(
    graphs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    solvers = ("--solver", "exhaustive", "--solver", "annealing:reads=20,sweeps=50", "--solver", "quantum")
    result = draw(capsys, "errors", graphs, "--instances", "40", "--seed", "3", *solvers)
    run = Run.open(graphs)
    data = run.problem.sample(40, stream(3, "test"), "test")
    found = run.problem.decode(make_solver("exhaustive")(run.network()(data.p), 1).states[:, 0])
    cases = zip(found.tolist(), data.answer.tolist(), strict=True)
    wrong = [sum(a != b for a, b in zip(x, y, strict=True)) for x, y in cases]
    shares = {each["name"]: each["counts"] for each in result["panels"][0]["series"]}
    assert shares["exhaustive search"] == pytest.approx(
        [2.5 * sum(w == nodes for w in wrong) for nodes in range(4)]
    )
    assert f"exhaustive search: mean {sum(wrong) / 40:.2f}" in result["note"]
    assert "simulated QA" in shares
    assert all(sum(each) == pytest.approx(100) for each in shares.values())


def test_energies_are_those_of_all_reads(graphs: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = draw(capsys, "energies", graphs, "--instances", "2", *SAMPLERS)
    assert result["note"].startswith("The two lowest energies are ")
    run = Run.open(graphs)
    with torch.no_grad():
        A = run.network()(run.problem.sample(2, stream(0, "test"), "test").p)[-1:]
    A /= A.abs().max()
    every = energies(A.double(), all_states(A.shape[-1]).double()[None])[0].sort().values
    for spec, panel in zip(SAMPLERS[1::2], result["panels"], strict=True):
        assert sum(panel["series"][0]["counts"]) == int(spec.partition("reads=")[2].split(",")[0])
        reads = energies(A.double(), all_reads(seeded(spec, 0), A).double())[0]
        assert f"{100 * (reads < every[0] + 1e-6).double().mean():.1f} % at the lowest" in panel["title"]


def test_second_best_is_relative_to_the_first_solver(graphs: str) -> None:
    solvers = dict(enumerate(SAMPLERS[1::2]))
    found = second_best(
        Model.of([Run.open(graphs)]), {str(place): spec for place, spec in solvers.items()}, 6, 0
    )
    assert (found["0"]["relative"], found["0"]["deviation"]) == pytest.approx((1, 0))
    assert all(0 < row["instances"] <= 6 for row in found.values())


def test_second_lowest_is_another_state_than_the_lowest() -> None:
    A = torch.tensor([[-1.0, 0.5], [0.5, -3.0]])
    reads = torch.tensor([[0.0, 1], [0, 1], [1, 0], [0, 0]])
    assert second_lowest(A, reads) == -1
    assert math.isnan(second_lowest(A, reads[:2]))
    ties = torch.tensor([[-1.0, 0], [0, -1.0]])
    assert second_lowest(ties, torch.tensor([[1.0, 0], [0, 1]])) == -1


@pytest.mark.parametrize(
    "spec", ["annealing:reads=7", "quantum:reads=7", "neal:reads=7", "dimod:reads=7,sweeps=5"]
)
def test_all_reads_follow_from_the_seed_and_have_the_order_of_the_bits(spec: str) -> None:
    A = torch.diag(torch.tensor([-1.0, 1, -1, 1]))[None].repeat(2, 1, 1)
    reads = all_reads(seeded(spec, 5), A)
    assert reads.shape == (2, 7, 4)
    assert torch.equal(reads, all_reads(seeded(spec, 5), A))
    assert reads.mode(1).values.tolist() == [[1, 0, 1, 0]] * 2


def test_alignment_and_failures_of_point_sets(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(
        made / "shapes", "pointset", "--train-shapes", "20", "--test-shapes", "10", "--rotations", "5"
    )
    aligned = draw(capsys, "alignment", run, "--instances", "2")
    assert len(aligned["panels"]) == 4
    failed = draw(capsys, "failures", run, "--instances", "40", "--out", str(made / "elsewhere"))
    worst = [
        float(panel["title"].split("turned back, ")[1].split("°")[0]) for panel in failed["panels"][1:-1:2]
    ]
    assert worst == sorted(worst, reverse=True)
    assert (made / "elsewhere" / "figure-failures.png").is_file()
    assert max(error for _, error in failed["panels"][-1]["series"][0]["points"]) <= worst[0] + 0.1
    # p is that of the instances that are scored.
    problem = Run.open(run).problem
    pairs = problem.sample_pairs(1, stream(1, "x"), "test")  # type: ignore[attr-defined]
    m = int(pairs.template_counts[0])
    p = problem.describe(pairs.template[:, :m], pairs.reference[:, :m])  # type: ignore[attr-defined]
    everything = problem.sample(1000, stream(0, "x"), "test")
    nearest = (everything.answer - pairs.angle).abs().argmin()
    assert torch.allclose(p[0], everything.p[nearest], rtol=1e-3, atol=1e-3)


def test_stages_of_rotation_are_drawn_together_only(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--train-shapes", "10", "--draws", "2")
    runs = [trained(made / stage, "rotation", "--stage", stage, *few) for stage in ("alpha", "beta", "gamma")]
    result = draw(capsys, "alignment", *runs, "--set", "noise=0.1", "--instances", "1")
    assert result["runs"][0]["problem"]["noise"] == 0.1
    assert "SA (ours)" in draw(capsys, "errors", *runs, "--instances", "30", "--solver", "annealing")["note"]
    assert "stage alpha alone" in refused(capsys, ["alignment", runs[0]])
    assert "gamma, beta, alpha" in refused(capsys, ["alignment", *reversed(runs)])
    assert "one run" in refused(capsys, ["energies", *runs])


def test_matches_of_images(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL")
    run = trained(made / "images", "willow", "--k", "3")
    result = draw(capsys, "matches", run, "--instances", "50")
    missed = [len(panel["missed"]) > 0 for panel in result["panels"]]
    assert missed == sorted(missed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["matches"], "give a run of willow"),
        (["failures"], "give one of pointset or rotation"),
        (["errors", "--instances", "0"], "from 1"),
        (["energies", "--solver", "exhaustive"], "has no reads"),
        (["errors", "--set", "k=5"], "another size"),
    ],
)
def test_bad_input_is_one_line(
    graphs: str, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert said in refused(capsys, [words[0], graphs, *words[1:]])
