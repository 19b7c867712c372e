"""The methods to beat: problem-specific, without learning. One file per method.

A baseline is a function ``(problem, count, seed, split, solver) -> (answers, true answers)``; the table below says
which problem each belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.problems import Instances, Problem, Split
from qubolearn.randomness import stream

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.evaluation import Evaluation
    from qubolearn.solvers import Solver

__all__ = ["BASELINES", "Answers", "evaluate_baseline"]


class Answers(NamedTuple):
    """What a method found, and what is right: answers, or bits and the instances where these may have several."""

    found: Tensor  # [batch, ...]
    true: Tensor | Instances  # [batch, ...]


Baseline = Callable[[Problem, int, int, Split, "Solver"], Answers]


def _assignments(problem: Problem, count: int, seed: int, split: Split) -> tuple[Tensor, Tensor]:
    """W ``[count, k², k²]`` of instances of graph matching, and their permutations."""
    data = problem.sample(count, stream(seed, split), split)
    side = round(data.p.shape[1] ** 0.5)
    return data.p.reshape(count, side, side), data.answer


def by_direct_search(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """The best of all permutations."""
    from qubolearn.paper.baselines.direct import direct as search

    W, P = _assignments(problem, count, seed, split)
    return Answers(search(W), P)


def by_guessing(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """Random answers: a random permutation, or bits by chance."""
    import torch

    data = problem.sample(count, stream(seed, split), split)
    generator = stream(seed, "guess")
    if problem.name in _GRAPHS:
        return Answers(torch.rand(data.answer.shape, generator=generator).argsort(-1), data.answer)
    return Answers(problem.decode(torch.randint(2, (count, problem.bits), generator=generator).float()), data.answer)


def by_qgm(variant: str) -> Baseline:
    """The permutation that the minimiser of QGM's QUBO says."""

    def run(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
        from qubolearn.paper.baselines.qgm import qgm as build

        W, P = _assignments(problem, count, seed, split)
        made = build(W, variant)  # type: ignore[arg-type]
        return Answers(made.decode(solver(made.A, 1).states[:, 0]), P)

    return run


def by_procrustes(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """The rotation closest to the covariance, as Euler angles."""
    from qubolearn.paper.baselines.procrustes import procrustes as closest
    from qubolearn.paper.problems.rotation import cross_covariance

    data = problem.sample(count, stream(seed, split), split)
    return Answers(_euler_angles(closest(cross_covariance(data.p.double()))), data.answer)


def _euler_angles(R: Tensor) -> Tensor:
    """α, β, γ ``[batch, 3]`` of R = R_z(α) R_y(β) R_x(γ) ``[batch, 3, 3]``, |β| < π/2."""
    import torch

    alpha = torch.atan2(R[:, 1, 0], R[:, 0, 0])
    beta = -torch.asin(R[:, 2, 0].clamp(-1, 1))
    gamma = torch.atan2(R[:, 2, 1], R[:, 2, 2])
    return torch.stack([alpha, beta, gamma], 1)


def by_icp(starts_degrees: Sequence[float]) -> Baseline:
    """Iterative closest points, on the point sets themselves, from one or several starting angles."""

    def run(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
        from qubolearn.paper.baselines.icp import icp as align

        template, reference, *counts, angle = _pairs(problem, count, seed, split)
        starts = [math.radians(start) for start in starts_degrees]
        return Answers(align(template, reference, counts[0], counts[1], starts), angle)

    return run


def by_aqm(iterations: int) -> Baseline:
    """AQM's analytic QUBO, solved exactly; once as in the paper, or again with re-matched neighbours."""

    def run(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
        from qubolearn.paper.baselines.aqm import aqm as align

        template, reference, *counts, angle = _pairs(problem, count, seed, split)
        return Answers(align(template, reference, counts[0], counts[1], iterations=iterations), angle)

    return run


def by_local_search(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """Cuts that no single node improves."""
    from qubolearn.problems.maxcut import MaxCut, local_search

    assert isinstance(problem, MaxCut)
    data = problem.sample(count, stream(seed, split), split)
    return Answers(local_search(problem, data.p), data)


def by_greedy_packing(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """The items of the most value per weight that fit."""
    from qubolearn.problems.knapsack import Knapsack, greedy_by_density

    assert isinstance(problem, Knapsack)
    data = problem.sample(count, stream(seed, split), split)
    return Answers(greedy_by_density(problem, data.p), data)


def _pairs(problem: Problem, count: int, seed: int, split: Split) -> tuple[Tensor, ...]:
    from qubolearn.paper.problems.pointset import PointSet

    assert isinstance(problem, PointSet)
    return problem.sample_pairs(count, stream(seed, split), split)


_GRAPHS = ("randgraph", "willow")
#: name -> (the problems that it solves, the method)
BASELINES: Mapping[str, tuple[tuple[str, ...], Baseline]] = {
    "direct": (_GRAPHS, by_direct_search),
    "qgm-baseline": (_GRAPHS, by_qgm("baseline")),
    "qgm-row-wise": (_GRAPHS, by_qgm("row-wise")),
    "qgm-inserted": (_GRAPHS, by_qgm("inserted")),
    "aqm": (("pointset",), by_aqm(1)),
    "aqm-iterated": (("pointset",), by_aqm(10)),
    "icp": (("pointset",), by_icp([0.0])),
    "icp-two-starts": (("pointset",), by_icp([15.0, 45.0])),
    "procrustes": (("rotation",), by_procrustes),
    "local-search": (("maxcut",), by_local_search),
    "greedy": (("knapsack",), by_greedy_packing),
    "guess": ((*_GRAPHS, "pointset", "rotation"), by_guessing),
}


def evaluate_baseline(
    name: str, problem: Problem, solver: Solver, count: int = 1000, seed: int = 0, split: Split = "test"
) -> Evaluation:
    """Metrics of a baseline on the instances that ``evaluate`` draws on a CPU for the same count, seed and split."""
    from qubolearn.evaluation import evaluate_answers, evaluate_bits

    if name not in BASELINES:
        raise unknown_name("baseline", name, BASELINES)
    problems, method = BASELINES[name]
    if problem.name not in problems:
        raise QubolearnError(f"baseline {name} solves {' and '.join(problems)}, not {problem.name}")
    answers = method(problem, count, seed, split, solver)
    if isinstance(answers.true, Instances):
        return evaluate_bits(problem, answers.found, answers.true)
    return evaluate_answers(problem, answers.found, Instances(None, answers.true, answers.true))
