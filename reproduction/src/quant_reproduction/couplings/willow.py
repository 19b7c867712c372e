"""Willow's ten keypoints: what couplings add to learning the bits, over random splits of the images."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from quant_reproduction.datasets.willow import CLASSES, KEYPOINTS
from quant_reproduction.grid import panels
from quant_reproduction.grid.figures import UPWARDS, match_panel
from quant_reproduction.grid.trained import time_of
from quant_reproduction.networks import Ensemble
from quant_reproduction.presets import Method
from quant_reproduction.problems.willow_matching import KeypointPair, WillowMatching, encode_matching
from qubolearn.data.contract import Instances
from qubolearn.data.encodings import assignments
from qubolearn.evaluation import evaluate_bits, solve_instances
from qubolearn.random import stream
from qubolearn.recipes import preset, train

__all__ = ["matched_pairs", "train_matching"]

PAIRS = 100  # pairs of test images a class
#: Networks whose QUBOs are averaged; they differ in their first weights and in the pairs that they are shown.
MEMBERS = 3
#: Epochs of ten steps. Without couplings more steps only learn the training images by heart.
EPOCHS: Mapping[Method, int] = {"quant": 30, "diag": 10, "pure": 10}
QUICK_EPOCHS = 2


def train_matching(problem: WillowMatching, method: Method, epochs: int, members: int = 1) -> nn.Module:
    """Networks trained on pairs of the problem's training images by the pseudo-likelihood of the rows, as one."""
    made = []
    for member in range(members):
        seed = problem.split_seed + 1000 * member
        recipe = preset("best", WillowMatching, method=method, epochs=epochs, seed=seed).recipe
        made.append(train(problem, recipe))
    return Ensemble(made)


def matched_pairs(seed: int, method: Method, quick: bool = False) -> dict[str, Any]:
    """One way to learn on the split of this number; of diag and pure also the best permutation under their scores."""
    problem = WillowMatching(split_seed=seed)
    pairs, members = (10, 1) if quick else (PAIRS, MEMBERS)
    test = problem.sample(len(CLASSES) * pairs, stream(seed, "test"), "test")
    began = time.perf_counter()
    network = train_matching(problem, method, QUICK_EPOCHS if quick else EPOCHS[method], members).eval()
    found: dict[str, Any] = time_of(time.perf_counter() - began)
    began = time.perf_counter()
    if method == "quant":
        answers = {"quant": solve_instances(network, [test.p], problem=problem)[0]}
    else:
        answers = _row_by_row(network, test, method)
    seconds = time.perf_counter() - began
    found |= {name: _scores(problem, x, test) for name, x in answers.items()}
    found[method] |= {"solve_seconds": seconds, "members": members}
    if method != "pure":
        found["matches"] = {"figure": _figure(problem, method, answers[method], test)}
    return found


@torch.no_grad()
def _row_by_row(network: nn.Module, test: Instances, method: Method) -> dict[str, Tensor]:
    """Bits ``[batch, 100]`` by linear terms alone: the best of each row, which may repeat; the best permutation."""
    scores = network(test.p).diagonal(dim1=1, dim2=2).reshape(-1, KEYPOINTS, KEYPOINTS)
    rows = encode_matching(scores.argmin(2))
    return {method: rows, f"{method}, Hungarian": encode_matching(assignments(scores))}


def _scores(problem: WillowMatching, x: Tensor, test: Instances) -> dict[str, Any]:
    """Mean accuracy over keypoints and classes, the same after projection to a permutation, and by class."""
    found = evaluate_bits(problem, x, test).metrics
    kinds = len(CLASSES)  # which take turns
    rows = {name: slice(number, None, kinds) for number, name in enumerate(CLASSES)}
    by_class = {name: evaluate_bits(problem, x[some], test.rows(some)) for name, some in rows.items()}
    return {
        **{name: found[name] for name in ("accuracy", "accuracy_projected", "all_right")},
        **{f"accuracy_{name}": scored.metrics["accuracy"] for name, scored in by_class.items()},
        "instances": len(x),
    }


def _figure(problem: WillowMatching, method: Method, x: Tensor, test: Instances) -> dict[str, Any]:
    """The first pair of each class, which are the same for all ways to learn."""
    P = problem.decode(x)
    drawn = []
    for kind, name in enumerate(CLASSES):
        left, right = KeypointPair.from_flat(test.p[kind : kind + 1], problem.features).points[0] * UPWARDS
        right = right + torch.tensor([4.0, 0.0])
        drawn.append(match_panel(f"{name}: ", left, right, P[kind], test.answer[kind]))
    return panels.titled(f"The first test pair of each class of Willow, matched by {method}", drawn)
