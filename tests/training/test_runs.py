"""Run folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from qubolearn.errors import QubolearnError
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import preset, recipe_for, train
from qubolearn.runs import Run

PROBLEM = RandGraph(k=3)
CONFIG = recipe_for(
    "best", PROBLEM, topology="dense", hidden=8, epochs=1, instances=50, batch_size=50, validation=10
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / "run", PROBLEM, CONFIG)
    train(PROBLEM, CONFIG, made)
    return made


def test_a_run_opens_as_it_was_written(run: Run) -> None:
    again = Run.open(run.folder)
    assert (again.problem, again.recipe) == (PROBLEM, CONFIG)
    p = PROBLEM.sample(4, torch.Generator()).p
    torch.testing.assert_close(again.network()(p), run.network()(p))
    header = json.loads((run.folder / "config.json").read_text())
    assert header["versions"]["torch"] == torch.__version__


def test_another_configuration_or_foreign_folder_is_rejected(run: Run, tmp_path: Path) -> None:
    with pytest.raises(QubolearnError, match=str(run.folder)):
        Run.create(run.folder, PROBLEM, replace(CONFIG, seed=7))
    with pytest.raises(QubolearnError, match=str(run.folder)):
        Run.create(run.folder, RandGraph(k=4), CONFIG)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("precious")
    with pytest.raises(QubolearnError, match="foreign"):
        Run.create(tmp_path / "foreign", PROBLEM, CONFIG)
    with pytest.raises(QubolearnError, match="foreign"):
        Run.open(tmp_path / "foreign")
    with pytest.raises(QubolearnError, match="nowhere"):
        Run.open(tmp_path / "nowhere")


def tampered(run: Run, **changes: object) -> None:
    path = run.folder / "config.json"
    header = json.loads(path.read_text())
    del header["sha256"]  # as one does who changes it by hand
    path.write_text(json.dumps({**header, **changes}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "other"}, "format 'other'"),
        ({"format_version": 99}, "format version 99"),
        ({"problem": 3}, "lacks 'problem'"),
        ({"problem": {"name": "no-such"}}, "unknown problem"),
        ({"problem": {"name": "randgraph", "k": 99}}, "k=99"),
        ({"training": []}, "training"),
        ({"training": {"layers": "5; rm -rf /"}}, "5; rm"),
    ],
)
def test_tampered_headers_are_rejected(run: Run, changes: dict[str, object], says: str) -> None:
    tampered(run, **changes)
    with pytest.raises(QubolearnError, match=says):
        Run.open(run.folder)


def test_a_model_of_another_problem_is_rejected(run: Run) -> None:
    save_file({"other": torch.zeros(3)}, run.folder / "model.safetensors")
    with pytest.raises(QubolearnError, match="does not fit"):
        run.network()


@pytest.mark.parametrize("kind", [str, Path])
def test_a_run_made_by_its_constructor_trains_and_is_opened_again(kind: Any, tmp_path: Path) -> None:
    """Once only ``Run.create`` made what ``train`` needs."""
    problem, recipe = preset("best", "randgraph", k=2, epochs=1, instances=100, hidden=8)
    train(problem, recipe, Run(kind(tmp_path / "new"), problem, recipe))
    again = Run.open(tmp_path / "new")
    assert again.finished
    assert (again.problem, again.recipe) == (problem, recipe)
