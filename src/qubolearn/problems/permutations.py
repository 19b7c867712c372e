"""Problems whose answer is a permutation: what matching random graphs and matching keypoints of images share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qubolearn.problems.contract import Instances, Problem

if TYPE_CHECKING:
    from torch import Tensor

# The encodings import torch, which the options of a problem should not wait for.
__all__ = ["PermutationProblem"]


@dataclass(frozen=True)
class PermutationProblem(Problem):
    """Find a permutation P of k things: x says P(1) ... P(k) in ceil(log2 k) bits each, and p has k⁴ weights.

    A subclass draws the instances; their answers are the permutations ``[batch, k]``.
    """

    k: int = 4
    """Things to permute."""

    @property
    def input_size(self) -> int:
        return self.k**4

    @property
    def bits(self) -> int:
        return self.k * (self.k - 1).bit_length()

    def decode(self, x: Tensor) -> Tensor:
        from qubolearn.problems.encodings import decode_permutation

        return decode_permutation(x, self.k)

    def project(self, x: Tensor, p: Tensor) -> Tensor:
        from qubolearn.problems.encodings import nearest_permutation

        return nearest_permutation(x, self.k)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        return {"accuracy": (answer == instances.answer).all(-1).float()}
