"""Figures of answers and of samplers' reads, as plain numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.baselines import procrustes
from quant_reproduction.datasets.willow import WillowImages
from quant_reproduction.grid import models, panels
from quant_reproduction.grid.models import Model, Panel, aligned_clouds, sampler_label, seeded, time_of
from quant_reproduction.grid.panels import PanelNumbers
from quant_reproduction.presets import recipe_for
from quant_reproduction.problems.clouds import geodesic_so3
from quant_reproduction.problems.pointset import PointSet
from quant_reproduction.problems.rotation import Rotation
from quant_reproduction.problems.willow import Pairs, Willow
from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.topologies import FAMILIES, topology
from qubolearn.data.contract import Instances
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import Evaluation, evaluate_bits, solve_instances
from qubolearn.problems import Problem, make_problem
from qubolearn.problems.randgraph import RandGraph
from qubolearn.qubo import energies as qubo_energies
from qubolearn.random import stream
from qubolearn.recipes import train
from qubolearn.solvers import ExhaustiveSearch, Solver
from qubolearn.training.callbacks import Callback
from qubolearn.training.fit import Training

Solvers = Sequence[str]
#: Points of one cloud of a picture.
SHOWN_POINTS = {2: 120, 3: 90}
#: Degrees: errors are shown by the angle before in these steps.
TURNS = 10
#: Bars of the histogram of errors.
ERROR_BINS = 15
UPWARDS = torch.tensor([1.0, -1.0])  # images count pixels downwards


def matches(model: Model, solvers: Solvers, instances: int, seed: int, each: int = 2) -> PanelNumbers:
    """Return pairs of Willow images: ``each`` right and wrong matchings."""
    problem = model.problem
    if not isinstance(problem, Willow):
        raise QubolearnError(f"a run of {problem.name} has no images; give a run of willow")
    pairs = problem.sample_pairs(instances, stream(seed, "test"), "test")
    P = model.answers(problem.weights(pairs).flatten(1), seeded(solvers[0], seed))
    matched = (P == pairs.P).all(-1)
    share = f"{100 * matched.double().mean().item():.1f} % of {instances} pairs of unseen images"
    chosen = torch.cat([matched.nonzero()[:each, 0], (~matched).nonzero()[:each, 0]])
    drawn = [pair_panel(problem.images(), pairs, P, index) for index in chosen.tolist()]
    note = f"{share} are matched rightly; dashed: the truth."
    return panels.titled("Matched keypoints of Willow", drawn, note)


def alignment(model: Model, solvers: Solvers, instances: int, seed: int, cases: int = 0) -> PanelNumbers:
    """Return clouds before and after alignment, in 3D after every stage."""
    aligned = aligned_clouds(model, solvers[0], cases or instances, seed)
    drawn = []
    for index in range(len(aligned.error)):
        shown = list(aligned.panels(index))
        if shown[0].template.shape[1] == 3:
            shown.append(_by_procrustes(shown[0]))
        drawn += [cloud_panel(f"case {index + 1}: {panel.title}", panel) for panel in shown]
    name, noise = model.problem.name, getattr(model.problem, "noise", 0.0)
    what = "of the matches are wrong" if name == "rotation" else "of the extent is the range of uniform noise"
    note = f"{100 * noise:.0f} % {what}." if noise else ""
    return panels.titled(f"Test instances of {name} before and after alignment", drawn, note)


def failures(model: Model, solvers: Solvers, instances: int, seed: int, cases: int = 5) -> PanelNumbers:
    """Return the clouds that are aligned worst, and the error by angle."""
    aligned = aligned_clouds(model, solvers[0], instances, seed)
    chosen, drawn = models.worst_of_each_shape(aligned, cases), []
    for index in chosen:
        first, *_, last = aligned.panels(index)
        fit = f"misfit {100 * models.misfit(last.template, last.reference):.1f} % of the extent"
        drawn += [cloud_panel(first.title, first), cloud_panel(f"{last.title}, {fit}", last)]
    lows = torch.div(aligned.turn, TURNS, rounding_mode="floor").int() * TURNS
    steps = sorted(set(lows.tolist()))
    curve = [[low + TURNS / 2, aligned.error[lows == low].mean().item()] for low in steps]
    drawn.append(panels.lines("By angle", "turned by, degrees", "mean error in degrees", {"mean": curve}))
    return panels.titled(f"The worst shapes among {instances} test instances of {model.problem.name}", drawn)


def errors(model: Model, solvers: Solvers, instances: int, seed: int) -> PanelNumbers:
    """Return histograms of errors by solver: degrees, or wrong nodes."""
    problem, values = model.problem, {}
    data = problem.sample(instances, stream(seed, "test"), "test")
    nodes = isinstance(problem, (RandGraph, Willow))
    for spec in solvers:
        answer = model.answers(data.p, seeded(spec, seed))
        score = (answer != data.answer).sum(-1) if nodes else problem.score(answer, data)[problem.metric]
        values[sampler_label(spec)] = score.double()
    largest = max(float(value.max()) for value in values.values())
    bins = data.answer.shape[1] + 1 if nodes else ERROR_BINS
    edges = torch.arange(bins + 1) - 0.5 if nodes else torch.linspace(0, max(largest, 1e-6), bins + 1)
    edges = edges.double()
    hists = {name: torch.histogram(each, edges).hist for name, each in values.items()}
    shares = {name: (100 * hist / instances).tolist() for name, hist in hists.items()}
    what = "wrongly matched nodes" if nodes else f"error in {problem.metric}"
    panel = panels.bars("By solver at test time", what, "instances in %", edges.tolist(), shares)
    means = {name: f"mean {each.mean():.2f}, median {each.median():.2f}" for name, each in values.items()}
    note = "; ".join(f"{name}: {text}" for name, text in means.items())
    return panels.titled(f"Errors on the same {instances} test instances of {problem.name}", [panel], note)


def _by_procrustes(first: Panel) -> Panel:
    """Return the clouds after Procrustes undid the turn between them."""
    R, R_true = (
        procrustes((first.reference[rows].mT @ first.template[rows])[None].double())[0]
        for rows in (slice(None), ~first.wrong)
    )
    left = geodesic_so3(R, R_true).item()
    return first._replace(reference=first.reference @ R.float(), title=f"Procrustes, {left:.1f}° left")


def cloud_panel(title: str, panel: Panel) -> PanelNumbers:
    """Return two thinned clouds; wrong matches are separate."""
    step = -(-len(panel.template) // SHOWN_POINTS[panel.template.shape[1]])
    series = {"template": panel.template[::step], "reference": panel.reference[~panel.wrong][::step]}
    series["reference, wrong match"] = panel.reference[panel.wrong][::step]
    return panels.clouds(title, {name: points.tolist() for name, points in series.items() if len(points)})


def pair_panel(images: WillowImages, pairs: Pairs, P: Tensor, index: int) -> PanelNumbers:
    """Return one pair side by side, each image of height 1, with a line from each keypoint to its match."""
    pair = Pairs(*(tensor[index] for tensor in pairs))
    both = [int(pair.source), int(pair.target)]
    heights = images.sizes[both, 1]
    widths = images.sizes[both, 0] / heights
    lefts = torch.stack([torch.zeros(()), 1.1 * widths[0]])
    nodes = (pair.source_keypoints, pair.target_keypoints)
    x, y = (
        images.keypoints[image][some] / height * UPWARDS + left * torch.tensor([1.0, 0.0])
        for image, some, height, left in zip(both, nodes, heights, lefts, strict=True)
    )
    half = (0.5 / heights).tolist()  # pixel centers count from 1
    places = [
        [images.key(image), [left + h, left + width + h, -1 - h, -h]]
        for image, left, width, h in zip(both, lefts.tolist(), widths.tolist(), half, strict=True)
    ]
    right, k = P[index] == pair.P, len(pair.P)
    parts, ends = {"right": right, "wrong": ~right}.items(), enumerate(P[index].tolist())
    series = {name: torch.cat([x[these], y[pair.P[these]]]) for name, these in parts}
    points = {name: ends.tolist() for name, ends in series.items() if len(ends)}
    lines = [[x[node].tolist(), y[found].tolist()] for node, found in ends if found < k]
    made = panels.clouds(f"{images.classes[both[0]]}: {int(right.sum())} of {k} right", points, lines)
    missed = [[x[node].tolist(), y[pair.P[node]].tolist()] for node in (~right).nonzero()[:, 0].tolist()]
    return {**made, "missed": missed, "images": places}


#: Bits up to which exhaustive search is used.
EXACT_BITS = 24
BINS = 40
#: Energies this close, relative to the lowest, are one.
SAME_ENERGY = 1e-6


def all_reads(solver: Solver, A: Tensor) -> Tensor:
    """Return the final states of all reads ``[batch, reads, n]``."""
    if not hasattr(solver, "sample"):
        raise QubolearnError(f"{type(solver).__name__} has no reads; give annealing, neal or quantum")
    reads: Tensor = solver.sample(A)
    return reads


def second_lowest(A: Tensor, reads: Tensor) -> float:
    """Return the second-best energy of reads ``[reads, n]``, or NaN."""
    states = torch.unique(reads, dim=0).double()
    if len(states) < 2:
        return math.nan
    return qubo_energies(A[None].double(), states[None])[0].sort().values[1].item()


def energies(model: Model, solvers: Solvers, instances: int, seed: int) -> PanelNumbers:
    """Return histograms of the energies that samplers read on one QUBO."""
    A, drawn = _qubos(model, instances, seed)[-1:], []
    reads = {sampler_label(spec): all_reads(seeded(spec, seed), A) for spec in solvers}
    energy = {name: qubo_energies(A.double(), states.double())[0] for name, states in reads.items()}
    exact = [ExhaustiveSearch()(A, 2).energies[0]] if A.shape[-1] <= EXACT_BITS else []
    two = [float(each) for lowest in exact for each in lowest]
    known = [*energy.values(), *exact]
    low = min(float(value.min()) for value in known)
    high = sorted(float(value.max()) for value in known)[-2:][0]  # the samplers' second highest energy
    margin = max((high - low) / BINS, 1e-6) / 2  # centers the first bar
    edges = torch.linspace(low - margin, high + margin, BINS + 1, dtype=torch.float64)
    for name, value in energy.items():
        states, lowest = len(torch.unique(reads[name][0], dim=0)), value <= low + SAME_ENERGY * abs(low)
        counts = torch.histogram(value.clamp(max=edges[-1].item()), edges).hist.int().tolist()
        title = f"{name}: {100 * lowest.double().mean():.1f} % at the lowest, {states} states"
        x, y = "energy, largest entry of A: 1", f"of {len(value)} reads"
        drawn.append(panels.bars(title, x, y, edges.tolist(), {name: counts}))
    note = f"The two lowest energies are {', '.join(f'{each:.3f}' for each in two)}. The last bar of each panel holds "
    title = f"Energies that samplers read on one QUBO of {model.problem.bits} bits"
    return panels.titled(title, drawn, f"{note}all that is above.")


def train_and_sample(
    seed: int, solvers: Mapping[str, str], instances: int = 141, **trained: Any
) -> dict[str, Any]:
    """Train a model and return the second-best energies of samplers: mean and deviation."""
    model, seconds = models.trained_model(seed, **trained)
    return {**time_of(seconds), **second_best(model, solvers, instances, seed)}


def second_best(model: Model, solvers: Mapping[str, str], instances: int, seed: int) -> dict[str, Any]:
    """Return second-best energies of samplers relative to the first one's."""
    A, shares = _qubos(model, instances, seed), {}
    reads = {name: all_reads(seeded(spec, seed), A) for name, spec in solvers.items()}
    lowest = {name: [*map(second_lowest, A, each)] for name, each in reads.items()}
    found = {name: torch.tensor(each, dtype=torch.float64) for name, each in lowest.items()}
    first = next(iter(found.values()))
    for name, values in found.items():
        counted = torch.isfinite(values) & torch.isfinite(first) & (first < 0)
        share = values[counted] / first[counted]
        if len(share):
            spread = share.std(correction=0).item()
            shares[name] = {"relative": share.mean().item(), "deviation": spread, "instances": len(share)}
    return shares


@torch.no_grad()
def _qubos(model: Model, instances: int, seed: int) -> Tensor:
    """Return A ``[instances, n, n]``, scaled to a largest entry of 1."""
    A: Tensor = model.network(model.problem.sample(instances, stream(seed, "test"), "test").p)
    return A / A.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(A.dtype).tiny)


PIPELINE_BINS = 30


@torch.no_grad()
def pipeline(model: Model, solvers: Solvers, instances: int, seed: int) -> PanelNumbers:
    """Return the last test instance: input, p, learned A, reads, solution."""
    problem, solver = model.problem, seeded(solvers[0], seed)
    p = _inputs(model, instances, seed)
    A = model.networks[0](p)
    reads = all_reads(solver, A)
    energy = qubo_energies(A.double(), reads.double())[0]
    given, solved = _scenes(model, instances, seed, model.answers(p, solver))
    side = math.isqrt(p.shape[1])
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
    problem = model.problem
    if isinstance(problem, Rotation):
        clouds = problem.clouds(instances, stream(seed, "test"), "test")
        return problem.describe(clouds.template, clouds.reference)[-1:]
    p: Tensor = problem.sample(instances, stream(seed, "test"), "test").p
    return p[-1:]


def _scenes(model: Model, instances: int, seed: int, answer: Tensor) -> tuple[PanelNumbers, PanelNumbers]:
    problem, generator = model.problem, stream(seed, "test")
    if isinstance(problem, Willow):
        pairs = problem.sample_pairs(instances, generator, "test")
        P = answer.expand(instances, -1)
        solved = pair_panel(problem.images(), pairs, P, instances - 1)
        points = [place for each in solved["series"] for place in each["points"]]
        given = {"series": [{"name": "keypoints", "points": points}], "lines": [], "missed": []}
        return {**solved, **given}, solved
    if isinstance(problem, PointSet):
        pair = problem.sample_pairs(instances, generator, "test")
        first, *_, last = models.planar_panels(pair, instances - 1, answer[0])
    else:
        assert isinstance(problem, Rotation)
        matched = problem.clouds(instances, generator, "test")
        first, *_, last = models.spatial_panels(matched, instances - 1, answer[0], len(model.networks) > 1)
    return cloud_panel(first.title, first), cloud_panel(last.title, last)


Options = Mapping[str, Any]
OF_MODELS = (alignment, energies, errors, failures, matches, pipeline)


def train_and_draw(
    draw: Callable[..., PanelNumbers],
    seed: int,
    problem: Options,
    protocol: str,
    overrides: Options,
    solvers: Solvers = ("exhaustive",),
    instances: int = 1,
    noise: float = 0.0,
    **more: int,
) -> dict[str, Any]:
    """Train a model and return one figure of it."""
    model, seconds = models.trained_model(seed, problem, protocol, overrides)
    if noise:
        model = replace(model, problem=replace(model.problem, noise=noise))  # type: ignore[type-var]
    return {**time_of(seconds), draw.__name__: {"figure": draw(model, solvers, instances, seed, **more)}}


class _Moments(Callback):
    """Wrong bits and couplings at the start, half-way and at the end."""

    def __init__(self, problem: Problem, data: Instances) -> None:
        self.problem, self.data = problem, data
        self.found: dict[int, tuple[Evaluation, list[list[float]]]] = {}  # step -> what was seen
        self.history: list[dict[str, Any]] = []

    def look(self, training: Training) -> None:
        states, info = solve_instances(training.network, self.data.p)
        with torch.no_grad():
            couplings: list[list[float]] = training.network(self.data.p[:1])[0].tolist()
        self.found[training.step] = evaluate_bits(self.problem, states, self.data, info), couplings
        self.history = training.history

    on_start = on_end = look

    def on_step(self, training: Training) -> None:
        if training.scores is not None and 2 * training.step >= training.steps and len(self.found) < 2:
            self.look(training)


def training(seed: int, problem: Options, protocol: str, overrides: Options) -> dict[str, Any]:
    """Return wrong bits and couplings over training, as in Figure 4b."""
    made = make_problem(**problem)
    config = recipe_for(protocol, made, seed=seed, **overrides)
    data = made.sample(config.instances, stream(seed, "train", 0, device=models.device()), "train")
    watch = _Moments(made, data)
    began = time.perf_counter()
    train(made, config, device=models.device(), callbacks=[watch])
    seconds = round(time.perf_counter() - began, 3)
    edges = [place - 0.5 for place in range(made.bits + 2)]
    drawn, numbers = [], {}
    for step, (found, couplings) in watch.found.items():
        epoch = f"epoch {step / config.steps_per_epoch:.0f}"
        counts = {"as solved": found.hamming or ()}
        if step == config.steps and found.hamming_projected:  # projected only after training
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
    """Return a chip, and as many instances as one anneal holds."""
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
    holds = f"{whole} instances of {bits} bits in one anneal"
    note = f"The largest {chip} chip, of size {largest}, holds {holds}."
    title = f"{len(tiles)} instances of {bits} bits and {len(wanted.couplers)} couplers on a {chip} chip of size {size}"
    return {"connectivity": {"figure": panels.titled(title, [panel], note)}}
