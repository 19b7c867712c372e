import dataclasses

import pytest
import torch
from scipy.stats import chisquare

from qubolearn.chips.programming import Embedding
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies, from_ising
from qubolearn.solvers import quantum
from qubolearn.solvers.exhaustive import ExhaustiveSearch
from qubolearn.solvers.quantum import QuantumAnnealing

IDEAL = {"h_error": 0.0, "J_error": 0.0}


def k44(batch, seed=0):
    """Return random QUBOs on a cell of Chimera."""
    pattern = torch.eye(8)
    pattern[:4, 4:] = 1
    return torch.randn(batch, 8, 8, generator=torch.Generator().manual_seed(seed)) * pattern


def dense(batch, n, seed=0):
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed)).triu()


def ground_states(A):
    """Return a mask ``[batch, 2**n]`` of the lowest states."""
    E = energies(A.double(), all_states(A.shape[-1]).expand(len(A), -1, -1))
    return (E - E.amin(1, keepdim=True)).abs() < 1e-9


def test_finds_what_exhaustive_search_finds():
    A = k44(20)
    found = QuantumAnnealing(seed=0)(A, 2)
    best = ExhaustiveSearch()(A, 2)
    assert torch.allclose(found.energies[:, 0], best.energies[:, 0])
    assert (found.energies[:, 1] <= best.energies[:, 1] + 1e-9).double().mean() >= 0.9


def test_the_second_best_state_may_be_two_flips_away():
    # 11 before 00 before 01 and 10, and a slow anneal reads 11 alone
    A = torch.tensor([[[2.0, -9.0], [0.0, 2.0]]])
    found = QuantumAnnealing(anneal_time=200.0, seed=0)(A, 2)
    assert found.states.tolist() == [[[1.0, 1.0], [0.0, 0.0]]]


def test_the_adiabatic_limit():
    J = torch.tensor([[[0.0, -1.0, 0.3], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]])
    A, _ = from_ising(J, torch.tensor([[1.0, 0.8, 0.9]]))
    for schedule in ("linear", "dwave"):
        success = [
            float(QuantumAnnealing(anneal_time=t, schedule=schedule, **IDEAL)(A).info["success_probability"])
            for t in (0.0, 0.2, 1.0, 5.0, 50.0)
        ]
        assert success[0] == pytest.approx(1 / 8, abs=1e-5)
        assert success == sorted(success)
        assert success[-1] > 0.995


@pytest.mark.parametrize("schedule", ["linear", "dwave"])
@pytest.mark.parametrize("n", [3, 8])
def test_the_tolerance_is_kept(n, schedule):
    A = dense(40, n)
    options = {"anneal_time": 3.0, "schedule": schedule, **IDEAL}
    exact = QuantumAnnealing(steps=6000, **options).probabilities(A)
    for tolerance in (0.03, 0.003):
        found = QuantumAnnealing(tolerance=tolerance, **options).probabilities(A)
        error = (found - exact).abs().amax(1)
        assert float(error.max()) < 1.5 * tolerance
        assert float(error.quantile(0.9)) < tolerance


def test_success_probability_is_the_mass_on_the_true_ground_states():
    A = dense(6, 6)
    solver = QuantumAnnealing(seed=3, h_error=0.2, J_error=0.2)
    p = solver.probabilities(A)
    assert torch.allclose(p.sum(1), torch.ones(6, dtype=torch.float64))
    assert torch.allclose(solver(A).info["success_probability"], (p * ground_states(A)).sum(1))


def test_success_counts_all_ground_states():
    A = torch.zeros(2, 3, 3)
    A[1, 0, 1] = 1.0  # six of eight states
    solver = QuantumAnnealing(anneal_time=0.0)
    assert solver(A).info["success_probability"].tolist() == pytest.approx([1.0, 0.75], abs=1e-5)


def test_reads_follow_the_state_vector():
    A = dense(1, 4)
    solver = QuantumAnnealing(seed=1, reads=20_000, anneal_time=0.5)
    p = solver.probabilities(A)[0]
    codes = (solver.sample(A)[0].long() << torch.arange(3, -1, -1)).sum(-1)
    counts = codes.bincount(minlength=16)
    assert chisquare(counts.numpy(), (p * 20_000).numpy()).pvalue > 1e-3


def test_an_instance_does_not_depend_on_the_rest_of_the_batch(monkeypatch):
    A = torch.cat([k44(6), 100 * k44(1, seed=1), torch.zeros(1, 8, 8)])
    solver = QuantumAnnealing(seed=2, anneal_time=1.0)  # quick, so that reads differ
    whole = solver.sample(A)
    assert torch.equal(solver.sample(A[:3]), whole[:3])
    monkeypatch.setattr(quantum, "CHUNK_AMPLITUDES", 2 * 2**8)
    assert torch.equal(solver.sample(A), whole)


def test_scaling_A_changes_nothing():
    A = k44(3)
    solver = QuantumAnnealing(seed=0)
    assert torch.allclose(solver.probabilities(A), solver.probabilities(1000 * A), atol=1e-6)


def test_each_programming_has_its_own_errors():
    A = k44(1)
    solver = QuantumAnnealing(seed=0, h_error=0.5, reads=40, programmings=4)
    assert solver.sample(A).shape == (1, 40, 8)
    once, four_times = dataclasses.replace(solver, programmings=1).probabilities(A), solver.probabilities(A)
    assert not torch.allclose(once, four_times, atol=1e-3)
    assert float(four_times.sum()) == pytest.approx(1)
    success = solver(A).info["success_probability"]
    assert torch.allclose(success, (four_times * ground_states(A)).sum(1))


SQUARE = Embedding.of({0: [0], 1: [1], 2: [2, 3]}, [(0, 1), (1, 2), (2, 3), (3, 0)])


def test_chains_of_one_qubit_change_nothing():
    # the largest |J| is positive, so both ranges of J scale alike
    J = torch.tensor([[[0.0, 1.0, 0.3], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]])
    A, _ = from_ising(J, torch.tensor([[0.4, -0.2, 0.3]]))
    alone = Embedding.of({0: [5], 1: [7], 2: [6]}, [(5, 7), (7, 6), (6, 5)])
    assert torch.allclose(
        QuantumAnnealing(seed=0).probabilities(A), QuantumAnnealing(seed=0, embedding=alone).probabilities(A)
    )


def test_strong_chains_hold_and_weak_ones_break():
    A = dense(10, 3)
    strong, weak = (
        QuantumAnnealing(seed=0, anneal_time=20.0, embedding=SQUARE, chain_strength=strength)(A)
        for strength in (1.414, 0.01)
    )
    assert float(strong.info["chain_break_fraction"].mean()) < 0.02
    assert float(strong.info["success_probability"].mean()) > 0.8
    assert float(weak.info["chain_break_fraction"].mean()) > float(strong.info["chain_break_fraction"].mean())
    assert torch.allclose(strong.energies[:, 0], ExhaustiveSearch()(A, 1).energies[:, 0])


def test_success_with_chains_is_after_the_vote():
    A = dense(4, 3)
    solver = QuantumAnnealing(seed=0, anneal_time=1.0, embedding=SQUARE, chain_strength=0.3)
    p = solver.probabilities(A)
    assert p.shape == (4, 8)
    assert torch.allclose(solver(A).info["success_probability"], (p * ground_states(A)).sum(1))


def test_bad_problems():
    solver = QuantumAnnealing(seed=0)
    with pytest.raises(QubolearnError, match=r"27 qubits.*26"):
        solver(torch.zeros(1, 27, 27))
    for call in (solver, solver.sample, solver.probabilities):
        with pytest.raises(QubolearnError, match="nan"):
            call(torch.full((1, 2, 2), float("nan")))
    with pytest.raises(QubolearnError, match=r"anneal_time=1e\+09"):
        QuantumAnnealing(anneal_time=1e9)(torch.ones(1, 2, 2))
    with pytest.raises(QubolearnError, match="seed=-1"):
        QuantumAnnealing(seed=-1)(torch.ones(1, 2, 2))
