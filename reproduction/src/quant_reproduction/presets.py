"""Recipes of the paper's protocol and of our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from qubolearn import recipes
from qubolearn.data import Problem
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import Recipe

#: The paper's names: a QUBO, one without couplings, the bits.
Method = Literal["quant", "diag", "pure"]
GRAPHS: Mapping[str, Any] = {"loss": "gap", "solver": "annealing:reads=100,sweeps=1000", "standardize": False}
FROM_FIVE_NODES: Mapping[str, Any] = {"epochs": 450, "learning_rate": 1e-5, "topology": "pegasus"}


def recipe_for(protocol: str, problem: Problem, **options: Any) -> Recipe:
    """Return the recipe of a protocol, `paper` or `best`, with options."""
    if protocol == "paper" and isinstance(problem, RandGraph):
        chosen = {**GRAPHS, **FROM_FIVE_NODES} if problem.k >= 5 else GRAPHS
        return recipes.recipe_for(chosen, problem, **options)
    return recipes.recipe_for(protocol, problem, **options)
