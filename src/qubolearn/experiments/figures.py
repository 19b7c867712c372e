"""Figures of what trained runs answer: matches, alignments, failures and errors per solver.

Each function takes a trained model, solvers, a number of test instances and a seed, and gives a picture with its
numbers. Pictures of what samplers read are in ``sampler_figures``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from qubolearn.errors import QubolearnError
from qubolearn.evaluation import solve_instances
from qubolearn.plots import BLUE, GREY, RED, figure
from qubolearn.problems.cloud_pictures import Panel, draw_panels, misfit, planar_panels, spatial_panels
from qubolearn.problems.contract import Problem
from qubolearn.problems.pointset import CloudPairs, PointSet
from qubolearn.problems.randgraph import RandGraph
from qubolearn.problems.rotation import STAGES, Rotation, solve_stages
from qubolearn.problems.willow import Pairs, Willow
from qubolearn.problems.willow_pictures import draw_matches, right_and_wrong
from qubolearn.randomness import stream
from qubolearn.runs import Run
from qubolearn.solvers import Solver, make_solver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawn", "Model", "alignment", "errors", "failures", "matches", "seeded", "solver_label"]

#: Cases of the figure of failures.
WORST = 5
#: Bars of the histogram of errors, and the width of the intervals by which failures are summed up.
BINS, INTERVAL_DEGREES = 15, 10
#: One shade and one hatch per solver.
COLOURS = (BLUE, RED, "#fdae61", GREY, "#5e3c99", "#1a9850")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo")
LABELS = {
    "exhaustive": "exhaustive search",
    "annealing": "SA (ours)",
    "quantum": "simulated QA",
    "neal": "SA (neal)",
    "dimod": "SA (dimod)",
    "path-integral": "simulated QA (path integral)",
    "dwave-mock": "simulated D-Wave",
}


@dataclass(frozen=True)
class Drawn:
    """A picture and the numbers in it; some results are a table only."""

    numbers: Mapping[str, Any]
    picture: Figure | None = None


@dataclass(frozen=True)
class Model:
    """What answers instances of a problem: one trained run, or three that find α, β and γ one after the other."""

    problem: Problem
    stages: tuple[Problem, ...]
    networks: tuple[nn.Module, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Model:
        """Runs as a model; three must be the stages of rotation."""
        stages = tuple(run.problem for run in runs)
        whole = stages[0]
        if len(runs) > 1:
            names = [problem.stage if isinstance(problem, Rotation) else problem.name for problem in stages]
            if names != list(STAGES) or not isinstance(whole, Rotation):
                raise QubolearnError(
                    f"runs of {', '.join(names)}; want one run, or rotation's stages {', '.join(STAGES)} in this order"
                )
            whole = replace(whole, stage="all")
        return cls(whole, stages, tuple(run.network() for run in runs))

    def answers(self, p: Tensor, solver: Solver) -> Tensor:
        """p ``[batch, m]`` -> answers ``[batch, ...]`` of the problem."""
        predictors = [partial(_answer, *stage, solver) for stage in zip(self.stages, self.networks, strict=True)]
        return predictors[0](p) if len(predictors) == 1 else solve_stages(predictors, p)

    @property
    def network(self) -> nn.Module:
        """The only network, for figures of single QUBOs."""
        if len(self.networks) > 1:
            raise QubolearnError(f"{len(self.networks)} runs; this figure shows QUBOs of one run, give one folder")
        return self.networks[0]


def _answer(problem: Problem, network: nn.Module, solver: Solver, p: Tensor) -> Tensor:
    return problem.decode(solve_instances(network, p, solver)[0])


def seeded(spec: str, seed: int) -> Solver:
    """The solver of a spec; one that draws random numbers and has no seed of its own gets this one."""
    solver: Any = make_solver(spec)
    if is_dataclass(solver) and getattr(solver, "seed", 0) is None:
        solver = replace(solver, seed=seed)  # type: ignore[type-var]
    checked: Solver = solver
    return checked


def solver_label(spec: str) -> str:
    """What a solver is called in figures; simulations say so.

    >>> solver_label("neal:reads=1000,sweeps=10"), solver_label("quantum")
    ('SA (neal), 10 sweeps', 'simulated QA')
    """
    name, _, options = spec.partition(":")
    sweeps = [option.partition("=")[2] for option in options.split(",") if option.startswith("sweeps=")]
    return ", ".join([LABELS.get(name, name), *(f"{count} sweeps" for count in sweeps)])


def matches(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """Pairs of Willow images: four whose matching is right and four whose matching is wrong."""
    if not isinstance(model.problem, Willow):
        raise QubolearnError(f"a run of {model.problem.name}; matches are drawn on images: give a run of willow")
    pairs, P = _willow_matchings(model, solvers, instances, seed)
    chosen = right_and_wrong(pairs, P)
    return _drawn_pairs(model.problem, pairs, P, chosen, f"{solver_label(solvers[0])}: right (green) and wrong (red)")


def alignment(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """Clouds before and after alignment: in 2D a column each, in 3D a row each, with all stages."""
    aligned = _aligned(model, solvers, instances, seed)
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
    problem = model.problem
    data = problem.sample(instances, stream(seed, "test"), "test")
    nodes = isinstance(problem, (RandGraph, Willow))
    values = {}
    for spec in solvers:
        answer = model.answers(data.p, seeded(spec, seed))
        score = (answer != data.answer).sum(-1) if nodes else problem.score(answer, data.answer)[problem.metric]
        values[spec] = score.double()
    largest = max(float(value.max()) for value in values.values())
    bins = data.answer.shape[1] + 1 if nodes else BINS
    edges = torch.arange(bins + 1) - 0.5 if nodes else torch.linspace(0, max(largest, 1e-6), bins + 1)
    edges = edges.double()
    shares = {spec: torch.histogram(value, edges).hist / len(value) for spec, value in values.items()}
    xlabel = "wrongly matched nodes" if nodes else f"error in {problem.metric}"
    picture = _draw_errors(shares, values, edges, xlabel, f"{problem.name}, the same {instances} test instances")
    summary = {
        spec: {
            "label": solver_label(spec),
            "mean": value.mean().item(),
            "median": value.median().item(),
            "shares": shares[spec].tolist(),
        }
        for spec, value in values.items()
    }
    return Drawn({"error": xlabel, "edges": edges.tolist(), "solvers": summary}, picture)


def _draw_errors(
    shares: Mapping[str, Tensor], values: Mapping[str, Tensor], edges: Tensor, xlabel: str, title: str
) -> Figure:
    made, (axis,) = figure(1, width=6.4, height=3.2)
    width = (edges[1] - edges[0]).item()
    bar = 0.85 * width / len(shares)
    for index, (spec, share) in enumerate(shares.items()):
        places = (edges[:-1] + width / 2 + (index - (len(shares) - 1) / 2) * bar).tolist()
        label = f"{solver_label(spec)}: mean {values[spec].mean():.2f}, median {values[spec].median():.2f}"
        style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "hatch": HATCHES[index % len(HATCHES)]}
        axis.bar(places, (100 * share).tolist(), bar, label=label, edgecolor="white", linewidth=0.3, **style)
    axis.set(xlabel=xlabel, ylabel="instances in %", title=title)
    axis.title.set_fontsize(9)
    axis.legend(fontsize=7)
    return made


@dataclass(frozen=True)
class _Aligned:
    """Clouds that were aligned, in 2D or 3D."""

    turn: Tensor  # [batch], degrees between the clouds before
    error: Tensor  # [batch], degrees between the answer and the truth
    template: Tensor  # [batch, ...], which tells shapes apart
    panels: Callable[[int], Sequence[Panel]]  # of one case: the clouds at first, ..., at last

    def numbers(self, index: int) -> dict[str, float]:
        """One case in numbers."""
        first, *_, last = self.panels(index)
        return {
            "turn_degrees": self.turn[index].item(),
            "error_degrees": self.error[index].item(),
            "misfit_before": misfit(first.template, first.reference),
            "misfit_after": misfit(last.template, last.reference),
        }


def _aligned(model: Model, solvers: Sequence[str], instances: int, seed: int) -> _Aligned:
    problem, solver = model.problem, seeded(solvers[0], seed)
    generator = stream(seed, "figure")
    if isinstance(problem, PointSet):
        pairs = problem.pairs("test")
        rows = torch.randperm(len(pairs.angle), generator=generator)[:instances]
        pairs = CloudPairs(*(tensor[rows] for tensor in pairs))
        p = torch.cat([problem.describe(*_real_points(pairs, index)) for index in range(len(rows))])
        angle = model.answers(p, solver)
        error = problem.score(angle, pairs.angle)["degrees"]
        planar = lambda index: planar_panels(pairs, index, angle[index])  # noqa: E731
        return _Aligned(torch.rad2deg(pairs.angle), error, pairs.template, planar)
    if isinstance(problem, Rotation) and problem.stage == "all":
        clouds = problem.clouds(instances, generator, "test")
        angles = model.answers(problem.describe(clouds.template, clouds.reference), solver)
        error = problem.score(angles, clouds.angles)["degrees"]
        turn = problem.score(torch.zeros_like(clouds.angles), clouds.angles)["degrees"]
        spatial = lambda index: spatial_panels(clouds, index, angles[index], len(model.networks) > 1)  # noqa: E731
        return _Aligned(turn, error, clouds.template, spatial)
    if isinstance(problem, Rotation):
        raise QubolearnError(f"a run of stage {problem.stage} alone aligns nothing; give three: {', '.join(STAGES)}")
    raise QubolearnError(f"a run of {problem.name} has no clouds to align; give one of pointset or rotation")


def _real_points(pairs: CloudPairs, index: int) -> tuple[Tensor, Tensor]:
    """Template and reference of one pair without what fills them up, ``[1, m, 2]`` and ``[1, n, 2]``."""
    return (
        pairs.template[index : index + 1, : pairs.template_counts[index]],
        pairs.reference[index : index + 1, : pairs.reference_counts[index]],
    )


def _arranged(cases: Sequence[Sequence[Panel]]) -> Sequence[Sequence[Panel]]:
    """Two planar panels stand above each other, up to four spatial ones side by side."""
    return list(zip(*cases, strict=True)) if cases[0][0].template.shape[1] == 2 else cases


def _cloud_failures(model: Model, solvers: Sequence[str], instances: int, seed: int) -> Drawn:
    """The worst instance of each of the worst shapes."""
    aligned = _aligned(model, solvers, instances, seed)
    shape = torch.unique(aligned.template.flatten(1), dim=0, return_inverse=True)[1]
    worst: dict[int, int] = {}  # shape -> its worst instance
    for index in aligned.error.argsort(descending=True).tolist():
        worst.setdefault(int(shape[index]), index)
    chosen = list(worst.values())[:WORST]
    cases = []
    for index in chosen:
        first, *_, last = aligned.panels(index)
        title = f"{last.title}\nmisfit {100 * misfit(last.template, last.reference):.1f} % of the extent"
        cases.append((first, last._replace(title=title)))
    title = f"{model.problem.name}, {solver_label(solvers[0])}: the worst shapes of {len(shape)} test instances"
    by_turn = {}
    for low in range(0, int(aligned.turn.max()) + 1, INTERVAL_DEGREES):
        inside = (aligned.turn >= low) & (aligned.turn < low + INTERVAL_DEGREES)
        if bool(inside.any()):
            by_turn[f"{low}-{low + INTERVAL_DEGREES}"] = aligned.error[inside].mean().item()
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
