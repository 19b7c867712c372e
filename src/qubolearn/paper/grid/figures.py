"""Figures of what trained runs answer: matches, alignments, failures and errors per solver.

Each function takes a trained model, solvers, a number of test instances and a seed, and gives a picture with its
numbers. Pictures of what samplers read are in ``sampler_figures``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.answers import (
    Model,
    aligned_clouds,
    error_histograms,
    mean_error_by_turn,
    seeded,
    solver_label,
    worst_of_each_shape,
)
from qubolearn.paper.problems.cloud_pictures import Panel, draw_panels, misfit
from qubolearn.paper.problems.pointset import PointSet
from qubolearn.paper.problems.rotation import Rotation
from qubolearn.paper.problems.willow import Pairs, Willow
from qubolearn.paper.problems.willow_pictures import draw_matches, right_and_wrong
from qubolearn.plots import BLUE, GREY, RED, figure
from qubolearn.problems.randgraph import RandGraph
from qubolearn.randomness import stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawn", "Model", "alignment", "errors", "failures", "matches", "seeded", "solver_label"]

#: Cases of the figure of failures.
WORST = 5
#: The width of the intervals by which failures are summed up.
INTERVAL_DEGREES = 10
#: One shade and one hatch per solver.
COLOURS = (BLUE, RED, "#fdae61", GREY, "#5e3c99", "#1a9850")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo")


@dataclass(frozen=True)
class Drawn:
    """A picture and the numbers in it; some results are a table only."""

    numbers: Mapping[str, Any]
    picture: Figure | None = None


def matches(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """Pairs of Willow images: four whose matching is right and four whose matching is wrong."""
    if not isinstance(model.problem, Willow):
        raise QubolearnError(f"a run of {model.problem.name}; matches are drawn on images: give a run of willow")
    pairs, P = _willow_matchings(model, solvers, instances, seed)
    chosen = right_and_wrong(pairs, P)
    return _drawn_pairs(model.problem, pairs, P, chosen, f"{solver_label(solvers[0])}: right (green) and wrong (red)")


def alignment(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """Clouds before and after alignment: in 2D a column each, in 3D a row each, with all stages."""
    aligned = aligned_clouds(model, solvers[0], instances, seed)
    cases = [aligned.panels(index) for index in range(len(aligned.error))]
    picture = draw_panels(_arranged(cases), f"test instances of {model.problem.name}, {solver_label(solvers[0])}")
    return Drawn({"cases": [aligned.numbers(index) for index in range(len(cases))]}, picture)


def failures(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """The worst of all instances: clouds that ended far from aligned, or matchings with the most wrong nodes."""
    if isinstance(model.problem, (PointSet, Rotation)):
        return _cloud_failures(model, solvers, instances, seed)
    if isinstance(model.problem, Willow):
        pairs, P = _willow_matchings(model, solvers, instances, seed)
        chosen = _most_wrong(P, pairs.P)
        title = f"{solver_label(solvers[0])}: wrong matchings, the most wrong ones first (red lines)"
        return _drawn_pairs(model.problem, pairs, P, chosen, title)
    if isinstance(model.problem, RandGraph):
        data = model.problem.sample(instances, stream(seed, "test"), "test")
        P = model.answers(data.p, seeded(solvers[0], seed))
        chosen = _most_wrong(P, data.answer)
        title = f"{solver_label(solvers[0])}: wrong matchings of {len(P)} test instances, the most wrong ones first"
        numbers = _matching_numbers(P, data.answer, chosen)
        return Drawn(numbers, _draw_matchings(P[chosen], data.answer[chosen], title))
    raise QubolearnError(
        f"failures of {model.problem.name} cannot be drawn; want pointset, rotation, randgraph or willow"
    )


def errors(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """How large errors are with each solver, all on the same instances: degrees, or wrong nodes of a matching."""
    numbers = error_histograms(model, solvers, instances, seed)
    return Drawn(numbers, _draw_errors(numbers, f"{model.problem.name}, the same {instances} test instances"))


def _draw_errors(numbers: Mapping[str, Any], title: str) -> Figure:
    made, (axis,) = figure(1, width=6.4, height=3.2)
    edges, rows = numbers["edges"], list(numbers["solvers"].values())
    width = edges[1] - edges[0]
    bar = 0.85 * width / len(rows)
    for index, row in enumerate(rows):
        places = [edge + width / 2 + (index - (len(rows) - 1) / 2) * bar for edge in edges[:-1]]
        label = f"{row['label']}: mean {row['mean']:.2f}, median {row['median']:.2f}"
        style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "hatch": HATCHES[index % len(HATCHES)]}
        shares = [100 * share for share in row["shares"]]
        axis.bar(places, shares, bar, label=label, edgecolor="white", linewidth=0.3, **style)
    axis.set(xlabel=numbers["error"], ylabel="instances in %", title=title)
    axis.title.set_fontsize(9)
    axis.legend(fontsize=7)
    return made


def _arranged(cases: Sequence[Sequence[Panel]]) -> Sequence[Sequence[Panel]]:
    """Two planar panels stand above each other, up to four spatial ones side by side."""
    return list(zip(*cases, strict=True)) if cases[0][0].template.shape[1] == 2 else cases


def _cloud_failures(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """The worst instance of each of the worst shapes."""
    aligned = aligned_clouds(model, solvers[0], instances, seed)
    chosen = worst_of_each_shape(aligned, WORST)
    cases = []
    for index in chosen:
        first, *_, last = aligned.panels(index)
        title = f"{last.title}\nmisfit {100 * misfit(last.template, last.reference):.1f} % of the extent"
        cases.append((first, last._replace(title=title)))
    title = f"{model.problem.name}, {solver_label(solvers[0])}: the worst shapes of {len(aligned.error)} test instances"
    by_turn = {
        f"{low}-{low + INTERVAL_DEGREES}": error for low, error in mean_error_by_turn(aligned, INTERVAL_DEGREES).items()
    }
    numbers = {"cases": [aligned.numbers(index) for index in chosen], "mean_error_by_turn_degrees": by_turn}
    return Drawn(numbers, draw_panels(list(zip(*cases, strict=True)), title))


def _willow_matchings(model: Model, solvers: Sequence[str], instances: int, seed: int) -> tuple[Pairs, Tensor]:
    """Test pairs and what the model matches in them ``[batch, k]``."""
    assert isinstance(model.problem, Willow)
    pairs = model.problem.sample_pairs(instances, stream(seed, "test"), "test")
    return pairs, model.answers(model.problem.weights(pairs).flatten(1), seeded(solvers[0], seed))


def _drawn_pairs(problem: Willow, pairs: Pairs, P: Tensor, chosen: Tensor, title: str) -> Drawn:
    some = Pairs(*(tensor[chosen] for tensor in pairs))
    picture = draw_matches(problem.images(), some, P[chosen])
    picture.suptitle(title, fontsize=9)
    return Drawn(_matching_numbers(P, pairs.P, chosen), picture)


def _most_wrong(P: Tensor, P_true: Tensor, count: int = 8) -> Tensor:
    """Indices of up to ``count`` wrong matchings ``[batch, k]``, those with the most wrong nodes first."""
    wrong = (P_true != P).sum(-1)
    if not bool(wrong.any()):
        raise QubolearnError(f"all of {len(P)} matchings are right; raise --instances to find a failure")
    return wrong.argsort(descending=True, stable=True)[: min(count, int((wrong > 0).sum()))]


def _matching_numbers(P: Tensor, P_true: Tensor, chosen: Tensor) -> dict[str, Any]:
    wrong = (P_true != P).sum(-1)
    drawn = [{"found": P[index].tolist(), "true": P_true[index].tolist()} for index in chosen.tolist()]
    counts = torch.bincount(wrong, minlength=P.shape[1] + 1).tolist()
    return {"accuracy": (wrong == 0).double().mean().item(), "instances_by_wrong_nodes": counts, "drawn": drawn}


def _draw_matchings(P: Tensor, P_true: Tensor, title: str) -> Figure:
    """Nodes of both graphs as two columns; what was found as lines, what is true dashed where it was missed."""
    count, k = P.shape
    made, axes = figure(4, rows=-(-count // 4), width=1.9, height=2.1)
    for axis in axes:
        axis.axis("off")
    for axis, found, true in zip(axes, P.tolist(), P_true.tolist(), strict=False):
        for node, (here, there) in enumerate(zip(found, true, strict=True)):
            if here != there:
                axis.plot([0, 1], [node, there], color=GREY, linewidth=1, linestyle="--")
            if here < k:
                axis.plot([0, 1], [node, here], color=BLUE if here == there else RED, linewidth=1.6)
            else:  # bits may say a node that there is not
                axis.plot(0.12, node, marker="x", color=RED, markersize=7)
            for side in (0, 1):
                axis.text(side, node, str(node + 1), ha="center", va="center", fontsize=7, bbox=_NODE)
        axis.set(xlim=(-0.15, 1.15), ylim=(k - 0.5, -0.5))
        right = sum(here == there for here, there in zip(found, true, strict=True))
        axis.set_title(f"{right} of {k} right", fontsize=8)
    made.suptitle(f"{title}\nblue: right, red: wrong (×: no such node), dashed: the truth", fontsize=8)
    return made


_NODE = {"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": GREY, "linewidth": 0.8}
