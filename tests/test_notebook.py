"""HTML of values in a notebook is well-formed and escaped; plots draw on given axes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from torch import nn

from qubolearn import QubolearnError, QuboNetwork, Run, plots, topology
from qubolearn.evaluation import Evaluation
from qubolearn.notebook import MAX_CELLS
from qubolearn.recipes import preset, train


def parsed(shown: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{shown}</div>")


def cells(shown: str) -> list[str]:
    return [cell.text or "" for cell in parsed(shown).iter("td")]


def test_evaluation_shows_metrics_and_escapes_names() -> None:
    shown = Evaluation(10, {"accuracy": 0.9}, info={"source": "<script>"})._repr_html_()
    assert cells(shown) == ["accuracy", "0.9", "source", "<script>"]
    assert "<script>" not in shown


@pytest.mark.parametrize("inputs", [None, 4])
@pytest.mark.parametrize("n", [3, MAX_CELLS + 1])
def test_networks_show_their_size_and_stay_as_they_were(n: int, inputs: int | None) -> None:
    pattern = topology("dense", n)
    network = QuboNetwork(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, pattern.size)), pattern, inputs).train()
    shown = network._repr_html_()
    assert cells(shown)[:4] == ["bits", str(n), "couplers", str(n * (n - 1) // 2)]
    assert ("<svg" in shown) == (n <= MAX_CELLS)
    assert parsed(shown) is not None
    assert network.training


def test_a_run_shows_itself_and_its_plots_go_where_they_should(tmp_path: Path) -> None:
    problem, recipe = preset("best", "randgraph", k=2, epochs=1, instances=200, hidden=8)
    run = Run.create(tmp_path / "<run>", problem, recipe)
    assert "validation accuracy" not in cells(run._repr_html_())
    train(problem, recipe, run)
    shown = cells(run._repr_html_())
    assert dict(zip(shown[::2], shown[1::2], strict=True))["finished"] == "True"
    mine = Figure().subplots(1, 2)
    left, right = plots.curves([run], ax=mine)
    assert [left, right] == list(mine)
    assert len(left.lines) == len(right.lines) == 1
    axis = plots.comparison(["a"], {"b": [1.0]}, "c")
    assert plots.comparison(["a"], {"b": [1.0]}, "c", ax=axis) is axis
    assert plots.save(axis, tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(QubolearnError, match="1 axes"):
        plots.curves([run], ax=axis)
