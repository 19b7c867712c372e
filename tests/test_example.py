"""The example outside the package: at most 40 lines, a Problem that keeps the contract, and it learns."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "sorting.py"


def test_the_example_is_short_and_learns() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 40
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout)["accuracy"] > 0.95
