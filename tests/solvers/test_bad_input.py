"""Common mistakes."""

import math
from collections.abc import Callable
from typing import Any

import dimod
import numpy as np
import pytest
import torch

import qubolearn as q
from qubolearn import Groups, QubolearnError
from qubolearn.qubo import flip_costs, to_cqm
from qubolearn.solvers import (
    DimodSolver,
    ExhaustiveSearch,
    ParallelTempering,
    PopulationAnnealing,
    QuantumAnnealing,
    SimulatedAnnealing,
    make_solver,
    solve,
)
from qubolearn.solvers.dimod_adapter import neal

A = torch.linspace(-1, 1, 32).reshape(2, 4, 4)
SOME = ExhaustiveSearch()
NUMPY = np.zeros((2, 4, 4))

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "complex clamp": (lambda: solve(A, SOME, clamp=torch.zeros(4, dtype=torch.complex64)), "real numbers"),
    "clamp without numbers": (lambda: solve(A, SOME, clamp=torch.zeros(4, device="meta")), "device meta"),
    "groups of no bits": (lambda: Groups.consecutive(2, 0), "size=0"),
    "log Z of numpy": (lambda: q.log_partition(NUMPY), "torch.Tensor"),  # type: ignore[arg-type]
    "count of True": (lambda: solve(A, SOME, True), "count=True"),
    "class as solver": (lambda: solve(A, ExhaustiveSearch), r"ExhaustiveSearch\(\)"),  # type: ignore[arg-type]
    "name as sampler's solver": (lambda: q.QubolearnSampler("auto"), "make_solver"),  # type: ignore[arg-type]
    "dict as model": (lambda: q.QubolearnSampler().sample({"a": 1}), "dict"),  # type: ignore[arg-type]
    "a misspelled parameter": (lambda: DimodSolver(neal().sampler, {"num_read": 5}), "num_reads"),
    "one seed for all QUBOs": (lambda: DimodSolver(neal().sampler, {"seed": 5}), "seeds all QUBOs alike"),
    "states of another size": (lambda: q.energies(A, torch.zeros(2, 5)), "do not fit"),
    "an object as text": (lambda: make_solver("quantum:embedding=3"), "embedding=3"),
    "an option twice": (lambda: make_solver("annealing:reads=1,reads=2"), "reads"),
    "control errors beyond float64": (lambda: solve(A, QuantumAnnealing(h_error=1e308)), r"h_error=1e\+308"),
    "an anneal without end": (lambda: solve(A, QuantumAnnealing(anneal_time=1e308)), r"anneal_time=1e\+308"),
    "initial states in numpy": (lambda: SimulatedAnnealing().sample(A, initial=NUMPY), "ndarray"),  # type: ignore[arg-type]
    "a number as state": (lambda: flip_costs(A, torch.tensor(1.0)), r"states \[\]"),
    "lists as groups of a CQM": (lambda: to_cqm(A[0], [[0, 1]]), "Groups"),  # type: ignore[arg-type]
    "more reads than memory": (lambda: SimulatedAnnealing(reads=10**13)(A[:1, :1, :1], 1), "GiB"),
}
OPTIONS: list[tuple[Callable[..., object], dict[str, Any], str]] = [
    (ExhaustiveSearch, {"max_bits": -5}, "max_bits=-5"),
    (SimulatedAnnealing, {"reads": 0}, "reads=0"),
    (SimulatedAnnealing, {"beta_range": 3}, "beta_range=3"),
    (SimulatedAnnealing, {"beta_range": (2.0, 1.0)}, r"beta_range=\(2.0, 1.0\)"),
    (SimulatedAnnealing, {"beta_range": (1.0, math.inf)}, "beta_range"),
    (SimulatedAnnealing, {"sweeps": 2.5}, "sweeps=2.5"),
    (SimulatedAnnealing, {"seed": -3}, "seed=-3"),
    (ParallelTempering, {"replicas": 10}, "multiple of 16"),
    (ParallelTempering, {"target": math.nan}, "target=nan"),
    (ParallelTempering, {"betas": (1.0, 2.0)}, r"betas=\(1.0, 2.0\)"),
    (ParallelTempering, {"betas": (2.0,) * 15 + (1.0,)}, "ascending"),
    (ParallelTempering, {"betas": "x" * 16}, "expected 16"),
    (ParallelTempering, {"seed": -1}, "seed=-1"),
    (PopulationAnnealing, {"sweeps": 0}, "sweeps=0"),
    (PopulationAnnealing, {"reads": 0}, "reads=0"),
    (PopulationAnnealing, {"seconds": -1.0}, "seconds=-1"),
    (PopulationAnnealing, {"target": math.nan}, "target=nan"),
    (QuantumAnnealing, {"schedule": "dwawe"}, "did you mean dwave"),
    (QuantumAnnealing, {"anneal_time": math.nan}, "anneal_time=nan"),
    (QuantumAnnealing, {"h_error": math.inf}, "h_error=inf"),
    (QuantumAnnealing, {"tolerance": 0.0}, "tolerance=0.0"),
    (QuantumAnnealing, {"reads": 0}, "reads=0"),
    (QuantumAnnealing, {"programmings": 3}, "reads=100; expected a multiple"),
    (QuantumAnnealing, {"steps": 10**15}, "steps=1000000000000000"),
    (neal, {"reads": 1.5}, "num_reads=1.5"),
    (neal, {"seed": -1}, "seed=-1"),
]


@pytest.mark.parametrize(("solver", "options", "message"), OPTIONS)
def test_a_bad_option_is_named(solver: Callable[..., object], options: dict[str, Any], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        solver(**options)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_in_one_line(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(QubolearnError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_options_of_several_numbers_can_be_named() -> None:
    solver = make_solver("annealing:beta_range=(0.1,3),reads=7")
    assert solver == SimulatedAnnealing(reads=7, beta_range=(0.1, 3))
    model = dimod.BinaryQuadraticModel({"a": 1.0}, {}, "SPIN")
    assert q.QubolearnSampler().sample(model, beta_range=np.array([0.1, 3.0]))  # type: ignore[arg-type]


def test_where_nothing_is_left_to_search_the_answer_is_marked_exact() -> None:
    found = solve(A, ParallelTempering(), 1, clamp=torch.tensor([1, 0, 0, 1]))
    assert found.info["source"] == "exhaustive"
    assert found.states[:, 0].tolist() == [[1, 0, 0, 1]] * 2
