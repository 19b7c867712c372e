"""The same steps as :class:`qubolearn.training.steps.Steps`, but faster; which ones are taken is chosen here."""

from __future__ import annotations

from qubolearn.training.fast.captured import CapturedSteps, can_capture
from qubolearn.training.fast.compiled import CompiledSteps, can_compile
from qubolearn.training.steps import Steps, Task

__all__ = ["make_steps"]


def make_steps(task: Task) -> Steps:
    """Compiled on a CPU for stacks of linear layers, one CUDA graph on a GPU where nothing needs the host."""
    if can_capture(task):
        return CapturedSteps(task)
    return CompiledSteps(task) if can_compile(task) else Steps(task)
