"""Who takes part in ``qubolearn benchmark curves``: ours and the peers that are installed, each at growing effort."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qubolearn.benchmarks.curve_cases import Case
from qubolearn.qubo import SparseQubo, from_bqms
from qubolearn.solvers import ExhaustiveSearch, SimulatedAnnealing, solve
from qubolearn.solvers.auto import AutoSolver
from qubolearn.solvers.contract import Solver
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["ENTRANTS", "Entrant", "installed"]

#: Reads in a call of ours, which anneal side by side; of a peer, from which its chance of success is measured; and of
#: simulated bifurcation, whose agents are rows of one matrix.
READS, PEER_READS, AGENTS = 16, 4, 128

Energies = npt.NDArray[np.float64]


class Entrant(NamedTuple):
    """A solver at any effort, as ``run(case, effort, seed)`` -> the energies of what it returned.

    ``split`` says that its reads come one after the other, so that a call is charged by the read. Where reads share
    vectors or rows of a matrix, as ours and the agents of simulated bifurcation do, whole calls are charged.
    """

    run: Callable[[Case, int, int], Energies]
    first: int  # the least effort: sweeps, or what is like them; 0 where there is no choice
    split: bool = False
    package: str = "qubolearn"


def _ours(make: Callable[[int, int], Solver]) -> Callable[[Case, int, int], Energies]:
    def run(case: Case, effort: int, seed: int) -> Energies:
        found = solve(case.A, make(effort, seed), 1, groups=case.groups)
        return found.energies[0].numpy() + case.offset

    return run


def _peer(sampler: str, parameters: Callable[[Case, int], Mapping[str, Any]]) -> Callable[[Case, int, int], Energies]:
    """A sampler of Ocean's kind, ``package:class``."""
    package, _, name = sampler.partition(":")

    def run(case: Case, effort: int, seed: int) -> Energies:
        from importlib import import_module

        made = getattr(import_module(package), name)()
        found = made.sample(case.bqm, seed=seed, num_reads=PEER_READS, **parameters(case, effort)).record
        return np.repeat(found.energy, found.num_occurrences).astype(np.float64)

    return run


def _sweeps(case: Case, effort: int) -> dict[str, Any]:
    return {"num_sweeps": effort}


def _openjij(case: Case, effort: int) -> dict[str, Any]:
    return {"num_sweeps": effort, "sparse": isinstance(case.A, SparseQubo)}


def _tabu(case: Case, effort: int) -> dict[str, Any]:
    """So many single flips from each of ten starts, as :func:`qubolearn.solvers.dimod_adapter.tabu` has it."""
    work = {"timeout": None, "num_restarts": 10, "lower_bound_z": effort}
    return {**work, "coefficient_z_first": 1, "coefficient_z_restart": 1}


def _bifurcation(case: Case, effort: int, seed: int) -> Energies:
    import warnings

    import simulated_bifurcation
    import torch

    torch.manual_seed(seed)
    bits, offset = from_bqms([case.bqm])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for every call whose agents have not settled
        _, energies = simulated_bifurcation.minimize(
            bits.dense()[0].float(), domain="binary", agents=AGENTS, max_steps=effort, best_only=False, verbose=False
        )
    found: Energies = energies.double().numpy() + offset.item()
    return found


ENTRANTS = {
    "exhaustive": Entrant(_ours(lambda effort, seed: ExhaustiveSearch()), 0),
    "annealing": Entrant(_ours(lambda sweeps, seed: SimulatedAnnealing(READS, sweeps, seed=seed)), 16),
    "tempering": Entrant(_ours(lambda sweeps, seed: ParallelTempering(sweeps=sweeps, seed=seed)), 16),
    "auto": Entrant(_ours(lambda effort, seed: AutoSolver(seed)), 0),
    "neal": Entrant(_peer("dwave.samplers:SimulatedAnnealingSampler", _sweeps), 16, True),
    "tabu": Entrant(_peer("dwave.samplers:TabuSampler", _tabu), 16, True),
    "path-integral": Entrant(_peer("dwave.samplers:PathIntegralAnnealingSampler", _sweeps), 16, True),
    "OpenJij": Entrant(_peer("openjij:SASampler", _openjij), 16, True, "openjij"),
    "simulated bifurcation": Entrant(_bifurcation, 64, package="simulated_bifurcation"),
}


def installed(entrant: Entrant) -> bool:
    """Whether the package of an entrant can be imported."""
    return find_spec(entrant.package) is not None
