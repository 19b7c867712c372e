"""Permutations as one-hot bits: bit ``i * k + a`` of k² bits is 1 where P(i) = a. The bits of each i are a row."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.encodings import assignments

__all__ = ["KeypointPair", "decode_matching", "encode_matching", "nearest_matching"]


class KeypointPair(NamedTuple):
    """Keypoints of two images each, in an order of their own."""

    features: Tensor  # [batch, 2, k, m], what lies there
    points: Tensor  # [batch, 2, k, 2], where it lies

    def flat(self) -> Tensor:
        """Both in one tensor ``[batch, 2 * k * (m + 2)]``, as files and commands want p."""
        return torch.cat([self.features, self.points], -1).flatten(1)

    @classmethod
    def from_flat(cls, p: Tensor, features: int) -> KeypointPair:
        """The pair that :meth:`flat` made, with m = ``features``.

        >>> pair = KeypointPair(torch.rand(3, 2, 4, 6), torch.rand(3, 2, 4, 2))
        >>> KeypointPair.from_flat(pair.flat(), 6).points.equal(pair.points)
        True
        """
        if p.ndim != 2 or p.shape[1] % (2 * (features + 2)):
            raise QubolearnError(f"p has shape {list(p.shape)}; want [batch, 2 k (m + 2)] with m={features} features")
        parts = p.reshape(len(p), 2, -1, features + 2)
        return cls(parts[..., :features], parts[..., features:])


def encode_matching(P: Tensor) -> Tensor:
    """Permutations ``[batch, k]`` as bits ``[batch, k²]``, float32.

    >>> encode_matching(torch.tensor([[1, 0]])).tolist()
    [[0.0, 1.0, 1.0, 0.0]]
    """
    return torch.nn.functional.one_hot(P, P.shape[1]).flatten(1).float()


def decode_matching(x: Tensor) -> Tensor:
    """Bits ``[batch, k²]`` as entries ``[batch, k]``, int64; -1 where not exactly one bit of a row is 1."""
    rows = _rows(x)
    return torch.where(rows.sum(2) == 1, rows.argmax(2), -1)


def nearest_matching(x: Tensor) -> Tensor:
    """Bits ``[batch, k²]`` -> the bits of a permutation at the least Hamming distance (Hungarian algorithm).

    >>> nearest_matching(torch.tensor([[0.0, 1.0, 0.0, 0.0]])).tolist()
    [[0.0, 1.0, 1.0, 0.0]]
    """
    return encode_matching(assignments(-_rows(x))).to(x.device, x.dtype)


def _rows(x: Tensor) -> Tensor:
    """``[batch, k²]`` -> ``[batch, k, k]``."""
    k = math.isqrt(x.shape[-1])
    if x.ndim != 2 or k * k != x.shape[1]:
        raise QubolearnError(f"a matching of k things is k² bits; want x [batch, k²], got {list(x.shape)}")
    return x.reshape(-1, k, k)
