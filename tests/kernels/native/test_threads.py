"""Threads of the kernels."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from native_kernels import SANITIZED, kernels, partition, search, symmetric

LONG = np.random.default_rng(0).normal(size=(2, 38, 38)).astype(np.float32)  # minutes of search
WORK = {
    "search": lambda n, **options: search(hard(n), 1, **options),
    "products": lambda n, **options: partition(hard(n), 0.1, **options),
    "sums": lambda n, **options: partition(hard(n), 5.0, **options),
}


def hard(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(1, n, n))


def qubo(seed: int, n: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(4, n, n)).astype(np.float32)


@pytest.mark.parametrize("n", [38, 44])  # at 44 bits one part takes seconds
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("threads", [1, 3])
def test_ctrl_c_ends_long_work_within_a_second(threads: int, work: str, n: int) -> None:
    began = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            WORK[work](n, threads=threads)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < (5 if SANITIZED else 1.3)
    assert np.isfinite(search(qubo(0), 1, threads=threads)[1]).all()  # later calls work


@pytest.mark.skipif(SANITIZED, reason="takes long")
def test_signals_are_handled_between_long_sweeps() -> None:
    times: list[float] = []

    def report(fraction: float) -> None:
        times.append(time.process_time())
        if len(times) == 6:
            raise StopIteration

    S, states = symmetric(1, 2048), np.zeros((1, 64, 2048), np.int8)
    how = np.array([[1e-3, 0.1]]), 10**6, 10**6, np.zeros(1, np.uint32), False
    with pytest.raises(StopIteration):
        kernels.anneal_dense(S, *how, states, progress=report)
    assert np.median(np.diff(times)) < 0.3


def test_progress_is_reported_and_may_raise() -> None:
    seen: list[float] = []

    def report(fraction: float) -> None:
        seen.append(fraction)
        if len(seen) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        search(LONG, 1, threads=2, progress=report)
    assert sorted(seen) == seen
    assert 0 <= seen[-1] < 1


def test_the_gil_is_released() -> None:
    ticks = 0

    def report(fraction: float) -> None:
        if ticks > 50:
            raise StopIteration

    def tick() -> None:
        nonlocal ticks
        for _ in range(100):
            ticks += 1
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    with pytest.raises(StopIteration):
        search(LONG, 1, progress=report)
    other.join()


def test_a_forked_child_has_its_own_threads() -> None:
    expected = search(qubo(1, 19), 2, threads=4)[1]
    running = threading.Thread(target=lambda: search(qubo(2, 24), 1, threads=3))
    running.start()  # in the middle of a call
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(search(qubo(1, 19), 2, threads=4)[1], expected) else 1)
    until = time.monotonic() + 60
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < until:
        time.sleep(0.01)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    running.join()
    assert ended[0] == child
    assert os.waitstatus_to_exitcode(ended[1]) == 0
