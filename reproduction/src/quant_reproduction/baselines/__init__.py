"""Problem-specific baselines without learning.

AQM (Golyanik and Theobalt, CVPR 2020) registers planar clouds by a QUBO of 21 qubits, the first
fixed at 1. Since R = c·I + s·M with c and s from different qubits, two searches over ten bits
each solve it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.baselines.graphs import Variant, direct, qgm
from quant_reproduction.problems import clouds
from quant_reproduction.problems.clouds import BASIS, check_clouds, pair_moments, rotation_2d
from quant_reproduction.problems.pointset import CloudPairs, PointSet
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.evaluation import Evaluation, evaluate_answers, evaluate_bits
from qubolearn.problems import Instances, Problem, Split
from qubolearn.problems.knapsack import Knapsack, greedy_by_density
from qubolearn.problems.maxcut import MaxCut, cut_sizes
from qubolearn.qubo import all_states
from qubolearn.random import stream
from qubolearn.solvers import Solver

#: (problem, instances or clouds, solver, seed) -> answers, or bits
Baseline = Callable[[Any, Any, Solver, int], Tensor]


def by_guessing(problem: Problem, data: Any, solver: Solver, seed: int) -> Tensor:
    """Return random permutations, or random bits."""
    generator, answer = stream(seed, "guess"), data.angle if isinstance(data, CloudPairs) else data.answer
    if problem.name in _GRAPHS:
        return torch.rand(answer.shape, generator=generator).argsort(-1)
    return problem.decode(torch.randint(2, (len(answer), problem.bits), generator=generator).float())


def by_qgm(variant: Variant, problem: Problem, data: Instances, solver: Solver, seed: int) -> Tensor:
    """Decode the minimizer of QGM's QUBO."""
    made = qgm(_weights(data), variant)
    return made.decode(solver(made.A, 1).states[:, 0])


def _weights(data: Instances) -> Tensor:
    side = math.isqrt(data.p.shape[1])
    W: Tensor = data.p.reshape(-1, side, side)
    return W


def by_procrustes(problem: Problem, data: Instances, solver: Solver, seed: int) -> Tensor:
    """Return the rotation closest to the covariance as α, β, γ, |β| < π/2."""
    R = procrustes(clouds.cross_covariance(data.p.double()))
    alpha, gamma = torch.atan2(R[:, 1, 0], R[:, 0, 0]), torch.atan2(R[:, 2, 1], R[:, 2, 2])
    return torch.stack([alpha, -torch.asin(R[:, 2, 0].clamp(-1, 1)), gamma], 1)


def _aligned(method: Callable[..., Tensor], pairs: CloudPairs, **options: Any) -> Tensor:
    return method(pairs.template, pairs.reference, pairs.template_counts, pairs.reference_counts, **options)


_GRAPHS = ("randgraph", "willow")
#: A quarter and three quarters of the range of angles, in radians.
TWO_STARTS = (math.radians(15), math.radians(45))
#: Random starts of local search for max-cut.
RESTARTS = 30
#: name -> (problems, method)
BASELINES: Mapping[str, tuple[tuple[str, ...], Baseline]] = {
    "direct": (_GRAPHS, lambda problem, data, *_: direct(_weights(data))),
    "qgm-baseline": (_GRAPHS, partial(by_qgm, "baseline")),
    "qgm-row-wise": (_GRAPHS, partial(by_qgm, "row-wise")),
    "qgm-inserted": (_GRAPHS, partial(by_qgm, "inserted")),
    "aqm": (("pointset",), lambda problem, pairs, *_: _aligned(aqm, pairs)),
    "aqm-iterated": (("pointset",), lambda problem, pairs, *_: _aligned(aqm, pairs, iterations=10)),
    "icp": (("pointset",), lambda problem, pairs, *_: _aligned(icp, pairs)),
    "icp-two-starts": (("pointset",), lambda problem, pairs, *_: _aligned(icp, pairs, starts=TWO_STARTS)),
    "procrustes": (("rotation",), by_procrustes),
    "local-search": (("maxcut",), lambda problem, data, *_: local_search(problem, data.p)),
    "restarts": (("maxcut",), lambda problem, data, _, seed: local_search(problem, data.p, RESTARTS, seed)),
    "greedy": (("knapsack",), lambda problem, data, *_: greedy_by_density(problem, data.p)),
    "three-flips": (("knapsack",), lambda problem, data, *_: three_flips(problem, data.p)),
    "guess": ((*_GRAPHS, "pointset", "rotation"), by_guessing),
}


def evaluate_baseline(
    name: str, problem: Problem, solver: Solver, count: int = 1000, seed: int = 0, split: Split = "test"
) -> Evaluation:
    """Return a baseline's metrics on the instances that ``evaluate`` draws on a CPU."""
    if name not in BASELINES:
        raise unknown_name("baseline", name, BASELINES)
    problems, method = BASELINES[name]
    if problem.name not in problems:
        raise QubolearnError(f"expected {' or '.join(problems)} for baseline {name}, got {problem.name}")
    draw = problem.sample_pairs if isinstance(problem, PointSet) else problem.sample
    data: Any = draw(count, stream(seed, split), split)
    found = method(problem, data, solver, seed)
    if problem.name in ("maxcut", "knapsack"):
        return evaluate_bits(problem, found, data)
    truth = data.angle if isinstance(data, CloudPairs) else data.answer
    return evaluate_answers(problem, found, Instances(None, truth, truth))


def local_search(problem: MaxCut, p: Tensor, restarts: int = 0, seed: int = 0) -> Tensor:
    """Cut greedily, and from random starts, then by the best single moves."""
    n, rows, generator = problem.nodes, torch.arange(len(p)), stream(seed, "restarts")
    i, j = torch.triu_indices(n, n, 1)
    W = p.new_zeros(len(p), n, n)
    W[:, i, j] = W[:, j, i] = p
    best = p.new_zeros(len(p), n)
    for start in range(1 + restarts):
        side = p.new_zeros(len(p), n)
        if start:
            side = 2.0 * torch.randint(2, (len(p), n), generator=generator) - 1
        for node in () if start else range(n):
            side[:, node] = torch.where((W[:, node] * side).sum(1) > 0, -1.0, 1.0)
        for _ in range(problem.input_size):  # each round cuts an edge more, or ends
            gain = side * (W @ side[:, :, None])[..., 0]  # of moving a node
            moved = gain.argmax(1)
            side[rows, moved] *= torch.where(gain[rows, moved] > 0, -1.0, 1.0)
        x = (side != side[:, :1]).to(p.dtype)
        best = torch.where((cut_sizes(x, p) > cut_sizes(best, p))[:, None], x, best)
    return best


def three_flips(problem: Knapsack, p: Tensor) -> Tensor:
    """Pack greedily, then change one to three items while that raises the value."""
    values, weights, capacity = p[:, : problem.items], p[:, problem.items : -1], p[:, -1:]
    states = all_states(problem.items)
    flips = states[(states.sum(1) > 0) & (states.sum(1) <= 3)]
    x, better = greedy_by_density(problem, p), True
    while better:
        around = (x[:, None] - flips).abs()  # [batch, changes, items]
        worth = (around @ values[:, :, None])[..., 0]
        worth = worth.masked_fill((around @ weights[:, :, None])[..., 0] > capacity, -1.0)
        most, change = worth.max(1)
        gained = most > (x * values).sum(1)
        x = torch.where(gained[:, None], around[torch.arange(len(x)), change], x)
        better = bool(gained.any())
    return x


def aqm(
    template: Tensor,
    reference: Tensor,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
    neighbors: int = 3,
    iterations: int = 1,
) -> Tensor:
    """Return the angle ``[batch]`` from templates ``[batch, m, 2]`` to references ``[batch, n, 2]``.

    One iteration is the paper's method. Clouds should be centered.
    """
    check_clouds(template, reference, 2)
    angle = template.new_zeros(len(template))
    for _ in range(iterations):
        turned = template @ rotation_2d(angle).mT
        moments = pair_moments(turned, reference, neighbors, template_counts, reference_counts)
        angle = angle + aqm_angle(solve_exactly(torch.stack(moments[:4], 1)))
    return angle


def aqm_angle(q: Tensor) -> Tensor:
    """Return the angle of c·I + s·M for bits ``[batch, 20]``; 0 if both are 0."""
    cosine, sine = (q.to(torch.float32) @ BASIS.to(q.device)).unbind(-1)
    return torch.atan2(sine, cosine)


def solve_exactly(numbers: Tensor) -> Tensor:
    """Return the best bits ``[batch, 20]`` for (xx, yy, dot, cross) ``[batch, 4]``."""
    _, yy, dot, cross = numbers.double().unbind(1)
    values, bits = (tensor.to(numbers.device) for tensor in _reachable())
    q = torch.zeros(len(numbers), 20, dtype=numbers.dtype, device=numbers.device)
    for part, target in enumerate((dot, cross)):
        energy = values**2 * yy[:, None] - 2 * values * target[:, None]
        q[:, part::2] = bits[energy.argmin(1)].to(q.dtype)
    return q


@cache
def _reachable() -> tuple[Tensor, Tensor]:
    """Return all values of c (and of s), each with its fewest bits."""
    weights = BASIS[::2, 0].double()  # even elements belong to c
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
) -> Tensor:
    """Return the angle ``[batch]``, in (-π, π], from templates ``[batch, m, 2]`` to references ``[batch, n, 2]``.

    Of several starts the one with the smallest final error is returned. Only the first
    ``counts`` points of each cloud are real. Clouds should be centered.
    """
    check_clouds(template, reference, 2)
    counts = (template_counts, reference_counts)
    found = [_descend(template, reference, counts, start) for start in starts]
    angles, distances = (torch.stack(parts) for parts in zip(*found, strict=True))
    best = angles.gather(0, distances.argmin(0)[None])[0]
    return math.pi - torch.remainder(math.pi - best, 2 * math.pi)


def _descend(
    template: Tensor, reference: Tensor, counts: Sequence[Tensor | None], start: float
) -> tuple[Tensor, Tensor]:
    """Return angles and mean squared distances ``[batch]`` after at most 100 rounds."""
    moving = torch.arange(len(template), device=template.device)
    angle = torch.full_like(moving, start, dtype=torch.float64)
    distance = torch.zeros_like(angle)
    for _ in range(100):
        if not len(moving):
            break
        turned = (template[moving].double() @ rotation_2d(angle[moving]).mT).to(template.dtype)
        real = [None if each is None else each[moving] for each in counts]
        m = pair_moments(turned, reference[moving], 1, *real)
        turn = torch.atan2(m.cross.double(), m.dot.double())
        distance[moving] = (m.xx - 2 * m.dot + m.yy).double()
        angle[moving] += turn
        moving = moving[turn.abs() > 1e-6]
    return angle, distance


def procrustes(H: Tensor) -> Tensor:
    """Return argmax_R tr(RᵀH) over rotations ``[batch, d, d]``, which is argmin_R Σ |x - R y|² for H = Σ x yᵀ.

    R = U diag(1, ..., 1, det(UVᵀ)) Vᵀ with H = U S Vᵀ, without reflections.
    """
    U, _, Vh = torch.linalg.svd(H.double())
    sign = torch.ones_like(H[:, 0], dtype=torch.float64)
    sign[:, -1] = torch.linalg.det(U @ Vh)
    R: Tensor = (U * sign[:, None]) @ Vh
    return R.to(H.dtype)
