"""Benchmarks measure what they claim: their QUBOs, planted solutions and targets are right."""

from importlib import import_module

import pytest
import torch
from benchmarks import annealing, curves, losses, models
from benchmarks.__main__ import BENCHMARKS

from qubolearn import Adam, ExhaustiveSearch, Hinge, SimulatedAnnealing, SparseQubo, energies, fit, solve


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_function(name: str) -> None:
    module, function = BENCHMARKS[name][0].split(".")
    assert callable(getattr(import_module(f"benchmarks.{module}"), function))


def test_large_annealing_draws_from_the_distribution_of_neal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "SWEEPS", 20)
    records = list(annealing.large(quick=True))
    assert [(record["family"], record["n"]) for record in records] == [
        ("dense", 64),
        ("3-regular", 512),
        ("Pegasus", 680),
    ]
    for record in records:
        assert record["ratio"] > 0
        assert abs(record["difference_in_errors"]) < 5


@pytest.mark.parametrize("kind", ["bits", "groups"])
def test_planted_labels_are_the_lowest_states(kind: losses.Kind) -> None:
    problem = losses.Planted(16, kind, seed=1)
    test = problem.sample(20, torch.Generator().manual_seed(0))
    linear, couplings = problem.planted()
    A = SparseQubo(linear + test.p, problem.edges, couplings.expand(20, -1))
    assert torch.equal(solve(A, ExhaustiveSearch(), 1, groups=problem.groups).states[:, 0], test.x_true)


@pytest.mark.parametrize("kind", ["bits", "groups"])
def test_every_loss_for_many_bits_trains(kind: losses.Kind) -> None:
    for loss in losses.losses_for(losses.Planted(16, kind)):
        found = losses.trained(losses.Task(kind, 16, loss, 0, quick=True))
        assert found["bits_right"] > 60


def test_hinge_through_annealing_learns_64_bits() -> None:
    problem, found = losses.Planted(64), []
    test = problem.sample(200, torch.Generator().manual_seed(0), "test")
    how = {"epochs": 8, "instances": 200, "batch_size": 25, "optimizer": Adam(0.5), "validation": None}
    for _ in range(2):
        network = losses.SharedCouplings(problem)
        fit(network, problem, Hinge(), solver=SimulatedAnnealing(reads=5, sweeps=50, seed=0), **how)
        found.append(network.quadratic.detach())
    with torch.no_grad():
        A = network(test.p)
    assert (problem.lowest(A.linear, A.quadratic[0]) == test.x_true).float().mean() > 0.85  # 0.63 before training
    assert torch.equal(*found)  # (seed, step) fixes what the annealer draws


@pytest.mark.parametrize("family", models.FAMILIES)
def test_energies_agree_in_every_form(family: str) -> None:
    make, sizes = models.FAMILIES[family]
    case = make(6 if family == "coloring, one-hot" else sizes[0], 1)
    bits = torch.randint(0, 2, (case.A.shape[2],), generator=torch.Generator().manual_seed(0))
    if case.groups:  # an allowed state: elsewhere the model has penalties
        bits = torch.eye(4, dtype=torch.int64)[torch.arange(6) % 4].flatten()
        assert solve(case.A, ExhaustiveSearch(), 1, groups=case.groups).energies.item() == 0  # a valid coloring
    ours = energies(case.A.to(torch.float64), bits[None, None].double()).item() + case.offset
    values = bits.tolist() if case.bqm.vartype.name == "BINARY" else (2 * bits - 1).tolist()
    assert case.bqm.energy(dict(enumerate(values))) == pytest.approx(ours, abs=1e-4)


def test_curves_have_a_record_for_each_size_and_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("exhaustive", "annealing", "neal")
    monkeypatch.setattr(curves, "ENTRANTS", {name: curves.ENTRANTS[name] for name in names})
    found = list(curves.curves(quick=True))
    assert [record["solver"] for record in found] == [*names] * len(models.FAMILIES)
    for record in found:
        if record["solver"] == "exhaustive" and record["n"] == 40:
            assert record["best"] is None  # too many states
        else:
            assert 0 < record["near"] <= record["best"] < 60


@pytest.mark.parametrize(("p", "seconds"), [(0.9, 2.0), (1.0, 1.0), (0.0, float("inf"))])
def test_time_to_target_reaches_it_with_99_percent(p: float, seconds: float) -> None:
    assert curves.time_to_target(p, 1.0) == pytest.approx(seconds)
