"""Baselines by name, on the instances that a trained run would be scored on."""

from __future__ import annotations

import os

import pytest

from quant_reproduction.baselines import BASELINES, evaluate_baseline
from quant_reproduction.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.problems.knapsack import Knapsack
from qubolearn.problems.maxcut import MaxCut, local_search
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import stream
from qubolearn.solvers import ExhaustiveSearch

needs_data = pytest.mark.skipif(not os.environ.get("QUBOLEARN_DATA"), reason="QUBOLEARN_DATA names no data folder")


GRAPHS = [name for name, (problems, _) in BASELINES.items() if "randgraph" in problems and name != "guess"]


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_baselines_are_always_right_on_randgraph(name: str) -> None:
    assert evaluate_baseline(name, RandGraph(k=3), ExhaustiveSearch(), 50).metrics["accuracy"] == 1.0


def test_guessing_is_right_as_often_as_chance_is() -> None:
    found = evaluate_baseline("guess", RandGraph(k=3), ExhaustiveSearch(), 3000).metrics["accuracy"]
    assert abs(found - 1 / 6) < 0.03


def test_baselines_of_max_cut_and_knapsack_count_any_best_answer_as_right() -> None:
    cuts, packings = MaxCut(nodes=6), Knapsack(items=5)
    test = cuts.sample(200, stream(3, "test"), "test")
    found = evaluate_baseline("local-search", cuts, ExhaustiveSearch(), 200, 3).metrics["accuracy"]
    assert found == cuts.score(local_search(cuts, test.p), test)["accuracy"].mean().item()
    assert 0.5 < found < 1
    greedy = evaluate_baseline("greedy", packings, ExhaustiveSearch(), 200, 3).metrics
    assert greedy["feasible"] == 1
    assert 0.9 < greedy["value"] == greedy["value_projected"] < 1


@needs_data
def test_procrustes_is_exact_without_noise_and_icp_beats_one_shot_aqm(capsys: pytest.CaptureFixture[str]) -> None:
    from qubolearn.problems import make_problem

    found = evaluate_baseline("procrustes", make_problem("rotation"), ExhaustiveSearch(), 100)
    assert found.metrics["degrees"] < 1e-3
    pointset = make_problem("pointset", test_shapes=5)
    errors = {
        name: evaluate_baseline(name, pointset, ExhaustiveSearch(), 100).metrics["degrees"] for name in ("icp", "aqm")
    }
    assert errors["icp"] < errors["aqm"]
    assert main(["baseline", "direct", "willow", "--instances", "200", "--json"]) == 0


def test_a_baseline_of_another_problem_is_rejected() -> None:
    with pytest.raises(QubolearnError, match="got randgraph"):
        evaluate_baseline("icp", RandGraph(k=3), ExhaustiveSearch())
    with pytest.raises(QubolearnError, match="did you mean icp"):
        evaluate_baseline("icpp", RandGraph(k=3), ExhaustiveSearch())
