"""AQM: planar registration as an analytic QUBO of 21 qubits (Golyanik and Theobalt, CVPR 2020).

The matrix P of :mod:`qubolearn.paper.problems.moments` is the QUBO, with its first qubit fixed at 1. Since R = c·I +
s·M with c and s from different qubits, its energy is |x|² - 2(c·dot + s·cross) + (c² + s²)|y|²: two searches over ten
bits each solve it exactly. Any other solver takes the 20 free qubits as they are.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.problems.angles import rotation_2d
from qubolearn.paper.problems.moments import BASIS, aqm_matrix, check_clouds, pair_moments
from qubolearn.qubo import all_states
from qubolearn.solvers.contract import Solver

__all__ = ["aqm", "aqm_angle", "aqm_qubo", "solve_exactly"]


def aqm(
    template: Tensor,
    reference: Tensor,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
    neighbours: int = 3,
    iterations: int = 1,
    solver: Solver | None = None,
) -> Tensor:
    """The angle ``[batch]`` by which templates ``[batch, m, 2]`` turn onto references ``[batch, n, 2]``.

    One iteration is the paper's method; with more, the template is turned and its neighbours are found anew.
    Without a solver the QUBO is solved exactly by its structure. Clouds should be centred.
    """
    check_clouds(template, reference, 2)
    if iterations < 1:
        raise QubolearnError(f"{iterations} iterations; want at least 1")
    angle = template.new_zeros(len(template))
    for _ in range(iterations):
        turned = template @ rotation_2d(angle).mT
        moments = pair_moments(turned, reference, neighbours, template_counts, reference_counts)
        numbers = torch.stack(moments[:4], 1)
        q = solve_exactly(numbers) if solver is None else solver(aqm_qubo(numbers), 1).states[:, 0]
        angle = angle + aqm_angle(q)
    return angle


def aqm_qubo(numbers: Tensor) -> Tensor:
    """The QUBO of the 20 free qubits: (xx, yy, dot, cross) ``[batch, 4]`` -> A ``[batch, 20, 20]``.

    Its energies are those of P less |x|²: the fixed qubit's couplings go to the diagonal.
    """
    P = aqm_matrix(numbers)
    return P[:, 1:, 1:] + torch.diag_embed(2 * P[:, 0, 1:])


def aqm_angle(q: Tensor) -> Tensor:
    """Bits ``[batch, 20]`` -> the angle of R = c·I + s·M ``[batch]``; 0 where R = 0."""
    cosine, sine = (q.to(torch.float32) @ BASIS.to(q.device)).unbind(-1)
    return torch.atan2(sine, cosine)


def solve_exactly(numbers: Tensor) -> Tensor:
    """The best bits ``[batch, 20]`` for (xx, yy, dot, cross) ``[batch, 4]``; of several, those with the fewest ones."""
    _, yy, dot, cross = numbers.double().unbind(1)
    values, bits = (tensor.to(numbers.device) for tensor in _reachable())
    q = torch.zeros(len(numbers), 20, dtype=numbers.dtype, device=numbers.device)
    for part, target in enumerate((dot, cross)):
        energy = values**2 * yy[:, None] - 2 * values * target[:, None]
        q[:, part::2] = bits[energy.argmin(1)].to(q.dtype)
    return q


@cache
def _reachable() -> tuple[Tensor, Tensor]:
    """All values of c (and of s) ``[values]``, each with its cheapest ten bits ``[values, 10]``."""
    weights = BASIS[::2, 0].double()  # every other basis element speaks of c, with the same weights as the others of s
    states = all_states(10, dtype=torch.float64)
    states = states[states.sum(1).argsort(stable=True)]
    sums = (states @ weights).mul(100).round().long()  # all weights are hundredths
    first = {int(value): row for row, value in reversed(list(enumerate(sums)))}
    rows = torch.tensor(list(first.values()))
    return sums[rows].double() / 100, states[rows]
