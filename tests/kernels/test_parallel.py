"""Threads that share work."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import ClassVar

import dimod
import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.kernels import thread_count
from qubolearn.qubo import energies
from qubolearn.solvers.dimod_adapter import DimodSolver, neal, tabu
from qubolearn.solvers.quantum import QuantumAnnealing


class Waiting(dimod.Sampler):
    """A sampler that waits, or fails at the second QUBO."""

    parameters: ClassVar = {"interrupt_function": []}
    properties: ClassVar = {}

    def __init__(self, fails: bool) -> None:
        self.fails, self.calls = fails, 0

    def sample(self, bqm, interrupt_function):  # type: ignore[no-untyped-def]
        self.calls += 1
        if self.fails and self.calls == 2:
            raise ZeroDivisionError
        until = time.monotonic() + (0.1 if self.fails else 30)
        while not interrupt_function() and time.monotonic() < until:
            time.sleep(0.01)
        return dimod.ExactSolver().sample(bqm)


def test_an_error_on_any_thread_is_raised_and_stops_the_others() -> None:
    sampler = Waiting(fails=True)
    with pytest.raises(QubolearnError, match="QUBO 1"):
        DimodSolver(sampler)(torch.ones(100, 2, 2))
    assert sampler.calls < 10


def test_an_interrupt_ends_the_wait() -> None:
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        DimodSolver(Waiting(fails=False))(torch.ones(3, 2, 2))
    assert time.monotonic() - began < 10


FORKED = {
    "neal": neal(reads=4, sweeps=4, seed=0),
    "tabu": tabu(reads=1, seed=0),
    "quantum": QuantumAnnealing(seed=0),
}


@pytest.mark.parametrize("name", FORKED)
def test_a_forked_child_solves_after_its_parent_has(name: str) -> None:
    """Children once waited for OpenMP's threads forever."""
    A = torch.randn(4, 11, 11, generator=torch.Generator().manual_seed(0))
    torch.set_num_threads(2)
    try:
        want = FORKED[name](A)
        big = torch.randn(800, 800)
        big @ big  # torch's own threads have been at work
        child = os.fork()
        if child == 0:
            found = FORKED[name](A)
            big @ big
            right = energies(A.double(), found.states.double())
            same = torch.equal(found.states, want.states) and torch.equal(found.energies, right)
            os._exit(0 if same and thread_count() == 2 and torch.get_num_threads() == 1 else 1)
        assert ended(child, 60) == 0
    finally:
        torch.set_num_threads(1)


def ended(child: int, seconds: float) -> int:
    """Return the exit code of a child, killed if it is late."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
