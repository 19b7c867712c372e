"""Figures of what samplers read, as it is, and of one instance on its way through the pipeline.

Here x⁺ is taken from the reads alone. Our solvers complete it, which would hide what these figures show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.grid import panels
from quant_reproduction.grid.answers import Model, sampler_label, seeded, solver_label
from quant_reproduction.grid.figures import cloud_panel, pair_panel
from quant_reproduction.grid.panels import Drawn, PanelNumbers
from quant_reproduction.problems.cloud_pictures import planar_panels, spatial_panels
from quant_reproduction.problems.pointset import PointSet
from quant_reproduction.problems.rotation import Rotation
from quant_reproduction.problems.willow import Willow
from qubolearn.errors import QubolearnError
from qubolearn.qubo import energies as qubo_energies
from qubolearn.random import stream
from qubolearn.solvers import ExhaustiveSearch, Solver

__all__ = ["all_reads", "energies", "energy_histograms", "pipeline", "second_best", "second_lowest"]

#: Bits up to which exhaustive search gives the two lowest energies.
EXACT_BITS = 24
BINS = 40
#: Energies this close, relative to the lowest, are one up to rounding.
SAME_ENERGY = 1e-6


def all_reads(solver: Solver, A: Tensor) -> Tensor:
    """The final states of all reads: A ``[batch, n, n]`` -> ``[batch, reads, n]``; of samplers only."""
    if not hasattr(solver, "sample"):
        raise QubolearnError(f"{type(solver).__name__} has no reads; give samplers such as annealing, neal or quantum")
    reads: Tensor = solver.sample(A)
    return reads


def second_lowest(A: Tensor, reads: Tensor) -> float | None:
    """The energy of the second-best state in reads ``[reads, n]`` of A ``[n, n]``; None where all are one state."""
    states = torch.unique(reads, dim=0).double()
    if len(states) < 2:
        return None
    return qubo_energies(A[None].double(), states[None])[0].sort().values[1].item()


def energy_histograms(model: Model, solvers: Sequence[str], instances: int, seed: int) -> dict[str, Any]:
    """Histograms of the energies that samplers read on one QUBO: that of the last of ``instances``."""
    A = _qubos(model, instances, seed)[-1:]
    reads = {spec: all_reads(seeded(spec, seed), A) for spec in solvers}
    energy = {spec: qubo_energies(A.double(), states.double())[0] for spec, states in reads.items()}
    exact = _two_lowest(A)
    known = [*energy.values(), *([] if exact is None else [exact[0]])]
    low = min(float(value.min()) for value in known)
    edges = _edges(known)
    rows = {
        spec: {
            "label": solver_label(spec),
            "reads": len(value),
            "share_at_lowest": (value <= low + SAME_ENERGY * abs(low)).double().mean().item(),
            "distinct_states": len(torch.unique(reads[spec][0], dim=0)),
            "second_best": second_lowest(A[0], reads[spec][0]),
            "counts": torch.histogram(value.clamp(max=edges[-1].item()), edges).hist.int().tolist(),
        }
        for spec, value in energy.items()
    }
    two = None if exact is None else exact[0].tolist()
    return {"instance": instances - 1, "two_lowest": two, "edges": edges.tolist(), "solvers": rows}


def energies(model: Model, solvers: Sequence[str], instances: int, seed: int, marks: bool = False) -> Drawn:
    """The histograms; with ``marks`` on a logarithmic scale, with lines at the two lowest energies."""
    numbers = energy_histograms(model, solvers, instances, seed)
    drawn = []
    for spec, row in numbers["solvers"].items():
        name, at_lowest = sampler_label(spec), 100 * row["share_at_lowest"]
        title = f"{name}: {at_lowest:.1f} % at the lowest, {row['distinct_states']} states"
        x, y = "energy, largest entry of A: 1", f"of {row['reads']} reads"
        drawn.append(panels.bars(title, x, y, numbers["edges"], {name: row["counts"]}))
    if marks:
        drawn = [{**panel, "log": True, "at": numbers["two_lowest"] or ()} for panel in drawn]
    lowest = ", ".join(f"{energy:.3f}" for energy in numbers["two_lowest"] or ())
    note = f"The two lowest energies are {lowest}. The last bar of each panel holds all that is above."
    title = f"Energies that samplers read on one QUBO of {model.problem.bits} bits"
    return Drawn(numbers, panels.titled(title, drawn, note))


def _edges(energy: Sequence[Tensor]) -> Tensor:
    """Edges of bars, from the lowest energy to the second largest of the samplers' highest ones.

    A single sampler that is far too hot would push all others into one bar; what is above lies in the last bar.
    """
    low = min(float(value.min()) for value in energy)
    high = sorted(float(value.max()) for value in energy)[-2:][0]
    margin = max((high - low) / BINS, 1e-6) / 2  # so that the lowest energy is the middle of its bar
    return torch.linspace(low - margin, high + margin, BINS + 1, dtype=torch.float64)


def second_best(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """Second-best energies of each sampler in % of the first one's, and of the true ones: mean and deviation.

    Energies are negative, so higher is better. An instance counts where both have a second state, and the first one's
    is below 0: how many do is beside each mean.
    """
    A = _qubos(model, instances, seed)
    found = {spec: _second_energies(A, seeded(spec, seed)) for spec in solvers}
    exact = _two_lowest(A)
    rows = {}
    for spec in solvers:
        rows[spec] = {"label": solver_label(spec), **_relative(found[spec], found[solvers[0]])}
        if exact is not None:
            truth = _relative(found[spec], exact[:, 1])
            rows[spec] |= {f"exact_{name}": value for name, value in truth.items()}
    return Drawn({"relative_to": solver_label(solvers[0]), "solvers": rows})


def _second_energies(A: Tensor, solver: Solver) -> Tensor:
    """``[batch]``, float64, NaN where all reads are one state."""
    values = [second_lowest(one, reads) for one, reads in zip(A, all_reads(solver, A), strict=True)]
    return torch.tensor([float("nan") if value is None else value for value in values], dtype=torch.float64)


def _relative(values: Tensor, reference: Tensor) -> dict[str, Any]:
    """Mean and standard deviation of values ``[batch]`` in % of the reference, over the instances that have both."""
    counted = torch.isfinite(values) & torch.isfinite(reference) & (reference < 0)
    percent = 100 * values[counted] / reference[counted]
    if not len(percent):
        return {"mean": None, "std": None, "instances": 0}
    return {"mean": percent.mean().item(), "std": percent.std(correction=0).item(), "instances": len(percent)}


@torch.no_grad()
def _qubos(model: Model, instances: int, seed: int) -> Tensor:
    """A of test instances, ``[instances, n, n]``, each scaled so that its largest entry is 1, as a chip would have it.

    Others scale by themselves; dimod's annealer is the hotter the smaller the entries are.
    """
    A: Tensor = model.network(model.problem.sample(instances, stream(seed, "test"), "test").p)
    return A / A.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(A.dtype).tiny)


def _two_lowest(A: Tensor) -> Tensor | None:
    """The two lowest energies of each QUBO ``[batch, 2]``, where exhaustive search can tell."""
    return ExhaustiveSearch()(A, 2).energies if A.shape[-1] <= EXACT_BITS else None


PIPELINE_BINS = 30


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
    energy = qubo_energies(A.double(), reads.double())[0]
    given, solved = _scenes(model, instances, seed, model.answers(p, solver))
    side = math.isqrt(p.shape[1])
    if side * side != p.shape[1]:
        raise QubolearnError(f"p of {problem.name} has {p.shape[1]} numbers; expected a square matrix")
    lowest, width = energy.min().item(), max((energy.max() - energy.min()).item(), 1e-6) / PIPELINE_BINS
    edges = [lowest + (place - 0.5) * width for place in range(PIPELINE_BINS + 2)]
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
        raise QubolearnError(f"instances of {problem.name} cannot be drawn; expected willow, pointset or rotation")
    return cloud_panel(first.title, first), cloud_panel(last.title, last)


def _points(matched: PanelNumbers) -> list[PanelNumbers]:
    """The keypoints of both images before anything is known of them."""
    return [{"name": "keypoints", "points": [place for each in matched["series"] for place in each["points"]]}]
