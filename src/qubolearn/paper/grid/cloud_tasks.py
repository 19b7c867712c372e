"""Jobs of figures that show point clouds and keypoints: what a model of ours makes of unseen ones, as plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from qubolearn.paper.baselines.procrustes import procrustes
from qubolearn.paper.datasets.willow import WillowImages
from qubolearn.paper.grid import panels
from qubolearn.paper.grid.answers import Model, aligned_clouds, mean_error_by_turn, seeded, worst_of_each_shape
from qubolearn.paper.grid.panels import PanelNumbers
from qubolearn.paper.grid.trained import time_of, trained_model
from qubolearn.paper.problems.angles import geodesic_so3
from qubolearn.paper.problems.cloud_pictures import Panel, misfit
from qubolearn.paper.problems.willow import Pairs, Willow
from qubolearn.paper.problems.willow_pictures import right_and_wrong
from qubolearn.randomness import stream

__all__ = ["CLOUD_TASKS"]

Options = Mapping[str, Any]
#: Points of one cloud of a picture, so that records stay small.
SHOWN_POINTS = {2: 120, 3: 90}
UPWARDS = torch.tensor([1.0, -1.0])  # images count pixels downwards
TURNS = 10  # degrees: errors are shown by the angle before, in steps of this


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
    return {**time_of(seconds), "alignment": panels.figure(title, drawn, note)}


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
    by_turn = [[low + TURNS / 2, error] for low, error in mean_error_by_turn(aligned, TURNS).items()]
    drawn.append(panels.lines("By angle", "turned by, degrees", "mean error in degrees", {"mean": by_turn}))
    title = f"The worst shapes among {instances} test instances of {model.problem.name}"
    return {**time_of(seconds), "failures": panels.figure(title, drawn)}


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
    return {**time_of(seconds), "matches": panels.figure("Matched keypoints of Willow", drawn, note)}


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


CLOUD_TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "alignment": alignment,
    "failures": failures,
    "matches": matches,
}
