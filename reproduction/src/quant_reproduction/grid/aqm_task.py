"""The job of AQM's errors: by neighbors and rounds, and with the right matches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.baselines.clouds import aqm, aqm_angle, solve_exactly
from quant_reproduction.problems.angles import rotation_2d
from quant_reproduction.problems.moments import pair_moments
from quant_reproduction.problems.pointset import CloudPairs, PointSet
from qubolearn.problems import make_problem
from qubolearn.random import stream

__all__ = ["aqm_errors"]

#: A quarter and three quarters of the range of angles, in radians, as ICP's.
STARTS = (math.radians(15), math.radians(45))


def aqm_errors(
    seed: int, problem: Mapping[str, Any], neighbours: Sequence[int], rounds: Sequence[int], instances: int
) -> dict[str, Any]:
    """Degrees between AQM's angles and the truth, and how much of the turn it finds, for each of its settings.

    ``found`` is the slope of the answers over the true angles: 1 if all of the turn is found, 0 if none is.
    """
    made = make_problem(**problem)
    assert isinstance(made, PointSet)
    pairs = made.sample_pairs(instances, stream(seed, "test"), "test")
    metrics = {}
    for label, angle in _answers(pairs, neighbours, rounds):
        error = made.degrees(angle, pairs.angle)
        slope = (angle * pairs.angle).sum() / pairs.angle.square().sum()
        metrics[label] = {
            "degrees": error.mean().item(),
            "degrees_median": error.median().item(),
            "found": slope.item(),
            "instances": instances,
        }
    return metrics


def _answers(pairs: CloudPairs, neighbours: Sequence[int], rounds: Sequence[int]) -> Iterator[tuple[str, Tensor]]:
    template, reference, *counts, _ = pairs
    for count in neighbours:
        for each in rounds:
            yield f"{count}, {each}", aqm(template, reference, counts[0], counts[1], count, each)
    for each in rounds:
        yield f"starts, {each}", _from_two_starts(pairs, each)
    yield "own, 1", aqm_angle(solve_exactly(_matched_moments(template, reference, counts[0])))


def _from_two_starts(pairs: CloudPairs, rounds: int) -> Tensor:
    """The answer of two starts, with the paper's three neighbors, that brings the points nearer to each other."""
    template, reference, *counts, _ = pairs
    answers, distances = [], []
    for start in STARTS:
        turned = template @ rotation_2d(torch.tensor(start)).mT
        answers.append(start + aqm(turned, reference, counts[0], counts[1], 3, rounds))
        near = pair_moments(template @ rotation_2d(answers[-1]).mT, reference, 1, counts[0], counts[1])
        distances.append(near.xx - 2 * near.dot + near.yy)
    return torch.where(distances[0] <= distances[1], answers[0], answers[1])


def _matched_moments(y: Tensor, x: Tensor, counts: Tensor) -> Tensor:
    """|x|², |y|², x·y, y×x where every template point is paired with itself after the turn: ``[batch, 4]``.

    What fills the clouds up is 0 and adds nothing.
    """
    products = [x * x, y * y, x * y, torch.stack([x[..., 1] * y[..., 0], -x[..., 0] * y[..., 1]], -1)]
    return torch.stack([each.sum((1, 2)) / counts for each in products], 1)
