"""List the files that a training step and a ``solve`` pass through.

A step is all between the ends of two steps of ``fit``, without scoring.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import qubolearn
from qubolearn import MLP, Adam, Likelihood, QuboNetwork, SimulatedAnnealing, fit, solve, topology
from qubolearn.training.steps import Steps

HOME = Path(qubolearn.__file__).parent


class Trace:
    """Collects the files whose functions run from ``begin`` to ``end``."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def begin(self) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # functions that run already
            self.note(frame, "call", None)
            frame = frame.f_back
        sys.setprofile(self.note)

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOME):
            self.files.add(path.relative_to(HOME).as_posix())

    def end(self) -> set[str]:
        sys.setprofile(None)
        return self.files


def files_of_step() -> set[str]:
    """Return the files of one step."""
    trace, advance = Trace(), Steps.advance

    def traced(self: Any, first: int, end: int) -> float:
        found = advance(self, first, end)
        if end == 2:
            trace.begin()
        elif end == 3:
            trace.end()
        return found

    p, graph = torch.randn(80, 6), topology("dense", 6)
    network = QuboNetwork(MLP(6, graph.size), graph)
    how = {"optimizer": Adam(1e-3), "epochs": 1, "batch_size": 10, "validation": None}
    Steps.advance = traced  # type: ignore[method-assign]
    try:
        fit(network, (p, p > 0), Likelihood(), **how)
    finally:
        Steps.advance = advance  # type: ignore[method-assign]
    return trace.files


def files_of_solve() -> set[str]:
    """Return the files of a second ``solve``."""
    trace, A = Trace(), torch.randn(4, 30, 30)
    solve(A, SimulatedAnnealing(seed=0))
    trace.begin()
    solve(A, SimulatedAnnealing(seed=0))
    return trace.end()


if __name__ == "__main__":
    found_in = {"a step of fit": files_of_step(), "solve with SimulatedAnnealing": files_of_solve()}
    for what, found in found_in.items():
        print(f"{what}: {len(found)} files: {', '.join(sorted(found))}")
