"""Tables from records."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Outcome
from quant_reproduction.grid.views import Place, View, conditions
from qubolearn.errors import QubolearnError


def outcome(row: str, column: str, seed: int, **metrics: Any) -> Outcome:
    job = Job("item", row, column, seed, "train", {})
    return Outcome(job, {"metrics": metrics, "job": {"seed": seed}})


def test_cells_hold_values_over_seeds_and_their_records() -> None:
    made = [outcome("a", "b", s, exhaustive={"accuracy": s / 4}) for s in (1, 2)]
    cell = View("v", "", ("accuracy",)).cells(made)["a", "b"]
    assert cell.values == ((0.25, 0.5),)
    assert cell.shown == ((25.0, 50.0),)
    assert [record["job"]["seed"] for record in cell.records] == [1, 2]
    assert cell.text() == f"37.50 ± {statistics.stdev([25, 50]):.2f}"


def test_a_cell_has_its_instances_by_the_deviation_or_the_scores_of_the_metric_that_it_shows() -> None:
    test = {"accuracy": 0.5, "success": 0.2, "success_deviation": 0.1, "instances": 9, "scores": "packed"}
    made = [outcome("a", "b", seed, exhaustive=test) for seed in (0, 1)]

    places = Place("a", "mean", "exhaustive"), Place("a", "deviation", "exhaustive", "_deviation")
    view = View("v", "", ("success",), places=lambda job: places, deviation="success_deviation")
    cells = view.cells(made)
    mean, deviation = cells["a", "mean"], cells["a", "deviation"]
    assert (mean.instances, mean.deviations, mean.scores) == ((9, 9), (0.1, 0.1), ())
    assert (deviation.values, deviation.instances, deviation.deviations) == (((0.1, 0.1),), (), ())
    scored = View("v", "", ("accuracy",)).cells(made)["a", "b"]
    assert (scored.instances, scored.deviations, len(scored.scores)) == ((9, 9), (), 2)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"accuracy": None}, {"accuracy": "x"}, {"accuracy": math.nan}),
        *({"accuracy": 1, "instances": "many"}, {"accuracy": 1, "sd": []}),
    ],
)
def test_a_damaged_record_is_named(wrong: dict[str, Any]) -> None:
    view = View("v", "", ("accuracy",), deviation="sd")
    with pytest.raises(QubolearnError, match=r"item\.jsonl"):
        view.cells([outcome("a", "b", 0, exhaustive=wrong)])


def test_a_cell_per_row_and_column_that_has_a_record() -> None:
    made = [
        outcome("L5 H78", "quant", 5, exhaustive={"accuracy": 0.5}),
        outcome("L5 H78", "quant", 7, exhaustive={"accuracy": 0.7}),
        outcome("L3 H32", "pure", 1, exhaustive={"accuracy": 0.1}),
        Outcome(Job("item", "L3 H32", "quant", 1, "train", {}), None, "failed"),
    ]
    assert not ENTRIES["willow"].views[0].cells(made[-1:])
    assert set(ENTRIES["willow"].views[0].cells(made)) == {("L5 H78", "quant"), ("L3 H32", "pure")}


def test_conditions_are_rows_of_one_row_of_jobs_and_of_methods_without_a_network() -> None:
    places = conditions("L5 H78", {"no noise": "exhaustive", "noise": "noise 5%"}, always=("icp",))
    view = View("v", "", ("degrees",), "degrees", "lower", places)
    made = [
        outcome("L5 H78", "quant", 0, **{"exhaustive": {"degrees": 1.0}, "noise 5%": {"degrees": 2.0}}),
        outcome("L3 H32", "quant", 0, exhaustive={"degrees": 3.0}),
        outcome("L3 H32", "icp", 0, exhaustive={"degrees": 4.0}),
    ]
    found = {place: cell.values[0][0] for place, cell in view.cells(made).items()}
    assert found == {("no noise", "quant"): 1.0, ("noise", "quant"): 2.0, ("no noise", "icp"): 4.0}
