"""What benchmarks record; how fast anything is belongs into results, not into tests."""

from __future__ import annotations

import pytest
import torch

from qubolearn import Adam, ExhaustiveSearch, Hinge, SimulatedAnnealing, SparseQubo, energies, fit, solve
from qubolearn.benchmarks import cores, curve_cases, curves, large_annealing, many_bits
from qubolearn.benchmarks.entrants import ENTRANTS
from qubolearn.benchmarks.many_runs import many_runs
from qubolearn.benchmarks.own_loop import own_loop
from qubolearn.randomness import stream


def test_large_annealing_records_every_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_annealing, "SWEEPS", 20)
    records = list(large_annealing.records(quick=True))
    assert [(record["family"], record["n"]) for record in records] == [
        ("dense", 64),
        ("3-regular", 512),
        ("Pegasus", 680),
    ]
    for record in records:
        assert record["ours_seconds"] > 0
        assert record["ratio"] > 0
        assert abs(record["difference_in_errors"]) < 5  # the same process as neal's


@pytest.mark.parametrize("kind", ["bits", "groups"])
def test_planted_labels_are_the_lowest_states(kind: many_bits.Kind) -> None:
    problem = many_bits.Planted(16, kind, seed=1)
    test = problem.sample(20, stream(0, "test"))
    linear, couplings = problem.planted()
    A = SparseQubo(linear + test.p, problem.edges, couplings.expand(20, -1))
    assert torch.equal(solve(A, ExhaustiveSearch(), 1, groups=problem.groups).states[:, 0], test.x_true)


@pytest.mark.parametrize("kind", ["bits", "groups"])
def test_every_loss_for_many_bits_trains(kind: many_bits.Kind) -> None:
    for loss in many_bits.losses_for(many_bits.Planted(16, kind)):
        found = many_bits.trained(many_bits.Task(kind, 16, loss, 0, quick=True))
        assert found["bits_right"] > 60


def test_hinge_through_annealing_learns_64_bits() -> None:
    problem, found = many_bits.Planted(64), []
    test = problem.sample(200, stream(0, "test"), "test")
    for _ in range(2):
        network = many_bits.SharedCouplings(problem)
        fit(
            network,
            problem,
            Hinge(),
            epochs=8,
            instances=200,
            batch_size=25,
            optimizer=Adam(0.5),
            solver=SimulatedAnnealing(reads=5, sweeps=50, seed=0),
            validation=None,
        )
        found.append(network.quadratic.detach())
    with torch.no_grad():
        A = network(test.p)
    assert (problem.lowest(A.linear, A.quadratic[0]) == test.x_true).float().mean() > 0.85  # 0.63 before training
    assert torch.equal(*found)  # (seed, step) fixes what the annealer draws


def test_fit_is_measured_on_both_engines() -> None:
    records = list(own_loop(quick=True))
    assert len(records) == 2
    assert all(record["steps"] == 10 and record["fit_over_by_hand"] > 0 for record in records)


def test_curves_know_the_lowest_energies_in_every_form() -> None:
    for family, kind in curve_cases.FAMILIES.items():
        case = kind.make(6 if family == "colouring, one-hot" else kind.sizes[0], 1)
        bits = torch.randint(0, 2, (case.A.shape[2],), generator=torch.Generator().manual_seed(0))
        if case.groups:  # an allowed state: elsewhere the model has penalties
            bits = torch.eye(4, dtype=torch.int64)[torch.arange(6) % 4].flatten()
        ours = energies(case.A.to(torch.float64), bits[None, None]).item() + case.offset
        values = bits.tolist() if case.bqm.vartype.name == "BINARY" else (2 * bits - 1).tolist()
        assert case.bqm.energy(dict(enumerate(values))) == pytest.approx(ours, abs=1e-4)
        if case.groups:  # every graph can be coloured
            lowest = solve(case.A, ExhaustiveSearch(), 1, groups=case.groups).energies.item()
            assert lowest == 0
            assert case.offset == -case.A.edges.shape[1] / 4


def test_curves_have_a_record_for_each_size_and_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("exhaustive", "annealing", "neal")
    monkeypatch.setattr(curves, "ENTRANTS", {name: ENTRANTS[name] for name in names})
    found = list(curves.records(quick=True))
    assert [record["solver"] for record in found] == [*names] * len(curve_cases.FAMILIES)
    for record in found:
        if record["solver"] == "exhaustive" and record["n"] == 40:
            assert record["best"] is None  # too many states
        else:
            assert 0 < record["near"] <= record["best"] < 60


def test_one_qubo_is_measured_on_one_core_and_on_all() -> None:
    found = list(cores.records(quick=True))
    assert [(record["n"], record["solver"]) for record in found] == [(680, "annealing"), (680, "tempering")]
    assert any(record["one"] or record["all"] for record in found)  # somebody found the lowest energy


def test_many_runs_are_measured_beside_one_and_are_the_same() -> None:
    one, several = many_runs(quick=True)
    assert (one["runs"], several["runs"]) == (1, 3)
    assert several["us"] > 0
    assert several["difference"] < 0.02 * several["moved"]
