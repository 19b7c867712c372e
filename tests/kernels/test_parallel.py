"""Threads that share work: how many, what errors and interrupts do, and children of a fork."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import torch

from qubolearn.kernels.parallel import kernel_threads, run_tasks, stop_flag, thread_count
from qubolearn.qubo import energies
from qubolearn.solvers.dimod_adapter import neal, tabu
from qubolearn.solvers.quantum import QuantumAnnealing


@pytest.mark.parametrize("seconds", [0.0, 0.01, 1.0, 100.0, float("inf")])
@pytest.mark.parametrize("tasks", [1, 2, 7, 1000])
def test_every_task_is_done_once(seconds: float, tasks: int) -> None:
    done, told = np.zeros(tasks, np.int64), []

    def work(start: int, end: int) -> None:
        done[start:end] += 1

    with kernel_threads(3):
        run_tasks(work, tasks, seconds, told.append)
    assert (done == 1).all()
    assert sum(told) == tasks


@pytest.mark.parametrize("seconds", [0.01, 1.0])
def test_an_error_on_any_thread_is_raised_and_stops_the_others(seconds: float) -> None:
    stop, began = stop_flag(), []

    def work(start: int, end: int) -> None:
        began.append(start)
        if start > 0:
            raise ZeroDivisionError(start)
        while not stop[0]:
            time.sleep(0.001)

    with kernel_threads(2), pytest.raises(ZeroDivisionError):
        run_tasks(work, 10_000, seconds, stop=stop)
    assert len(began) < 10_000


def test_an_interrupt_sets_the_flag_and_ends_the_wait() -> None:
    stop = stop_flag()

    def work(start: int, end: int) -> None:
        while not stop[0]:
            time.sleep(0.001)

    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        run_tasks(work, 1, 10.0, stop=stop)


def test_work_that_ignores_the_flag_is_left_behind() -> None:
    release = threading.Event()
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_tasks(lambda start, end: release.wait(30) and None, 1, 10.0)
    assert time.monotonic() - began < 10
    release.set()


def used_threads(monkeypatch: pytest.MonkeyPatch, module: str) -> list[int]:
    """How many threads each call of run_tasks through this module gets."""
    counts: list[int] = []

    def counting(work, tasks, seconds, *rest, threads=None, **named):  # type: ignore[no-untyped-def]
        counts.append(threads or thread_count())
        run_tasks(work, tasks, seconds, *rest, threads=threads, **named)

    monkeypatch.setattr(f"{module}.run_tasks", counting)
    return counts


def test_samplers_and_state_vectors_use_the_threads_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training sets torch to one thread and kernels to all: neal and the Schrödinger equation once took torch's."""
    A = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0))
    assert torch.get_num_threads() == 1
    sampler = used_threads(monkeypatch, "qubolearn.solvers.dimod_adapter")
    vector = used_threads(monkeypatch, "qubolearn.kernels.state_vector_numba")
    with kernel_threads(3):
        neal(reads=2, sweeps=2, seed=0)(A)
        QuantumAnnealing(reads=2, steps=2, seed=0)(A)
    assert set(sampler) == {3}
    assert set(vector) == {3}


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
