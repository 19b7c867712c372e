"""From the words of a recipe to values: its network, loss, optimizer and solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from qubolearn.chips.topologies import Topology, topology
from qubolearn.errors import QubolearnError
from qubolearn.losses import (
    L1,
    BlockLikelihood,
    Contrastive,
    Gap,
    GroupPseudoLikelihood,
    HammingHinge,
    Hinge,
    Likelihood,
    Loss,
    PersistentContrastive,
    PseudoLikelihood,
    SoftLikelihood,
    SparseFeatures,
)
from qubolearn.networks import MLP, GridBody, MatchingBody, PairMatching, PairwiseBody, QuboNetwork, SharedQubo
from qubolearn.problems import Problem
from qubolearn.randomness import derive_seed, drawn_from
from qubolearn.training.optimizers import Adam, Cosine
from qubolearn.training.recipes import Recipe

__all__ = ["make_loss", "make_optimizer", "new_network", "pattern_of"]

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


def make_loss(recipe: Recipe, problem: Problem | None = None) -> Loss:
    """The loss that a recipe names, with the paper's L_mlp where it has a weight; a loss of groups asks the problem."""
    if recipe.loss == "group-pseudo":
        loss: Loss = GroupPseudoLikelihood(
            _named(problem, "groups", "loss 'group-pseudo'"), recipe.beta, recipe.masking
        )
    else:
        loss = LOSSES[recipe.loss](recipe)
    return loss + recipe.weight_mlp * SparseFeatures() if recipe.weight_mlp else loss


def new_network(problem: Problem, recipe: Recipe) -> nn.Module:
    """The untrained network of a recipe, its weights drawn from the seed and from nothing else."""
    if recipe.network == "shared":  # its weights start at 0
        return SharedQubo(problem.bits, levels=2, **getattr(problem, "shared", {}))
    with drawn_from(derive_seed(recipe.seed, "weights")):
        if recipe.network == "keypoints":  # says all of A itself
            features = _named(problem, "features", "network 'keypoints'")
            return PairMatching(features, recipe.method == "quant", hidden=recipe.hidden)
        pattern = pattern_of(problem, recipe)
        body: nn.Module
        if recipe.network == "matching":
            body = MatchingBody(problem, pattern, recipe.hidden)
        elif recipe.network == "pairwise":
            body = PairwiseBody(problem, pattern, recipe.hidden)
        elif recipe.network == "grid":
            rows, columns, symbols, labels = _named(problem, "grid", "network 'grid'")
            body = GridBody(rows, columns, symbols, labels, recipe.method == "quant", recipe.hidden)
        else:
            body = MLP(problem.input_size, pattern.size, recipe.layers, recipe.hidden, recipe.dropout)
    # the features of these have a scale of their own
    inputs = None if recipe.network in ("pairwise", "grid") else problem.input_size
    return QuboNetwork(body, pattern, inputs, recipe.method)


def pattern_of(problem: Problem, recipe: Recipe) -> Topology:
    """Which entries of A a recipe asks for."""
    if recipe.topology != "own":
        return topology(recipe.topology, problem.bits)
    made: Topology = _named(problem, "topology", "topology 'own'")()
    return made


def _named(problem: Problem | None, attribute: str, what: str) -> Any:
    """What a problem says of itself, where a choice of the recipe needs it."""
    found = getattr(problem, attribute, None)
    if found is None:
        raise QubolearnError(f"{what} needs a problem with {attribute!r}, which {problem} lacks; choose another")
    return found


def make_optimizer(recipe: Recipe) -> Adam:
    """Adam with the rate and the schedule of a recipe."""
    return Adam(recipe.learning_rate, Cosine() if recipe.schedule == "cosine" else None)
