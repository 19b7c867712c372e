"""Problem-specific baselines without learning.

A baseline is a function ``(problem, count, seed, split, solver) -> (answers, true answers)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from quant_reproduction.baselines.clouds import aqm, icp, procrustes
from quant_reproduction.baselines.graphs import Variant, direct, qgm
from quant_reproduction.problems.angles import cross_covariance
from quant_reproduction.problems.pointset import CloudPairs, PointSet
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.evaluation import Evaluation, evaluate_answers, evaluate_bits
from qubolearn.problems import Instances, Problem, Split
from qubolearn.problems.knapsack import Knapsack, greedy_by_density
from qubolearn.problems.maxcut import MaxCut, local_search
from qubolearn.random import stream
from qubolearn.solvers import Solver

__all__ = ["BASELINES", "Answers", "evaluate_baseline"]


class Answers(NamedTuple):
    """Found and true answers, or found bits and the instances if these may have several answers."""

    found: Tensor  # [batch, ...]
    true: Tensor | Instances  # [batch, ...]


Baseline = Callable[[Problem, int, int, Split, Solver], Answers]


def _assignments(problem: Problem, count: int, seed: int, split: Split) -> tuple[Tensor, Tensor]:
    """Return W ``[count, k², k²]`` of instances of graph matching, and their permutations."""
    data = problem.sample(count, stream(seed, split), split)
    side = math.isqrt(data.p.shape[1])
    return data.p.reshape(count, side, side), data.answer


def by_direct_search(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """Return the best of all permutations."""
    W, P = _assignments(problem, count, seed, split)
    return Answers(direct(W), P)


def by_guessing(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """Return random permutations, or random bits."""
    data = problem.sample(count, stream(seed, split), split)
    generator = stream(seed, "guess")
    if problem.name in _GRAPHS:
        return Answers(torch.rand(data.answer.shape, generator=generator).argsort(-1), data.answer)
    return Answers(problem.decode(torch.randint(2, (count, problem.bits), generator=generator).float()), data.answer)


def by_qgm(variant: Variant) -> Baseline:
    """Decode the minimizer of QGM's QUBO."""

    def run(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
        W, P = _assignments(problem, count, seed, split)
        made = qgm(W, variant)
        return Answers(made.decode(solver(made.A, 1).states[:, 0]), P)

    return run


def by_procrustes(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """Return the rotation closest to the covariance, as Euler angles α, β, γ with |β| < π/2."""
    data = problem.sample(count, stream(seed, split), split)
    R = procrustes(cross_covariance(data.p.double()))
    alpha, gamma = torch.atan2(R[:, 1, 0], R[:, 0, 0]), torch.atan2(R[:, 2, 1], R[:, 2, 2])
    return Answers(torch.stack([alpha, -torch.asin(R[:, 2, 0].clamp(-1, 1)), gamma], 1), data.answer)


def by_icp(starts_degrees: Sequence[float]) -> Baseline:
    """Align the point sets by iterative closest points, from one or several starting angles."""

    def run(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
        pairs = _pairs(problem, count, seed, split)
        return Answers(icp(*pairs[:4], [math.radians(start) for start in starts_degrees]), pairs.angle)

    return run


def by_aqm(iterations: int) -> Baseline:
    """Solve AQM's analytic QUBO exactly; once as in the paper, or several times with new neighbors."""

    def run(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
        pairs = _pairs(problem, count, seed, split)
        return Answers(aqm(*pairs[:4], iterations=iterations), pairs.angle)

    return run


def by_local_search(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """Return cuts that moving a single node does not improve."""
    assert isinstance(problem, MaxCut)
    data = problem.sample(count, stream(seed, split), split)
    return Answers(local_search(problem, data.p), data)


def by_greedy_packing(problem: Problem, count: int, seed: int, split: Split, solver: Solver) -> Answers:
    """Pack items in order of value per weight."""
    assert isinstance(problem, Knapsack)
    data = problem.sample(count, stream(seed, split), split)
    return Answers(greedy_by_density(problem, data.p), data)


def _pairs(problem: Problem, count: int, seed: int, split: Split) -> CloudPairs:
    assert isinstance(problem, PointSet)
    return problem.sample_pairs(count, stream(seed, split), split)


_GRAPHS = ("randgraph", "willow")
#: name -> (problems, method)
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
    """Return the metrics of a baseline on the instances that ``evaluate`` draws on a CPU."""
    if name not in BASELINES:
        raise unknown_name("baseline", name, BASELINES)
    problems, method = BASELINES[name]
    if problem.name not in problems:
        raise QubolearnError(f"expected {' or '.join(problems)} for baseline {name}, got {problem.name}")
    answers = method(problem, count, seed, split, solver)
    if isinstance(answers.true, Instances):
        return evaluate_bits(problem, answers.found, answers.true)
    return evaluate_answers(problem, answers.found, Instances(None, answers.true, answers.true))
