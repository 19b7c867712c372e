"""Common mistakes: each raises one line that names the value."""

from collections.abc import Callable

import dimod
import numpy as np
import pytest
import torch

import qubolearn as q
from qubolearn import ExhaustiveSearch, Groups, ParallelTempering, QuantumAnnealing, QubolearnError, SimulatedAnnealing
from qubolearn.qubo import flip_costs, to_cqm
from qubolearn.solvers import make_solver, solve

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
    "one beta": (lambda: SimulatedAnnealing(beta_range=3), "beta_range=3"),  # type: ignore[arg-type]
    "betas of a word": (lambda: ParallelTempering(betas="x" * 16), "expected 16"),  # type: ignore[arg-type]
    "an object as text": (lambda: make_solver("quantum:embedding=3"), "embedding=3"),
    "an option twice": (lambda: make_solver("annealing:reads=1,reads=2"), "reads"),
    "control errors beyond float64": (lambda: solve(A, QuantumAnnealing(h_error=1e308)), r"h_error=1e\+308"),
    "an anneal without end": (lambda: solve(A, QuantumAnnealing(anneal_time=1e308)), r"anneal_time=1e\+308"),
    "steps without end": (lambda: QuantumAnnealing(steps=10**15), "steps=1000000000000000"),
    "fewer than no bits": (lambda: ExhaustiveSearch(max_bits=-5), "max_bits=-5"),
    "initial states in numpy": (lambda: SimulatedAnnealing().sample(A, initial=NUMPY), "ndarray"),  # type: ignore[arg-type]
    "a number as state": (lambda: flip_costs(A, torch.tensor(1.0)), r"states \[\]"),
    "lists as groups of a CQM": (lambda: to_cqm(A[0], [[0, 1]]), "Groups"),  # type: ignore[arg-type]
    "more reads than the memory tells apart": (lambda: SimulatedAnnealing(reads=10**13)(A[:1, :1, :1], 1), "GiB"),
}


def _sampled(**options: object) -> object:
    return q.QubolearnSampler().sample(dimod.BinaryQuadraticModel({"a": 1.0}, {}, "SPIN"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_in_one_line(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(QubolearnError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_options_of_several_numbers_can_be_named() -> None:
    solver = make_solver("annealing:beta_range=(0.1,3),reads=7")
    assert solver == SimulatedAnnealing(reads=7, beta_range=(0.1, 3))
    assert _sampled(beta_range=np.array([0.1, 3.0]))


def test_where_nothing_is_left_to_search_the_answer_is_marked_exact() -> None:
    found = solve(A, ParallelTempering(), 1, clamp=torch.tensor([1, 0, 0, 1]))
    assert found.info["source"] == "exhaustive"
    assert found.states[:, 0].tolist() == [[1, 0, 0, 1]] * 2
