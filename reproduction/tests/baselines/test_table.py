"""Baselines by name."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from quant_reproduction.baselines import BASELINES, evaluate_baseline, local_search, three_flips
from quant_reproduction.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.problems.knapsack import Knapsack, greedy_by_density
from qubolearn.problems.maxcut import MaxCut, cut_sizes
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import stream
from qubolearn.solvers import ExhaustiveSearch

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


def test_the_baseline_of_max_cut_ends_in_a_local_optimum() -> None:
    problem = MaxCut(nodes=9)
    test = problem.sample(300, stream(0, "test"), "test")
    x = local_search(problem, test.p)
    size = cut_sizes(x, test.p)
    assert (size <= cut_sizes(test.x_true, test.p)).all()
    assert problem.score(x, test)["accuracy"].mean() > 0.5
    assert (cut_sizes(local_search(problem, test.p, 10), test.p) >= size).all()
    for node in range(9):
        moved = x.clone()
        moved[:, node] = 1 - moved[:, node]
        assert (cut_sizes(moved, test.p) <= size).all()


def test_three_flips_leave_no_better_packing_nearby() -> None:
    problem = Knapsack(items=7)
    test = problem.sample(100, stream(0, "test"), "test")
    values, weights, capacity = test.p[:, :7], test.p[:, 7:-1], test.p[:, -1]
    x = three_flips(problem, test.p)
    worth = (x * values).sum(1)
    assert ((x * weights).sum(1) <= capacity).all()
    assert (worth >= (greedy_by_density(problem, test.p) * values).sum(1)).all()
    for flipped in (set(some) for number in (1, 2, 3) for some in combinations(range(7), number)):
        other = torch.stack([1 - x[:, item] if item in flipped else x[:, item] for item in range(7)], 1)
        fits = (other * weights).sum(1) <= capacity
        assert not (fits & ((other * values).sum(1) > worth)).any()


@pytest.mark.data("modelnet10")
@pytest.mark.data("shapes2d")
@pytest.mark.data("willow")
def test_procrustes_is_exact_without_noise_and_icp_beats_one_shot_aqm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from qubolearn.problems import make_problem

    found = evaluate_baseline("procrustes", make_problem("rotation"), ExhaustiveSearch(), 100)
    assert found.metrics["degrees"] < 1e-3
    pointset = make_problem("pointset", test_shapes=5)
    errors = {
        name: evaluate_baseline(name, pointset, ExhaustiveSearch(), 100).metrics["degrees"]
        for name in ("icp", "aqm")
    }
    assert errors["icp"] < errors["aqm"]
    assert main(["baseline", "direct", "willow", "--instances", "200", "--json"]) == 0


def test_a_baseline_of_another_problem_is_rejected() -> None:
    with pytest.raises(QubolearnError, match="got randgraph"):
        evaluate_baseline("icp", RandGraph(k=3), ExhaustiveSearch())
    with pytest.raises(QubolearnError, match="did you mean icp"):
        evaluate_baseline("icpp", RandGraph(k=3), ExhaustiveSearch())
