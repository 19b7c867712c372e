"""p -> A: the paper's MLP, a permutation-aware body for graph matching, the head that makes a QUBO, a solver layer."""

from typing import TYPE_CHECKING, Literal

from qubolearn.lazy import lazily

__all__ = ["MLP", "Couplings", "MatchingBody", "Method", "NetworkName", "QuboLayer", "QuboNetwork", "Standardise"]

Method = Literal["quant", "diag", "pure"]
NetworkName = Literal["mlp", "matching"]

if TYPE_CHECKING:
    from qubolearn.networks.heads import Couplings, QuboNetwork, Standardise
    from qubolearn.networks.layer import QuboLayer
    from qubolearn.networks.matching import MatchingBody
    from qubolearn.networks.mlp import MLP
else:  # recipes name methods and networks where torch is not needed yet
    __getattr__, __dir__ = lazily(
        __name__,
        {
            **dict.fromkeys(("Couplings", "QuboNetwork", "Standardise"), "qubolearn.networks.heads"),
            "MLP": "qubolearn.networks.mlp",
            "MatchingBody": "qubolearn.networks.matching",
            "QuboLayer": "qubolearn.networks.layer",
        },
    )
