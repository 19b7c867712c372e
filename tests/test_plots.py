"""Plots draw on given axes."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from qubolearn import QubolearnError, Run, plots
from qubolearn.recipes import preset, train


def test_plots_of_a_run_go_where_they_should(tmp_path: Path) -> None:
    problem, recipe = preset("best", "randgraph", k=2, epochs=1, instances=200, hidden=8)
    run = Run.create(tmp_path / "<run>", problem, recipe)
    train(problem, recipe, run)
    mine = Figure().subplots(1, 2)
    left, right = plots.curves([run], ax=mine)
    assert [left, right] == list(mine)
    assert len(left.lines) == len(right.lines) == 1
    assert plots.save(left, tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(QubolearnError, match="1 axes"):
        plots.curves([run], ax=left)
