"""An annealer with temperature."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from quant_reproduction.grid.thermal import (
    FIRST,
    FREEZE_OUT_GHZ,
    GHZ_PER_MILLIKELVIN,
    LAST,
    MILLIKELVIN,
    _flips,
    _lanczos,
    _transitions,
    boltzmann,
    final_states,
    ground_states,
    levels,
    programmed,
)
from qubolearn.chips.programming import Embedding
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies
from qubolearn.solvers.quantum import QuantumAnnealing
from qubolearn.solvers.state_vector import dwave

kT = MILLIKELVIN * GHZ_PER_MILLIKELVIN


def ising(n: int, size: float = 0.3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    J = torch.rand(n, n, generator=generator, dtype=torch.float64) * 2 - 1
    return (size * J).triu(1), size * (torch.rand(n, generator=generator, dtype=torch.float64) * 2 - 1)


def gibbs(J: Tensor, h: Tensor, s: float) -> Tensor:
    """Return the diagonal of exp(-H(s)/kT)/Z, H built spin by spin."""
    spins = 2 * all_states(len(h), dtype=torch.float64) - 1
    A, B = (float(each[0]) for each in dwave(torch.tensor([s]).double().numpy()))
    H = B / 2 * torch.diag(((spins @ J) * spins).sum(1) + spins @ h)
    for i in range(len(spins)):
        for j in range(len(spins)):
            H[i, j] -= A / 2 * ((spins[i] != spins[j]).sum() == 1)
    rho = torch.linalg.matrix_exp(-H / kT)
    return rho.diagonal() / rho.trace()


def test_a_strong_bath_ends_in_equilibrium_and_none_leaves_all_as_it_began() -> None:
    J, h = ising(3)
    found = levels(J, h)
    strong, weak = (final_states(found, [20.0], coupling)[0] for coupling in (1e9, 0.0))
    assert strong == pytest.approx(gibbs(J, h, LAST), abs=1e-6)
    assert weak.sum() == pytest.approx(1.0)
    start = torch.softmax(-found.energies[0] / kT, 0)
    assert weak == pytest.approx(start @ found.final, abs=1e-9)
    assert gibbs(J, h, FIRST).sum() == pytest.approx(1.0)


def test_a_qubit_freezes_where_the_documentation_states() -> None:
    for bias in (0.05, 0.1, 0.2):  # the coupling was taken from one of them
        right = final_states(levels(torch.zeros(1, 1), torch.tensor([bias]), points=200), [20.0])[0, 0].item()
        frozen = 1 / (1 + math.exp(-FREEZE_OUT_GHZ * bias / kT))
        assert right == pytest.approx(frozen, abs=0.01)


def test_transitions_are_squares_of_all_spins_between_levels() -> None:
    vectors = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0)).double()).Q[
        :, :5
    ]
    spins = 2 * all_states(4, dtype=torch.float64) - 1
    between = torch.stack([vectors.T @ torch.diag(spin) @ vectors for spin in spins.T])
    assert _transitions(vectors) == pytest.approx(between.square().sum(0), abs=1e-12)


def test_lanczos_finds_the_levels_of_a_full_diagonalisation() -> None:
    diagonal = torch.rand(512, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values, vectors = _lanczos(diagonal, 0.1, 6, torch.ones(512, dtype=torch.float64))
    H = torch.diag(diagonal) - 0.1 * _flips(9)
    assert values == pytest.approx(torch.linalg.eigvalsh(H)[:6], abs=1e-6)
    assert H @ vectors == pytest.approx(vectors * values, abs=1e-4)
    with pytest.raises(QubolearnError, match="levels of 17 qubits"):
        levels(*ising(17))


def test_boltzmann_of_a_chained_problem_is_that_of_its_unbroken_states() -> None:
    A = torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(0))
    square = Embedding.of({0: [0], 1: [1], 2: [2, 3]}, [(0, 1), (1, 2), (2, 3), (3, 0)])
    annealer = QuantumAnnealing(seed=0, embedding=square)
    logical = boltzmann(programmed(A, annealer, square), 0, 2.0)
    J, h, _ = annealer._program(A)
    spins = 2 * all_states(4, dtype=torch.float64) - 1
    p = torch.exp(-2.0 / (2 * kT) * (((spins @ J[0]) * spins).sum(1) + spins @ h[0]))
    whole = spins[:, 2] == spins[:, 3]  # in order of the logical states
    assert logical == pytest.approx(p[whole] / p[whole].sum(), rel=1e-9)


def test_ground_states_are_all_of_them() -> None:
    A = torch.tensor([[-1.0, 2.0], [0.0, -1.0]])  # 01 and 10
    found = ground_states(A)
    assert found.tolist() == [1, 2]
    assert energies(A[None], all_states(2)[None])[0][found].tolist() == [-1, -1]
