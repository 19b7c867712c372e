"""The one contract of all problem types: problem -> (p, x̂); x -> answer -> metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["Instances", "Problem", "Split"]

Split = Literal["train", "validation", "test"]


class Instances(NamedTuple):
    """A batch of problem instances with their solutions."""

    p: Tensor  # [batch, input_size], float32: what the network sees
    x_true: Tensor  # [batch, bits], float32, 0 or 1: the bits of the solution
    answer: Tensor  # [batch, ...]: the solution itself, e.g. a permutation or an angle before rounding to bits


class Problem(ABC):
    """A problem type as a value: subclasses are frozen dataclasses whose fields are its options.

    The fields become options of the command line and are written as JSON beside every result, so they
    hold plain numbers, strings and booleans.
    """

    name: ClassVar[str]
    #: The metric that counts, a key of what :meth:`score` returns, and which way it should go.
    metric: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    @property
    @abstractmethod
    def input_size(self) -> int:
        """m, the length of p."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """n, the number of bits of a solution."""

    @abstractmethod
    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        """``count`` instances, the same for the same state of the generator, on the generator's device.

        Splits share no shape, image or other source of instances.
        """

    @abstractmethod
    def decode(self, x: Tensor) -> Tensor:
        """Bits ``[batch, n]`` -> answers ``[batch, ...]``."""

    @abstractmethod
    def score(self, answer: Tensor, answer_true: Tensor) -> dict[str, Tensor]:
        """Metrics by name, one value per instance: ``[batch, ...]``, ``[batch, ...]`` -> ``[batch]`` each."""

    def project(self, x: Tensor) -> Tensor:
        """Bits ``[batch, n]`` -> the nearest bits that say a valid answer. By default all bits do."""
        return x

    def soft_targets(self, x_true: Tensor) -> tuple[Tensor, Tensor] | None:
        """States ``[batch, t, n]`` and weights ``[batch, t]`` summing to 1 that all count as right, or None.

        Losses that know numbers use these: where the solution is a binned number, its neighbours are nearly right.
        Instances are independent: a batch or a whole epoch may be asked for, and t is the same for all.
        """
        return None
