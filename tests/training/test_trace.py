"""Files that a step passes through."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def tool() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "trace.py"
    spec = importlib.util.spec_from_file_location("file_trace", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_step_and_a_solve_pass_through_at_most_eight_files() -> None:
    trace = tool()
    step, solve = trace.files_of_step(), trace.files_of_solve()
    assert {"training/fit.py", "training/steps.py", "losses/contract.py", "networks/heads.py"} <= step
    assert len(step) <= 8, sorted(step)
    assert len(solve) <= 8, sorted(solve)
