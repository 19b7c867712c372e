"""The one contract of all solvers: ``solver(A, count) -> Solution``, and what every solver shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.kernels.compiling import compiled
from qubolearn.kernels.parallel import run_tasks, stop_flag, thread_count
from qubolearn.notebook import table
from qubolearn.qubo import Clamp, Groups, Qubo, as_dense, check_qubo, energies, not_capturing
from qubolearn.solvers.eager import eager
from qubolearn.typed import check_counts

__all__ = [
    "Found",
    "QuboSolver",
    "SamplingSolver",
    "Solution",
    "Solver",
    "best_distinct",
    "check_solver",
    "compiled",
    "no_temperature",
    "solve",
    "thread_count",
    "with_neighbours",
]

MOST_SHOWN = 5  # instances, and states of each, that a notebook shows


@dataclass(frozen=True)
class Solution:
    """The ``count`` lowest states that a solver found for each QUBO, best first, all distinct.

    It unpacks into its two tensors: ``states, energies = solver(A)``. ``states`` are ``[batch, count, n]`` in A's
    dtype, ``energies`` ``[batch, count]`` in float64, ascending; ``info`` holds what else the solver measured.

    >>> from qubolearn.solvers import ExhaustiveSearch
    >>> solution = ExhaustiveSearch()(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), count=1)
    >>> solution.states.tolist(), solution.energies.tolist(), solution.info["source"]
    ([[[1.0, 1.0]]], [[-1.0]], 'exhaustive')
    """

    states: Tensor  # [batch, count, n], 0 or 1 in A's dtype, on A's device
    energies: Tensor  # [batch, count], float64, xᵀAx of these states, ascending
    info: Mapping[str, Any] = field(default_factory=dict)  # what else the solver measured, e.g. "source"

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.states, self.energies))

    def _repr_html_(self) -> str:
        batch, count, n = self.states.shape
        shown = self.states[:MOST_SHOWN, :MOST_SHOWN].int().tolist()
        rows = [
            (instance, rank, self.energies[instance, rank].item(), "".join(map(str, bits)))
            for instance, states in enumerate(shown)
            for rank, bits in enumerate(states)
        ]
        title = f"the first of {batch} × {count} states of {n} bits ({self.info.get('source', 'unknown')})"
        return table(title, rows, ["instance", "state", "energy", "bits"])


class Solver(Protocol):
    """Any callable of this form is a solver; :class:`QuboSolver` saves writing the checks.

    A solver that draws random numbers also has ``with_seed(seed)``, see :meth:`QuboSolver.with_seed`.

    >>> def zeros_first(A, count=2):  # a solver that always says the first states in binary order
    ...     states = torch.eye(A.shape[2]).cumsum(0)[:count].expand(len(A), -1, -1).to(A)
    ...     return best_distinct(A, states, count)
    >>> zeros_first(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), 2).energies.tolist()
    [[-1.0, 1.0]]
    """

    def __call__(self, A: Qubo, count: int = 2) -> Solution:
        """The ``count`` lowest states of each QUBO of A, ``[batch, n, n]`` or sparse, that the solver finds."""
        ...


@runtime_checkable
class SamplingSolver(Solver, Protocol):
    """A solver that can also hand out every state that it read."""

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """All reads of each QUBO of A ``[batch, n, n]``, repeats included: ``[batch, reads, n]`` in A's dtype.

        With ``beta`` the reads are draws from p(x) ∝ exp(-β xᵀAx); a solver that cannot draw at a chosen temperature
        raises :class:`~qubolearn.errors.QubolearnError`.
        """
        ...


class Found(NamedTuple):
    """What a search hands back before energies are recomputed and states are ranked."""

    states: Tensor  # [batch, candidates >= count, n], any dtype, any order, repeats allowed
    info: Mapping[str, Any]
    distinct: bool = False  # where True, no state stands twice among the candidates of an instance
    energies: Tensor | None = None  # [batch, count], where the candidates are the answer: xᵀAx in float64, ascending


class QuboSolver(ABC):
    """A solver as a value: subclasses are frozen dataclasses that implement :meth:`search`.

    The call checks A, and recomputes and ranks every energy in float64, so that no search can return a
    non-finite, mis-ranked or duplicate answer. Sparse QUBOs become dense ones where ``takes_sparse`` is not set.

    >>> @dataclass(frozen=True)
    ... class OneFlip(QuboSolver):
    ...     def search(self, A, count):  # the zero state and its neighbours
    ...         zero = torch.zeros(len(A), A.shape[2])
    ...         return Found(with_neighbours(zero[:, None], zero), {"source": "simulated"})
    >>> OneFlip()(torch.tensor([[[1.0, -3.0], [0.0, -1.0]]]), count=2).energies.tolist()
    [[-1.0, 0.0]]
    """

    takes_sparse: ClassVar[bool] = False  # whether search takes a SparseQubo as it is

    @eager
    def __call__(self, A: Qubo, count: int = 2) -> Solution:
        check_qubo(A)
        batch, n = A.shape[0], A.shape[2]
        check_counts(count=count)
        if n < 32 and count > 2**n:
            raise QubolearnError(f"count={count} distinct states asked for, but n={n} bits have only {2**n}")
        A = A.detach()
        if not self.takes_sparse:
            A = as_dense(A)
        if batch == 0:
            energy = torch.zeros(0, count, dtype=torch.float64, device=A.device)
            return Solution(torch.zeros(0, count, n, dtype=A.dtype, device=A.device), energy)
        found = self.search(A, count)  # type: ignore[arg-type]  # those that take sparse ones say so
        if found.energies is not None:
            return Solution(found.states.to(A.dtype), found.energies, found.info)
        return best_distinct(A, found.states, count, found.info, found.distinct)

    def with_seed(self, seed: int | None) -> Self:
        """The same solver with this seed, where it is a dataclass with a field ``seed``; otherwise itself.

        >>> from qubolearn.solvers.annealing import SimulatedAnnealing
        >>> SimulatedAnnealing(reads=10).with_seed(7).seed
        7
        """
        if "seed" not in getattr(self, "__dataclass_fields__", {}):
            return self
        return replace(self, seed=seed)  # type: ignore[type-var]

    @abstractmethod
    def search(self, A: Tensor, count: int) -> Found:
        """Candidates for the ``count`` lowest states of A ``[batch, n, n]``: finite, detached, batch >= 1."""


def seeded(solver: Solver, seed: int) -> Solver:
    """A solver with a seed where it has ``with_seed``, which may be anybody's; otherwise the solver itself."""
    with_seed = getattr(solver, "with_seed", None)
    if with_seed is None:
        return solver
    want = "want with_seed(seed) that returns a seeded solver"
    try:
        found: Any = with_seed(seed)
    except TypeError as error:
        raise QubolearnError(f"with_seed({seed}) of the solver {solver!r} fails: {error}; {want}") from error
    if not callable(found):
        raise QubolearnError(f"with_seed({seed}) of the solver {solver!r} returned {found!r}; {want}")
    return found  # type: ignore[no-any-return]


def no_temperature(solver: str, beta: float) -> QubolearnError:
    """The error of a solver's ``sample`` that cannot draw at a chosen temperature."""
    return QubolearnError(f"beta={beta} asked for, but {solver} draws at no chosen temperature; use annealing")


def solve(
    A: Qubo, solver: Solver, count: int = 2, *, clamp: Clamp | None = None, groups: Groups | None = None
) -> Solution:
    """The ``count`` lowest states of each QUBO in A that the solver finds, best first.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones.
        solver: any solver; all of them take ``clamp`` and ``groups``.
        count: how many distinct states of each QUBO.
        clamp: holds bits at known values: a tensor of 0, 1 and -1 (free), ``[batch, n]`` or ``[n]``, or a mapping
            ``{bit: value}`` for the whole batch.
        groups: sets of bits of which exactly one is 1.

    Returns:
        States ``[batch, count, n]`` of all bits, and their energies ``[batch, count]`` under the whole QUBO.

    Raises:
        QubolearnError: where A is not finite or too large for the solver, or there are fewer than ``count`` states.

    >>> from qubolearn.solvers import ExhaustiveSearch
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> states, energies = solve(A, ExhaustiveSearch(), count=2)
    >>> states.tolist(), energies.tolist()
    ([[[1.0, 1.0], [0.0, 0.0]]], [[-1.0, 0.0]])
    >>> solve(A, ExhaustiveSearch(), count=2, clamp={0: 0}).states.tolist()
    [[[0.0, 0.0], [0.0, 1.0]]]
    >>> solve(A, ExhaustiveSearch(), count=2, groups=Groups([[0, 1]])).energies.tolist()
    [[1.0, 1.0]]
    """
    check_solver(solver)
    if clamp is None and groups is None:
        return solver(A, count)
    from qubolearn.solvers.constrained import solve_constrained

    return solve_constrained(A, solver, count, clamp, groups)


def check_solver(solver: object) -> None:
    """Raise where a name or a class stands in place of a solver."""
    if isinstance(solver, str):
        raise QubolearnError(f"solver={solver!r} is a name; pass a solver, e.g. make_solver({solver!r})")
    if isinstance(solver, type):
        raise QubolearnError(f"solver={solver.__name__} is a class; pass a solver, e.g. {solver.__name__}()")
    if not callable(solver):
        raise QubolearnError(f"solver={solver!r} is no solver; pass one, e.g. SimulatedAnnealing()")


def best_distinct(
    A: Qubo, candidates: Tensor, count: int, info: Mapping[str, Any] | None = None, distinct: bool = False
) -> Solution:
    """Rank candidates ``[batch, c, n]`` by their float64 energy and keep the ``count`` best distinct ones.

    ``distinct`` says that they are, which saves a GPU looking for repeats.
    """
    if isinstance(A, Tensor) and A.is_cpu:
        states, energy, found = _ranked(A.detach(), candidates, count)
    else:
        states, energy, found = _ranked_in_torch(A.detach(), candidates, count, distinct)
    if found < count:
        raise QubolearnError(
            f"the solver returned {found} distinct states where count={count} were asked for; "
            "raise its number of reads or ask for fewer"
        )
    return Solution(states.to(A.dtype), energy, info or {})


def _ranked(A: Tensor, candidates: Tensor, count: int) -> tuple[Tensor, Tensor, int]:
    """States, energies and the least number of distinct states, by the compiled kernel.

    Not in torch: its own threads would wait for work on the cores that the kernels want next.
    """
    from qubolearn.kernels.ranking_numba import rank

    values = (A if A.dtype in (torch.float32, torch.float64) else A.float()).numpy()
    bits = _bits(candidates)
    batch, _, n = bits.shape
    states, energy = np.empty((batch, count, n), values.dtype), np.empty((batch, count))
    found, stop = np.zeros(batch, np.int64), stop_flag()

    def work(start: int, end: int) -> None:
        rank(values, bits, start, end, states, energy, found, stop)

    run_tasks(work, batch, bits.size * n * 1e-10 + batch * 2e-7, stop=stop)
    return torch.from_numpy(states), torch.from_numpy(energy), int(found.min())


def _bits(candidates: Tensor) -> npt.NDArray[np.uint8]:
    """0 and 1 of any dtype as uint8, anything else an error."""
    given = (candidates.float() if candidates.dtype == torch.bfloat16 else candidates).detach().cpu().numpy()
    with np.errstate(invalid="ignore"):
        bits = given.astype(np.uint8, copy=False)
    if bits.max(initial=0) > 1 or not (bits is given or np.array_equal(bits, given)):
        raise QubolearnError("the solver returned states with entries other than 0 and 1")
    return bits


def _ranked_in_torch(A: Qubo, candidates: Tensor, count: int, distinct: bool) -> tuple[Tensor, Tensor, int]:
    """:func:`_ranked` on any device."""
    batch, c, n = candidates.shape
    bits = candidates.to(A.device, torch.float64)
    energy = _exact_energies(A, bits)
    order = energy.argsort(dim=1, stable=True)
    bits = bits.gather(1, order[:, :, None].expand(batch, c, n))
    energy = energy.gather(1, order)
    if c > 1 and not distinct:
        bits, energy = _drop_repeats(bits, energy)
    if not not_capturing(energy):
        return bits[:, :count], energy[:, :count], min(c, count)
    found = int(torch.isfinite(energy[:, :count]).sum(1).min()) if c else 0
    return bits[:, :count], energy[:, :count], found


def _exact_energies(A: Qubo, bits: Tensor) -> Tensor:
    """Energies ``[batch, c]`` in float64; of sparse QUBOs a few at a time, for the memory of one entry per edge."""
    A = A.to(torch.float64)
    if isinstance(A, Tensor):
        return energies(A, bits)
    some = max(1, 2**20 // max(1, bits.shape[1] * A.edges.shape[1]))
    return torch.cat([energies(A[k : k + some], bits[k : k + some]) for k in range(0, len(A), some)])


def _drop_repeats(bits: Tensor, energy: Tensor) -> tuple[Tensor, Tensor]:
    """Move every repeated state to the end with infinite energy. ``[batch, c, n]``, ``[batch, c]``."""
    batch, c, n = bits.shape
    code = _state_code(bits)
    order = code.argsort(dim=1, stable=True)  # equal states side by side, in order of energy
    sorted_code = code.gather(1, order)
    repeat_sorted = torch.zeros_like(sorted_code, dtype=torch.bool)
    repeat_sorted[:, 1:] = sorted_code[:, 1:] == sorted_code[:, :-1]
    repeat = torch.zeros_like(repeat_sorted).scatter(1, order, repeat_sorted)
    energy = energy.masked_fill(repeat, float("inf"))
    keep = energy.argsort(dim=1, stable=True)
    return bits.gather(1, keep[:, :, None].expand(batch, c, n)), energy.gather(1, keep)


def _state_code(bits: Tensor) -> Tensor:
    """One integer per distinct state within the batch: ``[batch, c, n]`` -> ``[batch, c]`` int64."""
    batch, c, n = bits.shape
    if n <= 62:
        return (bits.long() << torch.arange(n, device=bits.device)).sum(-1)
    inverse: Tensor = torch.unique(bits.reshape(-1, n).to(torch.uint8), dim=0, return_inverse=True)[1]
    return inverse.reshape(batch, c)


def with_neighbours(states: Tensor, best: Tensor) -> Tensor:
    """States ``[batch, c, n]`` and the n one-flip neighbours of best ``[batch, n]`` -> ``[batch, c + n + 1, n]``.

    Without ties the second-best state is a neighbour of the best one or a local minimum, which an annealer
    returns by itself; so these neighbours complete x⁺ where the reads alone rarely hold it.
    """
    n = best.shape[-1]
    flips = torch.eye(n, device=best.device, dtype=best.dtype)
    neighbours = (best[:, None] - flips).abs()
    return torch.cat([states.to(best.dtype), best[:, None], neighbours], dim=1)
