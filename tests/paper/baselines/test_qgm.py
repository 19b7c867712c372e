"""QGM against brute force: over all states of its QUBO, the minimum is the best permutation's, whatever W."""

from __future__ import annotations

from itertools import permutations
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qubolearn.errors import QubolearnError
from qubolearn.paper.baselines.direct import assignment_energies, direct
from qubolearn.paper.baselines.qgm import QGM_VARIANTS, Variant, qgm
from qubolearn.problems.encodings import all_permutations
from qubolearn.qubo import all_states, energies

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
    if kind == "rewards":  # as Willow: without penalties, all bits set would be best
        return -W.abs()
    if kind == "sparse":
        return W * (torch.rand(W.shape, generator=generator) < 0.1)
    if kind == "uneven":  # penalties that differ much between constraints
        return W * torch.logspace(-3, 1, k * k, dtype=torch.float64)
    return W


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("k", "batch"), [(2, 20), (3, 60), (4, 3)])
@pytest.mark.parametrize("kind", ["mixed", "rewards", "sparse", "uneven"])
def test_minimiser_is_directs(variant: Variant, k: int, batch: int, kind: str) -> None:
    W = weights(kind, batch, k)
    matching = qgm(W, variant)
    states, energy = state_energies(matching.A)
    found = matching.decode(states[energy.argmin(1)])
    best = assignment_energies(W, all_permutations(k)).min(1).values
    assert torch.allclose(energy.min(1).values + matching.offset, best, rtol=1e-9, atol=1e-9 * float(W.abs().sum()))
    if kind != "sparse":  # where W is mostly zero, several permutations may be equally good
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
    penalised = energies(matching.A, x.expand(2, *x.shape)) + matching.offset[:, None]
    assert torch.allclose(penalised, assignment_energies(W, torch.tensor(P)))


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


def test_decode_marks_what_is_no_match() -> None:
    matching = qgm(torch.zeros(1, 9, 9))
    x = torch.tensor([[[1.0, 1, 0, 0, 0, 0, 0, 0, 1]]])
    assert matching.decode(x).tolist() == [[[-1, -1, 2]]]
    corner = torch.tensor([[1.0, 1, 0, 0], [0, 0, 0, 0]])
    assert qgm(torch.zeros(1, 9, 9), "inserted").decode(corner).tolist() == [[-1, 2, 2], [2, 2, -1]]


def test_bad_input() -> None:
    with pytest.raises(QubolearnError, match="did you mean inserted"):
        qgm(torch.zeros(1, 9, 9), "insertd")  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="square"):
        qgm(torch.zeros(1, 9, 8))
    assert tuple(QGM_VARIANTS) == VARIANTS
