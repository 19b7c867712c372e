"""The other direction: any solver of this library as a ``dimod.Sampler``.

dimod is imported with this module, so import it where it is used: ``qubolearn.solvers`` does not load it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from dimod.binary import BinaryQuadraticModel
from dimod.core.initialized import Initialized
from dimod.core.sampler import Sampler
from dimod.sampleset import SampleSet
from dimod.vartypes import SPIN

from qubolearn.errors import QubolearnError
from qubolearn.qubo import SparseQubo, from_bqms
from qubolearn.qubo.interchange import check_bqm
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import Solver, check_solver
from qubolearn.typed import check_counts

__all__ = ["QubolearnSampler"]

Bits = npt.NDArray[np.int8]


class QubolearnSampler(Sampler, Initialized):
    """Our solvers for BQMs of any labels, vartype and offset; by default simulated annealing in place of neal's.

    With :class:`~qubolearn.solvers.annealing.SimulatedAnnealing` the sample set holds every read, as neal's does. With
    any other solver it holds the ``num_reads`` lowest distinct states, at most the 2**n that exist, best first.

    >>> sampler = QubolearnSampler()
    >>> sampleset = sampler.sample_ising({"a": 0.5}, {("a", "b"): -1.0}, num_reads=10, seed=0)
    >>> len(sampleset), float(sampleset.first.energy), [int(spin) for spin in sampleset.first.sample.values()]
    (10, -1.5, [-1, -1])
    """

    def __init__(self, solver: Solver | None = None) -> None:
        self._solver = SimulatedAnnealing() if solver is None else solver
        check_solver(self._solver)
        self._seeded = "seed" in getattr(self._solver, "__dataclass_fields__", {})

    @property
    def parameters(self) -> dict[str, list[str]]:
        """What :meth:`sample` takes besides the model."""
        names = ["num_reads", "seed"] if self._seeded else ["num_reads"]
        if isinstance(self._solver, SimulatedAnnealing):
            names += ["num_sweeps", "beta_range", "initial_states", "initial_states_generator"]
        return {name: [] for name in names}

    @property
    def properties(self) -> dict[str, Any]:
        """The solver that does the work."""
        return {"solver": repr(self._solver)}

    def sample(
        self,
        bqm: BinaryQuadraticModel,
        num_reads: int | None = None,
        seed: int | None = None,
        num_sweeps: int | None = None,
        beta_range: tuple[float, float] | None = None,
        initial_states: Any = None,
        initial_states_generator: str = "random",
        **kwargs: Any,
    ) -> SampleSet:
        """A sample set of the model, in its labels and vartype.

        Arguments have the names and meanings of neal's. Those after ``seed`` belong to simulated annealing.

        - ``num_reads``: how many states; by default as many as there are initial states, or one.
        - ``seed``: fixes the result, by default the solver's.
        - ``num_sweeps``, ``beta_range``: by default the solver's; the default range is neal's.
        - ``initial_states``: where reads begin, as :func:`dimod.as_samples` takes them, instead of random states.
        - ``initial_states_generator``: what happens where they are fewer than ``num_reads``: ``"none"`` (an error),
          ``"tile"`` or ``"random"``.
        """
        annealing = {"num_sweeps": num_sweeps, "beta_range": beta_range, "initial_states": initial_states}
        given = {name: value for name, value in annealing.items() if value is not None}
        self.remove_unknown_kwargs(**kwargs)
        check_bqm(bqm)
        check_counts(num_reads=1 if num_reads is None else num_reads)
        solver: Any = self._solver
        if seed is not None:
            if not self._seeded:
                raise QubolearnError(f"seed={seed} passed, but {type(solver).__name__} takes none")
            solver = replace(solver, seed=seed)
        if isinstance(solver, SimulatedAnnealing):
            initial = self._initial(bqm, num_reads, seed, initial_states, initial_states_generator)
            reads = (num_reads or 1) if initial is None else len(initial)
            states = self._reads(bqm, solver, reads, num_sweeps, beta_range, initial)
        elif given:
            raise QubolearnError(
                f"{next(iter(given))} passed, but {type(solver).__name__} takes only num_reads and seed"
            )
        else:
            states = self._lowest(bqm, solver, num_reads or 1)
        values = 2 * states - 1 if bqm.vartype is SPIN else states
        sampleset: SampleSet = SampleSet.from_samples_bqm(  # type: ignore[no-untyped-call]
            (values, list(bqm.variables)), bqm, aggregate_samples=False
        )
        return sampleset

    def _initial(
        self, bqm: BinaryQuadraticModel, num_reads: int | None, seed: int | None, states: Any, generator: str
    ) -> Bits | None:
        """Initial states ``[reads, n]`` as bits, columns in the order of ``bqm.variables``."""
        if states is None and generator == "random":
            return None
        parsed = self.parse_initial_states(bqm, states, generator, num_reads, seed)  # type: ignore[arg-type]
        order = {label: column for column, label in enumerate(parsed.initial_states.variables)}
        columns = [order[label] for label in bqm.variables]
        found: Bits = (parsed.initial_states.record.sample[:, columns] > 0).astype(np.int8)
        return found

    @staticmethod
    def _reads(
        bqm: BinaryQuadraticModel,
        solver: SimulatedAnnealing,
        reads: int,
        sweeps: int | None,
        beta_range: tuple[float, float] | None,
        initial: Bits | None,
    ) -> Bits:
        """The final states of all reads ``[reads, n]``."""
        betas = solver.beta_range if beta_range is None else beta_range
        solver = replace(solver, reads=reads, sweeps=solver.sweeps if sweeps is None else sweeps, beta_range=betas)
        if not bqm.num_variables:
            return np.empty((reads, 0), np.int8)
        A = _sparse(bqm)
        first = None if initial is None else torch.from_numpy(initial)[None]
        states: Bits = solver.sample(A, initial=first)[0].to(torch.int8).numpy()
        return states

    @staticmethod
    def _lowest(bqm: BinaryQuadraticModel, solver: Solver, count: int) -> Bits:
        """The lowest states ``[count, n]``."""
        if not bqm.num_variables:
            return np.empty((1, 0), np.int8)
        A = _sparse(bqm)
        solution = solver(A, min(count, 2 ** min(A.n, 62)))
        states: Bits = solution.states[0].to(torch.int8).numpy()
        return states


def _sparse(bqm: BinaryQuadraticModel) -> SparseQubo:
    """The model's QUBO; its offset is left to dimod."""
    return from_bqms([bqm])[0]
