"""From the reads of any sampler to the ``count`` lowest states around them: what completes x⁺.

x⁺ differs from x* in some bit, so flip each bit of x* in turn and descend with that bit held; and without ties x⁺ is
a neighbour of x* or a local minimum, so the neighbours of x* are candidates too.
"""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from qubolearn.solvers.forms import DenseForm

__all__ = ["clamped_descents", "neighbourhood", "with_second_best"]

#: Bits from which on a CPU the compiled local search does it: it offers the few
#: lowest states alone, where torch would compute the energies of thousands.
COMPILED_BITS = 128


def with_second_best(A: Tensor, states: Tensor, count: int) -> Tensor:
    """States ``[batch, c, n]``, the best of each QUBO first, and what completes them to ``count`` distinct ones."""
    best = states[:, 0]
    if A.is_cpu and best.shape[-1] >= COMPILED_BITS:
        reads = best[:, None].to(torch.int8).contiguous().numpy()
        around = torch.from_numpy(DenseForm(A).refine(reads, count)[0])
        return torch.cat([states, around.to(states.dtype)], dim=1)
    nearby = (best[:, None] - neighbourhood(best.shape[-1], count).to(best)).abs()
    return torch.cat([states, nearby, clamped_descents(A, best).to(best.dtype)], dim=1)


def neighbourhood(n: int, count: int) -> Tensor:
    """All masks ``[m, n]`` of at most r flips, r >= 1 as small as gives ``count`` of them; int8.

    >>> neighbourhood(3, 2).tolist()
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    flips: list[tuple[int, ...]] = [()]
    radius = 0
    while radius < 1 or (len(flips) < count and radius < n):
        radius += 1
        flips.extend(combinations(range(n), radius))
    masks = torch.zeros(len(flips), n, dtype=torch.int8)
    for row, bits in enumerate(flips):
        masks[row, list(bits)] = 1
    return masks


def clamped_descents(A: Tensor, best: Tensor) -> Tensor:
    """Row i: from best ``[batch, n]`` flip bit i, then steepest descent over the other bits: ``[batch, n, n]``.

    x⁺ = argmin over i of min {E(x) : x_i ≠ x*_i}. The descent answers the inner minimum heuristically, and its
    rows are never worse than the neighbours of x* that they start from.
    """
    batch, n = best.shape
    A = A.to(torch.float64)
    linear = A.diagonal(dim1=-2, dim2=-1)
    couplings = A + A.mT - 2 * torch.diag_embed(linear)
    noise = 1e-14 * (linear.abs() + couplings.abs().sum(1))  # of a field that was added up, far below any true change
    start = best.to(A)
    eye = torch.eye(n, dtype=A.dtype, device=A.device)
    x = (start[:, None] - eye).abs().flatten(0, 1)  # [batch * n, n]
    fields = (linear + (start[:, None] @ couplings)[:, 0])[:, None] + (1 - 2 * start)[..., None] * couplings
    fields = fields.flatten(0, 1)  # of row i: how the energy changes where bit j of it goes from 0 to 1
    row = torch.arange(batch * n, device=A.device)  # the rows that still descend
    for _ in range(4 * n):  # far more than a descent takes; bounded because rounding could make it cycle
        change = (1 - 2 * x[row]) * fields[row]
        lowest, flip = change.scatter(1, row[:, None] % n, 0.0).min(dim=1)
        going = lowest < -noise[row // n, flip]
        row, flip = row[going], flip[going]
        if not len(row):
            break
        step = 1 - 2 * x[row, flip]
        fields[row] += step[:, None] * couplings[row // n, flip]
        x[row, flip] += step
    return x.view(batch, n, n)
