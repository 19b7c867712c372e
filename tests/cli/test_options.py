"""Options and shell completion."""

from __future__ import annotations

from pathlib import Path

import pytest

from qubolearn.cli import COMMANDS, main, make_parser
from qubolearn.runs import Run

SMALL = (
    "--topology dense --layers 2 --hidden 4 --instances 8 --batch-size 8 --validation 4 --test 4 --device cpu"
)


def test_options_may_stand_between_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(tmp_path / "a"), "--format", "svg", str(tmp_path / "b")]) == 2
    assert str(tmp_path / "a") in capsys.readouterr().err


def test_a_folder_may_be_called_as_a_problem(tmp_path: Path) -> None:
    words = ["train", "randgraph", "--epochs", "1", "--k", "2", *SMALL.split()]
    assert main([*words, "--out", str(tmp_path / "maxcut")]) == 0
    run = Run.open(tmp_path / "maxcut")
    assert (run.problem.name, run.recipe.epochs, run.problem.bits) == ("randgraph", 1, 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command: str) -> None:
    assert {"--help", "--json"} <= set(make_parser(command)._option_string_actions)
