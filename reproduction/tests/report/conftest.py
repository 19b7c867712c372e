"""Result files, and their page."""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job
from quant_reproduction.report import write_report
from qubolearn.provenance import provenance

SEEDS = 3
sys.path.insert(0, str(Path(__file__).parent))  # recount.py
FIGURE = {
    "title": "All kinds <of> panels",
    "note": "A note & more.",
    "panels": [
        {
            "kind": "bars",
            "title": "Bars",
            "x": "error",
            "y": "count",
            "edges": [0, 1, 2, 3],
            "series": [
                {"name": "exact", "counts": [3, 5, 1]},
                {"name": "SA (simulated)", "counts": [2, 0, 7]},
            ],
        },
        {
            "kind": "lines",
            "title": "Lines",
            "x": "epoch",
            "y": "%",
            "series": [{"name": "a", "points": [[0, 1], [2, 5]]}],
        },
        {"kind": "matrix", "title": "Matrix", "values": [[0.5, -1.25], [0, 2]]},
        {
            "kind": "clouds",
            "title": "Clouds",
            "series": [
                {"name": "before", "points": [[0, 0], [1, 2]]},
                {"name": "after", "points": [[0, 1, 2]]},
            ],
            "lines": [[[0, 0], [1, 2]]],
        },
        {
            "kind": "graph",
            "title": "Graph",
            "nodes": [[0, 0], [1, 0], [1, 1]],
            "edges": [[0, 1], [1, 2]],
            "marked": [[0, 0], [1, 0]],
        },
    ],
}


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return random records of most full jobs; one entry has none."""
    folder, chance, made = tmp_path_factory.mktemp("results"), random.Random(0), provenance()
    for name, entry in ENTRIES.items():
        for job in entry.jobs(SEEDS, False):
            if name == "willow" or (name == "pointset" and chance.random() < 0.2):
                continue
            metrics, seconds = metrics_by_chance(job, chance), chance.uniform(1, 100)
            record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": seconds, **made}
            with open(folder / f"{job.item}.jsonl", "a") as file:
                file.write(json.dumps(record) + "\n")
    return folder


def metrics_by_chance(job: Job, chance: random.Random) -> dict[str, Any]:
    """Return numbers under every label that the item reads."""
    if job.task == "chip-view":
        cost = {"fits": True, "qubits": 12.0, "mean_chain": 1.5, "longest_chain": 2.0, "per_anneal": 330}
        return {"chip": {"bits": 8, "couplers": 28, "chip": "pegasus", **cost}}
    metrics: dict[str, Any] = {"training_seconds": chance.uniform(1, 90)}
    for view in ENTRIES[job.item].views:
        for place in view.places(job):
            for name in view.metrics:
                value = chance.random() * {"%": 1, "degrees": 12}.get(view.unit, 40)
                metrics.setdefault(place.label, {})[name + place.suffix] = value
    for label in ENTRIES[job.item].figures if job.item in ("energies", "failures", "maxcut") else ():
        metrics[label] = {"figure": FIGURE}
    return metrics


@pytest.fixture(scope="session")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of these results."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    write_report(results, out, quick=False, seeds=SEEDS)
    return out


@pytest.fixture
def opened(browser: Any, page: Path) -> Callable[[int], Any]:
    """Return a function that opens the page at a given width."""

    def open_at(width: int) -> Any:
        browser.open(page, width)
        return browser

    return open_at
