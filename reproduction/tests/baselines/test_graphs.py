"""Direct search and QGM."""

from __future__ import annotations

from itertools import permutations
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quant_reproduction.baselines.graphs import Variant, assignment_energies, direct, qgm
from qubolearn.data.encodings import all_permutations
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies


def naive_energy(W: torch.Tensor, P: tuple[int, ...]) -> float:
    k = len(P)
    return sum(float(W[k * i + P[i], k * j + P[j]]) for i in range(k) for j in range(k))


def random_weights(batch: int, k: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        batch, k * k, k * k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_direct_is_the_best_permutation(k: int) -> None:
    W = random_weights(6, k)
    for weights, found in zip(W, direct(W).tolist(), strict=True):
        assert tuple(found) == min(permutations(range(k)), key=lambda P: naive_energy(weights, P))


def test_energies_are_sums_over_pairs_of_matches() -> None:
    W = random_weights(2, 4)
    P = all_permutations(4)[::5]
    expected = [[naive_energy(weights, tuple(row)) for row in P.tolist()] for weights in W]
    assert assignment_energies(W, P).tolist() == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (torch.zeros(1, 16, 9), r"\[1, 16, 9\]"),
        (torch.zeros(1, 81, 81), "k=9.*limit k=8"),
        (torch.full((1, 4, 4), float("nan")), "finite"),
        (torch.zeros(1, 4, 4, dtype=torch.int64), "int64"),
    ],
)
def test_bad_weights(W: torch.Tensor, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        direct(W)


VARIANTS = get_args(Variant)


def state_energies(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    states = all_states(A.shape[1], dtype=A.dtype)
    return states, energies(A, states.expand(len(A), *states.shape))


def bits_of(P: tuple[int, ...], variant: Variant) -> list[float]:
    corner = len(P) - (variant == "inserted")
    return [float(P[i] == a) for i in range(corner) for a in range(corner)]


def weights(kind: str, batch: int, k: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(k)
    W = torch.randn(batch, k * k, k * k, generator=generator, dtype=torch.float64)
    if kind == "rewards":  # without penalties, all bits would be set
        return -W.abs()
    if kind == "sparse":
        return W * (torch.rand(W.shape, generator=generator) < 0.1)
    if kind == "uneven":  # penalties that differ much between constraints
        return W * torch.logspace(-3, 1, k * k, dtype=torch.float64)
    return W


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("k", "batch"), [(2, 20), (3, 60), (4, 3)])
@pytest.mark.parametrize("kind", ["mixed", "rewards", "sparse", "uneven"])
def test_minimizer_is_that_of_direct_search(variant: Variant, k: int, batch: int, kind: str) -> None:
    W = weights(kind, batch, k)
    matching = qgm(W, variant)
    states, energy = state_energies(matching.A)
    found = matching.decode(states[energy.argmin(1)])
    best = assignment_energies(W, all_permutations(k)).min(1).values
    assert torch.allclose(
        energy.min(1).values + matching.offset, best, rtol=1e-9, atol=1e-9 * float(W.abs().sum())
    )
    if kind != "sparse":  # several may be equally good
        assert torch.equal(found, direct(W))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_permutation_keeps_its_energy_and_is_decoded(variant: Variant) -> None:
    k = 4
    W = weights("mixed", 2, k)
    matching = qgm(W, variant)
    assert matching.A.shape[1] == ((k - 1) ** 2 if variant == "inserted" else k * k)
    assert torch.equal(matching.A, matching.A.mT)
    P = list(permutations(range(k)))
    x = torch.tensor([bits_of(entries, variant) for entries in P], dtype=torch.float64)
    assert matching.decode(x).tolist() == [list(entries) for entries in P]
    penalized = energies(matching.A, x.expand(2, *x.shape)) + matching.offset[:, None]
    assert torch.allclose(penalized, assignment_energies(W, torch.tensor(P)))


@given(
    arrays("float64", (9, 9), elements=st.integers(-3, 3)),
    st.sampled_from(VARIANTS),
)
@settings(max_examples=200, deadline=None)
def test_penalties_suffice_for_any_weights(entries: object, variant: Variant) -> None:
    W = torch.as_tensor(entries)[None]
    matching = qgm(W, variant)
    _, energy = state_energies(matching.A)
    best = float(assignment_energies(W, all_permutations(3)).min())
    assert float(energy.min() + matching.offset) == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("variant", VARIANTS)
def test_zero_weights_still_ask_for_a_permutation(variant: Variant) -> None:
    matching = qgm(torch.zeros(1, 9, 9), variant)
    states, energy = state_energies(matching.A)
    ground = states[(energy[0] + matching.offset[0]).abs() < 1e-6]
    assert sorted(matching.decode(ground).tolist()) == [list(P) for P in permutations(range(3))]


def test_decode_marks_what_is_not_a_match() -> None:
    matching = qgm(torch.zeros(1, 9, 9))
    x = torch.tensor([[[1.0, 1, 0, 0, 0, 0, 0, 0, 1]]])
    assert matching.decode(x).tolist() == [[[-1, -1, 2]]]
    corner = torch.tensor([[1.0, 1, 0, 0], [0, 0, 0, 0]])
    assert qgm(torch.zeros(1, 9, 9), "inserted").decode(corner).tolist() == [[-1, 2, 2], [2, 2, -1]]
