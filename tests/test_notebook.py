"""What a notebook shows: well-formed, escaped, and the numbers of the value. Plots draw where they are told to."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from qubolearn import Evaluation, QubolearnError, QuboNetwork, Run, Solution, plots, preset, topology, train
from qubolearn.notebook import MOST_CELLS, heat_map


def parsed(shown: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{shown}</div>")


def cells(shown: str) -> list[str]:
    return [cell.text or "" for cell in parsed(shown).iter("td")]


def test_evaluation_shows_metrics_and_escapes_names() -> None:
    shown = Evaluation(10, {"accuracy": 0.9}, info={"source": "<script>"})._repr_html_()
    assert cells(shown) == ["accuracy", "0.9", "source", "<script>"]
    assert "<script>" not in shown


@pytest.mark.parametrize("shape", [(0, 2, 3), (1, 1, 1), (9, 8, 200)])
def test_solution_shows_the_first_states(shape: tuple[int, int, int]) -> None:
    batch, count, _ = shape
    states = torch.arange(batch * count * shape[2]).reshape(shape) % 2
    shown = Solution(states.float(), torch.zeros(batch, count).double())._repr_html_()
    assert len(cells(shown)) == 4 * min(batch, 5) * min(count, 5)
    assert len(shown) < 10_000


def test_the_heat_map_has_a_cell_for_every_entry_that_is_not_zero() -> None:
    A = torch.tensor([[1.0, -0.5, float("nan")], [0.0, 0.01, 0.5], [0.0, 0.0, -1.0]])
    paths = parsed(heat_map(A.tolist(), "<A>")).iter("{http://www.w3.org/2000/svg}path")
    drawn = {place for path in paths for place in path.attrib["d"].split("h1v1h-1z") if place}
    assert drawn == {"M0 0", "M1 0", "M2 1", "M2 2"}  # 0.01 is lighter than the lightest shade
    assert heat_map(torch.zeros(MOST_CELLS + 1, MOST_CELLS + 1).tolist()) == heat_map([]) == ""


@pytest.mark.parametrize("inputs", [None, 4])
@pytest.mark.parametrize("n", [3, MOST_CELLS + 1])
def test_networks_show_their_size_and_stay_as_they_were(n: int, inputs: int | None) -> None:
    pattern = topology("dense", n)
    network = QuboNetwork(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, pattern.size)), pattern, inputs).train()
    shown = network._repr_html_()
    assert cells(shown)[:4] == ["bits", str(n), "couplers", str(n * (n - 1) // 2)]
    assert ("<svg" in shown) == (n <= MOST_CELLS)
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
    with pytest.raises(QubolearnError, match="1 axes, but this picture has 2"):
        plots.curves([run], ax=axis)
