"""Networks one after the other: each finds one angle of a rotation, which is undone before the next one looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from qubolearn.errors import QubolearnError
from qubolearn.evaluation import Evaluation, evaluate_answers, solve_instances
from qubolearn.paper.problems.rotation import STAGES, Rotation, solve_stages
from qubolearn.problems.contract import Split
from qubolearn.randomness import stream
from qubolearn.solvers.contract import Solver

__all__ = ["evaluate_stages"]


def evaluate_stages(
    networks: Sequence[nn.Module],
    problems: Sequence[Rotation],
    solver: Solver | None,
    instances: int = 2000,
    seed: int = 0,
    split: Split = "test",
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Score three networks, for alpha, beta and gamma, on whole rotations; noise is the first problem's."""
    if [problem.stage for problem in problems] != list(STAGES):
        stages = ", ".join(problem.stage for problem in problems)
        raise QubolearnError(f"runs of stages {stages}; want one each of {', '.join(STAGES)}, in this order")
    whole = replace(problems[0], stage="all")
    data = whole.sample(instances, stream(seed, split, device=device), split)
    sources: dict[str, None] = {}  # in order, each once

    def predictor(network: nn.Module, problem: Rotation) -> Callable[[Tensor], Tensor]:
        def predict(p: Tensor) -> Tensor:
            states, info = solve_instances(network, p, solver)
            sources[info["source"]] = None
            return problem.decode(states)

        return predict

    predictors = [predictor(*stage) for stage in zip(networks, problems, strict=True)]
    began = time.perf_counter()
    answers = solve_stages(predictors, data.p)
    found = evaluate_answers(whole, answers, data)
    return replace(found, info={"source": ", ".join(sources), "solve_seconds": time.perf_counter() - began})
