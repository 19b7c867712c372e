"""The one contract of all problem types: problem -> (p, x̂); x -> answer -> metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor

    from qubolearn.qubo import Groups
    from qubolearn.solvers.contract import Solver

__all__ = ["Instances", "Problem", "RightAnswers", "SoftTargets", "Split", "check_bits", "score_bits"]

Split = Literal["train", "validation", "test"]


class RightAnswers(NamedTuple):
    """All states that count as right, where an instance has several: a cut and its complement, any optimal tour.

    ``states`` are ``[batch, t, n]``, and ``valid`` ``[batch, t]`` says which of them are meant, since instances may
    have different numbers of right answers.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0]])
    >>> right = RightAnswers(torch.stack([x, 1 - x], 1), torch.ones(1, 2, dtype=torch.bool))
    >>> right.include(torch.tensor([[0.0, 1.0]])), right.include(torch.tensor([[1.0, 1.0]]))
    (tensor([True]), tensor([False]))
    """

    states: Tensor  # [batch, t, n], 0 or 1
    valid: Tensor  # [batch, t], bool: which of them are meant; at least one for each instance

    def draw(self, generator: Generator) -> Tensor:
        """A random one of each instance's right answers, ``[batch, n]``."""
        import torch

        luck = torch.rand(self.valid.shape, generator=generator, device=self.valid.device)
        chosen = luck.masked_fill(~self.valid, -1.0).argmax(1)
        return self.states[torch.arange(len(chosen), device=chosen.device), chosen]

    def include(self, x: Tensor) -> Tensor:
        """Whether each x ``[batch, ..., n]`` is among them: ``[batch, ...]`` bool."""
        batch, _, n = self.states.shape
        rows = x.reshape(batch, -1, 1, n)
        same = (rows == self.states[:, None]).all(-1) & self.valid[:, None]  # [batch, rows, t]
        return same.any(-1).reshape(x.shape[:-1])


class SoftTargets(NamedTuple):
    """States that are nearly right, with weights: the neighbouring bins of a number.

    ``states`` are ``[batch, t, n]``; ``weights`` ``[batch, t]`` are at least 0 and sum to 1 for each instance.

    >>> import torch
    >>> soft = SoftTargets(torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]), torch.tensor([[0.8, 0.2]]))
    >>> soft.weights.sum(1)
    tensor([1.])
    """

    states: Tensor  # [batch, t, n]
    weights: Tensor  # [batch, t], summing to 1


class Instances(NamedTuple):
    """A batch of problem instances with their solutions.

    ``p`` is what the network sees: ``[batch, input_size]`` in float32, or any structure of tensors that a network of
    the user takes. ``x_true`` are the bits of a solution. ``answer`` is the solution itself, such as a permutation or
    an angle before rounding to bits. ``right`` lists all solutions where an instance has several.

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
        """The instances at an index: a slice, or the numbers of the rows ``[count]``."""
        if isinstance(index, slice):
            return self._map(lambda tensor: tensor[index])
        return self._map(lambda tensor: tensor.index_select(0, index))

    def wrong_bits(self, x: Tensor) -> Tensor:
        """How many bits of x ``[batch, n]`` differ from the nearest right answer: ``[batch]`` int64."""
        if self.right is None:
            return (x != self.x_true).sum(-1)
        distance = (x[:, None] != self.right.states).sum(-1)
        return distance.masked_fill(~self.right.valid, x.shape[1] + 1).amin(1)

    def to(self, device: torch.device | str) -> Instances:
        """The same instances on a device."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function: Any) -> Instances:
        if hasattr(self.p, "index_select") and self.right is None:  # a tensor: the common case, in a training step
            return Instances(function(self.p), function(self.x_true), function(self.answer))
        from qubolearn.problems.structures import map_tensors

        mapped: Instances = map_tensors(function, self)
        return mapped


class Problem(ABC):
    """A problem type as a value: subclasses are frozen dataclasses whose fields are its options.

    The fields become options of the command line and are written as JSON beside every result, so they hold plain
    numbers, strings and booleans. For data that are arrays there is :class:`qubolearn.Arrays`.

    ``input_size``, ``bits`` and :meth:`sample` must be written; the other methods have defaults for answers that are
    bits. ``qubolearn.testing.check_problem`` checks a class.

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
    #: The metric that counts, a key of what :meth:`score` returns, and which way it should go.
    metric: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True
    #: What the presets choose for this type of problem, beyond what they choose for all; one left out does not exist.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"best": {"epochs": 100}, "paper": {}}

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

    def decode(self, x: Tensor) -> Tensor:
        """Bits ``[batch, n]`` -> answers ``[batch, ...]``. By default the bits are the answer."""
        return x

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Metrics by name, one value per instance: answers ``[batch, ...]`` to instances -> ``[batch]`` each.

        The instances hold p, the true answer and all right ones: whether a knapsack is feasible depends on p. By
        default the answers are bits and scored by :func:`score_bits`.
        """
        return score_bits(answer, instances)

    def project(self, x: Tensor, p: Any) -> Tensor:
        """Bits ``[batch, n]`` -> the nearest bits that encode a valid answer to p. By default all bits do."""
        return x

    @property
    def groups(self) -> Groups | None:
        """Sets of bits of which exactly one is 1 in every answer; solvers are given them. By default none."""
        return None

    def clamp(self, p: Any) -> Tensor | None:
        """The bits that p itself decides: ``[batch, n]`` of 0, 1, and -1 for a free bit. By default all are free.

        Solvers hold these bits, in ``fit``, ``evaluate`` and on the command line: hints of a puzzle, bits of padding.
        """
        return None

    def available(self, split: Split) -> int | None:
        """How many different instances a split has, where they are not generated; no more of them are scored."""
        return None

    def default_solver(self) -> Solver | None:
        """The solver that ``evaluate`` and ``fit`` score with where none is chosen; None means ``auto_solver``."""
        return None

    def answer_of(self, x: Tensor, p: Any) -> Tensor:
        """What ``qubolearn solve`` writes for bits x ``[batch, bits]`` that were found for p: by default decode(x).

        A problem that can tell that x is wrong gives something here that nobody takes for an answer.
        """
        return self.decode(x)

    def remarks(self, answer: Tensor, p: Any) -> list[str]:
        """A remark for people beside each answer, such as that p has no answer; by default none.

        ``qubolearn solve`` prints and writes them.
        """
        return []

    def soft_targets(self, instances: Instances) -> SoftTargets | None:
        """States that are nearly right for each instance, with weights, or None; ``SoftLikelihood`` uses them.

        Instances are independent: a batch or a whole epoch may be asked for, and the number of states is the same.
        """
        return None

    @classmethod
    def variant(cls, name: str, options: Mapping[str, Any]) -> type[Problem]:
        """The class that the preset ``name`` means with these options, where some of them make another problem."""
        return cls

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the preset ``best`` or ``paper`` chooses: options of this problem and fields of a recipe, by name.

        By default :attr:`presets` of the class. ``options`` are those that the user gave, which a choice may depend on;
        they win over the preset. A name that is no preset of this problem is a KeyError.
        """
        return {**_FOR_ALL[name], **cls.presets[name]}


#: `paper` is QuAnt's protocol for graphs.
_FOR_ALL: Mapping[str, Mapping[str, Any]] = {
    "best": {"schedule": "cosine", "fresh": True, "weight_mlp": 0.0, "topology": "dense"},
    "paper": {"loss": "gap", "solver": "annealing:reads=100,sweeps=1000", "standardise": False},
}


def score_bits(x: Tensor, instances: Instances) -> dict[str, Tensor]:
    """Of bits x ``[batch, n]``: ``accuracy``, whether they are right, and ``wrong_bits``, how many are not."""
    wrong = instances.wrong_bits(x)
    return {"accuracy": (wrong == 0).float(), "wrong_bits": wrong.float()}


def check_bits(x: Tensor, what: str = "x") -> None:
    """Raise unless all entries of x are 0 or 1, naming the first that is not."""
    wrong = (x != 0) & (x != 1)
    if bool(wrong.any()):
        value = x[wrong][0].item()
        remedy = "; for spins -1 and +1 pass (x + 1) / 2" if value == -1 else ""
        raise QubolearnError(f"{what} holds {value:g} where bits 0 and 1 are wanted{remedy}")
