"""Visual Sudoku: a reader's probabilities of digits are biases.

The grid of lowest energy is the most probable one that satisfies the rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_array
from torch import Generator, Tensor

from quant_reproduction.datasets.files import cached_data, data_folder, load_npz
from quant_reproduction.problems.sudoku_sets import SudokuSet
from qubolearn.data.contract import Instances, Split
from qubolearn.errors import QubolearnError, missing_extra
from qubolearn.problems.sudoku import bits_of, on_cpu
from qubolearn.problems.sudoku_grids import rule_clashes
from qubolearn.random import stream
from qubolearn.solvers import Solver
from qubolearn.solvers.tempering import ParallelTempering

#: Probabilities are at least this; its -log is 27.6.
MIN_PROBABILITY = 1e-12
#: Cost of a broken rule: more than any image.
STRENGTH = 30.0
#: Images that the reader learns from; the others are for puzzles.
LEARNED = 700


@dataclass(frozen=True)
class VisualSudoku(SudokuSet):
    """Sudokus of images: p is -log of the reader's probabilities.

    The images' places and one digit per cell are given; the rules are learned.
    """

    name: ClassVar[str] = "visual-sudoku"
    #: Options of the network with a shared A.
    shared: ClassVar[dict[str, Any]] = {"biases": True, "strength": STRENGTH}

    set: Literal["generated", "satnet", "rrn"] = "generated"
    """Source of puzzles: generated, or a published set of size 9 in $QUBOLEARN_DATA/sudoku."""
    unique: bool = True
    """Ensure that each generated puzzle has one solution; some then keep more hints."""
    reader: Literal["digits", "mnist"] = "digits"
    """Reader and images: a small network for scikit-learn's 8 x 8 digits, or LeNet for MNIST, whose probabilities for
    the test digits are in $QUBOLEARN_DATA/sudoku."""

    @property
    def input_size(self) -> int:
        return self.bits

    def clamp(self, p: Tensor) -> None:  # type: ignore[override]
        return None

    def default_solver(self) -> Solver:
        return ParallelTempering(sweeps=10_000, target="bound", seed=0)

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        draw = on_cpu(generator)
        puzzles, grids = self.draw(count, draw, split)
        scores, labels = digit_scores(self.reader, split)
        p = reader_costs(scores[_images(puzzles, labels, draw)], puzzles > 0, self.size)
        return Instances(p, bits_of(grids).float(), grids).to(generator.device)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return ``accuracy``: all cells correct; ``cells``: the share of correct cells; ``read``: the most probable
        digit of every image is correct, which bounds what reading alone can do."""
        right, seen = answer == instances.answer, self.shown(instances.p)
        read = ((seen == instances.answer) | (seen == 0)).all(1)
        return {"accuracy": right.all(1).float(), "cells": right.float().mean(1), "read": read.float()}

    def shown(self, p: Tensor) -> Tensor:
        """Return the most probable digits ``[batch, cells]``, or 0."""
        costs = p.reshape(len(p), -1, self.size)
        return torch.where((costs == 0).all(2), 0, costs.argmin(2) + 1)

    def remarks(self, answer: Tensor, p: Tensor) -> list[str]:
        """Return whether answers keep the rules, and reread images."""
        seen = self.shown(p)
        other = ((seen != answer) & (seen > 0)).sum(1).tolist()
        good = super().score(answer, Instances(torch.zeros_like(answer), p, answer))["accuracy"].tolist()
        said = ["solved" if ok else "not solved" for ok in good]
        return [f"{word}, {n} images reread" for word, n in zip(said, other, strict=True)]


def reader_costs(scores: Tensor, shown: Tensor, size: int) -> Tensor:
    """Convert probabilities ``[batch, cells, 10]`` to p ``[batch, cells * size]``."""
    costs = -scores[:, :, 1 : size + 1].clamp_min(MIN_PROBABILITY).log()
    return torch.where(shown[:, :, None], costs, 0.0).flatten(1)


@cache
def scores_of_digits() -> tuple[Tensor, Tensor]:
    """Return the probabilities ``[count, 10]`` of digits on unseen images, and the labels."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.neural_network import MLPClassifier
    except ImportError as error:
        raise missing_extra("images of digits", "sklearn") from error
    data = load_digits()
    order = torch.randperm(len(data.target), generator=stream(0, "pictures")).numpy()
    known, unknown = order[:LEARNED], order[LEARNED:]
    reader = MLPClassifier(max_iter=500, random_state=0).fit(data.data[known] / 16, data.target[known])
    scores = torch.tensor(reader.predict_proba(data.data[unknown] / 16), dtype=torch.float32)
    return scores, torch.tensor(data.target[unknown], dtype=torch.int64)


def digit_scores(reader: str, split: Split) -> tuple[Tensor, Tensor]:
    """Return a reader's probabilities ``[images, 10]`` and the labels."""
    scores, labels = scores_of_digits() if reader == "digits" else _mnist_scores()
    order = torch.randperm(len(labels), generator=stream(0, "pictures"))
    part = order[len(order) // 10 :] if split == "test" else order[: len(order) // 10]
    return scores[part], labels[part]


@cached_data(1)
def _mnist_scores() -> tuple[Tensor, Tensor]:
    path = data_folder("sudoku") / "mnist_test_scores.npz"
    arrays = load_npz(path, {"scores": ("f", 2), "label": ("iu", 1)})
    scores, labels = torch.tensor(arrays["scores"]).float(), torch.tensor(arrays["label"].astype("int64"))
    valid = ((labels >= 0) & (labels < 10)).all() and not (scores < 0).any()
    if scores.shape != (len(labels), 10) or not valid:
        raise QubolearnError(f"{path}: expected scores [{len(labels)}, 10], got {list(scores.shape)}")
    return scores, labels


def _images(puzzles: Tensor, labels: Tensor, generator: Generator) -> Tensor:
    """Draw an image of each cell's digit ``[batch, cells]``."""
    order = labels.argsort(stable=True)
    number = torch.bincount(labels, minlength=10)
    first = number.cumsum(0) - number
    if int(number[1 : int(puzzles.max()) + 1].min()) < 1:
        raise QubolearnError(f"expected images of every digit from 0 to 9, got {number.tolist()}")
    pick = (torch.rand(puzzles.shape, generator=generator) * number[puzzles]).long()
    pick = pick.clamp_max(number[puzzles] - 1)
    return order[first[puzzles] + pick.clamp_min(0)]


def most_probable_grid(
    costs: Sequence[Sequence[float] | None], clashes: Sequence[int] | None = None
) -> tuple[float, list[int]] | None:
    """Return the cost and the cheapest grid under the rules, or None."""
    size = math.isqrt(len(costs))
    clashes, bits = clashes or rule_clashes(size), len(costs) * size
    pairs = np.array([(i, j) for i in range(bits) for j in range(i - i % size) if clashes[i] >> j & 1])
    ones, rows, number = np.ones(2 * len(pairs)), np.repeat(np.arange(len(pairs)), 2), np.arange(bits)
    clash = csc_array((ones, (rows, pairs.ravel())), shape=(len(pairs), bits))
    one_digit = csc_array((np.ones(bits), (number // size, number)), shape=(len(costs), bits))
    found = milp(
        np.array([cost or [0.0] * size for cost in costs]).ravel(),
        integrality=np.ones(bits),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(clash, -np.inf, 1), LinearConstraint(one_digit, 1, 1)],
    )
    if found.x is None:
        return None
    return float(found.fun), (found.x.reshape(-1, size).argmax(1) + 1).tolist()
