"""Commands that print one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from qubolearn.cli import main


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[[str], Any]:
    """Return a function that runs a command with --json and returns its object."""

    def run(command: str) -> Any:
        capsys.readouterr()
        assert main([*command.split(), "--json"]) == 0
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        return json.loads(out)

    return run
