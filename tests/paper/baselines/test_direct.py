"""Direct against loops over permutations, and against problems whose solution is known."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.paper import baselines
from qubolearn.paper.baselines.direct import assignment_energies, direct
from qubolearn.problems.encodings import all_permutations
from qubolearn.problems.randgraph import RandGraph


def naive_energy(W: torch.Tensor, P: tuple[int, ...]) -> float:
    k = len(P)
    return sum(float(W[k * i + P[i], k * j + P[j]]) for i in range(k) for j in range(k))


def random_weights(batch: int, k: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, k * k, k * k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


@pytest.mark.parametrize("k", [4, 8])
def test_direct_solves_randgraph(k: int) -> None:
    instances = RandGraph(k).sample(12, torch.Generator().manual_seed(1))
    assert torch.equal(direct(instances.p.reshape(-1, k * k, k * k)), instances.answer)


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    W = random_weights(7, 4)
    whole = direct(W)
    monkeypatch.setattr(baselines.direct, "MAX_ENERGIES", 50)  # two instances of 24 permutations at a time
    assert torch.equal(direct(W), whole)


def test_empty_batch() -> None:
    assert direct(torch.zeros(0, 16, 16)).shape == (0, 4)


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (torch.zeros(1, 16, 9), r"square.*\[1, 16, 9\]"),
        (torch.zeros(16, 16), r"square.*\[16, 16\]"),
        (torch.zeros(1, 15, 15), "15 rows"),
        (torch.zeros(1, 81, 81), "k=9.*limit k=8"),
        (torch.full((1, 4, 4), float("nan")), "finite"),
        (torch.zeros(1, 4, 4, dtype=torch.int64), "int64"),
    ],
)
def test_bad_weights(W: torch.Tensor, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        direct(W)
