"""Figures of what trained runs answer: matches, alignments, failures and errors per solver, as plain numbers.

Each function takes a trained model, solvers, a number of test instances and a seed. Jobs of the grid keep the panels in
their records; ``quant figure`` draws them into a file. What samplers read is in ``sampler_figures``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from quant_reproduction.baselines import procrustes
from quant_reproduction.datasets.willow import WillowImages
from quant_reproduction.grid import panels
from quant_reproduction.grid.models import (
    Model,
    Panel,
    aligned_clouds,
    misfit,
    sampler_label,
    seeded,
    worst_of_each_shape,
)
from quant_reproduction.grid.panels import PanelNumbers
from quant_reproduction.problems.clouds import geodesic_so3
from quant_reproduction.problems.pointset import PointSet
from quant_reproduction.problems.rotation import Rotation
from quant_reproduction.problems.willow import Pairs, Willow
from qubolearn.errors import QubolearnError
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import stream

#: Points of one cloud of a picture, so that records stay small.
SHOWN_POINTS = {2: 120, 3: 90}
#: Degrees: errors are shown by the angle before, in steps of this.
TURNS = 10
#: Bars of the histogram of errors.
BINS = 15
UPWARDS = torch.tensor([1.0, -1.0])  # images count pixels downwards


def matches(model: Model, solvers: Sequence[str], instances: int, seed: int, each: int = 2) -> PanelNumbers:
    """Return pairs of Willow images: ``each`` whose matching is right and as many whose matching is wrong."""
    if not isinstance(model.problem, Willow):
        raise QubolearnError(f"a run of {model.problem.name}; matches are drawn on images: give a run of willow")
    pairs, P = _willow_matchings(model, solvers, instances, seed)
    right = (P == pairs.P).all(-1).double().mean().item()
    note = (
        f"{100 * right:.1f} % of {instances} pairs of unseen images are matched rightly; dashed: the truth. "
        "The images are drawn where the dataset is at hand."
    )
    chosen = right_and_wrong(pairs, P, each)
    drawn = [pair_panel(model.problem.images(), pairs, P, index) for index in chosen.tolist()]
    return panels.titled("Matched keypoints of Willow", drawn, note)


def alignment(model: Model, solvers: Sequence[str], instances: int, seed: int) -> PanelNumbers:
    """Return clouds before and after alignment; in 3D after every stage, and after Procrustes."""
    aligned = aligned_clouds(model, solvers[0], instances, seed)
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


def failures(model: Model, solvers: Sequence[str], instances: int, seed: int, cases: int = 5) -> PanelNumbers:
    """Return the worst instances: clouds that ended far from aligned, or matchings with the most wrong nodes."""
    if isinstance(model.problem, (PointSet, Rotation)):
        return _cloud_failures(model, solvers, instances, seed, cases)
    title = f"Wrong matchings of {instances} test instances, the most wrong ones first; dashed: the truth"
    if isinstance(model.problem, Willow):
        pairs, P = _willow_matchings(model, solvers, instances, seed)
        chosen = _most_wrong(P, pairs.P)
        drawn = [pair_panel(model.problem.images(), pairs, P, index) for index in chosen.tolist()]
        return panels.titled(title, drawn)
    if isinstance(model.problem, RandGraph):
        data = model.problem.sample(instances, stream(seed, "test"), "test")
        P = model.answers(data.p, seeded(solvers[0], seed))
        chosen = _most_wrong(P, data.answer)
        rows = -torch.arange(P.shape[1]).double()
        x, y = (torch.stack([torch.full_like(rows, side), rows], 1) for side in (0.0, len(rows) - 1.0))
        drawn = [match_panel("", x, y, P[index], data.answer[index]) for index in chosen.tolist()]
        return panels.titled(title, drawn)
    raise QubolearnError(
        f"failures of {model.problem.name} cannot be drawn; expected pointset, rotation, randgraph or willow"
    )


def errors(model: Model, solvers: Sequence[str], instances: int, seed: int) -> PanelNumbers:
    """Return histograms of the errors of each solver on the same instances: degrees, or wrong nodes of a matching."""
    problem, values = model.problem, {}
    data = problem.sample(instances, stream(seed, "test"), "test")
    nodes = isinstance(problem, (RandGraph, Willow))
    for spec in solvers:
        answer = model.answers(data.p, seeded(spec, seed))
        score = (answer != data.answer).sum(-1) if nodes else problem.score(answer, data)[problem.metric]
        values[sampler_label(spec)] = score.double()
    largest = max(float(value.max()) for value in values.values())
    bins = data.answer.shape[1] + 1 if nodes else BINS
    edges = torch.arange(bins + 1) - 0.5 if nodes else torch.linspace(0, max(largest, 1e-6), bins + 1)
    edges = edges.double()
    shares = {name: (100 * torch.histogram(value, edges).hist / len(value)).tolist() for name, value in values.items()}
    what = "wrongly matched nodes" if nodes else f"error in {problem.metric}"
    panel = panels.bars("By solver at test time", what, "instances in %", edges.tolist(), shares)
    note = "; ".join(f"{name}: mean {each.mean():.2f}, median {each.median():.2f}" for name, each in values.items())
    return panels.titled(f"Errors on the same {instances} test instances of {problem.name}", [panel], note)


def _cloud_failures(model: Model, solvers: Sequence[str], instances: int, seed: int, cases: int) -> PanelNumbers:
    """Return the worst instance of each of the worst shapes, and how errors grow with the angle."""
    aligned = aligned_clouds(model, solvers[0], instances, seed)
    chosen, drawn = worst_of_each_shape(aligned, cases), []
    for index in chosen:
        first, *_, last = aligned.panels(index)
        fit = f"misfit {100 * misfit(last.template, last.reference):.1f} % of the extent"
        drawn += [cloud_panel(first.title, first), cloud_panel(f"{last.title}, {fit}", last)]
    lows = torch.div(aligned.turn, TURNS, rounding_mode="floor").int() * TURNS
    curve = [[low + TURNS / 2, aligned.error[lows == low].mean().item()] for low in sorted(set(lows.tolist()))]
    drawn.append(panels.lines("By angle", "turned by, degrees", "mean error in degrees", {"mean": curve}))
    return panels.titled(f"The worst shapes among {instances} test instances of {model.problem.name}", drawn)


def _by_procrustes(first: Panel) -> Panel:
    """Return the clouds after Procrustes undid the turn between them; the points that match give the truth."""
    R, R_true = (
        procrustes((first.reference[rows].mT @ first.template[rows])[None].double())[0]
        for rows in (slice(None), ~first.wrong)
    )
    left = geodesic_so3(R, R_true).item()
    return first._replace(reference=first.reference @ R.float(), title=f"Procrustes, {left:.1f}° left")


def cloud_panel(title: str, panel: Panel) -> PanelNumbers:
    """Return two overlaid, thinned clouds; points with a wrong match are separate."""
    step = -(-len(panel.template) // SHOWN_POINTS[panel.template.shape[1]])
    series = {
        "template": panel.template[::step],
        "reference": panel.reference[~panel.wrong][::step],
        "reference, wrong match": panel.reference[panel.wrong][::step],
    }
    return panels.clouds(title, {name: points.tolist() for name, points in series.items() if len(points)})


def _willow_matchings(model: Model, solvers: Sequence[str], instances: int, seed: int) -> tuple[Pairs, Tensor]:
    """Test pairs and what the model matches in them ``[batch, k]``."""
    assert isinstance(model.problem, Willow)
    pairs = model.problem.sample_pairs(instances, stream(seed, "test"), "test")
    return pairs, model.answers(model.problem.weights(pairs).flatten(1), seeded(solvers[0], seed))


def right_and_wrong(pairs: Pairs, P: Tensor, each: int) -> Tensor:
    """Return the first ``each`` indices of right matchings P ``[batch, k]``, then of as many wrong ones."""
    right = (P == pairs.P).all(-1)
    return torch.cat([right.nonzero()[:each, 0], (~right).nonzero()[:each, 0]])


def _most_wrong(P: Tensor, P_true: Tensor, count: int = 8) -> Tensor:
    """Return indices of up to ``count`` wrong matchings ``[batch, k]``, those with the most wrong nodes first."""
    wrong = (P_true != P).sum(-1)
    if not bool(wrong.any()):
        raise QubolearnError(f"all of {len(P)} matchings are right; raise --instances to find a failure")
    return wrong.argsort(descending=True, stable=True)[: min(count, int((wrong > 0).sum()))]


def match_panel(name: str, x: Tensor, y: Tensor, P: Tensor, P_true: Tensor) -> PanelNumbers:
    """Return nodes at x and y ``[k, 2]`` with a line from each to its match in P ``[k]``, right and wrong ones.

    Bits may say a node that there is not: it has no line. Matches that were missed are dashed.
    """
    right = P_true == P
    series = {"right": torch.cat([x[right], y[P_true[right]]]), "wrong": torch.cat([x[~right], y[P_true[~right]]])}
    lines = [[x[node].tolist(), y[found].tolist()] for node, found in enumerate(P.tolist()) if found < len(P)]
    points = {each: places.tolist() for each, places in series.items() if len(places)}
    made = panels.clouds(f"{name}{int(right.sum())} of {len(P)} right", points, lines)
    missed = (~right).nonzero()[:, 0].tolist()
    return {**made, "missed": [[x[node].tolist(), y[P_true[node]].tolist()] for node in missed]}


def pair_panel(images: WillowImages, pairs: Pairs, P: Tensor, index: int) -> PanelNumbers:
    """Return one pair side by side, each image of height 1; the panel holds names and positions of the images."""
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
    half = (0.5 / heights).tolist()  # pixels are counted from 1, their centers are half a pixel inside
    places = [
        [images.key(image), [left + h, left + width + h, -1 - h, -h]]
        for image, left, width, h in zip(both, lefts.tolist(), widths.tolist(), half, strict=True)
    ]
    return {**match_panel(f"{images.classes[both[0]]}: ", x, y, P[index], pair.P), "images": places}
