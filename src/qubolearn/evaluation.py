"""Trained model -> metrics, on instances that training never saw."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from qubolearn.data.arrays import Arrays, iter_instances
from qubolearn.data.contract import Instances, Problem, Split, score_bits
from qubolearn.errors import QubolearnError, check_counts, error_context
from qubolearn.random import stream
from qubolearn.solvers.auto import AutoSolver
from qubolearn.solvers.contract import Solver, check_solver, solve

__all__ = ["Evaluation", "evaluate", "evaluate_answers", "evaluate_bits", "score_network", "solve_instances"]

CHUNK = 1024  # instances solved at once


@dataclass(frozen=True)
class Evaluation:
    """Metrics over a set of instances, as :func:`evaluate` returns them.

    >>> Evaluation(10, {"accuracy": 0.9}).as_dict()
    {'accuracy': 0.9, 'instances': 10}
    """

    instances: int  #: the number of scored instances
    #: Means by name; also NAME_median unless all are 0 or 1, and NAME_projected.
    metrics: Mapping[str, float]
    #: Instances at Hamming distance 0, 1, ... n from a right answer, also projected.
    hamming: tuple[int, ...] | None = None
    hamming_projected: tuple[int, ...] | None = None
    #: What the solver measured, such as ``solve_seconds``.
    info: Mapping[str, Any] = field(default_factory=dict)
    #: Every metric of each instance ``[instances]``, in order.
    scores: Mapping[str, Tensor] = field(default_factory=dict, repr=False, compare=False)
    split: Split | None = None  #: the split of the Problem that was scored

    def as_dict(self) -> dict[str, Any]:
        """Return all fields except ``scores`` as one mapping for JSON."""
        flat = asdict(replace(self, scores={}))
        del flat["scores"]
        return {**flat.pop("metrics"), **flat.pop("info"), **{k: v for k, v in flat.items() if v is not None}}


def evaluate(
    network: nn.Module,
    data: Any,
    solver: Solver | None = None,
    instances: int = 2000,
    seed: int = 0,
    split: Split | None = None,
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Score a network on instances, with any solver.

    Args:
        network: a network trained by ``fit`` or ``train``.
        data: a Problem, from which ``instances`` are drawn by the seed; or the instances to
            score: Instances, ``(p, x)``, Dataset or DataLoader. For :class:`qubolearn.Arrays`,
            the entire split is scored.
        solver: any solver; by default the problem's own, else :class:`qubolearn.AutoSolver`.
        instances, seed: the number to draw from a Problem, and the seed.
        split: by default test; for Arrays, the first of test, validation and train that is not empty.
        device: the device to solve on.

    Returns:
        Mean metrics, histograms of wrong bits, and the solver's measurements. Any of several
        right answers counts.

    >>> from qubolearn import QuboNetwork, topology
    >>> pattern = topology("dense", 2)
    >>> body = nn.Linear(1, pattern.size)
    >>> _ = nn.init.zeros_(body.weight)
    >>> _ = nn.init.constant_(body.bias, -1.0)  # the minimizer is 11 for any p
    >>> x = [[1, 1], [1, 1], [1, 0], [1, 1]]
    >>> network = QuboNetwork(body, pattern)
    >>> evaluate(network, (torch.zeros(4, 1), torch.tensor(x))).metrics["accuracy"]
    0.75
    """
    if solver is not None:
        check_solver(solver)
    problem = data if isinstance(data, Problem) else None
    split = _split(data, split)
    pieces = list(_pieces(data, instances, seed, split, device))
    began = time.perf_counter()
    states, info = solve_instances(network.to(device), [piece.p for piece in pieces], solver, problem)
    seconds = time.perf_counter() - began
    return replace(_evaluation(problem, states, pieces, {**info, "solve_seconds": seconds}), split=split)


def _split(data: Any, split: Split | None) -> Split | None:
    """Return the split that is scored, None unless data is a Problem."""
    if not isinstance(data, Problem):
        return None
    if split is None and isinstance(data, Arrays):
        return "test" if data.size("test") else "validation" if data.size("validation") else "train"
    return split or "test"


def _pieces(
    data: Any, instances: int, seed: int, split: Split | None, device: torch.device | str
) -> Iterator[Instances]:
    if split is None:
        yield from (piece.to(device) for piece in iter_instances(data))
    elif isinstance(data, Arrays):
        yield data.whole(split).to(device)
    else:
        check_counts(instances=instances)
        instances = min(instances, data.available(split) or instances)
        with error_context("sample of", data):
            found = data.sample(instances, stream(seed, split, device=device), split)
        yield found


@torch.no_grad()
def solve_instances(
    network: nn.Module, p: Any, solver: Solver | None = None, problem: Problem | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """Return x* ``[batch, n]``, and means and deviations of the solver's measurements.

    p is ``[batch, m]``, or a list of inputs, one per piece. The problem gives clamped bits and groups.
    """
    solver = solver or (problem.default_solver() if problem else None) or AutoSolver()
    states, measured, training = [], [], network.training
    network.eval()
    try:
        for piece in p if isinstance(p, list) else [p]:
            for chunk in torch.split(piece, CHUNK) if isinstance(piece, Tensor) else [piece]:
                with error_context("the network", type(network).__name__, p=chunk):
                    A = network(chunk)
                held: dict[str, Any] = {}
                if problem:
                    with error_context("clamp of", problem, p=chunk):
                        held = {"clamp": problem.clamp(chunk), "constraints": problem.constraints(chunk)}
                    held["groups"] = problem.groups
                with error_context("the solver", solver, A=A):
                    solution = solve(A, solver, 1, **held)
                states.append(solution.states[:, 0])
                measured.append(solution.info)
    finally:
        network.train(training)
    if not states:
        raise QubolearnError("there are no instances to solve")
    numbers = [name for name, value in measured[0].items() if isinstance(value, Tensor) and value.ndim == 1]
    values = {name: torch.cat([info[name].double().cpu() for info in measured]) for name in numbers}
    means = {name: value.mean().item() for name, value in values.items()}
    spread = {f"{name}_deviation": value.std().item() for name, value in values.items() if len(value) > 1}
    return torch.cat(states), {"source": measured[0].get("source", "unknown"), **means, **spread}


def score_network(network: nn.Module, problem: Problem | None, pieces: Sequence[Instances]) -> dict[str, Any]:
    """Return mean metrics and the histogram of wrong bits, for the log of a run.

    The solver is the problem's or :class:`qubolearn.AutoSolver`, to limit the cost.
    """
    states, _ = solve_instances(network, [piece.p for piece in pieces], problem=problem)
    return _evaluation(problem, states, pieces).as_dict()


def evaluate_bits(
    problem: Problem | None, x: Tensor, data: Instances, info: Mapping[str, Any] | None = None
) -> Evaluation:
    """Score bits x ``[batch, n]``; projected ones too if the problem projects."""
    return _evaluation(problem, x, [data], info)


def _evaluation(
    problem: Problem | None, x: Tensor, pieces: Sequence[Instances], info: Mapping[str, Any] | None = None
) -> Evaluation:
    kind = Problem if problem is None else type(problem)
    if x.shape[1] != (n := pieces[0].x_true.shape[1]):
        raise QubolearnError(f"the network's QUBOs have {x.shape[1]} bits, but the instances have {n}")
    parts = list(zip(torch.split(x, [len(piece.x_true) for piece in pieces]), pieces, strict=True))

    def scores(bits: Tensor, data: Instances) -> dict[str, Tensor]:
        with error_context("decode and score of", problem, x=bits):
            return score_bits(bits, data) if problem is None else problem.score(problem.decode(bits), data)

    each = _each([scores(bits, data) for bits, data in parts])
    metrics = _summary(each)
    hamming_projected = None
    if problem is not None and kind.project is not Problem.project:
        with error_context("project of", problem, x=x):
            projected = [(problem.project(bits, data.p), data) for bits, data in parts]
        summary = _summary(_each([scores(bits, data) for bits, data in projected]))
        metrics |= {f"{name}_projected": value for name, value in summary.items()}
        hamming_projected = _histogram(projected)
    return Evaluation(len(x), metrics, _histogram(parts), hamming_projected, info or {}, each)


def evaluate_answers(problem: Problem, answer: Tensor, data: Instances) -> Evaluation:
    """Score answers that are not from one vector of bits."""
    each = _each([problem.score(answer, data)])
    return Evaluation(len(answer), _summary(each), scores=each)


def _each(pieces: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([piece[name] for piece in pieces]).double() for name in pieces[0]}


def _summary(scores: Mapping[str, Tensor]) -> dict[str, float]:
    summary = {}
    for name, values in scores.items():
        summary[name] = values.mean().item()
        if not torch.equal(values, values.bool().double()):
            summary[f"{name}_median"] = values.median().item()
    return summary


def _histogram(parts: Sequence[tuple[Tensor, Instances]]) -> tuple[int, ...]:
    distance = torch.cat([data.wrong_bits(bits) for bits, data in parts])
    return tuple(torch.bincount(distance.cpu(), minlength=parts[0][0].shape[-1] + 1).tolist())
