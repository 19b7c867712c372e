"""Programming an annealer: h and J scaled to its ranges, with control errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError

__all__ = ["EXTENDED_J_RANGE", "H_RANGE", "J_RANGE", "Programmed", "scaled", "with_control_errors"]

Range = tuple[float, float]

#: What D-Wave's Advantage lets one program; the extended range of J is meant for chains.
H_RANGE = (-4.0, 4.0)
J_RANGE = (-1.0, 1.0)
EXTENDED_J_RANGE = (-2.0, 1.0)


class Programmed(NamedTuple):
    """Ising problems as the machine runs them, a row for each instance and programming."""

    J: Tensor  # [rows, qubits, qubits], upper triangular
    h: Tensor  # [rows, qubits]
    uniforms: Tensor  # [rows, reads], the randomness of the measurements


def scaled(J: Tensor, h: Tensor, J_range: Range, auto_scale: bool = True) -> tuple[Tensor, Tensor]:
    """J ``[batch, n, n]``, h ``[batch, n]``, each instance scaled to fill the ranges; else they must lie within."""
    shares = [(h / limit).amax(1) for limit in H_RANGE] + [(J / limit).amax((1, 2)) for limit in J_range]
    share = torch.stack(shares).amax(0)
    if auto_scale:
        share = torch.where(share > 0, share, 1.0)
        return J / share[:, None, None], h / share[:, None]
    if (share > 1).any():
        raise QubolearnError(
            f"|h| reaches {float(h.abs().max()):.3g} and |J| {float(J.abs().max()):.3g}, but the ranges are "
            f"{list(H_RANGE)} and {list(J_range)}; scale A down or set auto_scale=True"
        )
    return J, h


def with_control_errors(
    J: Tensor, h: Tensor, J_error: float, h_error: float, programmings: int, reads: int, seeds: npt.NDArray[np.uint32]
) -> Programmed:
    """Gaussian errors on every h and every J that is not 0, drawn for each programming; instance i from seeds[i]."""
    batch, n = h.shape
    dJ = np.empty((batch, programmings, n, n))
    dh = np.empty((batch, programmings, n))
    uniforms = np.empty((batch, programmings, reads // programmings))
    for i, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        rng.standard_normal(out=dJ[i])
        rng.standard_normal(out=dh[i])
        rng.random(out=uniforms[i])
    dJ_rows, dh_rows, uniform_rows = (torch.as_tensor(x, device=h.device).flatten(0, 1) for x in (dJ, dh, uniforms))
    J, h = (x.repeat_interleave(programmings, 0) for x in (J, h))
    return Programmed(J + J_error * (J != 0) * dJ_rows, h + h_error * dh_rows, uniform_rows)
