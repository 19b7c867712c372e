"""The integrator of state vectors."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from scipy.special import gamma

from qubolearn.qubo import all_states, energies, from_ising
from qubolearn.solvers import state_vector
from qubolearn.solvers.state_vector import (
    SCHEDULES,
    Pulses,
    all_energies,
    final_probabilities,
    linear,
    pulses,
)


def ising(n, batch, seed=0):
    """Return Ising energies ``[batch, 2**n]`` of random h and J in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    J = torch.rand(batch, n, n, generator=generator, dtype=torch.float64).mul(2).sub(1).triu(1)
    h = torch.rand(batch, n, generator=generator, dtype=torch.float64).mul(2).sub(1)
    A, offset = from_ising(J, h)
    return all_energies(A) + offset[:, None]


def by_matrix_exponentials(E, schedule, anneal_time, slices=300):
    """Return |ψ|² of a time-ordered product of exp(-iH dt), H dense."""
    n = int(math.log2(len(E)))
    X = np.array([[0.0, 1.0], [1.0, 0.0]])
    mixer = -sum(np.kron(np.kron(np.eye(2**i), X), np.eye(2 ** (n - 1 - i))) for i in range(n))
    A, B = (y[:, None, None] for y in schedule((np.arange(slices) + 0.5) / slices))
    psi = np.full(2**n, 2 ** (-n / 2), complex)
    for step in expm(-2j * math.pi * (A / 2 * mixer + B / 2 * np.diag(E)) * anneal_time / slices):
        psi = step @ psi
    return abs(psi) ** 2


def by_torch(E, sequence):
    state = state_vector._apply_torch(state_vector._uniform_superposition(E.float()), E.float(), sequence)
    return state.square().sum(0)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
def test_all_energies(n):
    A = torch.randn(3, n, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    states = all_states(n, dtype=torch.float64).expand(3, -1, -1)
    assert torch.allclose(all_energies(A), energies(A, states))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_agrees_with_dense_matrix_exponentials(n, name):
    E = ising(n, 2, seed=n)
    found = final_probabilities(E, pulses(SCHEDULES[name], 1.0, 1.5, 1000))
    for p, row in zip(found.double().numpy(), E.numpy(), strict=True):
        assert np.allclose(p, by_matrix_exponentials(row, SCHEDULES[name], 1.0), atol=3e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 10, 15])
def test_compiled_and_torch_agree(n):
    E = ising(n, 3)
    sequence = pulses(linear, 0.5, 2.0, 60)
    assert torch.allclose(final_probabilities(E, sequence), by_torch(E, sequence), atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 15, 17])
def test_pulses_of_any_angle(n):
    """Few steps make angles where tan θ is large or infinite."""
    E = ising(n, 2)
    sequence = Pulses(
        np.array([0.3, 1.0, math.pi / 2, -2.5, math.pi, 7.0]), np.array([0.1, 0.2, 0.3, 0.0, 0.4, 0.1])
    )
    found = final_probabilities(E, sequence)
    assert torch.allclose(found, by_torch(E, sequence), rtol=1e-4, atol=1e-5 / 2**n)
    assert torch.allclose(found.sum(1), torch.ones(2), atol=1e-5)


@pytest.mark.parametrize("slowness", [0.5, 2.0, 8.0])
def test_half_a_landau_zener_sweep(slowness):
    """In closed form (Damski & Zurek, PRA 73, 063405)."""
    far = 40.0  # how far the bias goes, in gaps of 1 GHz

    def sweep(s):
        # switched off far out, so that eigenstates are read
        return np.cos(np.pi * np.clip(s - 0.5, 0, 0.5)) ** 2, far * s

    sequence = pulses(sweep, slowness * far / (2 * math.pi), 1.0, 20_000)
    found = final_probabilities(torch.tensor([[-1.0, 1.0]]), sequence)[0, 1]
    i = 1j * slowness / 8
    sum_of_gammas = gamma(1 + i) + np.exp(1j * math.pi / 4) * math.sqrt(slowness / 8) * gamma(0.5 + i)
    factor = 2 / (math.pi * slowness) * math.sinh(math.pi * slowness / 4) * math.exp(-math.pi * slowness / 8)
    assert float(found) == pytest.approx(1 - factor * abs(sum_of_gammas) ** 2, abs=2e-4)


def test_error_falls_as_the_square_of_the_step():
    E = ising(6, 4)
    truth, coarse, fine = (
        final_probabilities(E, pulses(linear, 2.0, 2.0, steps)) for steps in (8000, 250, 500)
    )
    ratio = (coarse - truth).norm() / (fine - truth).norm()
    assert 3.3 < float(ratio) < 4.7
