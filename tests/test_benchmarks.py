"""Benchmarks measure what they claim."""

import math
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import annealing, constraints, costs, instances, labels, losses, penalties, samples

from qubolearn import ExhaustiveSearch, SparseQubo, solve


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
    planted = losses.Planted(16, kind, seed=1)
    p, x = planted.draw(20, 0)
    A = SparseQubo(planted.linear + p, planted.edges, planted.couplings.expand(20, -1))
    assert torch.equal(solve(A, ExhaustiveSearch(), 1, groups=planted.groups).states[:, 0], x)


@pytest.mark.parametrize("kind", ["bits", "groups"])
def test_every_loss_for_many_bits_trains(kind: losses.Kind) -> None:
    for loss in losses.losses_for(losses.Planted(16, kind)):
        found = losses.trained(kind, 16, loss, 0, quick=True)
        assert found["bits_right"] > 60


def test_instances_are_raced_to_the_lowest_energy() -> None:
    records = list(instances.instances(quick=True))
    A, _ = instances.instance("dense-60-0")
    for record in records:
        assert record["gap"] >= 0
        assert min(record["energies"]) >= min(min(each["energies"]) for each in records)
    assert {record["solver"]: record["hits"] for record in records}["population"] == 3
    assert A.shape == (1, 60, 60)


def test_annealing_under_inequalities_is_allowed_and_no_worse_than_slack_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = ("knapsack, 100 items", "assignment, 40 jobs on 5 machines")
    monkeypatch.setattr(constraints, "FAMILIES", {name: constraints.FAMILIES[name] for name in kept})
    found = {(record["family"], record["solver"]): record for record in constraints.constraints(quick=True)}
    for family in kept:
        slack = found[family, "neal, slack bits"]
        for ours in (found[family, "population"], found[family, "annealing"]):
            assert ours["allowed"] == ours["instances"]
            assert slack["gap"] is None or ours["gap"] <= slack["gap"]


def test_quadratic_assignments_have_the_energies_of_permutations() -> None:
    case = constraints.quadratic_assignment(np.random.default_rng(0), 2, 3)
    flows, distances = case.parts
    costs = [(flows * distances[np.ix_(p, p)]).sum() for p in map(list, permutations(range(6)))]
    assert constraints.SOLVERS["population"](case, 0.05) == min(costs)
    assert constraints.two_opt(case, 0.05) == min(costs)


@pytest.mark.data("instances")
def test_seconds_to_a_target_follow_from_the_share_of_successes() -> None:
    success = np.array([[0.5, 0.0], [0.99, 0.0], [1.0, 0.0]])
    assert instances._seconds(success, np.array([1.0, 5.0, 20.0])).tolist() == pytest.approx([5.0, math.inf])
    assert instances._seconds(np.array([0.5]), np.array([1.0])) == pytest.approx(math.log2(100))
    assert all(record["low"] is not None for record in list(instances.time_to_target(quick=True))[:2])


def test_losses_from_costs_are_compared() -> None:
    (record,) = costs.quadratic(quick=True)
    assert 0 < record["SPO+"] < record["two-stage"] < 100
    assert 0 < record["QuboLayer"] < record["two-stage"]


def test_linear_costs_agree_with_pyepo() -> None:
    pytest.importorskip("pyepo", reason="pip install pyepo pyomo highspy")
    pytest.importorskip("highspy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pyomo
        (record,) = costs.linear(quick=True)
    assert record["qubolearn"] == pytest.approx(record["PyEPO"], abs=4 * record["difference error"])


def test_boltzmann_machines_are_compared_with_grbm() -> None:
    pytest.importorskip("dwave.plugins.torch.models", reason="pip install dwave-pytorch-plugin einops")
    *records, images = samples.from_samples(quick=True)
    assert images["kl"] < 0.05
    found = [record["log_likelihood"] for record in records]
    assert found == pytest.approx([found[0]] * 4, abs=0.1)  # the last one is GRBM, another implementation


def test_tuned_weights_find_more_optimal_reads_than_the_rule() -> None:
    for record in penalties.penalties(quick=True):
        assert record["tuned_share"] > record["rule_share"] > 0


def test_labels_are_compared_on_test_rows_and_folds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sklearn.datasets import make_multilabel_classification

    X, y = make_multilabel_classification(200, 10, n_classes=4, n_labels=2, random_state=0)
    y[:, 3] = 0  # a label that never occurs
    monkeypatch.setattr(labels, "rows", lambda name: (X[:120], y[:120], X[120:], y[120:]))
    smaller = {
        "MACHINES": labels.MACHINES[5:7],
        "COSTS": labels.COSTS[4:8],
        "FOLDS": 2,
        "INNER": 2,
        "RESAMPLES": 500,
        "FOUND": tmp_path,
    }
    for name, value in smaller.items():
        monkeypatch.setattr(labels, name, value)
    records = list(labels.labels(quick=True))
    monkeypatch.setattr(labels, "compared", None)  # all outcomes are stored
    assert list(labels.labels(quick=True)) == records
    assert [(record["data"], record["part"]) for record in records[::2]] == [
        ("flags", part) for part in labels.PARTS
    ]
    for record in records:
        assert min(record[key] for key in ("qubo", "chain", "chains", "powerset")) > 35  # a constant set: 21
        assert record["interval"][0] < record["qubo"] < record["interval"][1]


@pytest.mark.data("instances")
def test_the_race_on_a_gpu_counts_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "READS_ON_GPU", {1000: 64})
    (record,) = annealing.gset_on_gpu(quick=True, device="cpu", limit=2.0)
    assert 550 <= record["cut"] <= record["best_known"] == 564
    assert record["gap"] == pytest.approx(100 * (564 - record["cut"]) / 564)
