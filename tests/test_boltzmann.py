"""Boltzmann machines."""

import math
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import samples
from torch import Tensor

from qubolearn import Groups, QubolearnError, boltzmann, energies, topology
from qubolearn.boltzmann import BoltzmannMachine
from qubolearn.qubo import all_states, to_ising

DATA = Path(os.environ.get("QUBOLEARN_DATA", "no data")) / "rna"


def probabilities(A: Tensor) -> Tensor:
    """Return p(x) of all states, ``[2**n]``."""
    return (-energies(A[None], all_states(len(A), dtype=torch.float64)[None])[0]).softmax(0)


def random_bits(count: int, n: int, seed: int = 0) -> Tensor:
    A = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return samples.draw(A[None], count, seed)


@pytest.mark.parametrize("method", ["exact", "pseudo", "screening"])
def test_methods_find_the_model_that_made_the_samples(method: Any) -> None:
    A = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = BoltzmannMachine(method=method).fit(samples.draw(A[None], 200_000, 1))
    torch.testing.assert_close(probabilities(found.couplings_), probabilities(A), atol=0.005, rtol=0)


def test_exact_likelihood_matches_the_moments_of_the_samples() -> None:
    X = random_bits(300, 4)
    machine = BoltzmannMachine().fit(X)
    p, states = probabilities(machine.couplings_), all_states(4, dtype=torch.float64)
    torch.testing.assert_close((p[:, None] * states).T @ states, X.T @ X / 300, atol=1e-5, rtol=0)
    rows = (X @ torch.tensor([8.0, 4, 2, 1], dtype=torch.float64)).long()
    assert machine.score(X) == pytest.approx(p[rows].log().mean().item(), abs=1e-9)


def test_persistent_chains_come_near_the_exact_likelihood() -> None:
    X = random_bits(2000, 6)
    exact = BoltzmannMachine(method="exact").fit(X).score(X)
    assert BoltzmannMachine(method="persistent").fit(X).score(X) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("pattern", [None, torch.cartesian_prod(torch.arange(3), torch.arange(3, 5)).T])
def test_hidden_bits_are_summed_out(pattern: Tensor | None) -> None:
    X = random_bits(50, 3)
    machine = BoltzmannMachine(hidden=2, pattern=pattern, steps=5).fit(X)
    p = probabilities(machine.couplings_).reshape(8, 4).sum(1)
    rows = (X @ torch.tensor([4.0, 2, 1], dtype=torch.float64)).long()
    assert machine.score(X) == pytest.approx(p[rows].log().mean().item(), abs=1e-9)


def test_hidden_bits_learn_parity_which_pairs_cannot() -> None:
    X = np.array([bits for bits in product((0, 1), repeat=3) if sum(bits) % 2 == 0]).repeat(5, 0)
    assert -math.log(4) - BoltzmannMachine().fit(X).score(X) > 0.6
    assert -math.log(4) - BoltzmannMachine(hidden=1).fit(X).score(X) < 0.01


def test_bars_and_stripes_by_four_hidden_bits() -> None:
    X = samples.bars_and_stripes(4)
    assert len(X) == 30
    machine = BoltzmannMachine(hidden=4, steps=300).fit(X.repeat(10, 1))
    assert -math.log(30) - machine.score(X) < 0.05  # KL divergence from the 30 patterns
    drawn = {tuple(row) for row in machine.sample(300).int().tolist()}
    assert len(drawn & set(map(tuple, X.tolist()))) > 20


def test_spin_glass_on_a_torus_is_identified() -> None:
    """All 288 couplings from 4,000 samples, and no others."""
    J, A = samples.spin_glass(12, 0.5, 0)
    machine = BoltzmannMachine(method="pseudo", l2=1e-6).fit(samples.chains(A, 4000)[0])
    assert samples.wrong_couplings(machine, J) == 0


def test_structure_at_low_temperature() -> None:
    found = [samples.low_temperature(seed, "exact") for seed in range(2)]
    assert found == [0, 0]


def test_potts_model_of_groups() -> None:
    groups = Groups.consecutive(3, 3)
    A = torch.randn(9, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    states = torch.stack(
        [torch.eye(3)[list(choice)].flatten() for choice in product(range(3), repeat=3)]
    ).double()
    p = (-energies(A[None], states[None])[0]).softmax(0)
    X = states[torch.multinomial(p, 100_000, replacement=True, generator=torch.Generator().manual_seed(0))]
    for method in ("exact", "pseudo"):
        machine = BoltzmannMachine(groups=groups, method=method, l2=1e-6).fit(X)
        found = (-energies(machine.couplings_[None], states[None])[0]).softmax(0)
        torch.testing.assert_close(found, p, atol=0.005, rtol=0)
        assert bool(groups.allowed(machine.sample(20, clamp={4: 1})).all())


@pytest.mark.parametrize("grouped", [False, True])
def test_annealed_importance_sampling_is_within_its_error(
    grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Groups.consecutive(4, 3) if grouped else None
    X = (
        random_bits(400, 12)
        if not grouped
        else torch.eye(3).repeat(4, 1)[torch.randint(0, 3, (400, 4))].flatten(1)
    )
    machine = BoltzmannMachine(groups=groups, method="pseudo", l2=1e-3).fit(X)
    exact = machine.log_partition()
    monkeypatch.setattr(boltzmann, "EXACT_SCORE", 0)
    machine._log_z = None
    estimate = machine.log_partition()
    assert exact.error == 0 < estimate.error < 0.2
    assert abs(estimate.value - exact.value) < 5 * estimate.error


def test_draws_follow_the_model_given_clamped_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = BoltzmannMachine().fit(random_bits(500, 4))
    p = probabilities(machine.couplings_).reshape(2, 2, 2, 2)[:, 1].flatten()
    for limit in (20, 0):  # exact, and by tempering
        monkeypatch.setattr(boltzmann, "EXACT_DRAWS", limit)
        X = machine.sample(20_000, clamp={1: 1})
        assert bool((X[:, 1] == 1).all())
        rows = (X[:, [0, 2, 3]].double() @ torch.tensor([4.0, 2, 1], dtype=torch.float64)).long()
        torch.testing.assert_close(
            rows.bincount(minlength=8) / 20_000, (p / p.sum()).float(), atol=0.02, rtol=0
        )


def test_pattern_weights_and_penalties() -> None:
    X, ring = random_bits(200, 4), topology("chimera", 4)
    machine = BoltzmannMachine(pattern=ring).fit(X)
    assert not machine.couplings_[~ring.mask].any()
    twice = BoltzmannMachine(pattern=ring).fit(torch.cat([X, X[:100]]))
    weighted = BoltzmannMachine(pattern=ring).fit(X, [2.0] * 100 + [1.0] * 100)
    torch.testing.assert_close(weighted.couplings_, twice.couplings_, atol=1e-3, rtol=0)
    sparse = BoltzmannMachine(l1=0.05).fit(X).couplings_
    full = BoltzmannMachine().fit(X).couplings_
    assert int((sparse.triu(1) != 0).sum()) < int((full.triu(1) != 0).sum())
    ridge = BoltzmannMachine(l2=1.0).fit(X).couplings_
    assert to_ising(ridge[None]).J.abs().sum() < 0.5 * to_ising(full[None]).J.abs().sum()


def test_a_machine_is_saved_and_loaded(tmp_path: Path) -> None:
    X = torch.eye(3).repeat(1, 2)[torch.randint(0, 3, (60,), generator=torch.Generator().manual_seed(0))]
    machine = BoltzmannMachine(groups=Groups.consecutive(2, 3), hidden=1, l2=0.01).fit(X)
    machine.save(tmp_path / "machine.safetensors")
    again = BoltzmannMachine.load(tmp_path / "machine.safetensors")
    assert again == machine
    assert torch.equal(again.couplings_, machine.couplings_)
    assert again.score(X) == machine.score(X)
    (tmp_path / "other").write_bytes(b"no machine")
    with pytest.raises(QubolearnError, match="other"):
        BoltzmannMachine.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "X", "value"),
    [
        ({}, [[0, 1], [1, 2]], r"X\[1, 1\] is 2"),
        ({}, [[-1, 1], [1, 1]], r"\(X \+ 1\) / 2"),
        ({}, [[0, 1], [1, 1]], "column 1 .* always 1"),
        ({}, [[0, math.nan], [1, 1]], "nan"),
        ({}, [0, 1], r"\[2\]"),
        ({}, [["a"]], "numbers"),
        ({"groups": Groups([[0, 1]])}, [[0, 1], [1, 1]], "sample 1"),
        ({"groups": Groups([[0, 5]])}, [[0, 1], [1, 0]], "5"),
        ({"hidden": 2, "method": "pseudo"}, [[0, 1], [1, 0]], "hidden=2"),
        ({"pattern": topology("dense", 3)}, [[0, 1], [1, 0]], "2 visible"),
    ],
)
def test_bad_samples_are_rejected(options: dict[str, Any], X: Any, value: str) -> None:
    with pytest.raises(QubolearnError, match=value):
        BoltzmannMachine(**options).fit(X)


def test_bad_options_and_use_before_fit() -> None:
    for options, value in (({"method": "exat"}, "exact"), ({"l1": -1.0}, "-1"), ({"hidden": 0.5}, "1.5")):
        with pytest.raises(QubolearnError, match=value):
            BoltzmannMachine(**options)
    with pytest.raises(QubolearnError, match="fit"):
        BoltzmannMachine().sample(3)
    with pytest.raises(QubolearnError, match="sample_weight"):
        BoltzmannMachine().fit(random_bits(9, 2), [1.0, 2.0])
    with pytest.raises(QubolearnError, match="3 columns"):
        BoltzmannMachine(l2=0.1).fit(random_bits(9, 2)).score(random_bits(9, 3))
    with pytest.warns(UserWarning, match="9 samples for 10 parameters"):
        BoltzmannMachine().fit(torch.cat([torch.eye(4), 1 - torch.eye(4), torch.ones(1, 4)]))


@pytest.mark.data("rna")
def test_couplings_of_an_rna_family_are_its_base_pairs() -> None:
    record = next(iter(samples.rna(quick=True)))
    assert record["base_pairs"] >= 19
