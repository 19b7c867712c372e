"""What a newcomer passes by mistake: each is one line that names the value and the remedy, and never a traceback."""

from collections.abc import Callable

import dimod
import numpy as np
import pytest
import torch

import qubolearn as q
from qubolearn import ExhaustiveSearch, Groups, ParallelTempering, PersistentChains, QubolearnError, SimulatedAnnealing
from qubolearn.qubo import energies, flip_costs, penalised_bqm, to_bqm, to_cqm, to_dqm
from qubolearn.solvers import make_solver, solve

A = torch.linspace(-1, 1, 32).reshape(2, 4, 4)
SOME = ExhaustiveSearch()
NUMPY = np.zeros((2, 4, 4))

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "complex clamp": (lambda: solve(A, SOME, clamp=torch.zeros(4, dtype=torch.complex64)), "real numbers"),
    "clamp without numbers": (lambda: solve(A, SOME, clamp=torch.zeros(4, device="meta")), "device meta"),
    "sparse tensor as clamp": (lambda: solve(A, SOME, clamp=torch.zeros(2, 4).to_sparse()), "sparse_coo"),
    "groups of no bits": (lambda: Groups.consecutive(2, 0), "size=0"),
    "fewer than no groups": (lambda: Groups.consecutive(-1, 3), "count=-1"),
    "log Z of numpy": (lambda: q.log_partition(NUMPY), "torch.Tensor"),  # type: ignore[arg-type]
    "marginals of a list": (lambda: q.pair_marginals(A.tolist()), "torch.Tensor"),  # type: ignore[arg-type]
    "count of True": (lambda: solve(A, SOME, True), "count=True"),
    "class as solver": (lambda: solve(A, ExhaustiveSearch), r"ExhaustiveSearch\(\)"),  # type: ignore[arg-type]
    "None as solver": (lambda: solve(A, None, clamp={0: 1}), "solver=None"),  # type: ignore[arg-type]
    "name as sampler's solver": (lambda: q.QubolearnSampler("auto"), "make_solver"),  # type: ignore[arg-type]
    "dict as model": (lambda: q.QubolearnSampler().sample({"a": 1}), "dict is no"),  # type: ignore[arg-type]
    "one beta": (lambda: SimulatedAnnealing(beta_range=3), "beta_range=3; want 2"),  # type: ignore[arg-type]
    "one beta for a sampler": (lambda: _sampled(beta_range=3), "beta_range=3; want 2"),
    "betas of a word": (lambda: ParallelTempering(betas="x" * 16), "want 16"),  # type: ignore[arg-type]
    "half a replica": (lambda: ParallelTempering(replicas=16.0), "replicas=16.0"),  # type: ignore[arg-type]
    "too many ladders": (lambda: solve(A, ParallelTempering(ladders=2**50)), "GiB"),
    "fewer than no bits": (lambda: ExhaustiveSearch(max_bits=-5), "max_bits=-5"),
    "initial states in numpy": (lambda: SimulatedAnnealing().sample(A, initial=NUMPY), "ndarray"),  # type: ignore[arg-type]
    "reads in numpy": (lambda: q.effective_beta(A, NUMPY), "ndarray"),  # type: ignore[arg-type]
    "states in numpy": (lambda: energies(A, NUMPY), "ndarray"),  # type: ignore[arg-type]
    "a number as state": (lambda: flip_costs(A, torch.tensor(1.0)), r"states \[\]"),
    "rows of chains by a half": (lambda: PersistentChains(3, 4).sample(A, 1.0, torch.tensor([0.5, 1])), "float32"),
    "rows of chains in two columns": (lambda: PersistentChains(3, 4).sample(A, 1.0, torch.ones(1, 2).int()), "shape"),
    "chains from nothing": (lambda: PersistentChains(3, 4).load_state_dict({}), "states and calls"),
    "lists as groups of a CQM": (lambda: to_cqm(A[0], [[0, 1]]), "Groups"),  # type: ignore[arg-type]
    "lists as groups of a DQM": (lambda: to_dqm(A[0], [[0, 1]]), "Groups"),  # type: ignore[arg-type]
    "lists as groups of a BQM": (lambda: penalised_bqm(A[0], [[0, 1]]), "Groups"),  # type: ignore[arg-type]
    "a batch with penalties": (lambda: penalised_bqm(A, Groups([[0, 1]])), "one QUBO"),
    "numpy to a BQM": (lambda: to_bqm(NUMPY[0]), "ndarray"),  # type: ignore[arg-type]
    "more reads than the memory tells apart": (lambda: SimulatedAnnealing(reads=10**13)(A[:1, :1, :1], 1), "GiB"),
}


def _sampled(**options: object) -> object:
    return q.QubolearnSampler().sample(dimod.BinaryQuadraticModel({"a": 1.0}, {}, "SPIN"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(mistake: str) -> None:
    make, said = MISTAKES[mistake]
    with pytest.raises(QubolearnError, match=said) as told:
        make()
    assert "\n" not in str(told.value)


def test_options_of_several_numbers_can_be_named() -> None:
    solver = make_solver("annealing:beta_range=(0.1,3),reads=7")
    assert solver == SimulatedAnnealing(reads=7, beta_range=(0.1, 3))
    assert _sampled(beta_range=np.array([0.1, 3.0]))


def test_where_nothing_is_left_to_search_the_answer_says_that_it_is_exact() -> None:
    found = solve(A, ParallelTempering(), 1, clamp=torch.tensor([1, 0, 0, 1]))
    assert found.info["source"] == "exhaustive"
    assert found.states[:, 0].tolist() == [[1, 0, 0, 1]] * 2
    chain = torch.diag_embed(torch.linspace(-1, 1, 30))[None]  # roof duality fixes all of it
    assert solve(chain, SimulatedAnnealing(), 1, clamp={0: 1}).info["source"] == "exhaustive"
