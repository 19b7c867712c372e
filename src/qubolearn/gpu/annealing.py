"""Simulated annealing on an NVIDIA GPU: which Triton kernel, its random numbers, and its launches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

#: Up to this n, a QUBO on a GPU is annealed as a dense one even if its graph is sparse.
WORD_BITS = 62
#: QUBOs whose bits have at most this share of all others as neighbors are annealed by lists of neighbors.
LISTED_SHARE = 1 / 8
#: The first Triton with tuples of tensors, in which the kernels keep fields.
TRITON = (3, 3)
#: Updates of one launch. Kernels do 1e10 a second and more on a large GPU; small ones take a few times as long.
UPDATES = 2 * 10**9


def available(device: torch.device) -> bool:
    """Return True if there are kernels for this device; all others anneal on the CPU."""
    return device.type == "cuda" and _triton() >= TRITON


@cache
def _triton() -> tuple[int, ...]:
    """Return the installed version of Triton, (0,) if there is none."""
    try:
        return tuple(int(part) for part in version("triton").split(".")[:2])
    except PackageNotFoundError:
        return (0,)


def takes_lists(linear: Tensor, edges: Tensor) -> bool:
    """Return True if lists of neighbors suit QUBOs with linear ``[batch, n]`` and edges ``[2, m]``."""
    n = linear.shape[1]
    return n > WORD_BITS and int(edges.flatten().bincount(minlength=n).max()) <= n * LISTED_SHARE


def generators(seeds: npt.NDArray[np.uint32], reads: int) -> Tensor:
    """Return a first state for each read's 32-bit xorshift generator: int64 ``[batch, reads]``, 1 ... 2**32 - 1."""
    z = torch.from_numpy(seeds.astype(np.int64))[:, None] * 0x1E3779B9 + torch.arange(1, reads + 1)
    for _ in range(2):  # two rounds of multiplying and folding, modulo 2**32, leave no bit unmixed
        z = (z ^ (z >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    return (z ^ (z >> 16)).clamp(min=1)


def rounds(schedules: Tensor, sweeps: int, updates: int) -> Iterator[tuple[Tensor, int]]:
    """Cut a schedule ``[batch, 3]`` (first β, growth, last β) into launches, and yield schedule and sweeps of each.

    A launch takes less than half a second and ends before the next one, so that Ctrl-C is answered between them.
    ``updates`` is the number of updates in a sweep.

    >>> schedule = torch.tensor([[1.0, 2.0, 5.0]])
    >>> [(s[0, 0].item(), some) for s, some in rounds(schedule, 5, 10**9)]
    [(1.0, 2), (4.0, 2), (5.0, 1)]
    """
    first, growth, last = schedules.to(torch.float64).unbind(1)
    some = max(1, UPDATES // max(1, updates))
    for done in range(0, sweeps, some):
        beta = torch.minimum(first * growth**done, last)
        yield torch.stack([beta, growth, last], 1), min(some, sweeps - done)
        if schedules.is_cuda and sweeps > some:
            torch.cuda.synchronize(schedules.device)
