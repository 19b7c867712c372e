"""Jobs of figures: a model is trained, and what it answers, what samplers read or how it learned is kept as numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from quant_reproduction.grid import figures, panels, sampler_figures
from quant_reproduction.grid.panels import Drawn
from quant_reproduction.grid.trained import device, time_of, trained_model
from quant_reproduction.presets import recipe_for
from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.topologies import FAMILIES, topology
from qubolearn.data.contract import Instances
from qubolearn.evaluation import Evaluation, evaluate_bits, solve_instances
from qubolearn.problems import Problem, make_problem
from qubolearn.random import stream
from qubolearn.recipes import train
from qubolearn.training.callbacks import Callback
from qubolearn.training.fit import Training

__all__ = ["FIGURE_TASKS"]

Options = Mapping[str, Any]


def drawn_by(name: str, draw: Callable[..., Drawn]) -> Callable[..., dict[str, Any]]:
    """The task that trains a model and keeps the panels of one figure of it, under the figure's name."""

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
        return {**took, name: {"figure": draw(model, solvers, instances, seed, **more).figure}}

    return task


def alignment(seed: int, cases: int, **options: Any) -> dict[str, Any]:
    """Clouds before and after alignment."""
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
    """Wrong bits of the training set and the couplings of its first instance over training, as in Figure 4b."""
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
    """A chip, and as many instances on it as one anneal holds: one bit per qubit, no chains."""
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
    "energies": drawn_by("energies", sampler_figures.energies),
    "errors": drawn_by("errors", figures.errors),
    "failures": drawn_by("failures", figures.failures),
    "matches": drawn_by("matches", figures.matches),
    "pipeline": drawn_by("pipeline", sampler_figures.pipeline),
    "alignment": alignment,
    "training": training,
    "connectivity": connectivity,
}
