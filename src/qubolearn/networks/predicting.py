"""Predictions of a trained network: bits, probabilities, energies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from qubolearn.data.arrays import as_tensors, count_rows, map_tensors, tensors_of
from qubolearn.errors import QubolearnError
from qubolearn.qubo import Clamp, Groups, Qubo, energies
from qubolearn.solvers import SimulatedAnnealing, Solver, pair_marginals, solve
from qubolearn.solvers.auto import AutoSolver

__all__ = ["Lowest", "Predicts", "checked"]

CHUNK = 1024  # instances at once
ON_GPU = 2**26  # entries of A at once on a GPU, after a first chunk
EXACT_BITS = 20  # up to which probabilities are sums over all states


class Lowest(NamedTuple):
    """The lowest states of each instance, best first."""

    states: np.ndarray[Any, Any]  # [batch, count, n], int8
    energies: np.ndarray[Any, Any]  # [batch, count]


class Predicts:
    """Methods of networks and runs; p is NumPy or torch, as the network accepts it.

    They raise a QubolearnError if p has another width, no batch dimension, or
    non-finite entries. ``clamp`` and ``groups`` are as in :func:`qubolearn.solve`.
    """

    def _module(self) -> nn.Module:
        assert isinstance(self, nn.Module)
        return self

    def predict(
        self,
        p: Any,
        solver: Solver | None = None,
        *,
        clamp: Clamp | None = None,
        groups: Groups | None = None,
    ) -> np.ndarray[Any, Any]:
        """Return the bits that minimize each QUBO, int8 ``[batch, n]``; the default solver is AutoSolver."""
        return self.best(p, 1, solver, clamp=clamp, groups=groups).states[:, 0]

    def best(
        self,
        p: Any,
        count: int = 5,
        solver: Solver | None = None,
        *,
        clamp: Clamp | None = None,
        groups: Groups | None = None,
    ) -> Lowest:
        """Return the ``count`` lowest states that the solver finds, with energies."""
        states, values = [], []
        for rows, A in self._qubos(p):
            options: Any = {"clamp": _clamps(clamp, rows), "groups": groups}
            found = solve(A, solver or AutoSolver(), min(count, 2 ** A.shape[2]), **options)
            states.append(found.states.to("cpu", torch.int8).numpy())
            values.append(found.energies.cpu().numpy())
        return Lowest(np.concatenate(states), np.concatenate(values))

    def predict_proba(
        self, p: Any, beta: float = 1.0, *, clamp: Clamp | None = None, groups: Groups | None = None
    ) -> np.ndarray[Any, Any]:
        """Return the probability of each bit ``[batch, n]`` under exp(-beta E) / Z.

        The default beta is that of the default loss. Beyond 20 bits, annealing estimates it.
        """
        found = []
        for rows, A in self._qubos(p):
            if A.shape[2] <= EXACT_BITS:
                marginals = pair_marginals(A, beta, clamp=_clamps(clamp, rows), groups=groups)
                found.append(marginals.diagonal(dim1=1, dim2=2))
            elif clamp is not None or groups is not None:
                given = f"clamp or groups with {A.shape[2]} bits"
                raise QubolearnError(f"{given}; probabilities take them up to {EXACT_BITS} bits")
            else:
                solver = SimulatedAnnealing(reads=400, sweeps=100, seed=0)
                found.append(solver.sample(A, beta).double().mean(1))
        return torch.cat(found).cpu().numpy()

    def energy(self, p: Any, x: Any) -> np.ndarray[Any, Any]:
        """Return the energies ``[batch]`` of bits x ``[batch, n]``, or ``[batch, t]`` of ``[batch, t, n]``."""
        x = as_tensors(np.asarray(x))
        found = [energies(A, x[rows].to(A.device, A.dtype)) for rows, A in self._qubos(p)]
        return torch.cat(found).cpu().numpy()

    @torch.no_grad()
    def _qubos(self, p: Any) -> Iterator[tuple[slice, Qubo]]:
        """Yield rows of p and their A, one piece if p is empty."""
        module = self._module()
        p = checked(p, module)
        device, training = next(module.parameters(), torch.empty(0)).device, module.training
        module.eval()
        try:
            first, count, size = 0, count_rows(p), CHUNK
            while first < count or first == 0:
                rows = slice(first, min(count, first + size))
                yield rows, (A := module(map_tensors(lambda tensor: tensor[rows].to(device), p)))  # noqa: B023
                first += size
                size = max(CHUNK, ON_GPU // A.shape[2] ** 2) if device.type == "cuda" else CHUNK
        except QubolearnError:
            raise
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError) as error:
            shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors_of(p))
            raise QubolearnError(f"{type(module).__name__} fails on p of shape {shapes}: {error}") from error
        finally:
            module.train(training)


def _clamps(clamp: Any, rows: slice) -> Any:
    """Return the clamps of some rows."""
    return torch.as_tensor(clamp[rows]) if getattr(clamp, "ndim", 0) == 2 else clamp


def checked(p: Any, module: nn.Module) -> Any:
    """Return p as tensors; raise unless it fits the network."""
    try:
        given = as_tensors(np.asarray(p) if isinstance(p, list) else p)
    except ValueError as error:
        uneven = "rows have different lengths; pad them"
        raise QubolearnError(f"p: {error if isinstance(error, QubolearnError) else uneven}") from error
    for tensor in tensors_of(given):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            place = (~tensor.isfinite()).nonzero()[0].tolist()
            raise QubolearnError(f"p{place} is {tensor[tuple(place)].item()}; repair or remove the instance")
    if not isinstance(given, Tensor):
        return given
    body, scale = getattr(module, "body", module), getattr(getattr(module, "standardize", None), "mean", None)
    first = body[0] if isinstance(body, nn.Sequential) and len(body) else body
    m = len(scale) if isinstance(scale, Tensor) else getattr(first, "in_features", None)
    if given.ndim < 2:
        shape = list(given.shape)
        raise QubolearnError(f"p has shape {shape}; expected [batch, {m or 'm'}]: for one row pass p[None]")
    if given.ndim == 2 and m is not None and given.shape[1] != m:
        raise QubolearnError(f"p has {given.shape[1]} columns; the network takes {m}: p [batch, {m}]")
    return given.float()
