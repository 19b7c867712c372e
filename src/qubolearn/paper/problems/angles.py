"""Numbers as bits, rotations, and how far apart two of them are.

A number in [low, high) is one of 2ᵇ equal bins, and the bin's number is written in b bits, most significant first,
in plain binary or in Gray code, where neighbouring bins differ in a single bit. All angles are radians; errors that
people read are degrees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.problems.contract import SoftTargets

__all__ = [
    "MAX_BITS",
    "PAPER_CLOUDS",
    "AngleBins",
    "Encoding",
    "best_clouds",
    "bits_to_index",
    "geodesic_so2",
    "geodesic_so3",
    "index_to_bits",
    "rotation_2d",
    "rotation_3d",
]

Encoding = Literal["binary", "gray"]

MAX_BITS = 24  # bins of one number are counted in float32 here and there, which is exact up to 2**24


def index_to_bits(index: Tensor, bits: int, encoding: Encoding = "binary") -> Tensor:
    """Bin numbers ``[...]`` -> bits ``[..., bits]``, float32.

    >>> index_to_bits(torch.tensor([1, 2]), 3).tolist(), index_to_bits(torch.tensor([1, 2]), 3, "gray").tolist()
    ([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    """
    code = index ^ (index >> 1) if encoding == "gray" else index
    return ((code[..., None] >> torch.arange(bits - 1, -1, -1, device=index.device)) & 1).float()


def bits_to_index(x: Tensor, encoding: Encoding = "binary") -> Tensor:
    """Bits ``[..., bits]`` -> bin numbers ``[...]``, int64; the inverse of :func:`index_to_bits`."""
    bits = x.shape[-1]
    digits = x.round().long()
    if encoding == "gray":
        digits = digits.cumsum(-1) & 1  # bit i of the number is the parity of bits 0 ... i of its Gray code
    return (digits << torch.arange(bits - 1, -1, -1, device=x.device)).sum(-1)


@dataclass(frozen=True)
class AngleBins:
    """Angles in [low, high] as one of 2**bits equal bins; the bin's centre stands for all of it.

    >>> bins = AngleBins(0.0, 1.0, 2)
    >>> bins.decode(bins.encode(torch.tensor([0.3, 1.0]))).tolist()
    [0.375, 0.875]
    """

    low: float
    high: float
    bits: int
    encoding: Encoding = "binary"

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise QubolearnError(f"{self.bits} bits for an angle; want 1 to {MAX_BITS}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise QubolearnError(f"angles from {self.low} to {self.high}; want finite numbers, the first one smaller")
        if self.encoding not in ("binary", "gray"):
            raise unknown_name("encoding", self.encoding, ("binary", "gray"))

    @property
    def width(self) -> float:
        """What one bin spans; half of it is the largest error of the grid, a quarter the mean one."""
        return (self.high - self.low) / (1 << self.bits)

    def encode(self, angle: Tensor) -> Tensor:
        """Angles ``[...]`` -> bits ``[..., bits]``; ``high`` itself falls into the last bin."""
        slack = 1e-6 * (self.high - self.low)  # of float32
        outside = ~((angle >= self.low - slack) & (angle <= self.high + slack))  # NaN is outside, too
        if bool(outside.any()):
            value = angle[outside][0].item()
            raise QubolearnError(
                f"angle {value:.6g} is outside of [{self.low:.6g}, {self.high:.6g}], which is what the "
                f"{self.bits} bits can say; widen the range"
            )
        index = ((angle.double() - self.low) / self.width).long().clamp_(0, 2**self.bits - 1)
        return index_to_bits(index, self.bits, self.encoding)

    def decode(self, x: Tensor) -> Tensor:
        """Bits ``[..., bits]`` -> centres of their bins ``[...]``, float32."""
        if x.shape[-1:] != (self.bits,):
            raise QubolearnError(
                f"an angle of {self.bits} bits wants x of shape [..., {self.bits}], got {list(x.shape)}"
            )
        return (self.low + (bits_to_index(x, self.encoding).double() + 0.5) * self.width).float()

    def soft_targets(self, x: Tensor, sigma: float) -> SoftTargets:
        """The bins around x ``[batch, bits]`` -> states ``[batch, t, bits]`` and weights ``[batch, t]``, summing to 1.

        Weights fall like a Gaussian of ``sigma`` bins, cut at 3 sigma and at both ends of the range.
        """
        reach = min(math.ceil(3 * sigma), 2**self.bits - 1)
        offset = torch.arange(-reach, reach + 1, device=x.device)
        index = bits_to_index(x, self.encoding)[:, None] + offset
        inside = (index >= 0) & (index < 2**self.bits)
        weight = torch.exp(-0.5 * (offset / sigma) ** 2) * inside
        states = index_to_bits(index.clamp(0, 2**self.bits - 1), self.bits, self.encoding)
        return SoftTargets(states, weight / weight.sum(1, keepdim=True))


def geodesic_so2(angle: Tensor, other: Tensor) -> Tensor:
    """The distance of two plane rotations, angles ``[...]`` -> degrees in [0, 180] ``[...]``.

    >>> geodesic_so2(torch.tensor(0.1), torch.tensor(0.1 + 2 * math.pi)).item() < 1e-4
    True
    """
    return torch.rad2deg((torch.remainder(angle - other + math.pi, 2 * math.pi) - math.pi).abs())


def geodesic_so3(R: Tensor, other: Tensor) -> Tensor:
    """The angle of RᵀR', rotations ``[..., 3, 3]`` -> degrees in [0, 180] ``[...]``.

    From the chord, ‖R - R'‖ = 2√2 sin(angle / 2): the usual arccos of the trace loses half of the digits near 0.
    """
    chord = torch.linalg.matrix_norm(R.double() - other.double())
    return torch.rad2deg(2 * torch.asin((chord / math.sqrt(8)).clamp(max=1))).to(R.dtype)


def rotation_2d(angle: Tensor) -> Tensor:
    """Counter-clockwise rotations by angles ``[...]`` -> ``[..., 2, 2]``."""
    c, s = torch.cos(angle), torch.sin(angle)
    return torch.stack([c, -s, s, c], -1).reshape(*angle.shape, 2, 2)


def rotation_3d(angle: Tensor, axis: int) -> Tensor:
    """Rotations by angles ``[...]`` about the axis 0, 1 or 2 (x, y, z) -> ``[..., 3, 3]``."""
    plane = rotation_2d(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = torch.eye(3, dtype=plane.dtype, device=plane.device).repeat(*angle.shape, 1, 1)
    R[..., i, i], R[..., i, j] = plane[..., 0, 0], plane[..., 0, 1]
    R[..., j, i], R[..., j, j] = plane[..., 1, 0], plane[..., 1, 1]
    return R


#: What the preset `paper` chooses for both kinds of clouds.
PAPER_CLOUDS: Mapping[str, Any] = {
    "loss": "gap",
    "solver": "exhaustive",
    "standardise": False,
    "topology": "dense",
    "epochs": 20,
    "batch_size": 32,
}


def best_clouds(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the preset `best` chooses for both: the likelihood of the angle's neighbouring bins, where these count."""
    size = {"topology": "dense", "beta": 10.0, "batch_size": 512, "instances": 51_200}
    loss = "soft-nll" if options.get("soft_width", 2.0) else "nll"
    return {"loss": loss, "schedule": "cosine", "fresh": True, "weight_mlp": 0.0, **size}
