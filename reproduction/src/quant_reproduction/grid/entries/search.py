"""The search for our recipes: each with one choice changed at a time, scored on validation instances only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quant_reproduction.grid.entries.clouds import OUR_POINTSET, OUR_ROTATION
from quant_reproduction.grid.entries.contract import Entry, cell
from quant_reproduction.grid.entries.graphs import GRAPHS, OUR_WILLOW
from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.views import Place, View

__all__ = ["ENTRIES"]

AS_IT_IS = "the recipe as it is"
#: problem -> what is trained, for a share of its epochs, which tells choices apart, and the rate and β of the recipe
SEARCHED: Mapping[str, tuple[str, Mapping[str, Any], int, float, float]] = {
    "randgraph": ("RandGraph k=4, 30 of 150 epochs", GRAPHS, 30, 3e-3, 6.0),
    "willow": ("Willow k=4, 40 of 375 epochs", OUR_WILLOW, 40, 3e-3, 8.0),
    "pointset": ("point sets, 10 of 100 epochs", OUR_POINTSET, 10, 2e-3, 10.0),
    "rotation": ("rotations, first stage, 10 of 40 epochs", {**OUR_ROTATION, "stage": "alpha"}, 10, 4e-3, 10.0),
}
DATA = {"willow": "willow", "pointset": "shapes2d", "rotation": "modelnet10"}


def candidates(rate: float, beta: float) -> dict[str, Mapping[str, Any]]:
    """The recipe, and with another rate, inverse temperature, schedule or scale of p."""
    changed: dict[str, Mapping[str, Any]] = {AS_IT_IS: {}}
    changed |= {f"rate {value:.2g}": {"learning_rate": value} for value in (rate / 3, 3 * rate)}
    changed |= {f"β {value:.2g}": {"beta": value} for value in (beta / 3, 3 * beta)}
    return {**changed, "constant rate": {"schedule": "constant"}, "p not standardised": {"standardise": False}}


def by_candidate(job: Job) -> list[Place]:
    """A row for each."""
    return [Place(label, job.row, label) for label in job.options["candidates"]]


def entry(name: str) -> Entry:
    """The search for the recipe of one problem."""
    row, problem, epochs, rate, beta = SEARCHED[name]
    trained = {"problem": problem, "protocol": "best", "overrides": {"epochs": epochs}}
    item, title = f"search-{name}", f"Our recipe with one choice changed at a time, on validation instances: {row}"
    made = cell(item, row, "validation", "search", **trained, candidates=candidates(rate, beta))
    view = View(item, title, ("accuracy",), places=by_candidate)
    if name in ("pointset", "rotation"):
        view = replace(view, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")
    return Entry(title, "", [made], (view,), data=DATA.get(name, ""))


ENTRIES: Mapping[str, Entry] = {f"search-{name}": entry(name) for name in SEARCHED}
