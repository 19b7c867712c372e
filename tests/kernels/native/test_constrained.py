"""Compiled search under inequalities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_kernels import dense_of, kernels, on_all_builds, random_graph

N = 9
GRAPH = random_graph(N, 5, seed=3)
UNITS = np.array([0, 3, 6, 7, 8, 9]), np.arange(N), np.array([True, True, False, False, False])
CLAMPS = np.full((1, N), -1, np.int8)
CLAMPS[0, 8] = 1
COEFFICIENTS = np.array([[3, 0, -2, 1, 4, 2, 0, 5, 1], [-1, 2, 2, -1, 0, 1, 3, -2, 0]], np.float64)
BOUNDS = np.array([[6.0, 2.5]])
BIT, WHICH = (np.ascontiguousarray(places) for places in np.nonzero(COEFFICIENTS.T))
LIMITS = np.searchsorted(BIT, np.arange(N + 1)), WHICH, COEFFICIENTS[WHICH, BIT][None], BOUNDS
STATES = np.arange(2**N)[:, None] >> np.arange(N) & 1
ALLOWED = STATES[
    (STATES[:, :3].sum(1) == 1)
    & (STATES[:, 3:6].sum(1) == 1)
    & (STATES[:, 8] == 1)
    & (STATES @ COEFFICIENTS.T <= BOUNDS).all(1)
]
ENERGIES = np.sort(np.einsum("si,ij,sj->s", ALLOWED, np.triu(dense_of(GRAPH)[0]), ALLOWED))


def search(limits: tuple[Any, ...] = LIMITS, **options: Any) -> tuple[np.ndarray, ...]:
    states, energies, found = np.zeros((1, 4, N), np.int8), np.zeros((1, 4)), np.zeros(1, np.int64)
    kernels.search_constrained(GRAPH, UNITS, CLAMPS, limits, states, energies, found, **options)
    return states, energies, found


def anneal(
    limits: tuple[Any, ...] = LIMITS, size: int = 1, target: float = -np.inf, **options: Any
) -> tuple[Any, ...]:
    states, excess, swept = np.zeros((1, 6, N), np.int8), np.zeros((1, 6)), np.zeros(1, np.int64)
    betas, seeds, targets = np.array([[0.1, 10.0]]), np.array([7], np.uint32), np.array([target])
    goal = betas, 500, targets, size, seeds, states, excess, swept
    kernels.anneal_constrained(GRAPH, UNITS, CLAMPS, limits, *goal, **options)
    return states, excess, swept


def test_exact_search_finds_the_lowest_allowed_states() -> None:
    _, energies, found = on_all_builds(lambda threads: search(threads=threads))
    assert found[0] == 4
    assert np.allclose(energies[0], ENERGIES[:4])


@pytest.mark.parametrize("size", [1, 3, 6])
def test_annealing_and_colonies_end_in_the_lowest_allowed_state(size: int) -> None:
    states, excess, swept = on_all_builds(lambda threads: anneal(size=size, threads=threads))
    assert (excess == 0).all()
    assert swept >= 500
    assert size == 1 or anneal(size=size, target=ENERGIES[0] + 1e-6)[2] < 500
    energies = np.einsum("bsi,ij,bsj->bs", states, np.triu(dense_of(GRAPH)[0]), states)
    assert np.isclose(energies.min(), ENERGIES[0])


@pytest.mark.parametrize("call", [search, anneal])
@pytest.mark.parametrize("place", range(4))
def test_limits_that_do_not_fit_are_rejected(call: Any, place: int) -> None:
    damages = [
        lambda x: x.astype(np.float32),
        lambda x: np.asfortranarray(np.stack([x] * 2))[0],
        lambda x: x[..., :-1],
    ]
    damages += [lambda x: x + 2] if place < 2 else []  # beyond the arrays
    for damage in damages:
        limits = list(LIMITS)
        limits[place] = damage(limits[place])
        if (
            place == 2
            or limits[place].shape != LIMITS[place].shape
            or limits[place].dtype != LIMITS[place].dtype
        ):
            with pytest.raises(ValueError):  # noqa: PT011 - any refusal
                call(tuple(limits))


def test_colonies_of_unequal_size_are_rejected() -> None:
    with pytest.raises(ValueError, match="colonies"):
        anneal(size=4)
