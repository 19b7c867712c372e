"""Completion: bash itself asks for the words; what is said for a line needs no torch and runs no file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qubolearn.cli import COMMANDS
from qubolearn.cli.completion import complete
from qubolearn.problems import problem_names
from qubolearn.solvers import solver_names

# Without a terminal no key can be pressed; this is what bash does with the key.
PRESS = """
eval "$(qubolearn completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
$(complete -p qubolearn | sed 's/.*-F \\([^ ]*\\) .*/\\1/') qubolearn
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "qubolearn"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m qubolearn "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for line, words in {
        "qubolearn comp": ["compare", "completion"],
        "qubolearn train randgraph --metho": ["--method"],
        "qubolearn train randgraph --method ": ["quant", "diag", "pure"],
    }.items():
        done = subprocess.run(
            ["bash", "-c", PRESS, "bash", line], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == words, done.stderr


def test_every_command_offers_its_options() -> None:
    assert complete("qubolearn ") == [*COMMANDS, "--help", "--version"]
    for command in COMMANDS:
        assert {"--help", "--json"} <= set(complete(f"qubolearn {command} -"))


def test_problems_their_options_and_solvers() -> None:
    assert complete("qubolearn train ") == problem_names()
    assert complete("qubolearn train --epochs 5 ") == problem_names()
    assert complete("qubolearn train --epochs ") == []
    assert "--capacity" not in complete("qubolearn train randgraph --")
    assert "--k" in complete("qubolearn train --epochs 5 randgraph --")
    assert complete("qubolearn evaluate runs/k4 --solver ") == solver_names()


@pytest.mark.parametrize(
    "line", ["qubolearn evaluate ", "qubolearn nosuch ", "qubolearn train 'ran", "", "qubolearn solve a b "]
)
def test_where_nothing_is_known_the_shell_completes_files(line: str) -> None:
    assert complete(line) == []


def test_a_key_press_runs_no_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("raise SystemExit('it was run')")
    assert "--epochs" in complete(f"qubolearn train {tmp_path}/own.py:Own --")
