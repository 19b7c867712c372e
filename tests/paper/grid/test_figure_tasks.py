"""Figures as numbers: they keep the format that the report draws, and say what was measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.paper.grid import panels
from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.panels import check_figure
from qubolearn.paper.grid.tasks import TASKS
from qubolearn.problems.data import data_folder

#: Bytes of a record's figures, without the white space of its file.
MAX_BYTES = 60_000


def quick(item: str, column: str | None = None) -> tuple[Job, dict[str, Any]]:
    """The figure of a quick job, run for real; skips where its data is missing."""
    try:
        if ENTRIES[item].data:
            data_folder(ENTRIES[item].data)
    except QubolearnError as error:
        pytest.skip(str(error))
    job = next(job for job in ENTRIES[item].jobs(1, True) if column in (None, job.column, job.row))
    metrics = TASKS[job.task](job.seed, **job.options)
    (label,) = ENTRIES[item].figures
    check_figure(metrics[label]["figure"])
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


def test_training_shows_start_middle_and_end() -> None:
    _, made = quick("training", "paper")
    kinds = [panel["kind"] for panel in made["panels"]]
    assert kinds == ["bars", "matrix"] * 3 + ["lines"]
    for panel in made["panels"][:6:2]:
        assert all(sum(series["counts"]) == 1410 for series in panel["series"])  # the training set
    last = made["panels"][4]["series"]
    assert [series["name"] for series in last] == ["as solved", "projected"]
    assert last[1]["counts"][1] == 0  # a permutation is never one bit away from another
    values = made["panels"][5]["values"]
    assert values == [list(row) for row in zip(*values, strict=True)]
    assert made["panels"][6]["series"][0]["points"][-1][0] == 3


def test_errors_of_rotations_are_shares_of_the_same_instances() -> None:
    _, made = quick("errors")
    (panel,) = made["panels"]
    assert [sum(series["counts"]) for series in panel["series"]] == pytest.approx([100] * 3, abs=0.01)
    assert panel["series"][2]["name"] == "simulated QA"


def test_rotations_are_undone_stage_by_stage_and_by_procrustes() -> None:
    _, made = quick("alignment-3d")
    titles = [panel["title"] for panel in made["panels"]]
    assert len(titles) == 10
    assert ["Procrustes" in title for title in titles] == ([False] * 4 + [True]) * 2
    names = [series["name"] for series in made["panels"][0]["series"]]
    assert names == ["template", "reference", "reference, wrong match"]


def test_failures_are_sorted_and_alignments_keep_the_template() -> None:
    _, made = quick("failures")
    left = [float(panel["title"].split("turned back, ")[1].split("°")[0]) for panel in made["panels"][1:-1:2]]
    assert left == sorted(left, reverse=True)
    assert made["panels"][-1]["kind"] == "lines"
    _, made = quick("alignment-2d")
    before, after = made["panels"][:2]
    assert before["series"][0] == after["series"][0]
    assert before["series"][1] != after["series"][1]


@pytest.mark.parametrize(("item", "side", "bits"), [("pipeline", 16, 8), ("pipeline-2d", 21, 9), ("pipeline-3d", 3, 5)])
def test_an_instance_on_its_way_ends_in_what_its_lowest_read_says(item: str, side: int, bits: int) -> None:
    _, made = quick(item)
    given, p, A, reads, solved = made["panels"]
    assert (len(p["values"]), len(A["values"])) == (side, bits)
    assert sum(reads["series"][0]["counts"]) == 100
    assert reads["series"][0]["counts"][0] > 0  # the lowest energy is in the first bar
    assert given["series"][0]["points"] == solved["series"][0]["points"] or item == "pipeline"
    assert not given["lines"]


def test_matches_are_lines_between_two_images() -> None:
    _, made = quick("matches")
    for panel in made["panels"]:
        assert len(panel["images"]) == 2
        right = int(panel["title"].split(": ")[1][0])
        counts = {series["name"]: len(series["points"]) for series in panel["series"]}
        assert counts.get("right", 0) == 2 * right
        assert sum(counts.values()) == 8
        places = [point for series in panel["series"] for point in series["points"]]
        assert all(end in places for line in panel["lines"] for end in line)


@pytest.mark.parametrize(
    ("panel", "said"),
    [
        ({"kind": "pie", "title": ""}, "kind of panel"),
        ({"kind": "matrix", "title": ""}, "want kind, title, values"),
        (panels.matrix("m", [[float("nan")]]), "not finite"),
        (panels.bars("b", "x", "y", [0, 1], {"s": [1, 2]}), "2 bars between 2 edges"),
        (panels.graph("g", [[0, 0]], [(0, 1)], {}), "beyond the 1"),
        (panels.lines("l", "x", "y", {"s": [[0.0, 0.0]] * 401}), "401 points"),
    ],
)
def test_panels_that_cannot_be_drawn_are_refused(panel: dict[str, Any], said: str) -> None:
    with pytest.raises(QubolearnError, match=said):
        panels.titled("title", [panel])
    with pytest.raises(QubolearnError, match="0 panels"):
        panels.titled("title", [])


def test_clouds_are_thinned_and_numbers_rounded() -> None:
    made = panels.clouds("c", {"s": [[i / 3, 0.0] for i in range(1000)]}, lines=[[[0.0, 0.0], [1 / 3, 1.0]]])
    points = made["series"][0]["points"]
    assert len(points) <= panels.MAX_POINTS
    assert points[1] == [round(3 / 3, 4), 0.0]
    assert made["lines"] == [[[0.0, 0.0], [0.3333, 1.0]]]
