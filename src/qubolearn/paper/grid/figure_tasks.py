"""Jobs of figures that show solvers, training and chips, as plain numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.topologies import FAMILIES, topology
from qubolearn.paper.grid import panels
from qubolearn.paper.grid.answers import error_histograms, solver_label
from qubolearn.paper.grid.sampler_figures import energy_histograms
from qubolearn.paper.grid.trained import device, time_of, trained_model
from qubolearn.problems import make_problem
from qubolearn.training.loop import train
from qubolearn.training.recipes import preset
from qubolearn.training.runs import Run

__all__ = ["FIGURE_TASKS"]

Options = Mapping[str, Any]


def energies(seed: int, problem: Options, protocol: str, overrides: Options, solvers: Sequence[str]) -> dict[str, Any]:
    """What samplers read on the QUBO of one test instance."""
    model, seconds = trained_model(seed, problem, protocol, overrides)
    found = energy_histograms(model, solvers, 1, seed)
    drawn = [
        panels.bars(
            f"{_sampler(spec)}: {100 * row['share_at_lowest']:.1f} % at the lowest, {row['distinct_states']} states",
            "energy, largest entry of A: 1",
            f"of {row['reads']} reads",
            found["edges"],
            {_sampler(spec): row["counts"]},
        )
        for spec, row in found["solvers"].items()
    ]
    lowest = ", ".join(f"{energy:.3f}" for energy in found["two_lowest"] or ())
    note = f"The two lowest energies are {lowest}. The last bar of each panel holds all that is above."
    title = f"Energies that samplers read on one QUBO of {model.problem.bits} bits"
    return {**time_of(seconds), "energies": panels.figure(title, drawn, note)}


def errors(
    seed: int, problem: Options, protocol: str, overrides: Options, solvers: Sequence[str], instances: int
) -> dict[str, Any]:
    """Errors of the same model on the same instances, by solver at test time."""
    model, seconds = trained_model(seed, problem, protocol, overrides)
    found = error_histograms(model, solvers, instances, seed)
    rows = {_sampler(spec): row for spec, row in found["solvers"].items()}
    shares = {name: [100 * share for share in row["shares"]] for name, row in rows.items()}
    panel = panels.bars("By solver at test time", found["error"], "instances in %", found["edges"], shares)
    note = "; ".join(f"{name}: mean {row['mean']:.2f}, median {row['median']:.2f}" for name, row in rows.items())
    title = f"Errors on the same {instances} test instances of {model.problem.name}"
    return {**time_of(seconds), "errors": panels.figure(title, [panel], note)}


def training(seed: int, problem: Options, protocol: str, overrides: Options) -> dict[str, Any]:
    """Wrong bits of validation instances and the couplings of one of them, at the start, half-way and at the end."""
    made = make_problem(**problem)
    config = preset(protocol, made, seed=seed, **overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(f"{folder}/run", made, config)
        train(made, config, run, device())
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
    curve = [[record["step"] / config.steps_per_epoch, 100 * record["accuracy"]] for record in records]
    drawn.append(panels.lines("Over training", "epoch", "right instances in %", {"validation": curve}))
    title = f"{made}, L{config.layers} H{config.hidden}, loss {config.loss}, over {config.epochs} epochs"
    return {**time_of(records[-1]["seconds"]), "training": panels.figure(title, drawn)}


def connectivity(seed: int, chip: str, size: int, bits: int, pattern: str) -> dict[str, Any]:
    """A chip, and as many instances on it as one anneal holds: one bit per qubit, no chains."""
    import dwave.graphs as graphs

    wanted = topology(pattern, bits)
    ideal = Chip.ideal(chip, size)
    tiles = find_tiles(bits, wanted.couplers, ideal).tiles
    layouts = {"chimera": graphs.chimera_layout, "pegasus": graphs.pegasus_layout, "zephyr": graphs.zephyr_layout}
    make = {"chimera": graphs.chimera_graph, "pegasus": graphs.pegasus_graph, "zephyr": graphs.zephyr_graph}[chip]
    places = layouts[chip](make(size))
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
    return {"connectivity": panels.figure(title, [panel], note)}


def _sampler(spec: str) -> str:
    """A sampler's name that says what is simulated."""
    label = solver_label(spec)
    return label if "simulated" in label or spec.startswith("exhaustive") else f"{label} (simulated)"


FIGURE_TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "energies": energies,
    "errors": errors,
    "training": training,
    "connectivity": connectivity,
}
