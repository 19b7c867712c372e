"""Tasks of jobs: functions of a seed and options that return metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from quant_reproduction import released
from quant_reproduction.baselines import TWO_STARTS, aqm, aqm_angle, evaluate_baseline, solve_exactly
from quant_reproduction.baselines.graphs import qgm
from quant_reproduction.couplings import structured, sudoku, view_of
from quant_reproduction.grid import figures
from quant_reproduction.grid.jobs import packed
from quant_reproduction.grid.models import Model, device, networks_of, time_of, trained, training_runs
from quant_reproduction.grid.thermal import chip_embedding, thermal
from quant_reproduction.presets import recipe_for
from quant_reproduction.problems.clouds import STAGES, pair_moments, rotation_2d
from quant_reproduction.problems.pointset import CloudPairs, PointSet
from qubolearn.chips.embedding import Chip, embed_report, find_tiles
from qubolearn.chips.topologies import topology
from qubolearn.evaluation import Evaluation, evaluate, evaluate_bits, solve_instances
from qubolearn.problems import Problem, make_problem
from qubolearn.random import stream
from qubolearn.recipes import make_loss, make_optimizer, new_network
from qubolearn.solvers import Solver, make_solver
from qubolearn.solvers.contract import QuboSolver, SearchResult
from qubolearn.training.fit import fit

Options = Mapping[str, Any]
Score = Callable[[Any, Solver, int, bool], Evaluation]  # problem, solver, instances, training set
PLAIN: Sequence[Options] = ({"label": "exhaustive"},)


def _tested(
    problem: Problem, score: Score, tests: Sequence[Options] = PLAIN, instances: int = 2000
) -> dict[str, Any]:
    """Return metrics by label; a test may have its own solver and options."""
    found = {}
    for test in tests:
        changed = replace(problem, **test.get("set", {}))  # type: ignore[type-var]
        solver = make_solver(test.get("solver", "exhaustive"))
        scored = score(changed, solver, test.get("instances", instances), "on" in test)
        found[test["label"]] = _plain(scored, problem.metric)
    return found


def train_and_evaluate(
    seed: int,
    problem: Options,
    protocol: str,
    overrides: Options | None = None,
    task: str = "train",
    **testing: Any,
) -> dict[str, Any]:
    """Train one network, or one per angle, then score it under each test."""
    asked = training_runs(seed, problem, protocol, overrides, task == "stages")
    networks, seconds = networks_of(asked)

    def score(changed: Any, solver: Solver, count: int, known: bool) -> Evaluation:
        if task == "stages":
            stages = tuple(replace(changed, stage=stage) for stage in STAGES)
            return Model(changed, stages, tuple(networks)).evaluate(solver, count, seed, device())
        if known:
            data = changed.sample(asked[0][1].instances, stream(seed, "train", 0, device=device()), "train")
            states, info = solve_instances(networks[0].to(device()), data.p, solver)
            return evaluate_bits(changed, states, data, info)
        return evaluate(networks[0], changed, solver, count, seed, device=device())

    return {**time_of(seconds), **_tested(make_problem(**problem), score, **testing)}


def train_raw(
    seed: int, problem: Options, protocol: str, overrides: Options, sampler: str, instances: int
) -> dict[str, Any]:
    """Train one network through raw reads, and score it likewise."""
    ((made, recipe),) = training_runs(seed, problem, protocol, overrides)
    read = RawReads(make_solver(sampler)) if hasattr(make_solver(sampler), "sample") else make_solver(sampler)
    network = new_network(made, recipe)
    names = ("epochs", "batch_size", "instances", "validation", "standardize", "seed")
    options: Any = {"optimizer": make_optimizer(recipe), **{name: getattr(recipe, name) for name in names}}
    began = time.perf_counter()
    fit(network, made, make_loss(recipe), solver=read, score_after=[recipe.steps], device=device(), **options)
    seconds = round(time.perf_counter() - began, 3)
    solver = read.with_seed(seed) if isinstance(read, RawReads) else read
    tested = evaluate(network, made, solver, instances, seed, device=device())
    data = made.sample(recipe.instances, stream(seed, "train", 0, device=device()), "train")
    data = data.rows(slice(0, instances))
    states, info = solve_instances(network, data.p, solver)
    known = evaluate_bits(made, states, data, info)
    return {**time_of(seconds), "own": _plain(tested, made.metric), "training": _plain(known, made.metric)}


def search(
    seed: int,
    problem: Options,
    protocol: str,
    overrides: Options,
    candidates: Mapping[str, Options],
    instances: int = 2000,
) -> dict[str, Any]:
    """Train a recipe with each change, scored on validation instances."""
    made = make_problem(**problem)
    solver, found, took = make_solver("exhaustive"), {}, 0.0
    for label, changed in candidates.items():
        network, seconds = trained(made, recipe_for(protocol, made, seed=seed, **{**overrides, **changed}))
        scored = evaluate(network, made, solver, instances, seed, split="validation", device=device())
        found[label] = _plain(scored, made.metric)
        took += seconds
    return {**time_of(round(took, 3)), **found}


def _plain(found: Evaluation, metric: str) -> dict[str, Any]:
    plain = found.as_dict().items()
    flat = {name: [*value] if isinstance(value, tuple) else value for name, value in plain}
    return {**flat, "scores": packed(found.scores[metric])}


def baseline(seed: int, method: str, problem: Options, **testing: Any) -> dict[str, Any]:
    """Score a method without learning on the networks' instances."""
    score = lambda changed, solver, count, _: evaluate_baseline(method, changed, solver, count, seed)  # noqa: E731
    return _tested(make_problem(**problem), score, **testing)


def qgm_success(
    seed: int, variant: str, k: int, solver: str, instances: int = 141, chip: str = "", size: int = 0
) -> dict[str, Any]:
    """Return how often one anneal of QGM's QUBO finds its minimum."""
    data = make_problem("randgraph", k=k).sample(instances, stream(seed, "test"), "test")
    made = qgm(data.p.reshape(instances, k * k, k * k), variant)  # type: ignore[arg-type]
    annealer: Any = make_solver(solver)
    if chip:
        annealer = replace(annealer, embedding=chip_embedding(made.A.shape[1], chip, size))
    solution = annealer(made.A.to(device()), 1)
    right = (made.decode(solution.states[:, 0].cpu()) == data.answer).all(-1)
    success = solution.info["success_probability"].double()
    found = {"accuracy": right.double().mean().item(), "success_probability": success.mean().item()}
    spread = {"success_probability_deviation": success.std().item()} if instances > 1 else {}
    qubits = annealer.embedding.qubits if chip else made.A.shape[1]
    more = {"instances": instances, "source": solution.info["source"], "qubits": qubits}
    return {"quantum": {**found, **spread, **more}}


def count_qubits(seed: int, bits: int, pattern: str, chip: str, size: int, blocks: int = 1) -> dict[str, Any]:
    """Return qubits and chains: of the smallest embedding, and means."""
    wanted = topology(pattern, bits)
    chains = [len(chain) for chain in find_tiles(bits, wanted.couplers, Chip.ideal(chip, size)).tiles[0]]
    report = embed_report(wanted, chip, size)
    smallest = {"logical": blocks * bits, "physical": blocks * sum(chains), "chain": max(chains)}
    means = {
        "physical_mean": blocks * report.physical_qubits,
        "physical_deviation": blocks * report.physical_qubits_deviation,
        "chain_mean": report.chain_max,
    }
    return {"embedding": {**smallest, **means, "report": asdict(report)}}


@dataclass(frozen=True)
class RawReads(QuboSolver):
    """The lowest states among a sampler's reads, as the paper takes them.

    If all reads of a QUBO are one state, the last has one bit flipped, by ``seed``.
    """

    sampler: Any  # a SamplingSolver
    seed: int | None = None

    def search(self, A: Tensor, count: int) -> SearchResult:
        reads = self.sampler.sample(A).clone()
        alone = (reads == reads[:, :1]).all(2).all(1)
        generator = torch.Generator().manual_seed(self.seed or 0)
        bit = torch.randint(A.shape[2], (len(A),), generator=generator).to(A.device)[alone]
        rows = alone.nonzero()[:, 0]
        reads[rows, -1, bit] = 1 - reads[rows, -1, bit]
        return SearchResult(reads, {"source": "simulated"})

    def with_seed(self, seed: int | None) -> Self:
        """Return a copy with this seed, also of the sampler."""
        return replace(self, sampler=self.sampler.with_seed(seed), seed=seed)


def aqm_errors(
    seed: int, problem: Mapping[str, Any], neighbors: Sequence[int], rounds: Sequence[int], instances: int
) -> dict[str, Any]:
    """Return AQM's errors in degrees, and the share found, by setting.

    ``found`` is the slope of the answers over the true angles.
    """
    made = make_problem(**problem)
    assert isinstance(made, PointSet)
    pairs = made.sample_pairs(instances, stream(seed, "test"), "test")
    metrics = {}
    for label, angle in _aqm_answers(pairs, neighbors, rounds):
        error = made.degrees(angle, pairs.angle)
        slope = (angle * pairs.angle).sum() / pairs.angle.square().sum()
        degrees = {"degrees": error.mean().item(), "degrees_median": error.median().item()}
        metrics[label] = {**degrees, "found": slope.item(), "instances": instances}
    return metrics


def _aqm_answers(pairs: CloudPairs, nearest: Sequence[int], rounds: Sequence[int]) -> Any:
    template, reference, *counts, _ = pairs
    for count in nearest:
        for each in rounds:
            yield f"{count}, {each}", aqm(template, reference, counts[0], counts[1], count, each)
    for each in rounds:
        yield f"starts, {each}", _from_two_starts(pairs, each)
    yield "own, 1", aqm_angle(solve_exactly(_matched_moments(template, reference, counts[0])))


def _from_two_starts(pairs: CloudPairs, rounds: int) -> Tensor:
    """Return the better answer of two starts, with three neighbors."""
    template, reference, *counts, _ = pairs
    answers, distances = [], []
    for start in TWO_STARTS:
        turned = template @ rotation_2d(torch.tensor(start)).mT
        answers.append(start + aqm(turned, reference, counts[0], counts[1], 3, rounds))
        near = pair_moments(template @ rotation_2d(answers[-1]).mT, reference, 1, counts[0], counts[1])
        distances.append(near.xx - 2 * near.dot + near.yy)
    return torch.where(distances[0] <= distances[1], answers[0], answers[1])


def _matched_moments(y: Tensor, x: Tensor, counts: Tensor) -> Tensor:
    """Return |x|², |y|², x·y, y×x ``[batch, 4]`` of points paired with themselves."""
    products = [x * x, y * y, x * y, torch.stack([x[..., 1] * y[..., 0], -x[..., 0] * y[..., 1]], -1)]
    return torch.stack([each.sum((1, 2)) / counts for each in products], 1)


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "train": train_and_evaluate,
    "stages": partial(train_and_evaluate, task="stages"),
    "train-raw": train_raw,
    "search": search,
    "baseline": baseline,
    "qgm": qgm_success,
    "second-best": figures.train_and_sample,
    "qubits": count_qubits,
    "thermal": thermal,
    "aqm": aqm_errors,
    "released": released.cell,
    "released-direct": released.direct,
    "released-levels": released.levels,
    "chip-view": view_of,
    "sudoku": sudoku.solved_puzzles,
    "sudoku-search": sudoku.by_search,
    "visual-sudoku": sudoku.read_puzzles,
    "willow10": structured.matched_pairs,
    "scene": structured.labeled_pictures,
    "snakes": structured.numbered_cells,
    "training": figures.training,
    "connectivity": figures.connectivity,
    **{draw.__name__: partial(figures.train_and_draw, draw) for draw in figures.OF_MODELS},
}
