"""How many threads a training takes: one for the small matrices of its network, all for its solver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from qubolearn.errors import QubolearnError
from qubolearn.kernels.parallel import kernel_threads

__all__ = ["current_device", "one_thread", "own_stream", "usable_device"]

_first = Lock()  # held by the training that began while no other ran
_threads = 1  # that it found


@contextmanager
def one_thread(device: torch.device | str) -> Iterator[None]:
    """One thread for the small matrices of a network on the CPU: faster, and the same bits on any number of cores.

    Solvers keep all threads. Meanwhile numbers below 1e-38 are flushed to zero: Adam's moments of dead features end up
    there, and a CPU computes many times slower with them. torch keeps both settings for each thread of the process, so
    every training puts back its own. The number of BLAS threads belongs to the whole process, and only the thread that
    changed it can put it back, so the first of several overlapping trainings does both.
    """
    if torch.device(device).type != "cpu":
        with kernel_threads(torch.get_num_threads()):
            yield
        return
    first = _first.acquire(blocking=False)
    threads, flushed = _found_threads(first), torch.tensor([1e-40]).mul(1.0).item() == 0
    try:
        with kernel_threads(threads), _one_blas_thread() if first else nullcontext():
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)
        if first:
            _first.release()


def _found_threads(first: bool) -> int:
    """The threads that torch had before any training: a new thread begins with the 1 of a training beside it."""
    global _threads
    found = torch.get_num_threads()
    if first:
        _threads = found
    return found if found > 1 else _threads


def usable_device(device: torch.device | str) -> torch.device:
    """The device, unless nothing can be computed on it here."""
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).item()  # meta tensors have no numbers
    except (RuntimeError, AssertionError, TypeError) as error:
        raise QubolearnError(f"device {str(device)!r} is not usable here; use cpu") from error
    return found


def current_device(device: torch.device | str) -> AbstractContextManager[Any]:
    """Make the GPU of a training the current one: streams, events and graphs belong to it, whatever the tensors say."""
    return torch.cuda.device(device) if torch.device(device).type == "cuda" else nullcontext()


@contextmanager
def own_stream(device: torch.device | str) -> Iterator[None]:
    """Let kernels run beside those of other threads; on one stream they would wait for each other."""
    if torch.device(device).type != "cuda":
        yield
        return
    outside, own = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    own.wait_stream(outside)
    try:
        with torch.cuda.stream(own):
            yield
    finally:
        outside.wait_stream(own)


def _one_blas_thread() -> AbstractContextManager[Any]:
    import scipy.linalg.cython_blas  # noqa: F401  # numba's, which can be told only when it is there

    limits: AbstractContextManager[Any] = threadpool_limits(1, "blas")
    return limits
