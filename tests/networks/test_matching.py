"""The permutation-aware network."""

from __future__ import annotations

import pytest
import torch

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import evaluate
from qubolearn.networks import MatchingBody, QuboNetwork
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import stream
from qubolearn.recipes import recipe_for, train
from qubolearn.solvers import ExhaustiveSearch


def test_renaming_the_nodes_of_the_first_graph_moves_its_couplings_along() -> None:
    k, b = 4, 2
    problem = RandGraph(k=k)
    body = MatchingBody(problem, topology("dense", 8), hidden=16)
    network = QuboNetwork(body, topology("dense", 8), problem.input_size)
    p = problem.sample(3, stream(0, "test")).p
    renamed = torch.tensor([2, 0, 3, 1])
    W = p.reshape(3, k, k, k, k)[:, renamed][:, :, :, renamed]
    A = network(p).reshape(3, k, b, k, b)
    moved = network(W.reshape(3, -1)).reshape(3, k, b, k, b)
    upper = torch.ones(8, 8).triu().bool().reshape(k, b, k, b)
    stays_upper = upper[renamed][:, :, renamed] & upper  # read from the same triangle before and after
    want = A[:, renamed][:, :, :, renamed]
    torch.testing.assert_close(moved[:, stays_upper], want[:, stays_upper])


def test_it_learns_k5_within_seconds() -> None:
    problem = RandGraph(k=5)
    sizes = {"hidden": 32, "epochs": 15, "instances": 2000, "validation": 10}
    network = train(problem, recipe_for("best", problem, network="matching", loss="pseudo", **sizes))
    assert evaluate(network, problem, ExhaustiveSearch(), 300, seed=3).metrics["accuracy"] > 0.9


def test_other_problems_are_rejected() -> None:
    class Short(RandGraph):
        input_size = 7

    with pytest.raises(QubolearnError, match="Short"):
        MatchingBody(Short(), topology("dense", 8), 8)
