"""Records that are rerun."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from quant_reproduction.cli import main, reproduce
from quant_reproduction.cli.reproduce import choose, difference, judge
from quant_reproduction.grid import tasks
from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.views import Entry, View
from qubolearn.errors import QubolearnError

FIGURE = {"title": "12.5 % of 8", "points": [[1]]}
TEST = {"accuracy": 0.5, "source": "neal", "hamming": [900, 100, 0], "figure": FIGURE}


@pytest.mark.parametrize(
    ("changed", "far", "where"),
    [
        ({}, 0.0, ""),
        ({"solve_seconds": 9.0, "device": "cuda", "more": 1}, 0.0, ""),
        ({"accuracy": 0.4}, 0.2, "accuracy"),
        ({"hamming": [891, 109, 0]}, 0.01, "hamming"),
        ({"hamming": [900, 100]}, math.inf, "hamming"),
        ({"source": "exact"}, math.inf, "source"),
        ({"figure": {"title": "10 % of 8", "points": [[1]]}}, 0.2, "figure title"),
        ({"figure": {"title": "10 % of all", "points": [[1]]}}, math.inf, "figure title"),
        ({"figure": {"title": "12.5 % of 8", "points": [[2]]}}, 0.5, "figure points 0"),
        ({"figure": {"title": "12.5 % of 8", "points": []}}, math.inf, "figure points 0"),
        ({"accuracy": None}, math.inf, "accuracy"),
        ({"figure": {}}, 0.0, ""),
    ],
)
def test_the_largest_difference_is_found(changed: dict[str, Any], far: float, where: str) -> None:
    new = {"test": {**TEST, **changed}, "training_seconds": 2.0}
    found = difference({"test": TEST, "training_seconds": 1.0}, json.loads(json.dumps(new)))
    assert found[0] == pytest.approx(far)
    assert found[1] == (f"test {where}" if where else found[1])


def test_long_jobs_are_left_out_and_counted_as_they_would_be_here() -> None:
    jobs = [Job("item", "row", "column", seed, "note", {}) for seed in range(20)]
    where = ("16 cores", "16 cores, NVIDIA H200")
    records = {job: {"seconds": job.seed, "machine": where[job.seed % 2], "metrics": {}} for job in jobs}
    chosen, left_out = choose(records, 3, 0, 10.0, gpu=True)
    assert len(set(chosen)) == 3
    assert all(job.seed <= 10 for job in chosen)
    assert left_out == {"made and took more than 10 s": 9}
    assert choose(records, 3, 0, 10.0, gpu=True)[0] == chosen
    assert len({tuple(choose(records, 3, seed, 10.0, gpu=True)[0]) for seed in range(9)}) > 1
    everything, none = choose(records, 99, 0, math.inf, gpu=True)
    assert (set(everything), none) == (set(jobs), {})
    # a share of a stack's seconds is not a core's: these steps take minutes
    options = {"problem": {"name": "pointset"}, "protocol": "paper", "overrides": {}}
    made = {"seconds": 5.0, "machine": where[1], "metrics": {}}
    long = {Job("pointset", "L5 H78", "(a) quant", 0, "train", options): made}
    assert len(choose(long, 1, 0, 60.0, gpu=True)[0]) == 1
    assert choose(long, 1, 0, 60.0, gpu=False) == (
        [],
        {"made on a GPU, and on a CPU would take more than 60 s": 1},
    )


def test_what_differs_is_judged_by_the_seeds_of_its_cell() -> None:
    seeds = [{"a": {"degrees": 5 + d, "median": 4.0, "hamming": [9, 1]}} for d in (-1.0, 0.0, 0.5, 0.2, 0.4)]

    def again(*others: Any, **changed: Any) -> str:
        return judge(seeds[0], {"a": {**seeds[0]["a"], **changed}}, others or seeds).again

    assert again() == "equal"
    assert again(degrees=4.01) == "close"
    assert again(degrees=5.5) == "spread"
    assert again(degrees=5.5, hamming=[5, 5]) == "spread"  # what it goes along with
    assert again(hamming=[5, 5]) == "beyond"  # numbers beside it are the same
    assert again(degrees=50.0) == "beyond"
    assert again(median=4.2) == "beyond"  # which is the same for all seeds
    assert again(source="exact") == "equal"  # a metric of the new record alone
    assert again(degrees=None) == "beyond"
    assert again(seeds[0], degrees=5.5) == "alone"
    assert again(*seeds[:2], degrees=50.0) == "spread"  # two seeds say little
    others = [{"a": {"median": 4.0}}] * 3  # one may be left out
    assert again(seeds[0], *others, degrees=5.5) == "alone"
    assert again(seeds[0], *others, degrees=5.5, median=9.0) == "beyond"


@pytest.fixture
def drift(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, float]]:
    """Store three records with accuracy 0.5 + drift["by"]; NaN fails."""
    by = {"by": 0.0}

    def task(seed: int, **options: Any) -> dict[str, Any]:
        if math.isnan(by["by"]):
            raise QubolearnError("a [bad] day")
        return {"exhaustive": {"accuracy": 0.5 + by["by"]}}

    monkeypatch.setitem(tasks.TASKS, "note", task)
    monkeypatch.setattr(
        reproduce,
        "ENTRIES",
        {
            "well": Entry(
                "About it",
                "",
                [Job("well", "row", "column", 0, "note", {})],
                (View("well", "", ("accuracy",)),),
            )
        },
    )
    monkeypatch.setattr(reproduce, "pool_of", lambda args, jobs: nullcontext())
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "well", "--seeds", "3"]) == 0
    return by


@pytest.mark.parametrize(
    ("by", "again", "code"),
    [(0.0, "equal", 0), (0.001, "close", 0), (0.1, "beyond", 1), (math.nan, "failed", 1)],
)
def test_the_exit_code_shows_whether_all_were_reproduced(
    drift: dict[str, float], by: float, again: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = {path: path.read_bytes() for path in Path("results").glob("*.json*")}
    drift["by"] = by
    capsys.readouterr()
    assert main(["reproduce", "--verify", "2", "--seed", "7", "--json"]) == code
    result = json.loads(capsys.readouterr().out)
    assert [row["again"] for row in result["records"]] == [again] * 2
    assert (result[again], result["seed"]) == (2, 7)
    assert {path: path.read_bytes() for path in Path("results").glob("*.json*")} == stored


@pytest.mark.usefixtures("drift")
def test_what_cannot_be_verified_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words, wrong in {
        "--verify 0": "--verify: 0; expected an integer from 1",
        "--verify 1 --max-seconds -1": "no record in results can be rerun",
    }.items():
        assert main(["reproduce", *words.split()]) == 2
        assert wrong in capsys.readouterr().err
