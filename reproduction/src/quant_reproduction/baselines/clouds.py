"""Baselines for point clouds: AQM, iterative closest point, and Procrustes.

AQM (Golyanik and Theobalt, CVPR 2020) is planar registration as an analytic QUBO of 21 qubits, the matrix P of
:mod:`quant_reproduction.problems.moments` with its first qubit fixed at 1. Since R = c·I + s·M with c and s from
different qubits, two searches over ten bits each solve it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from quant_reproduction.problems.angles import rotation_2d
from quant_reproduction.problems.moments import BASIS, aqm_matrix, check_clouds, pair_moments
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states
from qubolearn.solvers.contract import Solver

__all__ = ["aqm", "aqm_angle", "aqm_qubo", "icp", "procrustes", "solve_exactly"]


def aqm(
    template: Tensor,
    reference: Tensor,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
    neighbors: int = 3,
    iterations: int = 1,
    solver: Solver | None = None,
) -> Tensor:
    """Return the angle ``[batch]`` that rotates templates ``[batch, m, 2]`` onto references ``[batch, n, 2]``.

    One iteration is the paper's method; with more, the template is rotated and its neighbors are found again. Without a
    solver the QUBO is solved exactly by its structure. Clouds should be centered.
    """
    check_clouds(template, reference, 2)
    if iterations < 1:
        raise QubolearnError(f"expected at least 1 iteration, got {iterations}")
    angle = template.new_zeros(len(template))
    for _ in range(iterations):
        turned = template @ rotation_2d(angle).mT
        moments = pair_moments(turned, reference, neighbors, template_counts, reference_counts)
        numbers = torch.stack(moments[:4], 1)
        q = solve_exactly(numbers) if solver is None else solver(aqm_qubo(numbers), 1).states[:, 0]
        angle = angle + aqm_angle(q)
    return angle


def aqm_qubo(numbers: Tensor) -> Tensor:
    """Return the QUBO of the 20 free qubits, A ``[batch, 20, 20]``, for (xx, yy, dot, cross) ``[batch, 4]``.

    Its energies are those of P minus |x|²: the couplings of the fixed qubit are on the diagonal.
    """
    P = aqm_matrix(numbers)
    return P[:, 1:, 1:] + torch.diag_embed(2 * P[:, 0, 1:])


def aqm_angle(q: Tensor) -> Tensor:
    """Return the angle of R = c·I + s·M ``[batch]`` for bits ``[batch, 20]``; 0 if R = 0."""
    cosine, sine = (q.to(torch.float32) @ BASIS.to(q.device)).unbind(-1)
    return torch.atan2(sine, cosine)


def solve_exactly(numbers: Tensor) -> Tensor:
    """Return the best bits ``[batch, 20]`` for (xx, yy, dot, cross) ``[batch, 4]``, with the fewest ones."""
    _, yy, dot, cross = numbers.double().unbind(1)
    values, bits = (tensor.to(numbers.device) for tensor in _reachable())
    q = torch.zeros(len(numbers), 20, dtype=numbers.dtype, device=numbers.device)
    for part, target in enumerate((dot, cross)):
        energy = values**2 * yy[:, None] - 2 * values * target[:, None]
        q[:, part::2] = bits[energy.argmin(1)].to(q.dtype)
    return q


@cache
def _reachable() -> tuple[Tensor, Tensor]:
    """Return all values of c (and of s) ``[values]``, each with the ten bits ``[values, 10]`` of fewest ones."""
    weights = BASIS[::2, 0].double()  # even basis elements belong to c, odd ones to s
    states = all_states(10, dtype=torch.float64)
    states = states[states.sum(1).argsort(stable=True)]
    sums = (states @ weights).mul(100).round().long()  # all weights are hundredths
    first = {int(value): row for row, value in reversed(list(enumerate(sums)))}
    rows = torch.tensor(list(first.values()))
    return sums[rows].double() / 100, states[rows]


def icp(
    template: Tensor,
    reference: Tensor,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
    starts: Sequence[float] = (0.0,),
    translation: bool = False,
    iterations: int = 100,
) -> Tensor:
    """Return the angle ``[batch]``, in (-π, π], from templates ``[batch, m, 2]`` to references ``[batch, n, 2]``.

    Each template point is matched with its nearest reference point, and the best rotation (or rotation and translation)
    of these matches is applied, until no angle changes. Of several starting angles the one with the smallest final
    mean squared distance is returned. Only the first ``counts`` ``[batch]`` points of each cloud are real. Clouds
    should be centered.

    >>> line = torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]]])
    >>> round(math.degrees(icp(line, line @ rotation_2d(torch.tensor(0.2)).mT)), 2)
    11.46
    """
    check_clouds(template, reference, 2)
    if not starts or iterations < 1:
        raise QubolearnError(f"expected at least 1 start and iteration, got {len(starts)} and {iterations}")
    counts = (template_counts, reference_counts)
    found = [_descend(template, reference, counts, start, translation, iterations) for start in starts]
    angles, distances = (torch.stack(parts) for parts in zip(*found, strict=True))
    best = angles.gather(0, distances.argmin(0)[None])[0]
    return math.pi - torch.remainder(math.pi - best, 2 * math.pi)


def _descend(
    template: Tensor,
    reference: Tensor,
    counts: tuple[Tensor | None, Tensor | None],
    start: float,
    translation: bool,
    iterations: int,
) -> tuple[Tensor, Tensor]:
    """Return angles and mean squared distances ``[batch]`` from one starting angle."""
    batch = len(template)
    angle = torch.full((batch,), start, dtype=torch.float64, device=template.device)
    shift = torch.zeros(batch, 2, dtype=torch.float64, device=template.device)
    distance = torch.zeros_like(angle)
    moving = torch.arange(batch, device=template.device)
    for _ in range(iterations):
        if not len(moving):
            break
        turned = (template[moving].double() @ rotation_2d(angle[moving]).mT + shift[moving, None]).to(template.dtype)
        m = pair_moments(turned, reference[moving], 1, *(None if each is None else each[moving] for each in counts))
        dot, cross = m.dot.double(), m.cross.double()
        if translation:  # rotate about the means of the matches
            dot = dot - (m.x * m.y).sum(1)
            cross = cross - (m.x[:, 1] * m.y[:, 0] - m.x[:, 0] * m.y[:, 1])
        turn = torch.atan2(cross, dot)
        distance[moving] = (m.xx - 2 * m.dot + m.yy).double()
        angle[moving] += turn
        if translation:
            shift[moving] = (rotation_2d(turn) @ (shift[moving] - m.y)[..., None])[..., 0] + m.x
        moving = moving[turn.abs() > 1e-6]
    return angle, distance


def procrustes(H: Tensor) -> Tensor:
    """Return argmax_R tr(RᵀH) over rotations ``[batch, d, d]``, which is argmin_R Σ |x - R y|² for H = Σ x yᵀ.

    R = U diag(1, ..., 1, det(UVᵀ)) Vᵀ with H = U S Vᵀ; the determinant excludes reflections. If H does not determine
    the rotation, one of the best is returned.

    >>> procrustes(torch.tensor([[[0.0, -2.0], [1.0, 0.0]]])).round().tolist()
    [[[0.0, -1.0], [1.0, 0.0]]]
    """
    if H.ndim != 3 or H.shape[1] != H.shape[2] or not H.dtype.is_floating_point:
        raise QubolearnError(f"expected covariances [batch, d, d] in floats, got {H.dtype} {list(H.shape)}")
    if not bool(torch.isfinite(H).all()):
        raise QubolearnError("expected finite covariances; check the clouds for NaN")
    U, _, Vh = torch.linalg.svd(H.double())
    sign = torch.ones_like(H[:, 0], dtype=torch.float64)
    sign[:, -1] = torch.linalg.det(U @ Vh)
    R: Tensor = (U * sign[:, None]) @ Vh
    return R.to(H.dtype)
