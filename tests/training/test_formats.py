"""Run folders of every format."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path

import pytest
import torch

from qubolearn import Run, evaluate, recipes, runs
from qubolearn.errors import QubolearnError
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import Recipe, recipe_for, train

FORMATS = Path(__file__).parent / "formats"


@pytest.mark.parametrize("folder", sorted(path.name for path in FORMATS.iterdir()))
def test_folders_of_every_format_are_read(folder: str) -> None:
    run = Run.open(FORMATS / folder)
    assert run.finished
    assert run.metrics()[-1]["step"] == run.recipe.steps
    network = run.network()
    A = network(torch.zeros(2, run.problem.input_size))
    assert A.shape == (2, run.problem.bits, run.problem.bits)


def test_the_likelihood_of_the_first_format_meant_soft_targets_where_there_were_any() -> None:
    assert Run.open(FORMATS / "1-pointset").recipe.loss == "soft-nll"
    assert Run.open(FORMATS / "1-randgraph").recipe.loss == "nll"


def test_an_old_run_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FORMATS / "1-randgraph", folder)
    (folder / "model.safetensors").unlink()
    old = Run.open(folder)
    network = train(old.problem, old.recipe, Run.create(folder, old.problem, old.recipe))
    assert Run.open(folder).finished
    assert evaluate(network, old.problem, instances=50).instances == 50


def test_a_renamed_option_of_a_problem_is_read_from_old_folders(tmp_path: Path) -> None:
    shutil.copytree(FORMATS / "1-pointset", tmp_path / "run")
    config = tmp_path / "run/config.json"
    config.write_text(config.read_text().replace('"neighbours": 3', '"neighbours": 5'))
    assert vars(Run.open(tmp_path / "run").problem)["neighbors"] == 5


@dataclass(frozen=True)
class Grown(RandGraph):
    """RandGraph as a later version might have it."""

    colors: int = 1


def test_a_new_field_with_a_default_leaves_old_runs_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = RandGraph(k=3)
    sizes = {"layers": 2, "hidden": 4, "epochs": 1, "instances": 20, "batch_size": 10, "validation": 5}
    recipe = recipe_for("best", problem, topology="dense", **sizes)
    train(problem, recipe, Run.create(tmp_path / "run", problem, recipe))

    later = make_dataclass("Recipe", [("momentum", float, field(default=0.9))], bases=(Recipe,), frozen=True)
    for module in (recipes, runs):
        monkeypatch.setattr(module, "Recipe", later)
    run = Run.open(tmp_path / "run", Grown)
    assert run.problem == Grown(k=3)
    assert run.recipe.momentum == 0.9
    assert run.network()(torch.zeros(1, 81)).shape == (1, 6, 6)
    again = Run.create(tmp_path / "run", Grown(k=3), run.recipe)
    assert again.finished
    with pytest.raises(QubolearnError, match="another configuration"):
        Run.create(tmp_path / "run", Grown(k=3, colors=2), run.recipe)


def test_a_field_of_a_newer_version_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FORMATS / "1-randgraph", folder)
    config = json.loads((folder / "config.json").read_text())
    config["problem"]["colors"] = 3
    config["training"]["momentum"] = 0.5
    (folder / "config.json").write_text(json.dumps(config))
    assert Run.open(folder).problem == RandGraph(k=2)
