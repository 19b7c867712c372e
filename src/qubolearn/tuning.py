"""Choose penalty weights and chain strengths by the share of optimal reads.

Successive halving spends most reads on the best candidates (Karnin et al., ICML 2013; Jamieson and
Talwalkar, AISTATS 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, error_context
from qubolearn.qubo import Qubo, SparseQubo, as_dense, check_solvable, energies
from qubolearn.random import derive_seed
from qubolearn.solvers.contract import SamplingSolver, check_solver, seeded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Tuned", "measure", "tune_chain_strength", "tune_penalties"]

Weights: TypeAlias = float | tuple[float, ...]


@dataclass(frozen=True)
class Tuned:
    """The share of optimal reads of each candidate, and the best candidate."""

    best: Weights  # with the highest share on all instances
    candidates: tuple[Weights, ...]
    share: tuple[float, ...]  # the mean share of reads at the lowest known cost
    low: tuple[float, ...]  # 95 % intervals of the means, over instances
    high: tuple[float, ...]
    feasible: tuple[float, ...]  # the mean share of feasible reads
    instances: tuple[int, ...]  # how many instances each candidate was measured on
    calls: int  # solver calls in all

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the shares with their intervals over the candidates."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(4.5, 3), layout="constrained").subplots()
        plain = not any(isinstance(each, tuple) for each in self.candidates)
        x = np.asarray(self.candidates if plain else range(len(self.candidates)), np.float64)
        order, share = x.argsort(), np.asarray(self.share)
        errors = np.abs(np.stack([self.low, self.high]) - share)[:, order]
        ax.errorbar(x[order], share[order], errors, marker="o", capsize=2, label="optimal reads")
        ax.plot(x[order], np.asarray(self.feasible)[order], ls=":", color="0.5", label="feasible reads")
        ax.set(xlabel="weight" if plain else "candidate", ylabel="share of reads")
        ax.set_xscale("log" if plain else "linear")
        ax.legend()
        return ax


def tune_penalties(
    build: Callable[[Any, Any], Any],
    cost: Callable[[Any, Tensor], Any],
    instances: Sequence[Any],
    solver: SamplingSolver,
    candidates: Sequence[Weights],
    *,
    best: Sequence[float] | None = None,
    seed: int = 0,
) -> Tuned:
    """Return the weights under which most reads of a solver are optimal and feasible.

    Args:
        build: ``build(instance, weights)`` returns the QUBO, ``[n, n]`` or a SparseQubo batch of one.
        cost: ``cost(instance, x)`` returns costs ``[reads]`` of x ``[reads, n]``, infinite if infeasible.
        instances: training instances of any kind, about two per candidate.
        solver: a solver with ``sample``, such as ``SimulatedAnnealing(reads=100, sweeps=200)``.
        candidates: weights to try: numbers, or tuples of several weights.
        best: the lowest feasible cost of each instance; by default the lowest of any read.
        seed: the seed of the solver.

    Raises:
        QubolearnError: If the number of bits of an instance changes, or no read of one is feasible.

    >>> from qubolearn import SimulatedAnnealing
    >>> def build(values, weight):  # choose the most valuable item: one bit per item
    ...     return weight * (torch.ones(4, 4) - 2 * torch.eye(4)) - torch.diag(values)
    >>> def cost(values, x):
    ...     return torch.where(x.sum(1) == 1, -(x @ values), torch.inf)
    >>> items = [torch.tensor([1.0, 2.0, 3.0, 1.5]), torch.tensor([4.0, 2.0, 1.0, 3.0])]
    >>> solver = SimulatedAnnealing(reads=50, sweeps=50)
    >>> tune_penalties(build, cost, items, solver, [0.5, 3.0]).best
    3.0
    """
    check_solver(solver)
    bits: dict[int, int] = {}

    def read(number: int, weights: Weights) -> Tensor:
        with error_context("build of instance", number):
            A = _one(build(instances[number], weights), number)
        if bits.setdefault(number, A.shape[2]) != A.shape[2]:
            now = f"{A.shape[2]} at weights {weights}; expected the same bits at all weights"
            raise QubolearnError(f"build returned {bits[number]} bits for instance {number}, then {now}")
        return _reads(solver, A, derive_seed(seed, "tune", number))

    return measure(read, lambda number, x: cost(instances[number], x), len(instances), candidates, best)


def tune_chain_strength(
    qubos: Sequence[Qubo],
    solver: Any,
    candidates: Sequence[float] = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8),
    seed: int = 0,
) -> Tuned:
    """Return the chain strength with which most reads reach the lowest energy.

    Weak chains break; strong ones leave the couplings little of the chip's range. ``qubos`` are
    ``[n, n]`` each. Candidates cost QPU time, except with ``DWaveSolver.mock``.
    """
    check_solver(solver)
    given = [as_dense(_one(A, number)) for number, A in enumerate(qubos)]

    def read(number: int, strength: Weights) -> Tensor:
        chained = replace(solver, chain_strength=strength)
        return _reads(chained, given[number], derive_seed(seed, "tune", number))

    def cost(number: int, x: Tensor) -> Tensor:
        return energies(given[number].double(), x[None])[0]

    return measure(read, cost, len(given), candidates)


def measure(
    read: Callable[[int, Weights], Tensor],
    cost: Callable[[int, Tensor], Any],
    instances: int,
    candidates: Sequence[Weights],
    best: Sequence[float] | None = None,
) -> Tuned:
    """Halve the candidates and double the instances until the best have seen all.

    ``read(number, candidate)`` returns states ``[reads, n]`` of an instance, and ``cost(number,
    states)`` their costs.
    """
    if instances < 1 or not len(candidates) or (best is not None and len(best) != instances):
        known = "" if best is None else f" and {len(best)} best costs"
        raise QubolearnError(f"{len(candidates)} candidates, {instances} instances{known}; expected some")
    found: dict[tuple[int, int], Tensor] = {}
    left, rounds = list(range(len(candidates))), max(1, math.ceil(math.log2(len(candidates))))
    for rung in range(rounds):
        seen = max(1, instances >> (rounds - 1 - rung))
        for number in range(seen):
            for k in left:
                if (k, number) not in found:
                    found[k, number] = _costs(cost, number, read(number, candidates[k]))
            tried = torch.cat([found[k, number] for k in left])
            if rung == 0 and best is None and not bool(tried.isfinite().any()):
                reads = f"none of {len(tried)} reads of instance {number} is feasible at any weight"
                raise QubolearnError(f"{reads}; raise the weights or the solver's sweeps")
        share = _shares(found, len(candidates), instances, best)[0]
        if rung < rounds - 1:
            left = sorted(left, key=lambda k: -share[k].nanmean().item())[: math.ceil(len(left) / 2)]
    share, feasible = _shares(found, len(candidates), instances, best)
    counts, means = share.isfinite().sum(1), share.nanmean(1)
    spread = (share - means[:, None]).square().nansum(1).div((counts - 1).clamp_min(1)).sqrt()
    reach = 1.96 * torch.where(counts > 1, spread, 0.5) / counts.sqrt()  # 0.5 if unknown
    low, high = ((means + sign * reach).clamp(0, 1) for sign in (-1, 1))
    chosen = max(left, key=lambda k: means[k].item())
    columns = {"share": means, "low": low, "high": high, "feasible": feasible.nanmean(1), "instances": counts}
    lists: dict[str, Any] = {name: tuple(column.tolist()) for name, column in columns.items()}
    return Tuned(candidates[chosen], tuple(candidates), calls=len(found), **lists)


def _shares(
    found: dict[tuple[int, int], Tensor], candidates: int, instances: int, best: Sequence[float] | None
) -> tuple[Tensor, Tensor]:
    """Return the shares of optimal and of feasible reads, NaN if not measured."""
    share = torch.full((2, candidates, instances), torch.nan, dtype=torch.float64)
    lowest = [torch.inf] * instances if best is None else list(best)
    for (_, number), costs in found.items():
        lowest[number] = min(lowest[number], costs.min().item())
    for (k, number), costs in found.items():
        near = lowest[number] + 1e-6 * max(1.0, abs(lowest[number]))
        feasible = costs.isfinite()
        share[:, k, number] = torch.stack([(costs <= near) & feasible, feasible]).double().mean(1)
    return share[0], share[1]


def _costs(cost: Callable[[int, Tensor], Any], number: int, x: Tensor) -> Tensor:
    with error_context("the cost of instance", number):
        costs = torch.as_tensor(cost(number, x)).double()
    if costs.shape != x.shape[:1] or bool(costs.isnan().any()):
        given = f"cost returned {list(costs.shape)} for reads {list(x.shape)} of instance {number}"
        raise QubolearnError(f"{given}; expected [{len(x)}] without NaN")
    return costs


def _one(A: Any, number: int) -> Qubo:
    batch = A if isinstance(A, SparseQubo) else torch.as_tensor(A)
    if isinstance(batch, Tensor) and batch.ndim == 2:
        batch = batch[None]
    check_solvable(batch)
    if len(batch) != 1:
        raise QubolearnError(f"the QUBO of instance {number} is a batch of {len(batch)}; expected one")
    return batch


def _reads(solver: Any, A: Qubo, seed: int) -> Tensor:
    if not hasattr(solver, "sample"):
        raise QubolearnError(f"{solver!r} has no method sample(A); use SimulatedAnnealing")
    reads: Tensor = seeded(solver, seed).sample(A)[0]  # type: ignore[attr-defined]
    return reads
