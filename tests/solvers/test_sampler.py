"""QubolearnSampler in place of neal."""

from __future__ import annotations

import re
import unittest

import dimod
import numpy as np
import pytest
from dimod.core.sampler import SamplerUnknownArgWarning
from dwave.samplers import SimulatedAnnealingSampler

from qubolearn.errors import QubolearnError
from qubolearn.solvers import ExhaustiveSearch
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.dimod_adapter import QubolearnSampler


@dimod.testing.load_sampler_bqm_tests(QubolearnSampler)
class TestConformance(unittest.TestCase):
    def test_api(self) -> None:
        dimod.testing.assert_sampler_api(QubolearnSampler())
        dimod.testing.assert_sampler_api(QubolearnSampler(ExhaustiveSearch()))


def labeled(n: int, vartype: str, seed: int = 0, degree: int = 4) -> dimod.BinaryQuadraticModel:
    """Return a sparse model with labels of several types."""
    rng = np.random.default_rng(seed)
    labels = [f"bit {n - i}" if i % 3 else (i, "tuple") for i in range(n)]
    linear = dict(zip(labels, rng.normal(size=n).tolist(), strict=True))
    model = dimod.BinaryQuadraticModel(linear, {}, 1.5, vartype)
    for i, j in rng.integers(0, n, (degree * n // 2, 2)).tolist():
        if i != j:
            model.add_quadratic(labels[i], labels[j], rng.normal())
    return model


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
@pytest.mark.parametrize("n", [1, 12, 200])
def test_reads_are_samples_of_the_model(n: int, vartype: str) -> None:
    model = labeled(n, vartype)
    found = QubolearnSampler().sample(model, num_reads=20, num_sweeps=200, seed=1)
    assert len(found) == found.record.num_occurrences.sum() == 20
    assert found.vartype is model.vartype
    assert list(found.variables) == list(model.variables)
    dimod.testing.assert_sampleset_energies(found, model)
    theirs = SimulatedAnnealingSampler().sample(model, num_reads=20, num_sweeps=200, seed=1)
    assert found.first.energy <= theirs.first.energy + 0.02 * abs(theirs.first.energy)
    if n == 12:
        assert found.first.energy == pytest.approx(dimod.ExactSolver().sample(model).first.energy)


def test_the_seed_fixes_the_reads() -> None:
    first, same, other = (QubolearnSampler().sample(labeled(300, "SPIN"), 3, seed, 2) for seed in (4, 4, 5))
    assert first == same != other


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_reads_begin_at_initial_states(vartype: str) -> None:
    model, sampler = labeled(100, vartype), QubolearnSampler()
    start = sampler.sample(model, num_reads=2, seed=0)
    cold = {"num_sweeps": 1, "beta_range": (1e6, 1e6)}
    reversed_labels = start.samples(sorted_by=None)[0]
    kept = sampler.sample(model, initial_states=start, **cold)
    assert len(kept) == 2
    np.testing.assert_array_equal(kept.record.energy <= start.record.energy + 1e-9, True)
    repeats = {"initial_states_generator": "tile", "num_reads": 5}
    tiled = sampler.sample(model, initial_states=reversed_labels, **repeats, **cold)
    assert len(tiled) == 5
    assert len(tiled.aggregate()) == 1
    spins = start.change_vartype("SPIN", inplace=False)  # maybe of another vartype
    assert sampler.sample(model, initial_states=spins, **cold) == kept
    with pytest.raises(ValueError, match="insufficient"):
        sampler.sample(model, initial_states=start, initial_states_generator="none", num_reads=3)
    with pytest.raises(ValueError, match="mismatch"):
        sampler.sample(model, initial_states={"other": 1})


def test_thousands_of_labeled_variables_take_no_dense_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    from qubolearn.qubo import SparseQubo

    def refuse(self: SparseQubo) -> None:
        raise AssertionError("a dense matrix")

    monkeypatch.setattr(SparseQubo, "dense", refuse)
    model = labeled(2000, "SPIN")
    found = QubolearnSampler().sample(model, num_reads=2, num_sweeps=5, seed=0)
    assert len(found.variables) == 2000
    dimod.testing.assert_sampleset_energies(found, model, precision=5)


def test_other_solvers_return_their_lowest_states() -> None:
    model = labeled(6, "BINARY")
    found = QubolearnSampler(ExhaustiveSearch()).sample(model, num_reads=4)
    expected = np.sort(dimod.ExactSolver().sample(model).record.energy)[:4]
    np.testing.assert_allclose(found.record.energy, expected)
    with pytest.raises(QubolearnError, match="num_sweeps"):
        QubolearnSampler(ExhaustiveSearch()).sample(model, num_sweeps=3)
    with pytest.raises(QubolearnError, match="seed="):
        QubolearnSampler(ExhaustiveSearch()).sample(model, seed=3)


def test_bad_arguments_are_rejected() -> None:
    model, sampler = labeled(6, "SPIN"), QubolearnSampler(SimulatedAnnealing(reads=7, sweeps=3))
    assert len(sampler.sample(model)) == 1
    for name, value in (("num_reads", 2.5), ("num_sweeps", 0), ("beta_range", (2, 1))):
        with pytest.raises(QubolearnError, match=re.escape(f"{name.removeprefix('num_')}={value}")):
            sampler.sample(model, **{name: value})
    with pytest.raises(QubolearnError, match="nan"):
        sampler.sample_ising({"a": float("nan")}, {})
    with pytest.warns(SamplerUnknownArgWarning, match="randomize_order"):
        sampler.sample(model, randomize_order=True)


def test_an_empty_model() -> None:
    model = dimod.BinaryQuadraticModel({}, {}, 2.0, "SPIN")
    assert QubolearnSampler().sample(model, num_reads=3).record.energy.tolist() == [2.0] * 3
