"""Answers of trained models on unseen instances: alignments, errors per solver and the worst cases, as numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from quant_reproduction.problems.angles import STAGES, solve_stages
from quant_reproduction.problems.cloud_pictures import Panel, misfit, planar_panels, spatial_panels
from quant_reproduction.problems.pointset import CloudPairs, PointSet
from quant_reproduction.problems.rotation import Rotation
from quant_reproduction.problems.willow import Willow
from qubolearn.data.contract import Problem, Split
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import Evaluation, evaluate_answers, solve_instances
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import stream
from qubolearn.runs import Run
from qubolearn.solvers import Solver, make_solver

__all__ = [
    "Aligned",
    "Model",
    "aligned_clouds",
    "error_histograms",
    "evaluate_stages",
    "mean_error_by_turn",
    "sampler_label",
    "seeded",
    "solver_label",
    "worst_of_each_shape",
]

#: Bars of the histogram of errors.
BINS = 15
LABELS = {
    "exhaustive": "exhaustive search",
    "annealing": "SA (ours)",
    "quantum": "simulated QA",
    "neal": "SA (neal)",
    "dimod": "SA (dimod)",
    "path-integral": "simulated QA (path integral)",
    "dwave-mock": "simulated D-Wave",
}


@dataclass(frozen=True)
class Model:
    """A model that answers instances: one trained run, or three that find α, β and γ one after the other."""

    problem: Problem
    stages: tuple[Problem, ...]
    networks: tuple[nn.Module, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Model:
        """Runs as a model; three must be the stages of rotation."""
        stages = tuple(run.problem for run in runs)
        whole = stages[0]
        if len(runs) > 1:
            names = [problem.stage if isinstance(problem, Rotation) else problem.name for problem in stages]
            if names != list(STAGES) or not isinstance(whole, Rotation):
                raise QubolearnError(
                    f"runs of {', '.join(names)}; expected one run, or rotation's stages {', '.join(STAGES)}"
                )
            whole = replace(whole, stage="all")
        return cls(whole, stages, tuple(run.network() for run in runs))

    def answers(self, p: Tensor, solver: Solver) -> Tensor:
        """p ``[batch, m]`` -> answers ``[batch, ...]`` of the problem."""
        predictors = [partial(_answer, *stage, solver) for stage in zip(self.stages, self.networks, strict=True)]
        return predictors[0](p) if len(predictors) == 1 else solve_stages(predictors, p)

    @property
    def network(self) -> nn.Module:
        """The only network, for figures of single QUBOs."""
        if len(self.networks) > 1:
            raise QubolearnError(f"{len(self.networks)} runs; this figure shows QUBOs of one run, give one folder")
        return self.networks[0]


def _answer(problem: Problem, network: nn.Module, solver: Solver, p: Tensor) -> Tensor:
    return problem.decode(solve_instances(network, p, solver)[0])


def seeded(spec: str, seed: int) -> Solver:
    """The solver of a spec; one that draws random numbers and has no seed gets this one."""
    solver: Any = make_solver(spec)
    if is_dataclass(solver) and getattr(solver, "seed", 0) is None:
        solver = replace(solver, seed=seed)  # type: ignore[type-var]
    checked: Solver = solver
    return checked


def solver_label(spec: str) -> str:
    """Return the name of a solver in figures, which marks simulations.

    >>> solver_label("neal:reads=1000,sweeps=10"), solver_label("quantum")
    ('SA (neal), 10 sweeps', 'simulated QA')
    """
    name, _, options = spec.partition(":")
    sweeps = [option.partition("=")[2] for option in options.split(",") if option.startswith("sweeps=")]
    return ", ".join([LABELS.get(name, name), *(f"{count} sweeps" for count in sweeps)])


def sampler_label(spec: str) -> str:
    """Return the same, with every sampler marked as simulated."""
    label = solver_label(spec)
    return label if "simulated" in label or spec.startswith("exhaustive") else f"{label} (simulated)"


@dataclass(frozen=True)
class Aligned:
    """Clouds that were aligned, in 2D or 3D."""

    turn: Tensor  # [batch], degrees between the clouds before
    error: Tensor  # [batch], degrees between the answer and the truth
    template: Tensor  # [batch, ...], which tells shapes apart
    panels: Callable[[int], Sequence[Panel]]  # of one case: the clouds at first, ..., at last

    def numbers(self, index: int) -> dict[str, float]:
        """One case in numbers."""
        first, *_, last = self.panels(index)
        return {
            "turn_degrees": self.turn[index].item(),
            "error_degrees": self.error[index].item(),
            "misfit_before": misfit(first.template, first.reference),
            "misfit_after": misfit(last.template, last.reference),
        }


def aligned_clouds(model: Model, solver: str, instances: int, seed: int) -> Aligned:
    """Test instances of a model of pointset or rotation, and what it answers."""
    problem, search = model.problem, seeded(solver, seed)
    generator = stream(seed, "figure")
    if isinstance(problem, PointSet):
        pairs = problem.pairs("test")
        rows = torch.randperm(len(pairs.angle), generator=generator)[:instances]
        pairs = CloudPairs(*(tensor[rows] for tensor in pairs))
        p = torch.cat([problem.describe(*_real_points(pairs, index)) for index in range(len(rows))])
        angle = model.answers(p, search)
        error = problem.degrees(angle, pairs.angle)
        planar = lambda index: planar_panels(pairs, index, angle[index])  # noqa: E731
        return Aligned(torch.rad2deg(pairs.angle), error, pairs.template, planar)
    if isinstance(problem, Rotation) and problem.stage == "all":
        clouds = problem.clouds(instances, generator, "test")
        angles = model.answers(problem.describe(clouds.template, clouds.reference), search)
        error = problem.degrees(angles, clouds.angles)
        turn = problem.degrees(torch.zeros_like(clouds.angles), clouds.angles)
        spatial = lambda index: spatial_panels(clouds, index, angles[index], len(model.networks) > 1)  # noqa: E731
        return Aligned(turn, error, clouds.template, spatial)
    if isinstance(problem, Rotation):
        raise QubolearnError(f"a run of stage {problem.stage} alone aligns nothing; give three: {', '.join(STAGES)}")
    raise QubolearnError(f"a run of {problem.name} has no clouds to align; give one of pointset or rotation")


def _real_points(pairs: CloudPairs, index: int) -> tuple[Tensor, Tensor]:
    """Template and reference of one pair without what fills them up, ``[1, m, 2]`` and ``[1, n, 2]``."""
    return (
        pairs.template[index : index + 1, : pairs.template_counts[index]],
        pairs.reference[index : index + 1, : pairs.reference_counts[index]],
    )


def worst_of_each_shape(aligned: Aligned, count: int) -> list[int]:
    """The worst instance of each of the worst shapes, worst first."""
    shape = torch.unique(aligned.template.flatten(1), dim=0, return_inverse=True)[1]
    worst: dict[int, int] = {}  # shape -> its worst instance
    for index in aligned.error.argsort(descending=True).tolist():
        worst.setdefault(int(shape[index]), index)
    return list(worst.values())[:count]


def mean_error_by_turn(aligned: Aligned, width: int) -> dict[int, float]:
    """Mean error in degrees of the instances that were turned by low ... low + width degrees, by low."""
    lows = torch.div(aligned.turn, width, rounding_mode="floor").int() * width
    return {low: aligned.error[lows == low].mean().item() for low in sorted(set(lows.tolist()))}


def error_histograms(model: Model, solvers: Sequence[str], instances: int, seed: int) -> dict[str, Any]:
    """Return errors of each solver on the same instances: degrees, or wrong nodes of a matching."""
    problem = model.problem
    data = problem.sample(instances, stream(seed, "test"), "test")
    nodes = isinstance(problem, (RandGraph, Willow))
    values = {}
    for spec in solvers:
        answer = model.answers(data.p, seeded(spec, seed))
        score = (answer != data.answer).sum(-1) if nodes else problem.score(answer, data)[problem.metric]
        values[spec] = score.double()
    largest = max(float(value.max()) for value in values.values())
    bins = data.answer.shape[1] + 1 if nodes else BINS
    edges = torch.arange(bins + 1) - 0.5 if nodes else torch.linspace(0, max(largest, 1e-6), bins + 1)
    edges = edges.double()
    summary = {
        spec: {
            "label": solver_label(spec),
            "mean": value.mean().item(),
            "median": value.median().item(),
            "shares": (torch.histogram(value, edges).hist / len(value)).tolist(),
        }
        for spec, value in values.items()
    }
    xlabel = "wrongly matched nodes" if nodes else f"error in {problem.metric}"
    return {"error": xlabel, "edges": edges.tolist(), "solvers": summary}


def evaluate_stages(
    networks: Sequence[nn.Module],
    problems: Sequence[Rotation],
    solver: Solver | None,
    instances: int = 2000,
    seed: int = 0,
    split: Split = "test",
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Score three networks, for alpha, beta and gamma, on whole rotations; noise is the first problem's."""
    if [problem.stage for problem in problems] != list(STAGES):
        stages = ", ".join(problem.stage for problem in problems)
        raise QubolearnError(f"runs of stages {stages}; expected one each of {', '.join(STAGES)}, in this order")
    whole = replace(problems[0], stage="all")
    data = whole.sample(instances, stream(seed, split, device=device), split)
    sources: dict[str, None] = {}  # in order, each once

    def predictor(network: nn.Module, problem: Rotation) -> Callable[[Tensor], Tensor]:
        def predict(p: Tensor) -> Tensor:
            states, info = solve_instances(network, p, solver)
            sources[info["source"]] = None
            return problem.decode(states)

        return predict

    predictors = [predictor(*stage) for stage in zip(networks, problems, strict=True)]
    began = time.perf_counter()
    answers = solve_stages(predictors, data.p)
    found = evaluate_answers(whole, answers, data)
    return replace(found, info={"source": ", ".join(sources), "solve_seconds": time.perf_counter() - began})
