"""p -> A: the paper's MLP, permutation-aware bodies, the head that makes a QUBO, a solver layer."""

from typing import TYPE_CHECKING, Literal

from qubolearn.lazy import lazily

__all__ = [
    "MLP",
    "Couplings",
    "Ensemble",
    "GridBody",
    "MatchingBody",
    "Method",
    "NetworkName",
    "PairMatching",
    "PairwiseBody",
    "QuboLayer",
    "QuboNetwork",
    "SharedQubo",
    "Standardise",
    "harden",
]

Method = Literal["quant", "diag", "pure"]
NetworkName = Literal["mlp", "matching", "pairwise", "grid", "keypoints", "shared"]

if TYPE_CHECKING:
    from qubolearn.networks.ensemble import Ensemble
    from qubolearn.networks.grid import GridBody
    from qubolearn.networks.heads import Couplings, QuboNetwork, Standardise
    from qubolearn.networks.layer import QuboLayer
    from qubolearn.networks.matching import MatchingBody
    from qubolearn.networks.matching_pairs import PairMatching
    from qubolearn.networks.mlp import MLP
    from qubolearn.networks.pairwise import PairwiseBody
    from qubolearn.networks.shared import SharedQubo, harden
else:  # recipes name methods and networks where torch is not needed yet
    _, __getattr__, __dir__ = lazily(__name__)
