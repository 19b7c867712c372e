"""Quick answers without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from qubolearn.chips.topologies import FAMILIES
from qubolearn.cli import COMMANDS
from qubolearn.cli.solving import CHIPS

CODE = """
import sys
from qubolearn.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as stopped:
    code = stopped.code
assert "torch" not in sys.modules, "torch was imported"
sys.exit(code)
"""


def start(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["--version", "--help", *(f"{command} --help" for command in COMMANDS)])
def test_help_needs_no_torch(words: str) -> None:
    done = start(*words.split())
    assert done.returncode == 0, done.stderr[-500:]
    assert "qubolearn" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "trian randgraph",
        "train randgraph --k 99",
        "embed 8 --chip pegasu",
        "evaluate nowhere --instances 0",
    ],
)
def test_mistakes_need_no_torch(words: str) -> None:
    done = start(*words.split())
    assert done.returncode == 2, done.stderr[-500:]
    assert "error: " in done.stderr.splitlines()[-1]


def test_the_chips_of_the_help_are_those_of_the_library() -> None:
    assert tuple(FAMILIES) == CHIPS
