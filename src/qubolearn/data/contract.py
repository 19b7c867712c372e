"""Instances, and the contract of problems: (p, x̂); x -> answer -> metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor

    from qubolearn.qubo import Groups, LinearConstraint

__all__ = [
    "Instances",
    "PermutationProblem",
    "Problem",
    "RightAnswers",
    "SoftTargets",
    "Split",
    "check_bits",
    "score_bits",
]

Split = Literal["train", "validation", "test"]


class RightAnswers(NamedTuple):
    """All right answers of each instance, such as a cut and its complement; ``valid`` excludes padding.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0]])
    >>> right = RightAnswers(torch.stack([x, 1 - x], 1), torch.ones(1, 2, dtype=torch.bool))
    >>> right.include(torch.tensor([[0.0, 1.0]])), right.include(torch.tensor([[1.0, 1.0]]))
    (tensor([True]), tensor([False]))
    """

    states: Tensor  # [batch, t, n], 0 or 1
    valid: Tensor  # [batch, t], bool; at least one per instance

    def draw(self, generator: Generator) -> Tensor:
        """Draw one of the right answers of each instance, ``[batch, n]``."""
        import torch

        uniforms = torch.rand(self.valid.shape, generator=generator, device=self.valid.device)
        chosen = uniforms.masked_fill(~self.valid, -1.0).argmax(1)
        return self.states[torch.arange(len(chosen), device=chosen.device), chosen]

    def include(self, x: Tensor) -> Tensor:
        """Return True for each x ``[batch, ..., n]`` that is a right answer."""
        batch, _, n = self.states.shape
        rows = x.reshape(batch, -1, 1, n)
        same = (rows == self.states[:, None]).all(-1) & self.valid[:, None]  # [batch, rows, t]
        return same.any(-1).reshape(x.shape[:-1])


class SoftTargets(NamedTuple):
    """Right and nearly right states with weights, such as the neighboring bins of a number."""

    states: Tensor  # [batch, t, n]
    weights: Tensor  # [batch, t], at least 0, sum to 1 for each instance


class Instances(NamedTuple):
    """A batch of problem instances with their solutions.

    ``p`` is the input of the network: ``[batch, input_size]`` in float32, or any
    structure of tensors. ``x_true`` are the bits of a solution, and ``answer`` is the
    solution itself, such as a permutation. ``right`` lists all solutions if instances have several.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> instances = Instances(torch.zeros(2, 3), x, x)
    >>> instances.wrong_bits(torch.zeros(2, 2)), len(instances.rows(slice(0, 1)).x_true)
    (tensor([1, 2]), 1)
    """

    p: Any  # [batch, input_size], float32, or a structure of tensors
    x_true: Tensor  # [batch, bits], float32, 0 or 1
    answer: Tensor  # [batch, ...]
    right: RightAnswers | None = None

    def rows(self, index: Tensor | slice) -> Instances:
        """Return the instances at a slice or row numbers ``[count]``."""
        if isinstance(index, slice):
            return self._map(lambda tensor: tensor[index])
        return self._map(lambda tensor: tensor.index_select(0, index))

    def wrong_bits(self, x: Tensor) -> Tensor:
        """Return the Hamming distance ``[batch]`` to the nearest right answer."""
        if self.right is None:
            return (x != self.x_true).sum(-1)
        distance = (x[:, None] != self.right.states).sum(-1)
        return distance.masked_fill(~self.right.valid, x.shape[1] + 1).amin(1)

    def to(self, device: torch.device | str) -> Instances:
        """Return the instances on a device."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function: Any) -> Instances:
        from qubolearn.data.arrays import map_tensors

        found: Instances = map_tensors(function, self)
        return found._replace(answer=found.x_true) if self.answer is self.x_true else found


class Problem(ABC):
    """Base class of problem types: subclasses are frozen dataclasses whose fields are their options.

    The fields become options of the command line and are stored as JSON, so they are
    numbers, strings and booleans. For arrays, use :class:`qubolearn.Arrays`.

    Subclasses define ``input_size``, ``bits`` and :meth:`sample`; defaults of the others
    are for answers that are bits. ``qubolearn.testing.check_problem`` checks a class.

    >>> from dataclasses import dataclass
    >>> import torch
    >>> @dataclass(frozen=True)
    ... class Signs(Problem):
    ...     name = "signs"
    ...     n: int = 3
    ...     input_size = bits = property(lambda self: self.n)
    ...     def sample(self, count, generator, split="train"):
    ...         p = torch.randn(count, self.n, generator=generator, device=generator.device)
    ...         return Instances(p, (p > 0).float(), (p > 0).float())
    >>> Signs(n=4).sample(5, torch.Generator().manual_seed(0)).x_true.shape
    torch.Size([5, 4])
    """

    name: ClassVar[str]
    #: The main metric, a key of the result of :meth:`score`, and its direction.
    metric: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True
    #: Choices of the presets for this problem.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"best": {"epochs": 100}}
    #: Names of options in old files -> names now.
    old_names: ClassVar[Mapping[str, str]] = {}

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Return m, the length of p."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Return n, the number of bits of a solution."""

    @abstractmethod
    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        """Draw ``count`` instances on the device of the generator, whose state determines them.

        Splits share no shape, image or other source of instances.
        """

    def decode(self, x: Tensor) -> Tensor:
        """Return the answers of bits ``[batch, n]``; by default the bits."""
        return x

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return metrics ``[batch]`` of answers; by default :func:`score_bits`."""
        return score_bits(answer, instances)

    def project(self, x: Tensor, p: Any) -> Tensor:
        """Return the nearest bits that encode a valid answer; by default x."""
        return x

    @property
    def groups(self) -> Groups | None:
        """Return the groups of bits of which exactly one is 1, or None."""
        return None

    def clamp(self, p: Any) -> Tensor | None:
        """Return the bits that p determines, ``[batch, n]`` with -1 for free bits; None if all are free."""
        return None

    def constraints(self, p: Any) -> Sequence[LinearConstraint]:
        """Return inequalities a·x <= b that solvers must satisfy for p; by default none."""
        return ()

    def available(self, split: Split) -> int | None:
        """Return the number of instances of a split, or None if they are generated."""
        return None

    def default_solver(self) -> Any:
        """Return the default solver of ``evaluate`` and ``fit``, or None."""
        return None

    def answer_of(self, x: Tensor, p: Any) -> Tensor:
        """Return what ``qubolearn solve`` writes for bits x."""
        return self.decode(x)

    def remarks(self, answer: Tensor, p: Any) -> list[str]:
        """Return a remark per answer for ``qubolearn solve``, such as why none exists."""
        return []

    def soft_targets(self, instances: Instances) -> SoftTargets | None:
        """Return targets of ``SoftLikelihood``, equally many per instance, or None."""
        return None

    @classmethod
    def variant(cls, name: str, options: Mapping[str, Any]) -> type[Problem]:
        """Return the class that a preset selects; by default this class."""
        return cls

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the choices of a preset: options of this problem and of a recipe.

        They may depend on the user's ``options``. An unknown name raises KeyError.
        """
        return {**(_BEST if name == "best" else {}), **cls.presets[name]}


_BEST: Mapping[str, Any] = {"schedule": "cosine", "fresh": True, "weight_mlp": 0.0, "topology": "dense"}


def score_bits(x: Tensor, instances: Instances) -> dict[str, Tensor]:
    """Return ``accuracy`` and ``wrong_bits`` of bits x, ``[batch]`` each."""
    wrong = instances.wrong_bits(x)
    return {"accuracy": (wrong == 0).float(), "wrong_bits": wrong.float()}


def check_bits(x: Tensor, what: str = "x") -> None:
    """Raise unless all entries of x are 0 or 1."""
    wrong = (x != 0) & (x != 1)
    if bool(wrong.any()):
        value = x[wrong][0].item()
        remedy = "; for spins -1 and +1 pass (x + 1) / 2" if value == -1 else ""
        raise QubolearnError(f"{what} contains {value:g}; expected bits 0 and 1{remedy}")


@dataclass(frozen=True)
class PermutationProblem(Problem):
    """Base class of permutation problems: k⁴ weights p, ceil(log2 k) bits per entry.

    Answers are permutations ``[batch, k]``.
    """

    k: int = 4
    """Number of elements."""

    @property
    def input_size(self) -> int:
        return self.k**4

    @property
    def bits(self) -> int:
        return self.k * (self.k - 1).bit_length()

    def decode(self, x: Tensor) -> Tensor:
        from qubolearn.data.encodings import decode_permutation

        return decode_permutation(x, self.k)

    def project(self, x: Tensor, p: Tensor) -> Tensor:
        from qubolearn.data.encodings import nearest_permutation

        return nearest_permutation(x, self.k)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        return {"accuracy": (answer == instances.answer).all(-1).float()}
