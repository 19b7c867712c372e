"""The step without autograd against autograd: losses and gradients agree for every loss, method and depth."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from qubolearn.losses.objectives import Context
from qubolearn.problems import make_problem
from qubolearn.randomness import stream
from qubolearn.solvers import make_solver
from qubolearn.training.fast.adam import Adam
from qubolearn.training.fast.compiled import FusedStep, can_fuse
from qubolearn.training.loop import new_network
from qubolearn.training.recipes import TrainConfig
from qubolearn.training.steps import batch_loss

PLAIN = TrainConfig(hidden=24, layers=5, topology="dense", weight_unique=0.1, weight_mlp=0.05)
GRAPHS = make_problem("randgraph", k=4)


@dataclass(frozen=True)
class Soft(type(GRAPHS)):
    """RandGraph with soft targets: the solution and its complement."""

    def soft_targets(self, x_true):
        return torch.stack([x_true, 1 - x_true], 1), torch.tensor([0.75, 0.25]).expand(len(x_true), 2)


def both(config, problem=GRAPHS, share=1.0):
    """Loss and gradients by autograd and by :class:`FusedStep`."""
    batch = problem.sample(19, stream(1, "train"))
    network = new_network(problem, config)
    network.standardise.fit(batch.p)
    loss = batch_loss(network, problem, config, batch, 0) * share
    loss.backward()
    right = [parameter.grad.clone() for parameter in network.parameters()]
    step = FusedStep(network, Adam(network))
    value = step(batch, Context(problem.soft_targets, make_solver(config.solver), config), share)
    return (loss.item(), right), (value, [parameter.grad for parameter in network.parameters()])


def assert_same(config, problem=GRAPHS, share=1.0):
    (loss, right), (value, mine) = both(config, problem, share)
    assert abs(loss) > 1e-3
    assert max(gradient.abs().max() for gradient in right) > 1e-4
    torch.testing.assert_close(value, loss, rtol=1e-4, atol=1e-5)
    for gradient, expected in zip(mine, right, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", ["gap", "hinge", "hamming", "nll", "pseudo"])
@pytest.mark.parametrize("layers", [2, 3, 5])
def test_agrees_with_autograd(loss, layers):
    assert_same(replace(PLAIN, loss=loss, layers=layers))


@pytest.mark.parametrize("change", [{"weight_unique": 0.0}, {"weight_mlp": 0.0}, {"topology": "chimera"}])
def test_agrees_without_a_term_and_on_sparse_graphs(change):
    assert_same(replace(PLAIN, loss="gap", **change))


def test_agrees_on_soft_targets_and_on_a_share_of_a_batch():
    assert_same(replace(PLAIN, loss="nll"), Soft(k=4), share=0.4)


@pytest.mark.parametrize(("method", "loss"), [("diag", "gap"), ("pure", "l1")])
def test_agrees_for_the_general_baselines(method, loss):
    assert_same(replace(PLAIN, method=method, loss=loss, topology="diagonal"))


def test_only_the_papers_network_is_fused():
    assert can_fuse(new_network(GRAPHS, PLAIN))
    network = new_network(GRAPHS, PLAIN)
    network.body = nn.Identity()
    assert not can_fuse(network)
