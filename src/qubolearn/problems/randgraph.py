"""RandGraph: match a random graph with a permuted copy of itself (QuAnt's synthetic graph matching)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Problem, Split

if TYPE_CHECKING:
    from torch import Generator, Tensor

# torch is imported where it is used: the options of this problem should not wait for it.
__all__ = ["RandGraph", "pairwise_weights"]


@dataclass(frozen=True)
class RandGraph(Problem):
    """Match a random graph of k nodes with a permuted copy of itself.

    D has i.i.d. U(0, 1) entries, D' is D with rows and columns permuted by P, p = vec(|D ⊗ 1 - 1 ⊗ D'|), and the
    solution says P(1) ... P(k) in ceil(log2 k) bits each. Instances are never seen twice, so all splits are disjoint.
    """

    name: ClassVar[str] = "randgraph"

    k: int = 4
    """Nodes of the graph."""

    def __post_init__(self) -> None:
        if not 2 <= self.k <= 16:
            raise QubolearnError(f"k={self.k} nodes; RandGraph wants 2 to 16 (p has k**4 entries)")

    @property
    def input_size(self) -> int:
        return self.k**4

    @property
    def bits(self) -> int:
        from qubolearn.problems.encodings import bits_per_entry

        return self.k * bits_per_entry(self.k)

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        import torch

        from qubolearn.problems.encodings import encode_permutation

        k, device = self.k, generator.device
        D = torch.rand(count, k, k, generator=generator, device=device)
        P = torch.rand(count, k, generator=generator, device=device).argsort(1)  # node i of D is node P(i) of D'
        inverse = P.argsort(1)
        instance = torch.arange(count, device=device)[:, None, None]
        D_permuted = D[instance, inverse[:, :, None], inverse[:, None, :]]
        p = pairwise_weights(D, D_permuted).flatten(1)
        return Instances(p, encode_permutation(P), P)

    def decode(self, x: Tensor) -> Tensor:
        from qubolearn.problems.encodings import decode_permutation

        return decode_permutation(x, self.k)

    def project(self, x: Tensor) -> Tensor:
        from qubolearn.problems.encodings import nearest_permutation

        return nearest_permutation(x, self.k)

    def score(self, answer: Tensor, answer_true: Tensor) -> dict[str, Tensor]:
        return {"accuracy": (answer == answer_true).all(-1).float()}


def pairwise_weights(D: Tensor, D_other: Tensor) -> Tensor:
    """W[(i, a), (j, b)] = |D_ij - D'_ab|: two graphs ``[batch, k, k]`` -> ``[batch, k², k²]``."""
    batch, k, _ = D.shape
    W = (D[:, :, None, :, None] - D_other[:, None, :, None, :]).abs()  # [batch, i, a, j, b]
    return W.reshape(batch, k * k, k * k)
