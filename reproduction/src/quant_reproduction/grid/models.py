"""Trained models as parts of jobs: their training and answers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.side_by_side import joins, trained_together
from quant_reproduction.presets import recipe_for
from quant_reproduction.problems import clouds as rigid
from quant_reproduction.problems.pointset import CloudPairs, PointSet
from quant_reproduction.problems.rotation import MatchedClouds, Rotation
from qubolearn.data.contract import Split
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import Evaluation, evaluate_answers, solve_instances
from qubolearn.files import lock_folder, read_tensors, write_tensors
from qubolearn.problems import Problem, make_problem
from qubolearn.random import stream
from qubolearn.recipes import Recipe, new_network, train
from qubolearn.runs import Run
from qubolearn.solvers import Solver, make_solver
from qubolearn.solvers.dimod_adapter import DimodSolver

LABELS = {"exhaustive": "exhaustive search", "annealing": "SA (ours)", "neal": "SA (neal)"}
LABELS |= {"dimod": "SA (dimod)", "quantum": "simulated QA", "dwave-mock": "simulated D-Wave"}
LABELS["path-integral"] = "simulated QA (path integral)"


@dataclass(frozen=True)
class Model:
    """One trained run, or three that find α, β and γ in turn."""

    problem: Problem
    stages: tuple[Problem, ...]
    networks: tuple[nn.Module, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Model:
        """Return runs as a model; three are the stages of rotation."""
        stages = tuple(run.problem for run in runs)
        whole = stages[0]
        if len(runs) > 1:
            names = [problem.stage if isinstance(problem, Rotation) else problem.name for problem in stages]
            if names != list(rigid.STAGES) or not isinstance(whole, Rotation):
                expected = f"one run, or rotation's stages {', '.join(rigid.STAGES)}"
                raise QubolearnError(f"runs of {', '.join(names)}; expected {expected}")
            whole = replace(whole, stage="all")
        return cls(whole, stages, tuple(run.network() for run in runs))

    def answers(self, p: Tensor, solver: Solver | None, sources: dict[str, None] | None = None) -> Tensor:
        """Return answers ``[batch, ...]`` for p ``[batch, m]``; ``sources`` collects theirs."""

        def predict(network: nn.Module, problem: Problem, p: Tensor) -> Tensor:
            states, info = solve_instances(network, p, solver)
            if sources is not None:
                sources[info["source"]] = None
            return problem.decode(states)

        predictors = [partial(predict, *stage) for stage in zip(self.networks, self.stages, strict=True)]
        return predictors[0](p) if len(predictors) == 1 else rigid.solve_stages(predictors, p)

    def evaluate(
        self, solver: Solver | None, count: int, seed: int, device: torch.device, split: Split = "test"
    ) -> Evaluation:
        """Score three networks, for alpha, beta and gamma, on whole rotations."""
        data = self.problem.sample(count, stream(seed, split, device=device), split)
        sources: dict[str, None] = {}
        began = time.perf_counter()
        found = evaluate_answers(self.problem, self.answers(data.p, solver, sources), data)
        seconds = time.perf_counter() - began
        return replace(found, info={"source": ", ".join(sources), "solve_seconds": seconds})

    @property
    def network(self) -> nn.Module:
        """The only network, for figures of single QUBOs."""
        if len(self.networks) > 1:
            raise QubolearnError(f"{len(self.networks)} runs; this figure shows one run, give one folder")
        return self.networks[0]


def seeded(spec: str, seed: int) -> Solver:
    """Return the solver of a spec, seeded if it is random."""
    if spec.startswith("dimod:"):  # its reference annealer in pure Python
        from dimod import SimulatedAnnealingSampler

        numbers = {f"num_{name}": int(value) for name, value in re.findall(r"(\w+)=(\d+)", spec)}
        return DimodSolver(SimulatedAnnealingSampler(), numbers, seed)  # type: ignore[no-untyped-call]
    solver: Any = make_solver(spec)
    unseeded = is_dataclass(solver) and getattr(solver, "seed", 0) is None
    made: Solver = replace(solver, seed=seed) if unseeded else solver
    return made


def solver_label(spec: str) -> str:
    """Return the name of a solver in figures, which marks simulations."""
    name, _, options = spec.partition(":")
    sweeps = [option.partition("=")[2] for option in options.split(",") if option.startswith("sweeps=")]
    return ", ".join([LABELS.get(name, name), *(f"{count} sweeps" for count in sweeps)])


def sampler_label(spec: str) -> str:
    """Return the same, with every sampler marked as simulated."""
    label = solver_label(spec)
    return label if "simulated" in label or spec.startswith("exhaustive") else f"{label} (simulated)"


#: Matched points further apart after the true rotation are a wrong match.
SAME_POINT = 1e-3


class Panel(NamedTuple):
    """Two overlaid clouds."""

    template: Tensor  # [m, d], d = 2 or 3
    reference: Tensor  # [n, d]
    title: str
    wrong: Tensor  # [n], bool: which points of the reference have a wrong match


def planar_panels(pairs: CloudPairs, index: int, angle: Tensor) -> tuple[Panel, Panel]:
    """Return a pair before and after rotating the reference back."""
    template = pairs.template[index, : pairs.template_counts[index]]
    reference = pairs.reference[index, : pairs.reference_counts[index]]
    error = rigid.geodesic_so2(angle, pairs.angle[index]).item()
    none = torch.zeros(len(reference), dtype=torch.bool)
    first = Panel(template, reference, f"turned by {torch.rad2deg(pairs.angle[index]).item():.1f}°", none)
    turned = reference @ rigid.rotation_2d(angle)
    return first, first._replace(reference=turned, title=f"turned back, {error:.1f}° left")


def spatial_panels(clouds: MatchedClouds, index: int, angles: Tensor, stages: bool = True) -> list[Panel]:
    """Return clouds before and after undoing α, β and γ."""
    template, reference = clouds.template[index], clouds.reference[index]
    R = rigid.euler_matrix(clouds.angles[index])
    wrong = (reference - template @ R.mT).square().sum(-1) > SAME_POINT**2
    panels = [
        Panel(template, reference, f"turned by {rigid.geodesic_so3(R, torch.eye(3)).item():.1f}°", wrong)
    ]
    for count in (1, 2, 3) if stages else (3,):
        # x = R y, so a row xᵀ becomes xᵀ · undone
        undone = rigid.euler_matrix(angles * (torch.arange(3) < count))
        title = f"{', '.join('αβγ'[:count])} undone, {rigid.geodesic_so3(R, undone).item():.1f}° left"
        panels.append(Panel(template, reference @ undone, title, wrong))
    return panels


def misfit(template: Tensor, reference: Tensor) -> float:
    """Return the mean relative distance of points ``[n, d]`` to ``[m, d]``."""
    extent = (template.amax(0) - template.amin(0)).amax()
    return (torch.cdist(reference, template).amin(1).mean() / extent).item()


@dataclass(frozen=True)
class Aligned:
    """Clouds that were aligned, in 2D or 3D."""

    turn: Tensor  # [batch], degrees between the clouds before
    error: Tensor  # [batch], degrees between the answer and the truth
    template: Tensor  # [batch, ...], which tells shapes apart
    panels: Callable[[int], Sequence[Panel]]  # the clouds at first, ..., at last


def aligned_clouds(model: Model, solver: str, instances: int, seed: int) -> Aligned:
    """Return test instances of pointset or rotation, and the answers."""
    problem, search = model.problem, seeded(solver, seed)
    generator = stream(seed, "figure")
    if isinstance(problem, PointSet):
        pairs = problem.sample_pairs(instances, generator, "test")
        real = zip(*pairs[:4], strict=True)
        p = torch.cat([problem.describe(y[None, :m], x[None, :n]) for y, x, m, n in real])
        angle = model.answers(p, search)
        error = problem.degrees(angle, pairs.angle)
        planar = lambda index: planar_panels(pairs, index, angle[index])  # noqa: E731
        return Aligned(torch.rad2deg(pairs.angle), error, pairs.template, planar)
    if isinstance(problem, Rotation) and problem.stage == "all":
        clouds = problem.clouds(instances, generator, "test")
        angles = model.answers(problem.describe(clouds.template, clouds.reference), search)
        error = problem.degrees(angles, clouds.angles)
        turn = problem.degrees(torch.zeros_like(clouds.angles), clouds.angles)
        spatial = lambda index: spatial_panels(clouds, index, angles[index], len(model.networks) > 1)  # noqa: E731
        return Aligned(turn, error, clouds.template, spatial)
    if isinstance(problem, Rotation):
        stages = ", ".join(rigid.STAGES)
        raise QubolearnError(f"stage {problem.stage} alone aligns nothing; give three: {stages}")
    raise QubolearnError(f"a run of {problem.name} has no clouds to align; give one of pointset or rotation")


def worst_of_each_shape(aligned: Aligned, count: int) -> list[int]:
    """Return the worst instance of each of the worst shapes."""
    shape = torch.unique(aligned.template.flatten(1), dim=0, return_inverse=True)[1]
    worst: dict[int, int] = {}  # shape -> its worst instance
    for index in aligned.error.argsort(descending=True).tolist():
        worst.setdefault(int(shape[index]), index)
    return list(worst.values())[:count]


Training = tuple[Problem, Recipe]
#: Names the folder in which jobs of one run share networks.
SHARED, FILE, PLAN = "QUBOLEARN_SHARED_NETWORKS", "network.safetensors", "plan.json"


def device() -> torch.device:
    """Return the device on which jobs train."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def time_of(seconds: float) -> dict[str, Any]:
    """Return the time and device of training for a record."""
    return {"training_seconds": seconds, "device": device().type}


def training_runs(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any] | None = None,
    in_stages: bool = True,
) -> list[Training]:
    """Return problems and recipes of a job, one for each stage."""
    whole = make_problem(**problem)
    parts: list[Problem] = [whole]
    if in_stages and isinstance(whole, Rotation):
        parts = [replace(whole, stage=stage) for stage in rigid.STAGES]
    return [(part, recipe_for(protocol, part, seed=seed, **(overrides or {}))) for part in parts]


def trained(problem: Problem, recipe: Recipe) -> tuple[nn.Module, float]:
    """Return a trained network and its seconds of training; jobs share networks."""
    if joins(problem, recipe):
        with TemporaryDirectory() as alone:
            shared = Path(os.environ.get(SHARED, alone))
            return trained_together((problem, recipe), planned, device(), shared)
    if SHARED not in os.environ:
        return _trained_here(problem, recipe)
    key = hashlib.sha256(repr((problem, recipe, device())).encode()).hexdigest()[:16]
    place = Path(os.environ[SHARED]) / key
    place.mkdir(parents=True, exist_ok=True)
    with lock_folder(place, wait=True):
        if not (place / FILE).is_file():
            network, seconds = _trained_here(problem, recipe)
            write_tensors(place / FILE, network.state_dict(), finite=False, seconds=str(seconds))
            return network, seconds
    network = new_network(problem, recipe)
    tensors, notes = read_tensors(place / FILE, network.state_dict(), finite=False)
    network.load_state_dict(tensors)
    return network.eval().to(device()), float(notes["seconds"])


def write_plan(jobs: Sequence[Job], folder: Path) -> None:
    """Store what the jobs of a run train, so that a worker can train networks together."""
    plan = [[job.seed, job.task != "train", job.options] for job in jobs if "protocol" in job.options]
    (folder / PLAN).write_text(json.dumps(plan))


def planned() -> list[Training]:
    """Return all training runs of this run's jobs that may train together."""
    file = Path(os.environ.get(SHARED, ".")) / PLAN
    found = list[Training]()
    for seed, in_stages, options in json.loads(file.read_text()) if file.is_file() else ():
        training = {name: options.get(name) for name in ("problem", "protocol", "overrides")}
        found += training_runs(seed, **training, in_stages=in_stages)
    return [each for each in found if joins(*each)]


def _trained_here(problem: Problem, recipe: Recipe) -> tuple[nn.Module, float]:
    began = time.perf_counter()
    network = train(problem, recipe, device=device())
    if device().type == "cuda":
        torch.cuda.synchronize()
    return network, round(time.perf_counter() - began, 3)


def networks_of(asked: Sequence[Training]) -> tuple[list[nn.Module], float]:
    """Train one network after the other; return them and their seconds."""
    made = [trained(*each) for each in asked]
    return [network for network, _ in made], sum(seconds for _, seconds in made)


def trained_model(
    seed: int, problem: Mapping[str, Any], protocol: str, overrides: Mapping[str, Any] | None = None
) -> tuple[Model, float]:
    """Return a model on the CPU, one network per stage, and its seconds."""
    asked = training_runs(seed, problem, protocol, overrides)
    networks, seconds = networks_of(asked)
    on_cpu = tuple(network.cpu() for network in networks)
    return Model(make_problem(**problem), tuple(part for part, _ in asked), on_cpu), seconds
