"""Training runs to be killed, forked from a warm process.

For every folder that is read, print the process id, then the status.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import torch

from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import recipe_for, train
from qubolearn.runs import Run

PROBLEM = RandGraph(k=3)
CONFIG = recipe_for(
    "best",
    PROBLEM,
    topology="dense",
    loss="hinge",
    solver="annealing:reads=4,sweeps=4",
    hidden=16,
    epochs=10,
    instances=80,
    batch_size=20,
    validation=10,
)


class ChildTraining:
    """Starts training runs and waits for their ends."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, folder: Path) -> int:
        """Train in a folder, in its own process, and return its id."""
        assert self.process.stdin
        self.process.stdin.write(f"{folder}\n")
        return self._number()

    def wait(self) -> int:
        """Return the exit code, or minus the signal that ended it."""
        return self._number()

    def _number(self) -> int:
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


def main() -> None:
    torch.set_num_threads(1)
    import_module("qubolearn.training.fit").SECONDS_BETWEEN_CHECKPOINTS = 0.0
    train(PROBLEM, replace(CONFIG, epochs=1))  # compiled or built on first use
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            with redirect_stdout(sys.stderr):
                train(PROBLEM, CONFIG, Run.create(line.strip(), PROBLEM, CONFIG))
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
