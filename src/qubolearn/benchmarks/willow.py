"""Willow's ten keypoints: what couplings add to learning the bits, over random splits of the images.

Hyper-parameters were chosen on splits 100 to 102, which are not reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from qubolearn.evaluation import evaluate_bits, solve_instances
from qubolearn.losses.groups import GroupPseudoLikelihood
from qubolearn.networks.matching_pairs import PairMatching
from qubolearn.paper.datasets.willow import CLASSES, KEYPOINTS
from qubolearn.paper.problems.willow_matching import FEATURES, WillowMatching
from qubolearn.problems.contract import Instances
from qubolearn.problems.encodings import assignments
from qubolearn.problems.matchings import encode_matching
from qubolearn.qubo import Groups
from qubolearn.randomness import derive_seed, stream
from qubolearn.solvers.assignment import Assignment
from qubolearn.solvers.tempering import ParallelTempering
from qubolearn.training.fit import fit
from qubolearn.training.optimizers import Adam, Cosine

__all__ = ["records", "split_records", "train_matching"]

Record = dict[str, Any]
SPLITS, PAIRS = 10, 100  # pairs of test images a class
BATCH, EPOCH = 30, 300  # an epoch is what is drawn at once
#: By whether there are couplings; without them more steps only learn the training images by heart.
STEPS = {True: 300, False: 100}
QUICK_STEPS = 20
MASKING = 1.0
SOLVER = Assignment(ParallelTempering(sweeps=300, seed=0))


def train_matching(problem: WillowMatching, couplings: bool, steps: int) -> PairMatching:
    """A network trained by the pseudo-likelihood of the rows on pairs of the problem's training images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(problem.split_seed, "weights"))
        network = PairMatching(FEATURES, couplings)
    rows = Groups.consecutive(KEYPOINTS, KEYPOINTS)
    per_epoch = EPOCH // BATCH
    fit(
        network,
        problem,
        GroupPseudoLikelihood(rows, masking=MASKING),
        optimizer=Adam(2e-3, schedule=Cosine()),
        epochs=max(1, steps // per_epoch),
        batch_size=BATCH,
        instances=EPOCH,
        fresh=True,
        validation=None,
        seed=problem.split_seed,
    )
    return network


def records(quick: bool) -> Iterator[Record]:
    """The records of all splits."""
    for split in range(1 if quick else SPLITS):
        yield from split_records(split, quick)


def split_records(split: int, quick: bool = False) -> Iterator[Record]:
    """Three records: with couplings; the same network without any, row by row; Hungarian on its scores."""
    problem = WillowMatching(split_seed=split)
    pairs = 10 if quick else PAIRS
    test = problem.sample(len(CLASSES) * pairs, stream(split, "test"), "test")
    for couplings in (True, False):
        began = time.perf_counter()
        network = train_matching(problem, couplings, QUICK_STEPS if quick else STEPS[couplings])
        shared: Record = {"split": split, "pairs_a_class": pairs, "training_seconds": time.perf_counter() - began}
        if couplings:
            began = time.perf_counter()
            answers = {"quant": solve_instances(network, [test.p], SOLVER)[0]}
            shared["ms_per_pair"] = 1e3 * (time.perf_counter() - began) / len(test.x_true)
        else:
            answers = _row_by_row(network, test)
        for method, x in answers.items():
            yield {"method": method, **_scores(problem, x, test), **shared}


@torch.no_grad()
def _row_by_row(network: PairMatching, test: Instances) -> dict[str, Tensor]:
    """Bits ``[batch, 100]`` by linear terms alone: the best of each row, which may repeat; the best permutation."""
    scores = network(test.p).diagonal(dim1=1, dim2=2).reshape(-1, KEYPOINTS, KEYPOINTS)
    return {"diag": encode_matching(scores.argmin(2)), "diag, Hungarian": encode_matching(assignments(scores))}


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
