"""Jobs of figures: a model is trained, and what it answers, what samplers read or how it learned is kept as numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.topologies import FAMILIES, topology
from qubolearn.evaluation import evaluate_bits, solve_instances
from qubolearn.paper.grid import figures, panels, pipeline_figure, sampler_figures
from qubolearn.paper.grid.panels import Drawn
from qubolearn.paper.grid.trained import device, time_of, trained_model
from qubolearn.problems import Problem, make_problem
from qubolearn.randomness import stream
from qubolearn.solvers import make_solver
from qubolearn.training.recipes import Recipe, recipe_for
from qubolearn.training.runs import Run
from qubolearn.training.train import train

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
        return {**time_of(seconds), name: {"figure": draw(model, solvers, instances, seed, **more).figure}}

    return task


def alignment(seed: int, cases: int, **options: Any) -> dict[str, Any]:
    """Clouds before and after alignment."""
    return drawn_by("alignment", figures.alignment)(seed, instances=cases, **options)


def training(seed: int, problem: Options, protocol: str, overrides: Options) -> dict[str, Any]:
    """Wrong bits of validation instances and the couplings of one of them, at the start, half-way and at the end."""
    made = make_problem(**problem)
    config = recipe_for(protocol, made, seed=seed, **overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(f"{folder}/run", made, config)
        network = train(made, config, run, device())
        records = run.metrics()
    halfway = min(records, key=lambda record: abs(record["step"] - config.steps / 2))
    edges = [place - 0.5 for place in range(made.bits + 2)]
    drawn = []
    for record in (records[0], halfway, records[-1]):
        epoch = f"epoch {record['step'] / config.steps_per_epoch:.0f}"
        counts = {"as solved": record["hamming"]}
        if record is records[-1] and "hamming_projected" in record:
            counts["projected"] = record["hamming_projected"]
        drawn.append(panels.bars(f"Wrong bits, {epoch}", "wrong bits", "instances", edges, counts))
        drawn.append(panels.matrix(f"Couplings A of one instance, {epoch}", record["couplings"]))
    if not config.fresh:
        counts = _on_training_set(made, config, network)
        drawn.append(
            panels.bars("Wrong bits on the training set, at the end", "wrong bits", "instances", edges, counts)
        )
    curve = [[record["step"] / config.steps_per_epoch, 100 * record["accuracy"]] for record in records]
    drawn.append(panels.lines("Over training", "epoch", "right instances in %", {"validation": curve}))
    title = f"{made}, L{config.layers} H{config.hidden}, loss {config.loss}, over {config.epochs} epochs"
    return {**time_of(records[-1]["seconds"]), "training": {"figure": panels.titled(title, drawn)}}


def _on_training_set(problem: Problem, recipe: Recipe, network: nn.Module) -> dict[str, list[int]]:
    """How many instances of the training set have so many wrong bits, as solved and projected."""
    data = problem.sample(recipe.instances, stream(recipe.seed, "train", 0), "train").to(device())
    states, info = solve_instances(network, data.p, make_solver(recipe.solver))
    found = evaluate_bits(problem, states, data, info).as_dict()
    names = {"as solved": "hamming", "projected": "hamming_projected"}
    return {shown: list(found[name]) for shown, name in names.items() if name in found}


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
    "pipeline": drawn_by("pipeline", pipeline_figure.pipeline),
    "alignment": alignment,
    "training": training,
    "connectivity": connectivity,
}
