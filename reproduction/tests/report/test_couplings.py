"""Tables of where couplings help."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from quant_reproduction.couplings import chip_view
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Outcome, Store
from quant_reproduction.report.couplings import LINES, chip_table, pay_table, short_table
from quant_reproduction.report.summary import gather
from qubolearn.chips.topologies import topology
from qubolearn.provenance import provenance


def put(folder: Path, job: Job, metrics: dict[str, Any]) -> None:
    record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": 1.0, **provenance()}
    Store(folder).put(Outcome(job, record))


def test_lines_are_means_over_seeds_with_baselines_and_chips(tmp_path: Path) -> None:
    share = {"quant": 0.99, "diag": 0.02, "pure": 0.5}
    share |= {"greedy and local search": 0.6, "local search, 30 restarts": 0.7}
    for job in ENTRIES["maxcut"].jobs(3, False):
        if job.row == "16 nodes" and job.task == "chip-view":
            put(tmp_path, job, {"chip": {"bits": 16, "couplers": 120, "chip": "pegasus", "fits": False}})
        elif job.row == "16 nodes":
            put(tmp_path, job, {"exhaustive": {"accuracy": share[job.column] + 0.01 * job.seed}})
    report = gather(tmp_path, False, 3)
    (row,) = pay_table(report).rows
    assert row[0].startswith("[max-cut, 16 nodes](records.md#maxcut)")
    assert list(row[1:4]) == ["100.00 ± 1.00", "3.00 ± 1.00", "51.00 ± 1.00"]
    assert row[4] == "71.00 ± 1.00 (local search, 30 restarts)"
    assert row[-1] == "3 seeds"
    assert short_table(report).rows[0] == (*row[:5], "–")
    assert list(chip_table(report).rows[0][1:]) == ["16", "120", "no embedding found", "–", "–", "–"]


def test_every_line_is_a_row_of_its_items_table() -> None:
    for line in LINES:
        entry = ENTRIES[line.item]
        view = next(view for view in entry.views if view.name == line.item)
        places = [place for job in entry.jobs(3, False) for place in view.places(job)]
        assert {(line.row, "quant"), (line.row, line.baseline)} <= {place[:2] for place in places}


def test_a_qubo_that_does_not_fit_is_reported() -> None:
    pytest.importorskip("minorminer")
    expected = {"bits": 20, "couplers": 190, "chip": "chimera", "fits": False}
    assert chip_view(topology("dense", 20), "chimera", 2) == expected
