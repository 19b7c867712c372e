"""The tables of where couplings pay say what the records say, with the sources of published numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.paper.couplings.chip import chip_view
from qubolearn.paper.couplings.sudoku import SEARCHED
from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Job, Outcome, Store
from qubolearn.paper.report.couplings_pay import LINES, SOURCES, chip_table, pay_table, short_table
from qubolearn.provenance import provenance


def put(folder: Path, job: Job, metrics: dict[str, Any]) -> None:
    record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": 1.0, **provenance()}
    Store(folder).put(Outcome(job, record))


def test_lines_are_means_over_seeds_beside_rivals_and_chips(tmp_path: Path) -> None:
    with pytest.raises(QubolearnError, match="qubolearn reproduce maxcut knapsack sudoku"):
        pay_table(tmp_path)
    share = {"quant": 0.99, "diag": 0.02, "pure": 0.5, "greedy and local search": 0.7}
    for job in ENTRIES["maxcut"].jobs(3, False):
        if job.row == "8 nodes" and job.task == "chip-view":
            put(tmp_path, job, {"chip": {"bits": 8, "couplers": 28, "chip": "pegasus", "fits": False}})
        elif job.row == "8 nodes":
            put(tmp_path, job, {"exhaustive": {"accuracy": share[job.column] + 0.01 * job.seed}})
    _, _, line, *_ = pay_table(tmp_path).splitlines()
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[1:4] == ["100.00 ± 1.00", "3.00 ± 1.00", "51.00 ± 1.00"]
    assert cells[4] == "71.00 ± 1.00 (greedy and local search)"
    assert cells[-1] == "3 seeds"
    assert cells[0].startswith("[max-cut, 8 nodes](records.md#maxcut)")
    assert short_table(tmp_path).splitlines()[2].split("|")[2:6] == line.split("|")[2:6]
    cost = chip_table(tmp_path).splitlines()[2].split("|")[2:-1]
    assert [cell.strip() for cell in cost] == ["8", "28", "no embedding found", "–", "–", "–"]


def test_every_line_is_a_row_of_its_items_table() -> None:
    for line in LINES:
        entry = ENTRIES[line.item]
        view = next(view for view in entry.views if view.name == line.item)
        places = [place for job in entry.jobs(3, False) for place in view.places(job)]
        assert {(line.row, "quant"), (line.row, line.rival)} <= {place[:2] for place in places}
        assert (f"{SEARCHED} puzzles" in line.rival_said) == (line.item == "sudoku")  # by search only some are solved
    assert len(set(SOURCES)) == len(SOURCES)


def test_a_qubo_that_does_not_fit_is_said_to() -> None:
    pytest.importorskip("minorminer")
    assert chip_view(topology("dense", 20), "chimera", 2) == {
        "bits": 20,
        "couplers": 190,
        "chip": "chimera",
        "fits": False,
    }


def test_the_section_has_every_line_its_sources_and_its_links(opened: Callable[[int], Any]) -> None:
    browser = opened(1280)
    rows = browser.evaluate(
        "[...document.querySelectorAll('#couplings-pay table')].map(t => [...t.tBodies[0].rows].map(r => r.innerText))"
    )
    pay, chips = rows
    assert len(pay) == len(LINES)
    for line, text in zip(LINES, pay, strict=True):
        assert line.given in text
        for each in line.published:
            assert f"{each.name} {each.value:g} [{SOURCES.index(each.source) + 1}]" in text
    assert browser.evaluate("document.querySelectorAll('#couplings-pay ol li').length") == len(SOURCES)
    assert len(chips) == 8  # not visual Sudoku, and RRN's puzzles once
    browser.evaluate("document.querySelector('#couplings-pay a[href=\"#item-snakes\"]').click()")
    assert browser.evaluate("location.hash") == "#item-snakes"
