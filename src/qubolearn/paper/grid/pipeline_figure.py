"""One instance on its way through the pipeline, as in the paper's first figure: instance, p, A, reads, solution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid import panels
from qubolearn.paper.grid.answers import Model, sampler_label, seeded
from qubolearn.paper.grid.figures import cloud_panel, pair_panel
from qubolearn.paper.grid.panels import Drawn, PanelNumbers
from qubolearn.paper.grid.sampler_figures import all_reads
from qubolearn.paper.problems.cloud_pictures import planar_panels, spatial_panels
from qubolearn.paper.problems.pointset import PointSet
from qubolearn.paper.problems.rotation import Rotation
from qubolearn.paper.problems.willow import Willow
from qubolearn.qubo import energies
from qubolearn.randomness import stream

__all__ = ["pipeline"]

BINS = 30


@torch.no_grad()
def pipeline(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """The last of ``instances`` test instances: what is given, p, the learned A, what a sampler reads, the solution.

    Of a rotation in stages, p and A are those of the first one. The solution is decoded from the lowest read; that of a
    rotation from the lowest reads of all stages.
    """
    problem, solver = model.problem, seeded(solvers[0], seed)
    p = _inputs(model, instances, seed)
    A = model.networks[0](p)
    reads = all_reads(solver, A)
    energy = energies(A.double(), reads.double())[0]
    given, solved = _scenes(model, instances, seed, model.answers(p, solver))
    side = math.isqrt(p.shape[1])
    if side * side != p.shape[1]:
        raise QubolearnError(f"p of {problem.name} has {p.shape[1]} numbers, which are no square matrix to draw")
    lowest, width = energy.min().item(), max((energy.max() - energy.min()).item(), 1e-6) / BINS
    edges = [lowest + (place - 0.5) * width for place in range(BINS + 2)]
    counts = torch.histogram(energy, torch.tensor(edges, dtype=energy.dtype)).hist.int().tolist()
    name = sampler_label(solvers[0])
    drawn = [
        {**given, "title": "1. The instance"},
        panels.matrix(f"2. p, {side} x {side}", p.reshape(side, side).tolist()),
        panels.matrix(f"3. A of {A.shape[1]} bits, from the network", A[0].tolist()),
        panels.bars(f"4. Energies of {len(energy)} reads, {name}", "energy", "reads", edges, {name: counts}),
        {**solved, "title": f"5. The solution: {solved['title']}"},
    ]
    title = f"One test instance of {problem.name} on its way: p, A, reads, solution"
    return Drawn({"lowest": lowest}, panels.titled(title, drawn))


def _inputs(model: Model, instances: int, seed: int) -> Tensor:
    """p of the instance ``[1, m]``."""
    problem = model.problem
    if isinstance(problem, Rotation):
        clouds = problem.clouds(instances, stream(seed, "test"), "test")
        return problem.describe(clouds.template, clouds.reference)[-1:]
    p: Tensor = problem.sample(instances, stream(seed, "test"), "test").p
    return p[-1:]


def _scenes(model: Model, instances: int, seed: int, answer: Tensor) -> tuple[PanelNumbers, PanelNumbers]:
    """The instance as it is given, and as the answer ``[1, ...]`` leaves it."""
    problem, generator = model.problem, stream(seed, "test")
    if isinstance(problem, Willow):
        pairs = problem.sample_pairs(instances, generator, "test")
        P = answer.expand(instances, -1)
        solved = pair_panel(problem.images(), pairs, P, instances - 1)
        return {**solved, "series": _points(solved), "lines": [], "missed": []}, solved
    if isinstance(problem, PointSet):
        first, *_, last = planar_panels(problem.sample_pairs(instances, generator, "test"), instances - 1, answer[0])
    elif isinstance(problem, Rotation):
        clouds = problem.clouds(instances, generator, "test")
        first, *_, last = spatial_panels(clouds, instances - 1, answer[0], len(model.networks) > 1)
    else:
        raise QubolearnError(f"instances of {problem.name} cannot be drawn; want willow, pointset or rotation")
    return cloud_panel(first.title, first), cloud_panel(last.title, last)


def _points(matched: PanelNumbers) -> list[PanelNumbers]:
    """The keypoints of both images before anything is known of them."""
    return [{"name": "keypoints", "points": [place for each in matched["series"] for place in each["points"]]}]
