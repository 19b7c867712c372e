"""The contract of all solvers: ``solver(A, count) -> Solution``."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ClassVar, NamedTuple, ParamSpec, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts
from qubolearn.kernels import kernel_call, native
from qubolearn.qubo import (
    Clamp,
    Groups,
    LinearConstraint,
    Qubo,
    as_dense,
    can_read_values,
    check_solvable,
    energies,
    flip_costs,
)

__all__ = [
    "QuboSolver",
    "SamplingSolver",
    "SearchResult",
    "Solution",
    "Solver",
    "instance_seeds",
    "seeded",
    "solve",
]

P = ParamSpec("P")
T = TypeVar("T")

#: The largest β|A_ij| that samplers take.
MAX_EXPONENT = 1e37
#: Timed searches begin with this many sweeps and grow by at most this factor.
FIRST_SWEEPS, MAX_GROWTH = 100, 20


def eager(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function as written even inside ``torch.compile``, which breaks its graph here."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():  # disable takes seconds to load
            disabled: Callable[P, T] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return disabled(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def instance_seeds(seed: int | None, batch: int) -> npt.NDArray[np.uint32]:
    """Return seeds ``[batch]`` below 2**32; each depends on (seed, i) only. None is random.

    >>> instance_seeds(7, 2).tolist() == instance_seeds(7, 5)[:2].tolist()
    True
    """
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise QubolearnError(f"seed={seed!r}; expected an integer >= 0, or None for a random seed")
    return np.random.SeedSequence(None if seed is None else int(seed)).generate_state(batch).astype(np.uint32)


@dataclass(frozen=True)
class Solution:
    """The ``count`` lowest distinct states of each QUBO, best first.

    Unpack it into two tensors: ``states, energies = solver(A)``.

    >>> from qubolearn.solvers import ExhaustiveSearch
    >>> solution = ExhaustiveSearch()(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), count=1)
    >>> solution.states.tolist(), solution.energies.tolist(), solution.info["source"]
    ([[[1.0, 1.0]]], [[-1.0]], 'exhaustive')
    """

    states: Tensor  # [batch, count, n], 0 or 1 in A's dtype, on A's device
    energies: Tensor  # [batch, count], float64, xᵀAx of these states, ascending
    info: Mapping[str, Any] = field(default_factory=dict)  # such as "source"

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.states, self.energies))

    def __repr__(self) -> str:
        batch, count, n = self.states.shape
        source = self.info.get("source", "unknown")
        return f"Solution({batch} x {count} states of {n} bits, source {source})"


class Solver(Protocol):
    """Any callable of this form is a solver; :class:`QuboSolver` provides the checks.

    A solver that draws random numbers also has :meth:`QuboSolver.with_seed`.

    >>> def zeros_first(A, count=2):  # always returns the first states in binary order
    ...     states = torch.eye(A.shape[2]).cumsum(0)[:count].expand(len(A), -1, -1).to(A)
    ...     return best_distinct(A, states, count)
    >>> zeros_first(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), 2).energies.tolist()
    [[-1.0, 1.0]]
    """

    def __call__(self, A: Qubo, count: int = 2) -> Solution:
        """Return the ``count`` lowest states of each QUBO, ``[batch, n, n]`` or sparse."""
        ...


@runtime_checkable
class SamplingSolver(Solver, Protocol):
    """A solver that can also return all of its reads."""

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """Return all reads of each QUBO: ``[batch, reads, n]`` in A's dtype.

        With ``beta`` the reads are draws from p(x) ∝ exp(-β xᵀAx), or the solver raises
        :class:`~qubolearn.errors.QubolearnError`.
        """
        ...


class SearchResult(NamedTuple):
    """Raw search output, before ranking."""

    states: Tensor  # [batch, candidates >= count, n], any dtype and order
    info: Mapping[str, Any]
    distinct: bool = False  # True if no candidate repeats
    energies: Tensor | None = None  # [batch, count], float64, ascending, if final


class NothingFoundError(QubolearnError):
    """No state that satisfies the constraints was found; more sweeps may help."""


def search_for(seconds: float, search: Callable[[int], SearchResult]) -> SearchResult:
    """Call ``search`` with growing sweeps until time or target is reached."""
    began, sweeps, found = time.perf_counter(), FIRST_SWEEPS, []
    while True:
        start, ends = time.perf_counter(), False
        try:
            found.append(search(sweeps))
            ends = bool((torch.as_tensor(found[-1].info.get("sweeps", 0)) < sweeps).all())
        except NothingFoundError as error:
            failure = error
        now = time.perf_counter()
        left, taken = seconds - (now - began), now - start
        if ends or left < taken / 2:
            break
        growth = left / taken if left < MAX_GROWTH * taken else MAX_GROWTH / 2
        sweeps = int(min(max(1, sweeps * growth), 1e12))
    if not found:
        raise failure
    return SearchResult(torch.cat([each.states for each in found], 1), found[-1].info)


class QuboSolver(ABC):
    """A solver as a value: subclasses are frozen dataclasses that implement :meth:`search`.

    The call checks A, and recomputes and ranks every energy in float64. Sparse QUBOs become dense
    unless ``takes_sparse`` is set.

    >>> @dataclass(frozen=True)
    ... class OneFlip(QuboSolver):
    ...     def search(self, A, count):  # the states with a single 1
    ...         states = torch.eye(A.shape[2]).expand_as(A)
    ...         return SearchResult(states, {"source": "simulated"})
    >>> OneFlip()(torch.tensor([[[1.0, -3.0], [0.0, -1.0]]]), count=2).energies.tolist()
    [[-1.0, 1.0]]
    """

    takes_sparse: ClassVar[bool] = False  # True if search accepts a SparseQubo

    @eager
    def __call__(self, A: Qubo, count: int = 2) -> Solution:
        check_solvable(A)
        batch, n = A.shape[0], A.shape[2]
        check_counts(count=count)
        if n < 32 and count > 2**n:
            raise QubolearnError(f"count={count} distinct states requested, but n={n} bits have only {2**n}")
        A = A.detach()
        if not self.takes_sparse:
            A = as_dense(A)
        if batch == 0:
            energy = torch.zeros(0, count, dtype=torch.float64, device=A.device)
            return Solution(torch.zeros(0, count, n, dtype=A.dtype, device=A.device), energy)
        found = self.search(A, count)  # type: ignore[arg-type]  # sparse only if takes_sparse
        if found.energies is not None:
            return Solution(found.states.to(A.dtype), found.energies, found.info)
        return best_distinct(A, found.states, count, found.info, found.distinct)

    def with_seed(self, seed: int | None) -> Self:
        """Return the solver with this seed; itself if it has no field ``seed``.

        >>> from qubolearn.solvers.annealing import SimulatedAnnealing
        >>> SimulatedAnnealing(reads=10).with_seed(7).seed
        7
        """
        if "seed" not in getattr(self, "__dataclass_fields__", {}):
            return self
        return replace(self, seed=seed)  # type: ignore[type-var]

    @abstractmethod
    def search(self, A: Tensor, count: int) -> SearchResult:
        """Return candidates for the ``count`` lowest states of finite, detached A."""


def seeded(solver: Solver, seed: int) -> Solver:
    """Return a solver with a seed; solvers without ``with_seed`` stay unchanged."""
    with_seed = getattr(solver, "with_seed", None)
    if with_seed is None:
        return solver
    try:
        found: Any = with_seed(seed)
    except TypeError as error:
        found = error
    if not callable(found):
        raise QubolearnError(f"with_seed({seed}) of {solver!r} gives {found!r}; expected a seeded solver")
    return found  # type: ignore[no-any-return]


def no_temperature(solver: str, beta: float) -> QubolearnError:
    return QubolearnError(f"beta={beta}, but {solver} cannot draw at a chosen temperature; use annealing")


def check_exponents(beta: float, scale: npt.NDArray[np.float64]) -> None:
    """Raise if β times the largest entries ``scale [batch]`` exceeds float32."""
    if (largest := beta * float(scale.max(initial=0.0))) > MAX_EXPONENT:
        size = f"{largest:.1e} (limit {MAX_EXPONENT:g})"
        raise QubolearnError(f"beta={beta} times the largest |A_ij| is {size}; lower one of them")


def solve(
    A: Qubo,
    solver: Solver,
    count: int = 2,
    *,
    clamp: Clamp | None = None,
    groups: Groups | None = None,
    constraints: Sequence[LinearConstraint] = (),
) -> Solution:
    """Return the ``count`` lowest states that the solver finds for each QUBO, best first.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones.
        solver: any solver; all of them support ``clamp`` and ``groups``.
        count: the number of distinct states per QUBO.
        clamp: bits with known values: a tensor of 0, 1 and -1 (free), ``[batch, n]`` or ``[n]``, or
            a mapping ``{bit: value}``.
        groups: sets of bits of which exactly one is 1.
        constraints: inequalities a·x <= b (:class:`qubolearn.qubo.LinearConstraint`), for
            annealing, populations, exact search and ``auto``.

    Returns:
        States ``[batch, count, n]`` of all bits, and their energies ``[batch, count]``.

    Raises:
        QubolearnError: If A is not finite or too large for the solver, or fewer than ``count``
            allowed states exist or are found.

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
    if isinstance(constraints, LinearConstraint):
        raise QubolearnError("constraints are one LinearConstraint; expected a list of them")
    if clamp is None and groups is None and not len(constraints):
        return solver(A, count)
    from qubolearn.solvers.constrained import solve_constrained

    return solve_constrained(A, solver, count, clamp, groups, constraints)


def check_solver(solver: object) -> None:
    if isinstance(solver, str):
        raise QubolearnError(f"solver={solver!r} is a name; pass a solver, e.g. make_solver({solver!r})")
    if isinstance(solver, type):
        raise QubolearnError(f"solver={solver.__name__} is a class; pass a solver, e.g. {solver.__name__}()")
    if not callable(solver):
        raise QubolearnError(f"expected a solver, got {solver!r}; pass one, e.g. SimulatedAnnealing()")


def best_distinct(
    A: Qubo, candidates: Tensor, count: int, info: Mapping[str, Any] | None = None, distinct: bool = False
) -> Solution:
    """Rank candidates ``[batch, c, n]`` in float64 and keep the ``count`` best distinct ones.

    With ``distinct=True`` the caller guarantees that no candidate repeats.
    """
    if isinstance(A, Tensor) and A.is_cpu:
        states, energy, found = _ranked(A.detach(), candidates, count)
    else:
        states, energy, found = _ranked_in_torch(A.detach(), candidates, count, distinct)
    if found < count:
        remedy = "raise its number of reads, or request fewer"
        raise QubolearnError(f"the solver found {found} distinct states, not count={count}; {remedy}")
    return Solution(states.to(A.dtype), energy, info or {})


def _ranked(A: Tensor, candidates: Tensor, count: int) -> tuple[Tensor, Tensor, int]:
    """Return states, energies and the least number of distinct states."""
    values = (A if A.dtype in (torch.float32, torch.float64) else A.float()).contiguous().numpy()
    bits = _bits(candidates)
    batch, _, n = bits.shape
    states, energy = np.empty((batch, count, n), values.dtype), np.empty((batch, count))
    with kernel_call("ranking", bits.size * n * 1e-10 + batch * 2e-7) as options:
        found = native().rank(values, bits, states, energy, **options)
    return torch.from_numpy(states), torch.from_numpy(energy), found


def _bits(candidates: Tensor) -> npt.NDArray[np.uint8]:
    """Return 0 and 1 of any dtype as uint8; raise for other values."""
    given = (candidates.float() if candidates.dtype == torch.bfloat16 else candidates).detach().cpu().numpy()
    with np.errstate(invalid="ignore"):
        bits = np.ascontiguousarray(given.astype(np.uint8, copy=False))
    if bits.max(initial=0) > 1 or not (given.dtype == np.uint8 or np.array_equal(bits, given)):
        raise QubolearnError("the solver returned states with entries other than 0 and 1")
    return bits


def lowest_around(
    A: Qubo, states: Tensor, count: int, more: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the lowest distinct states ``[batch, count, n]`` in and around states, and energies.

    ``more(x)`` returns descents from each neighbor of the lowest, x ``[batch, n]``, that keep the
    flipped bit. Else the neighbors are the candidates, enough for count <= n.
    """
    A = A.to(torch.float64)
    bits = states.to(torch.float64)
    energy = _exact_energies(A, bits)
    if more is not None and count <= 2:  # these are at most as high as its neighbors
        held = more(_lowest(bits, energy, 1)[0][:, 0]).to(torch.float64)
        found, low = torch.cat([bits, held], 1), torch.cat([energy, _exact_energies(A, held)], 1)
        return *_lowest(found, low, count), energy
    best, lowest = _lowest(bits, energy, count)
    parents = best[:, : max(1, count - 1)]
    costs, flipped = flip_costs(A, parents).topk(count, largest=False)
    near = parents[:, :, None].repeat(1, 1, count, 1)
    near.scatter_(3, flipped[..., None], 1 - near.gather(3, flipped[..., None]))
    around = lowest[:, : parents.shape[1], None] + costs
    others, above = [best, near.flatten(1, 2)], [lowest, around.flatten(1)]
    if more is not None:
        others.append(more(best[:, 0]).to(torch.float64))
        above.append(_exact_energies(A, others[-1]))
    return *_lowest(torch.cat(others, 1), torch.cat(above, 1), count), energy


def _lowest(bits: Tensor, energy: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the lowest states, distinct if possible, and their energies."""
    found: list[Tensor] = []
    lowest: list[Tensor] = []
    for rank in range(count):
        if rank:
            energy = energy.masked_fill((bits == found[-1]).all(-1), torch.inf)
        least, place = energy.min(1)
        found.append(bits.gather(1, place[:, None, None].expand(-1, 1, bits.shape[2])))
        lowest.append(least)
    return torch.cat(found, 1), torch.stack(lowest, 1)


def _ranked_in_torch(A: Qubo, candidates: Tensor, count: int, distinct: bool) -> tuple[Tensor, Tensor, int]:
    bits = candidates.to(A.device, torch.float64)
    energy = _exact_energies(A, bits)
    if distinct:
        energy, order = (some[:, :count] for some in energy.sort(dim=1, stable=True))
        bits = bits.gather(1, order[:, :, None].expand(-1, -1, bits.shape[2]))
    else:
        bits, energy = _lowest(bits, energy, min(count, bits.shape[1]))
    if not can_read_values(energy):
        return bits, energy, bits.shape[1]
    return bits, energy, int(torch.isfinite(energy).sum(1).min())


def _exact_energies(A: Qubo, bits: Tensor) -> Tensor:
    """Return energies ``[batch, c]`` in float64, a few sparse QUBOs at a time."""
    A = A.to(torch.float64)
    if isinstance(A, Tensor):
        return energies(A, bits)
    some = max(1, 2**20 // max(1, bits.shape[1] * A.edges.shape[1]))
    return torch.cat([energies(A[k : k + some], bits[k : k + some]) for k in range(0, len(A), some)])
