"""Threads that share work: how many, what errors and interrupts do, and children of a fork."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import torch

from qubolearn.kernels import kernel_threads, thread_count
from qubolearn.qubo import energies
from qubolearn.solvers.dimod_adapter import _share, neal, tabu
from qubolearn.solvers.quantum import QuantumAnnealing


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("tasks", [0, 1, 2, 1000])
def test_every_task_is_done_once(threads: int, tasks: int) -> None:
    done = np.zeros(tasks, np.int64)

    def work(i: int) -> None:
        done[i] += 1

    _share(work, tasks, threads, threading.Event())
    assert (done == 1).all()


def test_an_error_on_any_thread_is_raised_and_stops_the_others() -> None:
    stop, began = threading.Event(), []

    def work(i: int) -> None:
        began.append(i)
        if i > 0:
            raise ZeroDivisionError(i)
        stop.wait(30)

    with pytest.raises(ZeroDivisionError):
        _share(work, 10_000, 2, stop)
    assert len(began) < 10


@pytest.mark.parametrize("listens", [True, False])
def test_an_interrupt_sets_the_flag_and_ends_the_wait(listens: bool) -> None:
    stop, release = threading.Event(), threading.Event()
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _share(lambda i: (stop if listens else release).wait(30) and None, 1, 1, stop)
    assert stop.is_set()
    assert time.monotonic() - began < 10
    release.set()


def test_samplers_use_the_threads_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training sets torch to one thread and kernels to all."""
    A = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0))
    assert torch.get_num_threads() == 1
    used: list[int] = []

    def counting(work, tasks, threads, stop):  # type: ignore[no-untyped-def]
        used.append(threads)
        _share(work, tasks, threads, stop)

    monkeypatch.setattr("qubolearn.solvers.dimod_adapter._share", counting)
    with kernel_threads(3):
        neal(reads=2, sweeps=2, seed=0)(A)
    assert set(used) == {3}


FORKED = {"neal": neal(reads=4, sweeps=4, seed=0), "tabu": tabu(reads=1, seed=0), "quantum": QuantumAnnealing(seed=0)}


@pytest.mark.parametrize("name", FORKED)
def test_a_forked_child_solves_after_its_parent_has(name: str) -> None:
    """OpenMP's threads do not survive a fork: children once waited for them forever."""
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
            same = torch.equal(found.states, want.states) and torch.equal(
                energies(A.double(), found.states.double()), found.energies
            )
            os._exit(0 if same and thread_count() == 2 and torch.get_num_threads() == 1 else 1)
        assert ended(child, 60) == 0
    finally:
        torch.set_num_threads(1)


def ended(child: int, seconds: float) -> int:
    """The exit code of a child, which is killed where it takes too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
