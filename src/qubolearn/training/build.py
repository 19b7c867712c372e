"""From the words of a recipe to values: its network, loss, optimizer and solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from qubolearn.chips.topologies import topology
from qubolearn.losses import (
    L1,
    BlockLikelihood,
    Contrastive,
    Gap,
    HammingHinge,
    Hinge,
    Likelihood,
    Loss,
    PersistentContrastive,
    PseudoLikelihood,
    SoftLikelihood,
    SparseFeatures,
)
from qubolearn.networks import MLP, MatchingBody, PairwiseBody, QuboNetwork
from qubolearn.problems import Problem
from qubolearn.randomness import derive_seed, drawn_from
from qubolearn.training.optimizers import Adam, Cosine
from qubolearn.training.recipes import Recipe

__all__ = ["make_loss", "make_optimizer", "new_network"]

LOSSES: Mapping[str, Callable[[Recipe], Loss]] = {
    "gap": lambda recipe: Gap(recipe.weight_unique),
    "hinge": lambda recipe: Hinge(recipe.margin),
    "hamming": lambda recipe: HammingHinge(recipe.margin),
    "nll": lambda recipe: Likelihood(recipe.beta),
    "soft-nll": lambda recipe: SoftLikelihood(recipe.beta),
    "contrastive": lambda recipe: Contrastive(recipe.beta),
    "persistent": lambda recipe: PersistentContrastive(recipe.beta),
    "pseudo": lambda recipe: PseudoLikelihood(recipe.beta),
    "block": lambda recipe: BlockLikelihood(recipe.block, recipe.beta),
    "l1": lambda recipe: L1(),
}


def make_loss(recipe: Recipe) -> Loss:
    """The loss that a recipe names, with the paper's L_mlp where it has a weight."""
    loss = LOSSES[recipe.loss](recipe)
    return loss + recipe.weight_mlp * SparseFeatures() if recipe.weight_mlp else loss


def new_network(problem: Problem, recipe: Recipe) -> QuboNetwork:
    """The untrained network of a recipe, its weights drawn from the seed and from nothing else."""
    pattern = topology(recipe.topology, problem.bits)
    with drawn_from(derive_seed(recipe.seed, "weights")):
        body: nn.Module
        if recipe.network == "matching":
            body = MatchingBody(problem, pattern, recipe.hidden)
        elif recipe.network == "pairwise":
            body = PairwiseBody(problem, pattern, recipe.hidden)
        else:
            body = MLP(problem.input_size, pattern.size, recipe.layers, recipe.hidden)
    inputs = None if recipe.network == "pairwise" else problem.input_size  # its features have a scale of their own
    return QuboNetwork(body, pattern, inputs, recipe.method)


def make_optimizer(recipe: Recipe) -> Adam:
    """Adam with the rate and the schedule of a recipe."""
    return Adam(recipe.learning_rate, Cosine() if recipe.schedule == "cosine" else None)
