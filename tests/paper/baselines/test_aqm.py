"""AQM's QUBO against its definition and against exhaustive search."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.paper.baselines.aqm import aqm, aqm_angle, aqm_qubo, solve_exactly
from qubolearn.paper.problems.angles import geodesic_so2, rotation_2d
from qubolearn.paper.problems.moments import pair_moments
from qubolearn.qubo import energies
from qubolearn.solvers import ExhaustiveSearch

M = np.array([[0, -1], [1, 0]])
BASIS = [w * C for w in (0.5, 0.2, 0.1, 0.1, 0.05) for C in (np.eye(2), M, -np.eye(2), -M)]


def clouds(count: int, angle: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    template = torch.randn(count, 12, 2, generator=torch.Generator().manual_seed(seed))
    template = template - template.mean(1, keepdim=True)
    return template, template @ rotation_2d(torch.tensor(angle)).mT


def test_energies_are_squared_distances() -> None:
    """qᵀAq + mean |x|² is the mean of |x - R y|² with R = Σ q_k Q_k, for any bits."""
    template, reference = clouds(1, 0.4)
    moments = pair_moments(template, reference, 2)
    A = aqm_qubo(torch.stack(moments[:4], 1))
    distance = torch.cdist(template[0], reference[0])
    near = distance.topk(2, largest=False).indices.flatten().numpy()
    x, y = reference[0].numpy()[near], np.repeat(template[0].numpy(), 2, axis=0)
    for q in (torch.rand(20, 20, generator=torch.Generator().manual_seed(1)) < 0.5).float():
        R = sum(float(bit) * Q for bit, Q in zip(q, BASIS, strict=True))
        wanted = ((x - y @ R.T) ** 2).sum(1).mean()
        assert (energies(A, q[None]) + moments.xx).item() == pytest.approx(wanted, rel=1e-4, abs=1e-5)
        assert aqm_angle(q[None]).item() == pytest.approx(math.atan2(R[1, 0], R[0, 0]), abs=1e-5)


def test_the_structure_gives_what_exhaustive_search_gives() -> None:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(4, 4, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 1, 2, 2]) - torch.tensor(
        [0.0, 0, 1, 1]
    )
    A = aqm_qubo(numbers)
    best = ExhaustiveSearch()(A, 1)
    torch.testing.assert_close(energies(A, solve_exactly(numbers)), best.energies[:, 0])


def test_any_solver_can_be_used() -> None:
    template, reference = clouds(2, 0.1)
    exact = aqm(template, reference, neighbours=1)
    torch.testing.assert_close(aqm(template, reference, neighbours=1, solver=ExhaustiveSearch()), exact)


def test_right_neighbours_give_the_angle_up_to_the_basis() -> None:
    template, reference = clouds(20, 0.05)
    error = geodesic_so2(aqm(template, reference, neighbours=1), torch.tensor(0.05))
    assert error.median() < math.degrees(0.05)  # sines come in steps of 0.05


def test_matching_anew_helps() -> None:
    around = torch.arange(60) * (2 * math.pi / 60)
    template = (
        (1 + 0.5 * torch.cos(2 * around) + 0.3 * torch.cos(3 * around))[:, None]
        * torch.stack([around.cos(), around.sin()], 1)
    )[None]
    template = template - template.mean(1, keepdim=True)
    reference = template @ rotation_2d(torch.tensor(0.5)).mT
    once, often = (geodesic_so2(aqm(template, reference, iterations=i), torch.tensor(0.5)) for i in (1, 20))
    assert often < 0.5 * once


def test_bad_calls_are_refused() -> None:
    template, reference = clouds(1, 0.1)
    with pytest.raises(QubolearnError, match="0 iterations"):
        aqm(template, reference, iterations=0)
    with pytest.raises(QubolearnError, match="empty"):
        aqm(template[:, :0], reference)
