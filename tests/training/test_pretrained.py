"""Models of the package."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import torch

from qubolearn import QubolearnError, evaluate, pretrained
from qubolearn.cli import main
from qubolearn.runs import MODELS, Run, pretrained_names

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "pretrained.py"))


def test_the_tool_makes_them_all_and_they_are_small() -> None:
    assert pretrained_names() == sorted(TOOL["MODELS"])
    assert sum(path.stat().st_size for path in MODELS.iterdir()) < TOOL["LIMIT"] == 1_000_000


@pytest.mark.parametrize("name", pretrained_names())
def test_the_score_is_what_the_file_states(name: str) -> None:
    run, limit = pretrained(name), 0.02  # CPUs may round differently
    stored = run.scored()
    found = evaluate(run.network(), run.problem, instances=stored["instances"], seed=0)
    assert found.instances == stored["instances"] >= 1000
    assert found.metrics == pytest.approx({key: stored[key] for key in found.metrics}, abs=limit)
    assert stored[run.problem.metric] > 0.9


def test_commands_take_them_and_list_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["info", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert [model["name"] for model in listed] == [f"pretrained:{name}" for name in pretrained_names()]
    saved = tmp_path / "mine.safetensors"
    assert main(["info", "pretrained:maxcut", "--save", str(saved), "--json"]) == 0
    again, stored = Run.open(saved), pretrained("maxcut")
    assert (again.recipe, again.problem, again.scored()) == (stored.recipe, stored.problem, stored.scored())
    p = stored.problem.sample(3, torch.Generator()).p
    assert torch.equal(again.network()(p), stored.network()(p))
    assert len(again.predict(p)) == 3
    assert main(["evaluate", "pretrained:maxcut", "--instances", "20"]) == 0
    assert main(["embed", "pretrained:matching", "--chip", "chimera", "--chip-size", "2"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "pretrained:sudoko"]) == 2
    assert "sudoku" in capsys.readouterr().err
    assert main(["info", "--save", str(saved)]) == 2
    with pytest.raises(QubolearnError, match="maxcut"):
        pretrained("maxcat")
