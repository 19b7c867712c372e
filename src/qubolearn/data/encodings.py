"""Permutations as bits: b = ceil(log2 k) per entry, most significant first.

Not all bits encode a permutation: entries may repeat or be k or more.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError

__all__ = [
    "all_permutations",
    "assignments",
    "bits_per_entry",
    "decode_permutation",
    "encode_permutation",
    "nearest_permutation",
]

#: Up to this k, all k! permutations are compared.
MAX_BRUTE_FORCE = 6


def bits_per_entry(k: int) -> int:
    """Return b = ceil(log2 k)."""
    if k < 2:
        raise QubolearnError(f"a permutation of k={k} elements; expected k >= 2")
    return (k - 1).bit_length()


def encode_permutation(P: Tensor) -> Tensor:
    """Encode permutations ``[batch, k]`` of 0 ... k - 1 as float bits ``[batch, k·b]``."""
    if P.ndim != 2 or P.dtype.is_floating_point:
        raise QubolearnError(f"permutations must be integers [batch, k], got {P.dtype} {list(P.shape)}")
    k = P.shape[1]
    b = bits_per_entry(k)
    if P.numel() and not 0 <= int(P.min()) <= int(P.max()) < k:
        raise QubolearnError(f"entries {int(P.min())} ... {int(P.max())}; expected 0 ... {k - 1}")
    return ((P.long()[:, :, None] >> _shifts(b, P.device)) & 1).flatten(1).float()


def decode_permutation(x: Tensor, k: int) -> Tensor:
    """Decode bits ``[batch, k·b]`` to entries ``[batch, k]``, int64."""
    b = _check_bits(x, k)
    return (x.round().long().reshape(len(x), k, b) << _shifts(b, x.device)).sum(-1)


def nearest_permutation(x: Tensor, k: int) -> Tensor:
    """Return the permutation nearest to bits ``[batch, k·b]`` in Hamming distance, as bits.

    It is an exact assignment: value a at entry i costs Hamming(bits of i, code of a).
    Up to k = 6, the lexicographically first of several wins.
    """
    b = _check_bits(x, k)
    bits = x.round().float()
    if k <= MAX_BRUTE_FORCE:
        codes = encode_permutation(all_permutations(k)).to(x.device)  # [k!, k·b]
        # less |x|, the same for all; integers are exact, so rank breaks ties
        distance = codes.sum(1) - 2 * bits @ codes.T
        rank = torch.arange(len(codes), device=x.device) / len(codes)
        return codes[(distance + rank).argmin(1)].to(x.dtype)
    codes = ((torch.arange(k, device=x.device)[:, None] >> _shifts(b, x.device)) & 1).float()  # [k, b]
    cost = torch.cdist(bits.reshape(len(x), k, b), codes.expand(len(x), k, b), p=1)  # [batch, k, k]
    return encode_permutation(assignments(cost)).to(x.device, x.dtype)


@cache
def all_permutations(k: int) -> Tensor:
    """Return all permutations in lexicographic order, ``[k!, k]`` int64, shared: do not modify it."""
    return torch.tensor(list(permutations(range(k))))


def assignments(cost: Tensor) -> Tensor:
    """Return the cheapest assignments ``[batch, k]``, int64 on the CPU."""
    from scipy.optimize import linear_sum_assignment

    columns = [torch.from_numpy(linear_sum_assignment(rows)[1]) for rows in cost.cpu().numpy()]
    return torch.stack(columns) if columns else torch.zeros(cost.shape[:2], dtype=torch.int64)


def _shifts(b: int, device: torch.device) -> Tensor:
    return torch.arange(b - 1, -1, -1, device=device)


def _check_bits(x: Tensor, k: int) -> int:
    b = bits_per_entry(k)
    if x.ndim != 2 or x.shape[1] != k * b:
        raise QubolearnError(f"x is {list(x.shape)}; expected [batch, {k * b}], k={k} entries of {b} bits")
    return b
