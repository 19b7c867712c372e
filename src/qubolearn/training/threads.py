"""Threads, the current GPU and random numbers during training."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

from qubolearn.errors import QubolearnError
from qubolearn.kernels import kernel_threads
from qubolearn.random import preserve_rng_state

_first = threading.Lock()  # held by the first of overlapping runs
_threads = 1  # that it found


@contextmanager
def training_context(device: torch.device | str) -> Iterator[None]:
    """Set up threads, GPU and random numbers for training; restore them."""
    device = usable_device(device)
    current: Any = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with preserve_rng_state(), one_thread(device), current:
        yield


@contextmanager
def one_thread(device: torch.device | str) -> Iterator[None]:
    """Use one thread on a CPU: faster for small matrices, and reproducible.

    Solvers keep all threads. Denormals, which slow a CPU, are flushed to zero.
    BLAS threads belong to the process, so the first of several overlapping runs sets and restores them.
    """
    if torch.device(device).type != "cpu":
        with kernel_threads(torch.get_num_threads()):
            yield
        return
    first = _first.acquire(blocking=False)
    threads, flushed = _found_threads(first), torch.tensor([1e-40]).mul(1.0).item() == 0
    try:
        with kernel_threads(threads), _blas().limit(limits=1, user_api="blas") if first else nullcontext():
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)
        if first:
            _first.release()


@cache
def _blas() -> ThreadpoolController:
    """Return the BLAS libraries; looking for them takes milliseconds."""
    return ThreadpoolController()


def _found_threads(first: bool) -> int:
    """Return the threads before any run; new threads inherit a run's 1."""
    global _threads
    if first or torch.get_num_threads() > 1:
        _threads = torch.get_num_threads()
    return _threads


def usable_device(device: torch.device | str) -> torch.device:
    """Return the device if it can compute."""
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).item()  # meta tensors have no numbers
    except (RuntimeError, AssertionError, TypeError) as error:
        raise QubolearnError(f"device {str(device)!r} is not usable here; use cpu") from error
    return found


@contextmanager
def deferred_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at the first Ctrl-C, and raise KeyboardInterrupt after the block.

    A second one raises at once. Other handlers and threads are left alone.
    """
    interrupted = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        stop()

    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    mine = default and threading.current_thread() is threading.main_thread()
    if mine:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupted:
        raise KeyboardInterrupt
