"""RandGraph: match a graph with a permuted copy (QuAnt's synthetic task)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from qubolearn.data.contract import Instances, PermutationProblem, Split
from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    from torch import Generator, Tensor

# torch is imported in functions: options should not wait for it.
__all__ = ["RandGraph", "pairwise_weights"]


@dataclass(frozen=True)
class RandGraph(PermutationProblem):
    """Match a random graph of k nodes with a permuted copy of itself.

    D has i.i.d. U(0, 1) entries, D' is D permuted by P, p = vec(|D ⊗ 1 - 1 ⊗ D'|), and
    the solution encodes P. Instances never repeat, so splits are disjoint.
    """

    name: ClassVar[str] = "randgraph"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {  # `best` was chosen on validation instances
        "best": {"learning_rate": 3e-3, "topology": "chimera"},
    }

    k: int = 4
    """Nodes of the graph."""

    def __post_init__(self) -> None:
        if not 2 <= self.k <= 16:
            raise QubolearnError(f"k={self.k} nodes; expected 2 to 16 (p has k**4 entries)")

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        import torch

        from qubolearn.data.encodings import encode_permutation

        k, device = self.k, generator.device
        D = torch.rand(count, k, k, generator=generator, device=device)
        # node i of D is node P(i) of D'
        P = torch.rand(count, k, generator=generator, device=device).argsort(1)
        inverse = P.argsort(1)
        instance = torch.arange(count, device=device)[:, None, None]
        D_permuted = D[instance, inverse[:, :, None], inverse[:, None, :]]
        p = pairwise_weights(D, D_permuted).flatten(1)
        return Instances(p, encode_permutation(P), P)

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        k, chosen = options.get("k", 4), super().preset(name, options)
        return {**chosen, **(_FROM_FIVE_NODES if k >= 5 else {}), **(_FROM_SIX_NODES if k >= 6 else {})}


# Five nodes need more cells of Pegasus and more epochs. From six on, the
# permutation-aware network is smaller and faster than the paper's.
_FROM_FIVE_NODES: Mapping[str, Any] = {"epochs": 300, "topology": "pegasus"}
_FROM_SIX_NODES: Mapping[str, Any] = {"network": "matching", "hidden": 64, "loss": "pseudo", "epochs": 40}


def pairwise_weights(D: Tensor, D_other: Tensor) -> Tensor:
    """Return W[(i, a), (j, b)] = |D_ij - D'_ab| ``[batch, k², k²]``."""
    batch, k, _ = D.shape
    W = (D[:, :, None, :, None] - D_other[:, None, :, None, :]).abs()  # [batch, i, a, j, b]
    return W.reshape(batch, k * k, k * k)
