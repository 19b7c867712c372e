"""Adam's step of many networks on an NVIDIA GPU in one kernel: plain torch reads and writes them eight times."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["move"]

BLOCK = 1024


@triton.jit
def _move(
    values, slope, first, second, sizes, epsilons, size, KEPT1: tl.constexpr, KEPT2: tl.constexpr, BLOCK: tl.constexpr
):
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    at = run * size + column
    g = tl.load(slope + at, mask=inside, other=0.0)
    m = tl.load(first + at, mask=inside, other=0.0)
    m += (1 - KEPT1) * (g - m)
    v = tl.load(second + at, mask=inside, other=0.0) * KEPT2 + (1 - KEPT2) * g * g
    x = tl.load(values + at, mask=inside, other=0.0) - tl.load(sizes + run) * (
        m / (tl.sqrt(v) + tl.load(epsilons + run))
    )
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)
    tl.store(values + at, x, mask=inside)


def move(
    values: Tensor,
    slope: Tensor,
    first: Tensor,
    second: Tensor,
    sizes: Tensor,
    epsilons: Tensor,
    betas: tuple[float, float],
) -> None:
    """One step in place: ``[runs, size]`` each, contiguous; step sizes and epsilons ``[runs, 1]``."""
    runs, size = values.shape
    _move[(triton.cdiv(size, BLOCK), runs)](
        values, slope, first, second, sizes, epsilons, size, KEPT1=betas[0], KEPT2=betas[1], BLOCK=BLOCK
    )
