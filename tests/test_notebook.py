"""What a notebook shows: well-formed, escaped, and the numbers of the value. Plots draw where they are told to."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from qubolearn import QubolearnError, QuboNetwork, Run, Solution, plots, topology
from qubolearn.evaluation import Evaluation
from qubolearn.notebook import MAX_CELLS, heat_map
from qubolearn.recipes import preset, train


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
    assert heat_map(torch.zeros(MAX_CELLS + 1, MAX_CELLS + 1).tolist()) == heat_map([]) == ""


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
    with pytest.raises(QubolearnError, match="1 axes, but this picture has 2"):
        plots.curves([run], ax=axis)


def test_a_real_notebook_shows_tables_and_heat_maps(tmp_path: Path) -> None:
    """The kernel takes the HTML of our values, and it is what the values say."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    code = [
        "from qubolearn import *\nimport torch\nrun = pretrained('maxcut')\nrun",
        "run.network()",
        "pretrained('sudoku').network()",
        "evaluate(run.network(), run.problem, instances=20)",
        "solve(torch.diag(torch.tensor([-1.0, 2.0]))[None], ExhaustiveSearch(), count=2)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in code])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    run, network, shared, evaluation, solution = (cell.outputs[-1]["data"]["text/html"] for cell in notebook.cells)
    assert cells(run)[:2] == ["problem", "MaxCut(nodes=8, answers='one')"]
    assert "<svg" in network
    assert "<svg" in shared
    assert cells(network)[:4] == ["bits", "8", "couplers", "28"]
    assert cells(evaluation)[0] == "accuracy"
    assert cells(solution) == ["0", "0", "-1", "10", "0", "1", "0", "00"]
