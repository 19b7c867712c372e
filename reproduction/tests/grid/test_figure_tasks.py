"""Figures as numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quant_reproduction.datasets.files import data_folder
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.tasks import TASKS
from quant_reproduction.report import draw_figure
from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError

#: Bytes of a record's figures, without the white space of its file.
MAX_BYTES = 60_000


def quick(item: str, column: str | None = None) -> tuple[Job, dict[str, Any]]:
    """Run a quick job and return its figure; skip if its data is missing."""
    try:
        if ENTRIES[item].data:
            data_folder(ENTRIES[item].data)
    except QubolearnError as error:
        pytest.skip(str(error))
    job = next(job for job in ENTRIES[item].jobs(1, True) if column in (None, job.column, job.row))
    metrics = TASKS[job.task](job.seed, **job.options)
    (label,) = ENTRIES[item].figures
    draw_figure(metrics[label]["figure"])
    assert len(json.dumps(metrics, separators=(",", ":"))) < MAX_BYTES
    return job, metrics[label]["figure"]


@pytest.mark.parametrize(("chip", "bits", "tiles"), [("Chimera", 8, 9), ("Pegasus", 15, 5)])
def test_chips_hold_disjoint_instances_that_have_all_their_couplers(chip: str, bits: int, tiles: int) -> None:
    job, made = quick("connectivity", chip)
    (panel,) = made["panels"]
    owner = dict(panel["marked"])
    assert len(owner) == len(panel["marked"]) == bits * tiles
    inside = [owner[i] for i, j in panel["edges"] if i in owner and owner[i] == owner.get(j)]
    couplers = len(topology(job.options["pattern"], bits).couplers)
    assert [inside.count(tile) for tile in range(tiles)] == [couplers] * tiles


def test_energies_count_all_reads_of_every_sampler() -> None:
    pytest.importorskip("dwave.samplers")
    job, made = quick("energies")
    assert len(made["panels"]) == len(job.options["solvers"])
    for panel in made["panels"]:
        (series,) = panel["series"]
        assert sum(series["counts"]) == 100
        assert "simulated" in series["name"]


@pytest.mark.parametrize(
    ("item", "side", "bits"), [("pipeline", 16, 8), ("pipeline-2d", 21, 9), ("pipeline-3d", 3, 5)]
)
def test_an_instance_on_its_way_ends_in_what_its_lowest_read_encodes(item: str, side: int, bits: int) -> None:
    _, made = quick(item)
    given, p, A, reads, solved = made["panels"]
    assert (len(p["values"]), len(A["values"])) == (side, bits)
    assert sum(reads["series"][0]["counts"]) == 100
    assert reads["series"][0]["counts"][0] > 0  # the lowest energy
    assert given["series"][0]["points"] == solved["series"][0]["points"] or item == "pipeline"
    assert not given["lines"]


@pytest.mark.parametrize("item", ["training", "errors", "alignment-2d", "failures"])
def test_quick_figures_have_the_format_of_the_report(item: str) -> None:
    quick(item)
