"""Jobs of the paper's figures: train where needed, then put what is to be seen into plain numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from qubolearn.baselines.procrustes import procrustes
from qubolearn.config import preset
from qubolearn.datasets.willow import WillowImages
from qubolearn.embedding import Chip, find_tiles
from qubolearn.experiments import panels
from qubolearn.experiments.answers import (
    Aligned,
    Model,
    aligned_clouds,
    error_histograms,
    seeded,
    solver_label,
    worst_of_each_shape,
)
from qubolearn.experiments.panels import PanelNumbers
from qubolearn.experiments.sampler_figures import energy_histograms
from qubolearn.experiments.trained import device, trained_model
from qubolearn.problems import make_problem
from qubolearn.problems.angles import geodesic_so3
from qubolearn.problems.cloud_pictures import Panel, misfit
from qubolearn.problems.willow import Pairs, Willow
from qubolearn.problems.willow_pictures import right_and_wrong
from qubolearn.randomness import stream
from qubolearn.runs import Run
from qubolearn.topologies import FAMILIES, topology
from qubolearn.training import train

__all__ = ["FIGURE_TASKS"]

Options = Mapping[str, Any]
#: Points of one cloud of a picture, so that records stay small.
SHOWN_POINTS = {2: 120, 3: 90}
UPWARDS = torch.tensor([1.0, -1.0])  # images count pixels downwards


def energies(seed: int, problem: Options, protocol: str, overrides: Options, solvers: Sequence[str]) -> dict[str, Any]:
    """What samplers read on the QUBO of one test instance."""
    model, seconds = trained_model(seed, problem, protocol, overrides)
    found = energy_histograms(model, solvers, 1, seed)
    drawn = [
        panels.bars(
            f"{_sampler(spec)}: {100 * row['share_at_lowest']:.1f} % at the lowest, {row['distinct_states']} states",
            "energy",
            f"of {row['reads']} reads",
            found["edges"],
            {_sampler(spec): row["counts"]},
        )
        for spec, row in found["solvers"].items()
    ]
    lowest = ", ".join(f"{energy:.3f}" for energy in found["two_lowest"] or ())
    note = f"The two lowest energies are {lowest}. The last bar of each panel holds all that is above."
    title = f"Energies that samplers read on one QUBO of {model.problem.bits} bits"
    return {"training_seconds": seconds, "energies": panels.figure(title, drawn, note)}


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
    return {"training_seconds": seconds, "errors": panels.figure(title, [panel], note)}


def alignment(
    seed: int, problem: Options, protocol: str, overrides: Options, cases: int, noise: float = 0.0
) -> dict[str, Any]:
    """Clouds before and after: in 3D after every stage, and after Procrustes."""
    model, seconds = trained_model(seed, problem, protocol, overrides)
    aligned = aligned_clouds(_under_noise(model, noise), "exhaustive", cases, seed)
    drawn = []
    for index in range(cases):
        shown = list(aligned.panels(index))
        if shown[0].template.shape[1] == 3:
            shown.append(_by_procrustes(shown[0]))
        drawn += [_cloud_panel(f"case {index + 1}: {panel.title}", panel) for panel in shown]
    title = f"Test instances of {model.problem.name} before and after alignment"
    note = _noise_note(model.problem.name, noise)
    return {"training_seconds": seconds, "alignment": panels.figure(title, drawn, note)}


def failures(
    seed: int, problem: Options, protocol: str, overrides: Options, instances: int, cases: int
) -> dict[str, Any]:
    """The worst instances, one per shape, and how errors grow with the angle."""
    model, seconds = trained_model(seed, problem, protocol, overrides)
    aligned = aligned_clouds(model, "exhaustive", instances, seed)
    drawn = []
    for index in worst_of_each_shape(aligned, cases):
        first, *_, last = aligned.panels(index)
        fit = f"misfit {100 * misfit(last.template, last.reference):.1f} % of the extent"
        drawn += [_cloud_panel(first.title, first), _cloud_panel(f"{last.title}, {fit}", last)]
    drawn.append(panels.lines("By angle", "turned by, degrees", "mean error in degrees", {"mean": _by_turn(aligned)}))
    title = f"The worst shapes among {instances} test instances of {model.problem.name}"
    return {"training_seconds": seconds, "failures": panels.figure(title, drawn)}


def matches(seed: int, problem: Options, protocol: str, overrides: Options, instances: int) -> dict[str, Any]:
    """Keypoints of two image pairs that are matched rightly, and of two that are not, with lines between matches."""
    model, seconds = trained_model(seed, problem, protocol, overrides)
    assert isinstance(model.problem, Willow)
    pairs = model.problem.sample_pairs(instances, stream(seed, "test"), "test")
    P = model.answers(model.problem.weights(pairs).flatten(1), seeded("exhaustive", seed))
    images = model.problem.images()
    chosen = right_and_wrong(pairs, P, each=2).tolist()
    drawn = [_match_panel(images, Pairs(*(tensor[index] for tensor in pairs)), P[index]) for index in chosen]
    right = (P == pairs.P).all(-1).double().mean().item()
    note = f"{100 * right:.1f} % of {instances} pairs of unseen images are matched rightly. Each pair: two images."
    return {"training_seconds": seconds, "matches": panels.figure("Matched keypoints of Willow", drawn, note)}


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
    return {"training_seconds": records[-1]["seconds"], "training": panels.figure(title, drawn)}


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


def _under_noise(model: Model, noise: float) -> Model:
    return replace(model, problem=replace(model.problem, noise=noise)) if noise else model  # type: ignore[type-var]


def _noise_note(name: str, noise: float) -> str:
    what = "of the matches are wrong" if name == "rotation" else "of the extent is the range of uniform noise"
    return f"{100 * noise:.0f} % {what}." if noise else ""


def _by_procrustes(first: Panel) -> Panel:
    """The clouds after Procrustes undid the turn between them; the points that match say what it should have been."""
    R, R_true = (
        procrustes((first.reference[rows].mT @ first.template[rows])[None].double())[0]
        for rows in (slice(None), ~_wrong(first))
    )
    left = geodesic_so3(R, R_true).item()
    return first._replace(reference=first.reference @ R.float(), title=f"Procrustes, {left:.1f}° left")


def _wrong(panel: Panel) -> Tensor:
    return torch.zeros(len(panel.reference), dtype=torch.bool) if panel.wrong is None else panel.wrong


def _cloud_panel(title: str, panel: Panel) -> PanelNumbers:
    step = -(-len(panel.template) // SHOWN_POINTS[panel.template.shape[1]])
    wrong = _wrong(panel)
    series = {
        "template": panel.template[::step],
        "reference": panel.reference[~wrong][::step],
        "reference, wrong match": panel.reference[wrong][::step],
    }
    return panels.clouds(title, {name: points.tolist() for name, points in series.items() if len(points)})


def _match_panel(images: WillowImages, pair: Pairs, P: Tensor) -> PanelNumbers:
    """One pair side by side, each image of height 1; tensors without a batch."""
    width = (images.sizes[pair.source, 0] / images.sizes[pair.source, 1]).item()
    x, y = (
        images.keypoints[image][nodes] / images.sizes[image, 1]
        for image, nodes in ((pair.source, pair.source_keypoints), (pair.target, pair.target_keypoints))
    )
    x, y = x * UPWARDS, y * UPWARDS + torch.tensor([1.1 * width, 0.0])
    right = P == pair.P
    series = {"right": torch.cat([x[right], y[pair.P[right]]]), "wrong": torch.cat([x[~right], y[pair.P[~right]]])}
    lines = [[x[node].tolist(), y[found].tolist()] for node, found in enumerate(P.tolist()) if found < len(P)]
    name = str(images.classes[int(pair.source)])
    points = {each: places.tolist() for each, places in series.items() if len(places)}
    return panels.clouds(f"{name}: {int(right.sum())} of {len(P)} right", points, lines)


def _by_turn(aligned: Aligned, width: int = 10) -> list[list[float]]:
    """Mean error by the angle before, in steps of ten degrees: [[middle, mean], ...]."""
    step = torch.div(aligned.turn, width, rounding_mode="floor").int()
    found = sorted(set(step.tolist()))
    return [[(each + 0.5) * width, aligned.error[step == each].mean().item()] for each in found]


FIGURE_TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "energies": energies,
    "errors": errors,
    "alignment": alignment,
    "failures": failures,
    "matches": matches,
    "training": training,
    "connectivity": connectivity,
}
