"""List the files of qubolearn that a training step and a ``solve`` pass through: ``python tools/trace.py``.

A step is what happens between two calls of ``on_step``; setup and scoring do not count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

import qubolearn
from qubolearn import MLP, Adam, Callback, Likelihood, QuboNetwork, SimulatedAnnealing, fit, solve, topology

HOME = Path(qubolearn.__file__).parent


@contextmanager
def files_entered() -> Iterator[set[str]]:
    """Collect the files of the package whose functions are called."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOME):
            found.add(path.relative_to(HOME).as_posix())

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


class Step(Callback):
    """Collect the files of the third step."""

    def on_step(self, training: object) -> None:
        if training.step == 2:
            self.tracing = files_entered()
            self.found = self.tracing.__enter__()
        elif training.step == 3:
            self.tracing.__exit__(None, None, None)


def main() -> None:
    """Print both lists."""
    p, step = torch.randn(80, 6), Step()
    graph = topology("dense", 6)
    network = QuboNetwork(MLP(6, graph.size), graph)
    fit(
        network,
        (p, p > 0),
        Likelihood(),
        optimizer=Adam(1e-3),
        epochs=1,
        batch_size=10,
        callbacks=[step],
        validation=None,
    )
    A = torch.randn(4, 30, 30)
    solve(A, SimulatedAnnealing(seed=0))
    with files_entered() as solved:
        solve(A, SimulatedAnnealing(seed=0))
    for what, found in (("a step of fit", step.found), ("solve with SimulatedAnnealing", solved)):
        print(f"{what}: {len(found)} files: {', '.join(sorted(found))}")


if __name__ == "__main__":
    main()
