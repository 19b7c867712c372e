"""Simulated annealing on an NVIDIA GPU: which Triton kernel, and the first states of its generators.

Reads are independent, and so are their random numbers: every read has its own 32-bit xorshift generator.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["WORD_BITS", "available", "generators", "takes_lists"]

#: Up to this n, a QUBO on a GPU is annealed as a dense one even if its graph is sparse.
WORD_BITS = 62
#: QUBOs whose bits have at most this share of all others as neighbours are annealed by lists of neighbours.
LISTED_SHARE = 1 / 8
#: The first Triton with tuples of tensors, in which the kernels keep fields.
TRITON = (3, 3)


def available(device: torch.device) -> bool:
    """Whether there are kernels for this device; all others anneal on the CPU."""
    return device.type == "cuda" and _triton() >= TRITON


@cache
def _triton() -> tuple[int, ...]:
    """The installed version of Triton, (0,) where there is none."""
    try:
        return tuple(int(part) for part in version("triton").split(".")[:2])
    except PackageNotFoundError:
        return (0,)


def takes_lists(linear: Tensor, edges: Tensor) -> bool:
    """Whether lists of neighbours suit QUBOs with linear ``[batch, n]`` and edges ``[2, m]``."""
    n = linear.shape[1]
    return n > WORD_BITS and int(edges.flatten().bincount(minlength=n).max()) <= n * LISTED_SHARE


def generators(seeds: npt.NDArray[np.uint32], reads: int) -> Tensor:
    """int64 ``[batch, reads]``, each in 1 ... 2**32 - 1: a first state for every read's generator."""
    z = torch.from_numpy(seeds.astype(np.int64))[:, None] * 0x1E3779B9 + torch.arange(1, reads + 1)
    for _ in range(2):  # two rounds of multiplying and folding, modulo 2**32, leave no bit unmixed
        z = (z ^ (z >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    return (z ^ (z >> 16)).clamp(min=1)
