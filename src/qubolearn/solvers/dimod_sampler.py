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
from dimod.core.sampler import Sampler
from dimod.sampleset import SampleSet
from dimod.vartypes import SPIN

from qubolearn.errors import QubolearnError
from qubolearn.qubo import from_bqm
from qubolearn.solvers.contract import Solver

__all__ = ["QubolearnSampler"]


class QubolearnSampler(Sampler):
    """``sample(bqm)`` with one of our solvers, for BQMs of any labels, vartype and offset.

    ``num_reads`` is the number of lowest *distinct* states to return, at most the 2**n that exist; a read that
    repeats says nothing that its energy does not. ``seed`` is offered where the solver has one.

    >>> from qubolearn.solvers.dimod_adapter import neal
    >>> sampleset = QubolearnSampler(neal(seed=0)).sample_ising({"a": 0.5}, {("a", "b"): -1.0})
    >>> [int(spin) for spin in sampleset.first.sample.values()]
    [-1, -1]
    """

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._seeded = "seed" in getattr(solver, "__dataclass_fields__", {})

    @property
    def parameters(self) -> dict[str, list[str]]:
        """What :meth:`sample` takes besides the model."""
        return {"num_reads": [], "seed": []} if self._seeded else {"num_reads": []}

    @property
    def properties(self) -> dict[str, Any]:
        """The solver that does the work."""
        return {"solver": repr(self._solver)}

    def sample(
        self, bqm: BinaryQuadraticModel, num_reads: int = 1, seed: int | None = None, **kwargs: Any
    ) -> SampleSet:
        """The ``num_reads`` lowest distinct states that the solver finds, best first, each once."""
        self.remove_unknown_kwargs(**kwargs)
        if num_reads < 1:
            raise QubolearnError(f"num_reads={num_reads}; want at least 1")
        variables = list(bqm.variables)
        states = self._states(bqm, num_reads, seed) if variables else np.empty((1, 0), dtype=np.int8)
        values = 2 * states - 1 if bqm.vartype is SPIN else states
        sampleset: SampleSet = SampleSet.from_samples_bqm((values, variables), bqm)  # type: ignore[no-untyped-call]
        return sampleset

    def _states(self, bqm: BinaryQuadraticModel, count: int, seed: int | None) -> npt.NDArray[np.int8]:
        """The lowest states ``[count, n]``, columns in the order of ``bqm.variables``."""
        solver: Any = self._solver
        if seed is not None:
            if not self._seeded:
                raise QubolearnError(f"seed={seed} passed, but {type(solver).__name__} takes none")
            solver = replace(solver, seed=seed)
        A, _ = from_bqm(bqm)
        solution = solver(A[None], min(count, 2 ** min(len(A), 62)))
        states: npt.NDArray[np.int8] = solution.states[0].to(torch.int8).numpy()
        return states
