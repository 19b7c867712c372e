"""Snakes on grids of different sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator

from quant_reproduction.networks import GridBody
from quant_reproduction.problems.snakes import STEPS, Snakes, grid_pattern, on_canvas, random_snakes
from qubolearn import Adam, solve
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import evaluate, evaluate_bits
from qubolearn.networks import QuboNetwork
from qubolearn.problems import make_problem
from qubolearn.qubo import SparseQubo
from qubolearn.recipes import make_loss, new_network, preset
from qubolearn.testing import check_problem
from qubolearn.training.fit import fit

GENERATED = Snakes(source="generated")


def test_contract() -> None:
    check_problem(GENERATED)


def test_colors_show_where_the_snake_goes() -> None:
    codes, labels = on_canvas(random_snakes(20, seed=5), 12, 12)
    for code, label in zip(codes, labels, strict=True):
        place = {int(label[i, j]): (i, j) for i, j in label.nonzero().tolist()}
        assert sorted(place) == list(range(1, 11))
        for number in range(1, 10):
            i, j = place[number]
            down, right = STEPS[int(code[i, j]) - 2]
            assert place[number + 1] == (i + down, j + right)
        assert ((code == 1) == (label == 0))[code > 0].all()


def test_a_larger_canvas_changes_no_entry_of_the_grid_and_couples_no_padding() -> None:
    torch.manual_seed(0)
    small, large = (replace(GENERATED, rows=side, columns=side + 1) for side in (10, 12))
    p = [problem.whole("test").rows(slice(0, 3)).p for problem in (small, large)]
    networks = [
        QuboNetwork(GridBody(*problem.grid, hidden=4), problem.topology()) for problem in (small, large)
    ]
    networks[1].load_state_dict(networks[0].state_dict())
    energies = []
    for problem, network, cells in zip((small, large), networks, p, strict=True):
        A = network(cells)
        assert isinstance(A, SparseQubo)
        padding = (cells == 0).repeat_interleave(11, 1)
        assert (A.linear[padding] == 0).all()
        assert (A.quadratic[padding[:, A.edges].any(1)] == 0).all()
        found = solve(A, problem.default_solver(), 1, clamp=problem.clamp(cells), groups=problem.groups)
        assert (problem.decode(found.states[:, 0])[cells == 0] == 0).all()
        energies.append(found.energies)
    torch.testing.assert_close(energies[0], energies[1])


def test_couplings_are_those_of_the_two_cells() -> None:
    torch.manual_seed(0)
    rows, columns, labels = 2, 3, 3
    body = GridBody(rows, columns, 5, labels, hidden=4)
    p = torch.randint(1, 6, (1, 6)).float()
    pattern, outputs, u = grid_pattern(rows, columns, labels), body(p)[0], body.windows(p)[0]
    assert len(outputs) == pattern.size
    for place, (i, j) in enumerate(pattern.couplers):
        (cell, a), (other, b) = divmod(i, labels), divmod(j, labels)
        way = body.pairs[0 if other == cell + 1 and other % columns else 1]
        want = way(torch.cat([u[cell], u[other]])).reshape(labels, labels)[a, b]
        torch.testing.assert_close(outputs[pattern.n + place], want)
    assert pattern.couplers == tuple(sorted(pattern.couplers))


def test_a_few_steps_learn_and_every_method_trains() -> None:
    problem = GENERATED
    before = None
    for method in ("diag", "pure", "quant"):
        recipe = preset("best", "snakes", source="generated", method=method, hidden=16).recipe
        network = new_network(problem, recipe)
        if before is None:
            before = evaluate(network, problem, instances=5, split="validation").metrics["accuracy"]
        short = {"epochs": 3, "batch_size": 15, "instances": 150, "validation": None}
        fit(network, problem, make_loss(recipe, problem), optimizer=Adam(1e-2), **short)
    after = evaluate(network, problem, instances=5, split="validation").metrics["accuracy"]
    assert after > max(0.6, before or 0)


def test_scores_leave_padding_out() -> None:
    test = GENERATED.whole("test").rows(slice(0, 4))
    assert evaluate_bits(GENERATED, test.x_true, test).metrics["all_right"] == 1
    nothing = GENERATED.score(torch.zeros_like(test.answer), test)
    cells = (test.p > 0).sum(1)
    torch.testing.assert_close(nothing["accuracy"], (cells - 10) / cells)
    assert nothing["snake"].max() == 0
    assert (GENERATED.score(torch.full_like(test.answer, -1), test)["accuracy"] == 0).all()


def test_bad_input_is_reported() -> None:
    with pytest.raises(QubolearnError, match="got 7"):
        GENERATED.clamp(torch.ones(1, 7))
    with pytest.raises(QubolearnError, match="got 6"):
        GridBody(2, 2, 5, 3)(torch.full((1, 4), 6.0))
    with pytest.raises(QubolearnError, match="3 x 11"):
        replace(GENERATED, rows=3).sample(1, Generator())
    with pytest.raises(QubolearnError, match="got 200"):
        replace(GENERATED, held_out=200).sample(1, Generator())
    with pytest.raises(QubolearnError, match="held_out"):
        replace(GENERATED, held_out=0).sample(1, Generator(), "validation")
    graphs = make_problem("randgraph", k=2)
    with pytest.raises(QubolearnError, match="RandGraph"):
        make_loss(preset("best", "randgraph", k=2, loss="group-pseudo").recipe, graphs)
    for choice in ({"topology": "own"}, {"network": "grid"}, {"network": "keypoints"}):
        with pytest.raises(QubolearnError, match="RandGraph"):
            new_network(graphs, preset("best", "randgraph", k=2, **choice).recipe)
