"""RandGraph against its definition, entry by entry."""

from __future__ import annotations

import itertools

import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.problems import Instances, make_problem
from qubolearn.problems.randgraph import RandGraph, pairwise_weights
from qubolearn.random import stream


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_weights_vanish_exactly_on_the_solution(k: int) -> None:
    problem = RandGraph(k=k)
    p, x_true, P, _ = problem.sample(20, stream(0, "test"))
    W = p.reshape(20, k, k, k, k)  # i, a, j, b
    for instance in range(20):
        pairs = list(enumerate(P[instance].tolist()))
        assert all(W[instance, i, a, j, b] == 0 for (i, a), (j, b) in itertools.product(pairs, pairs))
    assert (W == 0).float().mean() == pytest.approx(1 / k**2, abs=0.02)  # and nowhere else
    assert torch.equal(problem.decode(x_true), P)


def test_weights_are_the_differences_of_all_pairs_of_edges() -> None:
    D, other = torch.rand(2, 3, 3), torch.rand(2, 3, 3)
    W = pairwise_weights(D, other)
    for i, a, j, b in itertools.product(range(3), repeat=4):
        want = (D[1, i, j] - other[1, a, b]).abs()
        assert W[1, 3 * i + a, 3 * j + b] == want


def test_permutations_and_distances_are_uniform() -> None:
    problem = RandGraph(k=3)
    p, _, P, _ = problem.sample(12_000, stream(1, "test"))
    counts = torch.bincount(P[:, 0] * 9 + P[:, 1] * 3 + P[:, 2])
    assert (counts[counts > 0] - 2000).abs().max() < 200
    assert (counts > 0).sum() == 6
    assert p[:, 1].mean().item() == pytest.approx(1 / 3, abs=0.02)  # E|U - U'|


def test_sizes_and_scores() -> None:
    problem = make_problem("randgraph", k=5)
    assert (problem.input_size, problem.bits) == (625, 15)
    answer = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 4, 3]])
    scores = problem.score(answer, Instances(None, answer, answer[:1].expand(2, 5)))
    assert scores["accuracy"].tolist() == [1.0, 0.0]


def test_bad_k_is_rejected() -> None:
    for k in (1, 17):
        with pytest.raises(QubolearnError, match=f"k={k}"):
            RandGraph(k=k)
    with pytest.raises(QubolearnError, match="did you mean k"):
        make_problem("randgraph", kk=4)
    with pytest.raises(QubolearnError, match=r"randgrph.*randgraph"):
        make_problem("randgrph")
