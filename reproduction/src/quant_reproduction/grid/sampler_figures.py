"""Figures of what samplers read, as it is, and of one instance on its way through the pipeline.

Here x⁺ is taken from the reads alone. Our solvers complete it, which would hide what these figures show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.grid import figures, panels
from quant_reproduction.grid.figures import cloud_panel, pair_panel
from quant_reproduction.grid.models import (
    Model,
    device,
    planar_panels,
    sampler_label,
    seeded,
    spatial_panels,
    time_of,
    trained_model,
)
from quant_reproduction.grid.panels import PanelNumbers
from quant_reproduction.presets import recipe_for
from quant_reproduction.problems.pointset import PointSet
from quant_reproduction.problems.rotation import Rotation
from quant_reproduction.problems.willow import Willow
from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.topologies import FAMILIES, topology
from qubolearn.data.contract import Instances
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import Evaluation, evaluate_bits, solve_instances
from qubolearn.problems import Problem, make_problem
from qubolearn.qubo import energies as qubo_energies
from qubolearn.random import stream
from qubolearn.recipes import train
from qubolearn.solvers import ExhaustiveSearch, Solver
from qubolearn.training.callbacks import Callback
from qubolearn.training.fit import Training

#: Bits up to which exhaustive search gives the two lowest energies.
EXACT_BITS = 24
BINS = 40
#: Energies this close, relative to the lowest, are one up to rounding.
SAME_ENERGY = 1e-6


def all_reads(solver: Solver, A: Tensor) -> Tensor:
    """Return the final states of all reads: A ``[batch, n, n]`` -> ``[batch, reads, n]``; of samplers only."""
    if not hasattr(solver, "sample"):
        raise QubolearnError(f"{type(solver).__name__} has no reads; give samplers such as annealing, neal or quantum")
    reads: Tensor = solver.sample(A)
    return reads


def second_lowest(A: Tensor, reads: Tensor) -> float | None:
    """Return the energy of the second-best state in reads ``[reads, n]`` of A ``[n, n]``; None if all are equal."""
    states = torch.unique(reads, dim=0).double()
    if len(states) < 2:
        return None
    return qubo_energies(A[None].double(), states[None])[0].sort().values[1].item()


def energies(model: Model, solvers: Sequence[str], instances: int, seed: int) -> PanelNumbers:
    """Return histograms of the energies that samplers read on one QUBO: that of the last of ``instances``."""
    A, drawn = _qubos(model, instances, seed)[-1:], []
    reads = {sampler_label(spec): all_reads(seeded(spec, seed), A) for spec in solvers}
    energy = {name: qubo_energies(A.double(), states.double())[0] for name, states in reads.items()}
    exact = _two_lowest(A)
    two = [] if exact is None else exact[0].tolist()
    known = [*energy.values(), *([] if exact is None else [exact[0]])]
    low, edges = min(float(value.min()) for value in known), _edges(known)
    for name, value in energy.items():
        states, lowest = len(torch.unique(reads[name][0], dim=0)), value <= low + SAME_ENERGY * abs(low)
        counts = torch.histogram(value.clamp(max=edges[-1].item()), edges).hist.int().tolist()
        title = f"{name}: {100 * lowest.double().mean():.1f} % at the lowest, {states} states"
        x, y = "energy, largest entry of A: 1", f"of {len(value)} reads"
        drawn.append(panels.bars(title, x, y, edges.tolist(), {name: counts}))
    note = f"The two lowest energies are {', '.join(f'{each:.3f}' for each in two)}. The last bar of each panel holds "
    title = f"Energies that samplers read on one QUBO of {model.problem.bits} bits"
    return panels.titled(title, drawn, f"{note}all that is above.")


def _edges(energy: Sequence[Tensor]) -> Tensor:
    """Return edges of bars, from the lowest energy to the second largest of the samplers' highest ones.

    A single sampler that is far too hot would push all others into one bar; what is above lies in the last bar.
    """
    low = min(float(value.min()) for value in energy)
    high = sorted(float(value.max()) for value in energy)[-2:][0]
    margin = max((high - low) / BINS, 1e-6) / 2  # so that the lowest energy is the middle of its bar
    return torch.linspace(low - margin, high + margin, BINS + 1, dtype=torch.float64)


def second_best(model: Model, solvers: Mapping[str, str], instances: int, seed: int) -> dict[str, Any]:
    """Return second-best energies of samplers (name -> solver) relative to the first one's: mean and deviation.

    Energies are negative, so higher is better. An instance counts if both have a second state, and the first one's is
    below 0.
    """
    A, shares = _qubos(model, instances, seed), {}
    found = {name: _second_energies(A, seeded(spec, seed)) for name, spec in solvers.items()}
    first = next(iter(found.values()))
    for name, values in found.items():
        counted = torch.isfinite(values) & torch.isfinite(first) & (first < 0)
        share = values[counted] / first[counted]
        if len(share):
            spread = share.std(correction=0).item()
            shares[name] = {"relative": share.mean().item(), "deviation": spread, "instances": len(share)}
    return shares


def _second_energies(A: Tensor, solver: Solver) -> Tensor:
    """Return second-best energies ``[batch]``, float64, NaN if all reads are one state."""
    values = [second_lowest(one, reads) for one, reads in zip(A, all_reads(solver, A), strict=True)]
    return torch.tensor([float("nan") if value is None else value for value in values], dtype=torch.float64)


@torch.no_grad()
def _qubos(model: Model, instances: int, seed: int) -> Tensor:
    """Return A of test instances, ``[instances, n, n]``, each scaled so that its largest entry is 1, as on a chip.

    Others scale by themselves; dimod's annealer is the hotter the smaller the entries are.
    """
    A: Tensor = model.network(model.problem.sample(instances, stream(seed, "test"), "test").p)
    return A / A.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(A.dtype).tiny)


def _two_lowest(A: Tensor) -> Tensor | None:
    """Return the two lowest energies of each QUBO ``[batch, 2]``, if exhaustive search is possible."""
    return ExhaustiveSearch()(A, 2).energies if A.shape[-1] <= EXACT_BITS else None


PIPELINE_BINS = 30


@torch.no_grad()
def pipeline(model: Model, solvers: Sequence[str], instances: int, seed: int) -> PanelNumbers:
    """Return the last of ``instances`` test instances: the input, p, the learned A, a sampler's reads, the solution.

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
    return panels.titled(title, drawn)


def _inputs(model: Model, instances: int, seed: int) -> Tensor:
    """Return panels of p ``[1, m]`` of the instance."""
    problem = model.problem
    if isinstance(problem, Rotation):
        clouds = problem.clouds(instances, stream(seed, "test"), "test")
        return problem.describe(clouds.template, clouds.reference)[-1:]
    p: Tensor = problem.sample(instances, stream(seed, "test"), "test").p
    return p[-1:]


def _scenes(model: Model, instances: int, seed: int, answer: Tensor) -> tuple[PanelNumbers, PanelNumbers]:
    """Return the instance as it is given, and as the answer ``[1, ...]`` leaves it."""
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
    """Return the keypoints of both images without their matching."""
    return [{"name": "keypoints", "points": [place for each in matched["series"] for place in each["points"]]}]


Options = Mapping[str, Any]


def drawn_by(name: str, draw: Callable[..., PanelNumbers]) -> Callable[..., dict[str, Any]]:
    """Return the task that trains a model and stores the panels of one figure under its name."""

    def task(
        seed: int,
        problem: Options,
        protocol: str,
        overrides: Options,
        solvers: Sequence[str] = ("exhaustive",),
        instances: int = 1,
        noise: float = 0.0,
        **more: int,
    ) -> dict[str, Any]:
        model, seconds = trained_model(seed, problem, protocol, overrides)
        if noise:
            model = replace(model, problem=replace(model.problem, noise=noise))  # type: ignore[type-var]
        took = time_of(seconds)
        return {**took, name: {"figure": draw(model, solvers, instances, seed, **more)}}

    return task


def alignment(seed: int, cases: int, **options: Any) -> dict[str, Any]:
    """Return clouds before and after alignment."""
    return drawn_by("alignment", figures.alignment)(seed, instances=cases, **options)


class _Moments(Callback):
    """Wrong bits of given instances and the couplings of one of them, at the start, half-way and at the end."""

    def __init__(self, problem: Problem, data: Instances) -> None:
        self.problem, self.data = problem, data
        self.found: dict[int, tuple[Evaluation, list[list[float]]]] = {}  # step -> what was seen
        self.history: list[dict[str, Any]] = []

    def on_start(self, training: Training) -> None:
        self._look(training)

    def on_step(self, training: Training) -> None:
        if training.scores is not None and 2 * training.step >= training.steps and len(self.found) < 2:
            self._look(training)

    def on_end(self, training: Training) -> None:
        self._look(training)
        self.history = training.history

    def _look(self, training: Training) -> None:
        states, info = solve_instances(training.network, self.data.p)
        with torch.no_grad():
            couplings: list[list[float]] = training.network(self.data.p[:1])[0].tolist()
        self.found[training.step] = evaluate_bits(self.problem, states, self.data, info), couplings


def training(seed: int, problem: Options, protocol: str, overrides: Options) -> dict[str, Any]:
    """Return wrong bits of the training set and couplings of its first instance over training, as in Figure 4b."""
    made = make_problem(**problem)
    config = recipe_for(protocol, made, seed=seed, **overrides)
    data = made.sample(config.instances, stream(seed, "train", 0, device=device()), "train")  # what is trained on
    watch = _Moments(made, data)
    began = time.perf_counter()
    train(made, config, device=device(), callbacks=[watch])
    seconds = round(time.perf_counter() - began, 3)
    edges = [place - 0.5 for place in range(made.bits + 2)]
    drawn, numbers = [], {}
    for step, (found, couplings) in watch.found.items():
        epoch = f"epoch {step / config.steps_per_epoch:.0f}"
        counts = {"as solved": found.hamming or ()}
        if step == config.steps and found.hamming_projected:  # as in the paper, projected only after training
            counts["projected"] = found.hamming_projected
        numbers[epoch] = {name: list(bars) for name, bars in counts.items()}
        drawn.append(panels.bars(f"Wrong bits, {epoch}", "wrong bits", "instances", edges, counts))
        drawn.append(panels.matrix(f"Couplings A of one instance, {epoch}", couplings))
    curve = [[record["step"] / config.steps_per_epoch, 100 * record["accuracy"]] for record in watch.history]
    drawn.append(panels.lines("Over training", "epoch", "right instances in %", {"validation": curve}))
    seen = "the first epoch" if config.fresh else "the training set"
    note = f"Wrong bits are those of the {config.instances} instances of {seen}."
    title = f"{made}, L{config.layers} H{config.hidden}, loss {config.loss}, over {config.epochs} epochs"
    figure = panels.titled(title, drawn, note)
    return {**time_of(seconds), "training": {"figure": figure, "wrong_bits": numbers}}


def connectivity(seed: int, chip: str, size: int, bits: int, pattern: str) -> dict[str, Any]:
    """Return a chip, and as many instances on it as one anneal holds: one bit per qubit, no chains."""
    import dwave.graphs as graphs

    wanted = topology(pattern, bits)
    ideal = Chip.ideal(chip, size)
    tiles = find_tiles(bits, wanted.couplers, ideal).tiles
    places = getattr(graphs, f"{chip}_layout")(getattr(graphs, f"{chip}_graph")(size))
    number = {qubit: index for index, qubit in enumerate(sorted(ideal.graph))}
    panel = panels.graph(
        str(ideal),
        [places[qubit].tolist() for qubit in number],
        sorted((number[a], number[b]) for a, b in ideal.graph.edges),
        {number[qubit]: tile for tile, chains in enumerate(tiles) for chain in chains for qubit in chain},
    )
    largest = FAMILIES[chip].largest
    whole = len(find_tiles(bits, wanted.couplers, Chip.ideal(chip, largest)).tiles)
    note = f"The largest {chip} chip, of size {largest}, holds {whole} instances of {bits} bits in one anneal."
    title = f"{len(tiles)} instances of {bits} bits and {len(wanted.couplers)} couplers on a {chip} chip of size {size}"
    return {"connectivity": {"figure": panels.titled(title, [panel], note)}}


FIGURE_TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "energies": drawn_by("energies", energies),
    "errors": drawn_by("errors", figures.errors),
    "failures": drawn_by("failures", figures.failures),
    "matches": drawn_by("matches", figures.matches),
    "pipeline": drawn_by("pipeline", pipeline),
    "alignment": alignment,
    "training": training,
    "connectivity": connectivity,
}
