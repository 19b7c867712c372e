"""Simulated annealing in torch: simple, on any device. On an NVIDIA GPU it hands over to Triton kernels.

Reads are independent, and so are their random numbers: every read has its own 32-bit xorshift generator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["WORD_BITS", "anneal", "anneal_lists", "generators", "takes_lists"]

#: Up to this n, a QUBO on a GPU is annealed as a dense one even if its graph is sparse.
WORD_BITS = 62
#: QUBOs whose bits have at most this share of all others as neighbours are annealed by lists of neighbours.
LISTED_SHARE = 1 / 8


def anneal(
    S: Tensor,
    schedules: Tensor,
    sweeps: int,
    seeds: npt.NDArray[np.uint32],
    reads: int,
    initial: Tensor | None = None,
) -> Tensor:
    """The final states of all reads of S ``[batch, n, n]``, which begin at random or at ``initial``: int8.

    Both are ``[batch, reads, n]``.

    S is symmetric, with A_ij + A_ji off its diagonal and A_ii on it. ``schedules [batch, 3]`` holds the first β, its
    growth from sweep to sweep, and the β that it stops at.
    """
    state = generators(seeds, reads).to(S.device)
    kernel: Callable[[Tensor, Tensor, int, Tensor, Tensor | None], Tensor] = _anneal
    if _has_triton(S):
        from qubolearn.kernels.dense_annealing_triton import anneal as kernel
    elif not S.is_cpu:
        slow = f"annealing on {S.device} runs in plain torch, far slower than on a CPU"
        warnings.warn(f"{slow}; move A there by A.cpu(), or install triton for an NVIDIA GPU", stacklevel=2)
    return kernel(S.to(torch.float32), schedules.to(S.device), sweeps, state, initial)


def takes_lists(linear: Tensor, edges: Tensor) -> bool:
    """Whether :func:`anneal_lists` should anneal QUBOs with linear ``[batch, n]`` and edges ``[2, m]``."""
    n = linear.shape[1]
    if n <= WORD_BITS or not _has_triton(linear):
        return False
    return int(edges.flatten().bincount(minlength=n).max()) <= n * LISTED_SHARE


def anneal_lists(
    linear: Tensor,
    quadratic: Tensor,
    edges: Tensor,
    schedules: Tensor,
    sweeps: int,
    seeds: npt.NDArray[np.uint32],
    reads: int,
    initial: Tensor | None = None,
) -> Tensor:
    """As :func:`anneal` for sparse QUBOs, linear ``[batch, n]`` and quadratic ``[batch, m]`` on one graph."""
    from qubolearn.kernels.sparse_annealing_triton import anneal as kernel

    state = generators(seeds, reads).to(linear.device)
    return kernel(linear, quadratic, edges.cpu().numpy(), schedules.to(linear.device), sweeps, state, initial)


def _has_triton(A: Tensor) -> bool:
    return A.is_cuda and find_spec("triton") is not None


def _anneal(S: Tensor, schedules: Tensor, sweeps: int, state: Tensor, initial: Tensor | None) -> Tensor:
    n = S.shape[-1]
    linear = S.diagonal(dim1=1, dim2=2)
    couplings = S - torch.diag_embed(linear)
    x = S.new_zeros(*state.shape, n)  # [batch, reads, n]
    for i in range(n):
        state = _next(state)
        x[:, :, i] = state >> 31 if initial is None else initial[:, :, i]
    beta, growth, last = (column[:, None] for column in schedules.unbind(1))
    for _ in range(sweeps):
        for i in range(n):
            state = _next(state)
            field = linear[:, i, None] + (x * couplings[:, None, i]).sum(-1)
            cost = (1 - 2 * x[:, :, i]) * field
            accepted = beta.to(cost.dtype) * cost < -torch.log((state + 0.5) / 2**32)
            x[:, :, i] = torch.where(accepted, 1 - x[:, :, i], x[:, :, i])
        beta = torch.minimum(beta * growth, last)
    return x.to(torch.int8)


def _next(state: Tensor) -> Tensor:
    """xorshift32 in int64, which has room for the bits that a shift pushes out."""
    state = state ^ (state << 13 & 0xFFFFFFFF)
    state = state ^ (state >> 17)
    return state ^ (state << 5 & 0xFFFFFFFF)


def generators(seeds: npt.NDArray[np.uint32], reads: int) -> Tensor:
    """int64 ``[batch, reads]``, each in 1 ... 2**32 - 1: a first state for every read's generator."""
    z = torch.from_numpy(seeds.astype(np.int64))[:, None] * 0x1E3779B9 + torch.arange(1, reads + 1)
    for _ in range(2):  # two rounds of multiplying and folding, modulo 2**32, leave no bit unmixed
        z = (z ^ (z >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    return (z ^ (z >> 16)).clamp(min=1)
