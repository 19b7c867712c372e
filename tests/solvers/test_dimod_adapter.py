"""dimod samplers as solvers, and solvers as dimod samplers."""

from __future__ import annotations

import random
from dataclasses import replace

import dimod
import dimod.testing
import numpy as np
import pytest
import torch
from chip_qubos import exact
from dwave.samplers import SteepestDescentSampler, TreeDecompositionSampler

from qubolearn.errors import QubolearnError
from qubolearn.qubo import energies
from qubolearn.solvers.dimod_adapter import DimodSolver, neal, path_integral, tabu

SOLVERS = {
    "neal": neal(reads=20, sweeps=200),
    "tabu": tabu(reads=3, restarts=5, updates=200),
    "path_integral": path_integral(reads=20, sweeps=200),
    "dimod": DimodSolver(dimod.SimulatedAnnealingSampler(), {"num_reads": 5, "num_sweeps": 50}),
    "steepest_descent": DimodSolver(SteepestDescentSampler(), {"num_reads": 50}),
    "exact": DimodSolver(dimod.ExactSolver()),
    "tree": DimodSolver(TreeDecompositionSampler(), {"num_reads": 50, "beta": 3.0}),
}


@pytest.fixture(params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> DimodSolver:
    return replace(SOLVERS[request.param], seed=3)


def random_qubos(batch: int, n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed))


def test_finds_the_two_lowest_states(solver: DimodSolver) -> None:
    A = random_qubos(6, 6)
    solution = solver(A, 2)
    torch.testing.assert_close(solution.energies, exact(A, 2))
    torch.testing.assert_close(energies(A.double(), solution.states), solution.energies)
    assert solution.info["source"] == "simulated"


def test_seeds_differ_between_calls_and_between_instances() -> None:
    def seeds_of(seed: int | None) -> list[int]:
        sampler = Fake(dimod.ExactSolver().sample)
        DimodSolver(sampler, seed=seed)(random_qubos(50, 3))
        assert max(sampler.seeds) < 2**31
        return sampler.seeds

    assert seeds_of(0) == seeds_of(0)
    assert len({*seeds_of(0), *seeds_of(1), *seeds_of(None), *seeds_of(None)}) == 200


def test_samplers_without_a_seed_leave_the_global_generators_as_they_were() -> None:
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = random.random(), np.random.random()  # noqa: NPY002
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    DimodSolver(dimod.SimulatedAnnealingSampler(), {"num_sweeps": 5}, seed=0)(random_qubos(2, 4))
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def test_neighbors_complete_the_second_best_state() -> None:
    A = torch.diag_embed(torch.tensor([[-5.0, -4.0, -3.0, 0.1]]))
    solution = neal(reads=1, sweeps=1000, seed=0)(A)
    assert solution.states.tolist() == [[[1, 1, 1, 0], [1, 1, 1, 1]]]


def test_success_probability_is_the_share_of_reads_at_the_lowest_energy() -> None:
    A = torch.tensor([[[-1.0, 2.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]])  # ties: 100 and 010
    info = DimodSolver(dimod.ExactSolver())(A).info
    assert info["success_probability"].tolist() == [2 / 8]
    assert neal(seed=0)(A).info["success_probability"].item() > 0.9
    assert neal(reads=7, seed=0)(A).info["reads"] == 7


class Fake(dimod.Sampler):
    """A sampler that misbehaves as its ``sample`` says."""

    parameters: dict = {"num_reads": [], "seed": []}  # noqa: RUF012
    properties: dict = {}  # noqa: RUF012

    def __init__(self, answer) -> None:
        self.answer = answer
        self.seeds: list[int] = []

    def sample(self, bqm, seed, **parameters):
        self.seeds.append(seed)
        return self.answer(bqm)


def raises(bqm):
    raise RuntimeError("no more coolant")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda bqm: dimod.SampleSet.from_samples_bqm(np.zeros((3, 4)), bqm), "3 of 5 reads"),
        (lambda bqm: dimod.SampleSet.from_samples((np.zeros((5, 4)), "abcd"), "BINARY", 0), "variables"),
        (lambda bqm: dimod.SampleSet.from_samples((np.zeros((5, 2)), [0, 1]), "BINARY", 0), "variables"),
        (lambda bqm: dimod.SampleSet.from_samples((np.full((5, 4), 3), range(4)), "BINARY", 0), "value 3"),
        (
            lambda bqm: dimod.SampleSet.from_samples_bqm(np.eye(2, 4), bqm, num_occurrences=[8, -3]),
            "a read -3 times",
        ),
        (raises, "Fake failed on QUBO 0.*no more coolant"),
    ],
)
def test_misbehaving_samplers_are_named(answer, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        DimodSolver(Fake(answer), {"num_reads": 5})(random_qubos(2, 4))


def test_reads_in_other_orders_and_as_spins_are_understood() -> None:
    def spins_backwards(bqm):
        labels = list(reversed(bqm.variables))
        best = dimod.ExactSolver().sample(bqm).first.sample
        return dimod.SampleSet.from_samples(([[2 * best[v] - 1 for v in labels]], labels), "SPIN", 0)

    A = random_qubos(5, 6)
    torch.testing.assert_close(DimodSolver(Fake(spins_backwards))(A, 1).energies, exact(A, 1))


def test_sample_returns_every_read_as_often_as_it_was_read() -> None:
    def thrice_and_once(bqm):
        rows = np.array([[1, 0, 0, 1], [0, 1, 1, 0]])
        return dimod.SampleSet.from_samples_bqm((rows, bqm.variables), bqm, num_occurrences=[3, 1])

    A = random_qubos(2, 4)
    reads = DimodSolver(Fake(thrice_and_once)).sample(A)
    assert reads.dtype == A.dtype
    assert reads.tolist() == [[[1, 0, 0, 1]] * 3 + [[0, 1, 1, 0]]] * 2
    assert neal(reads=5, seed=0).sample(torch.zeros(1, 4, 4)).unique().tolist() == [0, 1]

    counts = iter([1, 2])
    uneven = Fake(lambda bqm: dimod.SampleSet.from_samples_bqm(np.zeros((next(counts), 4)), bqm))
    with pytest.raises(QubolearnError, match="reads"):
        DimodSolver(uneven).sample(A)
