"""Willow's ten keypoints: what couplings add to learning the bits, over random splits of the images."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from qubolearn.benchmarks.chip_view import chip_view
from qubolearn.benchmarks.processes import records_of
from qubolearn.benchmarks.rows import Published, Row, row
from qubolearn.evaluation import evaluate_bits, solve_instances
from qubolearn.networks import Ensemble, Method
from qubolearn.paper.datasets.willow import CLASSES, KEYPOINTS
from qubolearn.paper.problems.willow_matching import WillowMatching
from qubolearn.problems.contract import Instances
from qubolearn.problems.encodings import assignments
from qubolearn.problems.matchings import encode_matching
from qubolearn.randomness import stream
from qubolearn.training.recipes import preset
from qubolearn.training.train import train

__all__ = ["records", "rows", "split_records", "train_matching"]

Record = dict[str, Any]
SPLITS, PAIRS = 10, 100  # pairs of test images a class
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


def records(quick: bool, jobs: int = 1) -> Iterator[Record]:
    """The records of all splits."""
    return records_of(partial(split_records, quick=quick), range(1 if quick else SPLITS), jobs)


def split_records(split: int, quick: bool = False) -> Iterator[Record]:
    """Records of quant, of diag and pure row by row, and of the best permutations under their scores."""
    problem = WillowMatching(split_seed=split)
    pairs, members = (10, 1) if quick else (PAIRS, MEMBERS)
    test = problem.sample(len(CLASSES) * pairs, stream(split, "test"), "test")
    for method, epochs in EPOCHS.items():
        began = time.perf_counter()
        network = train_matching(problem, method, QUICK_EPOCHS if quick else epochs, members).eval()
        shared: Record = {"split": split, "pairs_a_class": pairs, "members": members}
        shared["training_seconds"] = time.perf_counter() - began
        if method == "quant":
            began = time.perf_counter()
            answers = {"quant": solve_instances(network, [test.p], problem=problem)[0]}
            shared["ms_per_pair"] = 1e3 * (time.perf_counter() - began) / len(test.x_true)
            if split == 0:
                with torch.no_grad():
                    shared["chip"] = chip_view(network(test.p[:1])[0])
        else:
            answers = _row_by_row(network, test, method)
        for name, x in answers.items():
            yield {"method": name, **_scores(problem, x, test), **shared}


@torch.no_grad()
def _row_by_row(network: nn.Module, test: Instances, method: Method) -> dict[str, Tensor]:
    """Bits ``[batch, 100]`` by linear terms alone: the best of each row, which may repeat; the best permutation."""
    scores = network(test.p).diagonal(dim1=1, dim2=2).reshape(-1, KEYPOINTS, KEYPOINTS)
    rows = encode_matching(scores.argmin(2))
    return {method: rows, f"{method}, Hungarian": encode_matching(assignments(scores))}


def _scores(problem: WillowMatching, x: Tensor, test: Instances) -> Record:
    """Mean accuracy over keypoints and classes, the same after projection to a permutation, and by class."""
    found = evaluate_bits(problem, x, test).metrics
    kinds = len(CLASSES)  # which take turns
    rows = {name: slice(number, None, kinds) for number, name in enumerate(CLASSES)}
    by_class = {name: evaluate_bits(problem, x[some], test.rows(some)) for name, some in rows.items()}
    return {
        **{name: found[name] for name in ("accuracy", "accuracy_projected", "all_right")},
        **{name: scored.metrics["accuracy"] for name, scored in by_class.items()},
    }


def rows(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The line of the table "where couplings pay"."""
    names = {"quant": "quant", "diag": "diag", "pure": "pure", "diag, Hungarian": "rival"}
    known = [{names[each["method"]]: 100 * each["accuracy"]} for each in records if each["method"] in names]
    splits = len({each["split"] for each in records})
    published: list[Published] = [
        {"name": name, "value": value, "source": "README of Thinklab-SJTU/ThinkMatch, commit 00b8d23"}
        for name, value in (("BBGM", 97.2), ("NGM-v2", 97.5))
    ]
    return [
        row(
            "Willow, ten keypoints",
            "keypoints matched right, %",
            "frozen VGG16 features; a matching is one-to-one (quant), rows are one-hot (diag, pure)",
            f"{splits} random splits by content",
            known,
            rival_name="Hungarian on diag's scores",
            published=published,
            chip=next((each["chip"] for each in records if "chip" in each), None),
        )
    ]
