"""Max-cut and knapsack against loops."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from qubolearn import evaluate
from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.networks import PairwiseBody, QuboNetwork
from qubolearn.plots import answers
from qubolearn.problems import Instances
from qubolearn.problems.knapsack import Knapsack, greedy_by_density
from qubolearn.problems.maxcut import MaxCut, cut_sizes
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import stream
from qubolearn.recipes import preset, train
from qubolearn.runs import Run
from qubolearn.testing import check_problem


@pytest.mark.parametrize("problem", [MaxCut(), MaxCut(nodes=11), Knapsack(), Knapsack(items=4)])
def test_the_contract_holds(problem: MaxCut | Knapsack) -> None:
    check_problem(problem)


def states(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=n))


@pytest.mark.parametrize("nodes", [4, 5, 7])
def test_right_cuts_are_all_optimal_cuts(nodes: int) -> None:
    instances = MaxCut(nodes=nodes, answers="all").sample(20, stream(0, "test"))
    pairs = list(itertools.combinations(range(nodes), 2))
    for p, x_true, _, right in (instances.rows(slice(row, row + 1)) for row in range(20)):
        edges = [pair for pair, there in zip(pairs, p[0].tolist(), strict=True) if there]
        cuts = {x: sum(x[i] != x[j] for i, j in edges) for x in states(nodes)}
        want = {x for x, size in cuts.items() if size == max(cuts.values())}
        assert right is not None
        found = [tuple(map(int, row)) for row in right.states[right.valid].tolist()]
        assert set(found) == want
        assert len(found) == len(want)  # none twice
        assert tuple(map(int, x_true[0].tolist())) in want
        assert cut_sizes(x_true, p).item() == max(cuts.values())


def test_labels_are_random_and_splits_share_no_graph() -> None:
    problem = MaxCut(nodes=4)  # 64 graphs only
    seen = {name: problem.sample(500, stream(0, name), name) for name in ("train", "validation", "test")}  # type: ignore[arg-type]
    graphs = {name: set(map(tuple, found.p.tolist())) for name, found in seen.items()}
    assert not graphs["train"] & graphs["validation"]
    assert not graphs["train"] & graphs["test"]
    assert not graphs["validation"] & graphs["test"]
    assert sum(map(len, graphs.values())) == 64
    assert seen["train"].right is None  # what collected data would tell
    assert seen["train"].x_true[:, 0].mean().item() == pytest.approx(0.5, abs=0.1)


def test_right_packings_are_all_optimal_packings() -> None:
    problem = Knapsack(items=6)
    instances = problem.sample(200, stream(3, "test"))
    assert instances.right is not None
    for row in range(200):
        numbers = instances.p[row].tolist()
        values, weights, capacity = numbers[:6], numbers[6:12], numbers[12]
        fits = [x for x in states(6) if sum(a * b for a, b in zip(weights, x, strict=True)) <= capacity]
        worth = {x: sum(a * b for a, b in zip(values, x, strict=True)) for x in fits}
        want = {x for x, value in worth.items() if value == max(worth.values())}
        valid = instances.right.valid[row]
        assert {tuple(map(int, x)) for x in instances.right.states[row, valid].tolist()} == want


def test_repair_and_scores_of_a_knapsack() -> None:
    problem = Knapsack(items=3)
    p = torch.tensor([[60.0, 100.0, 100.0, 10.0, 20.0, 30.0, 50.0]]).expand(3, -1)
    x_true = torch.tensor([[0.0, 1.0, 1.0]]).expand(3, -1)
    x = torch.tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    found = problem.score(x, Instances(p, x_true, x_true))
    assert found["feasible"].tolist() == [0, 1, 1]
    assert found["value"].tolist() == [0, 1, 0.5]
    assert problem.project(x, p).tolist() == [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    assert greedy_by_density(problem, p)[0].tolist() == [1, 1, 0]


def test_sizes_out_of_range_are_rejected() -> None:
    for nodes in (3, 17):
        with pytest.raises(QubolearnError, match=f"nodes={nodes}"):
            MaxCut(nodes=nodes)
    for items in (2, 17):
        with pytest.raises(QubolearnError, match=f"items={items}"):
            Knapsack(items=items)


def test_renaming_nodes_renames_the_entries_of_a_pairwise_network() -> None:
    problem, pattern = MaxCut(nodes=6), topology("dense", 6)
    torch.manual_seed(0)
    network = QuboNetwork(PairwiseBody(problem, pattern, 8), pattern)
    i, j = torch.triu_indices(6, 6, 1)
    W = torch.zeros(1, 6, 6)
    W[:, i, j] = W[:, j, i] = problem.sample(1, stream(0, "test")).p
    names = torch.randperm(6)
    A, B = network(W[:, i, j]), network(W[:, names][:, :, names][:, i, j])
    torch.testing.assert_close(B, A[:, names][:, :, names])
    with pytest.raises(QubolearnError, match="features"):
        PairwiseBody(RandGraph(k=3), topology("dense", 6), 8)


def test_couplings_pay_on_max_cut() -> None:
    accuracy, small = {}, {"nodes": 6, "epochs": 6, "instances": 1410, "validation": 100}
    for head in ("coupled", "uncoupled", "direct"):
        problem, recipe = preset("best", "maxcut", head=head, **small)
        accuracy[head] = evaluate(train(problem, recipe), problem, instances=500).metrics["accuracy"]
    assert accuracy["coupled"] > max(accuracy["uncoupled"], accuracy["direct"]) + 0.5


@pytest.mark.parametrize("name", ["maxcut", "knapsack"])
def test_runs_draw_unseen_instances_with_their_answers(name: str, tmp_path: Path) -> None:
    problem, recipe = preset("best", name, epochs=1, instances=141, validation=10)
    run = Run.create(tmp_path, problem, recipe)
    train(problem, recipe, run=run)
    left, right = answers(run, count=2)
    assert left.get_xlabel() != right.get_xlabel()  # edges cut, items packed
    assert len(left.lines) >= problem.bits
