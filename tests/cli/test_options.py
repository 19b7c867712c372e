"""Options and shell completion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qubolearn.cli import COMMANDS, main, make_parser
from qubolearn.runs import Run

SMALL = "--topology dense --layers 2 --hidden 4 --instances 8 --batch-size 8 --validation 4 --test 4 --device cpu"


def test_options_may_stand_between_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(tmp_path / "a"), "--format", "svg", str(tmp_path / "b")]) == 2
    assert str(tmp_path / "a") in capsys.readouterr().err


def test_a_folder_may_be_called_as_a_problem(tmp_path: Path) -> None:
    words = ["train", "randgraph", "--epochs", "1", "--k", "2", *SMALL.split()]
    assert main([*words, "--out", str(tmp_path / "maxcut")]) == 0
    run = Run.open(tmp_path / "maxcut")
    assert (run.problem.name, run.recipe.epochs, run.problem.bits) == ("randgraph", 1, 2)


PRESS = """
eval "$1"
COMP_WORDS=($2 "$3") COMP_CWORD=$(($(wc -w <<< "$2"))) COMPREPLY=()
$(complete -p qubolearn | sed 's/.*-F \\([^ ]*\\) .*/\\1/') qubolearn
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes() -> None:
    words = [sys.executable, "-m", "qubolearn", "completion", "bash"]
    script = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for before, current, found in [
        ("qubolearn", "comp", {"compare", "completion"}),
        ("qubolearn train", "rand", {"randgraph"}),
        ("qubolearn train randgraph", "--metho", {"--method"}),
        ("qubolearn train randgraph --method", "", {"quant", "diag", "pure"}),
        ("qubolearn evaluate --solver", "annea", {"annealing"}),
    ]:
        press = ["bash", "-c", PRESS, "bash", script, before, current]
        done = subprocess.run(press, capture_output=True, text=True, check=False)
        assert set(done.stdout.split()) == found, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command: str) -> None:
    assert {"--help", "--json"} <= set(make_parser(command)._option_string_actions)
