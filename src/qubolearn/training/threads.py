"""How many threads a training takes: one for the small matrices of its network, all for its solver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from qubolearn.kernels.parallel import kernel_threads

__all__ = ["current_device", "one_thread"]

#: Trainings that run at the same time in this process, and what the last of them puts back.
_running = 0
_before: tuple[int, bool, Any] = (1, False, None)
_lock = Lock()


@contextmanager
def one_thread(device: torch.device | str) -> Iterator[None]:
    """One thread for the small matrices of a network on the CPU: faster, and the same bits on any number of cores.

    Solvers keep all threads. Numbers below 1e-38 are zero meanwhile: Adam's moments of features that died end there,
    and a CPU takes many times as long for them. Threads of a process share these settings, so trainings that overlap
    in time share them too, and the last one to end puts back what the first one found.
    """
    if torch.device(device).type != "cpu":
        with kernel_threads(torch.get_num_threads()):
            yield
        return
    threads = _enter()
    try:
        with kernel_threads(threads):
            yield
    finally:
        _leave()


def _enter() -> int:
    global _running, _before
    with _lock:
        if _running == 0:
            denormal = torch.tensor([1e-40]).mul(1.0).item() != 0
            _before = torch.get_num_threads(), denormal, _one_blas_thread()
            _before[2].__enter__()
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)
        _running += 1
        return _before[0]


def _leave() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            threads, denormal, blas = _before
            torch.set_num_threads(threads)
            torch.set_flush_denormal(not denormal)
            blas.__exit__(None, None, None)


def current_device(device: torch.device | str) -> AbstractContextManager[Any]:
    """Make the GPU of a training the current one: streams, events and graphs belong to it, whatever the tensors say."""
    return torch.cuda.device(device) if torch.device(device).type == "cuda" else nullcontext()


def _one_blas_thread() -> AbstractContextManager[Any]:
    import scipy.linalg.cython_blas  # noqa: F401  # numba's, which can be told only when it is there

    limits: AbstractContextManager[Any] = threadpool_limits(1, "blas")
    return limits
