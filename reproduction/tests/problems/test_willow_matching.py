"""Matching ten keypoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from quant_reproduction.couplings import structured
from quant_reproduction.datasets.files import data_root
from quant_reproduction.datasets.willow import CLASSES
from quant_reproduction.problems.willow import Willow
from quant_reproduction.problems.willow_matching import (
    Assignment,
    KeypointPair,
    WillowMatching,
    decode_matching,
    encode_matching,
    nearest_matching,
)
from qubolearn import ExhaustiveSearch, Groups, solve
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import evaluate, evaluate_bits
from qubolearn.random import stream
from qubolearn.recipes import preset, train
from qubolearn.runs import Run

needs_willow = pytest.mark.skipif(
    not (data_root() / "willow" / "willow_vgg16_features.npz").is_file(),
    reason="needs $QUBOLEARN_DATA/willow",
)


def test_matchings_are_bits_and_back() -> None:
    P = torch.stack([torch.randperm(10, generator=torch.Generator().manual_seed(seed)) for seed in range(5)])
    x = encode_matching(P)
    assert x.sum(1).tolist() == [10] * 5
    assert decode_matching(x).equal(P)
    assert nearest_matching(x).equal(x)
    broken = x.clone()
    broken[:, :10] = 0  # the first row says nothing: only one column is left for it
    assert (decode_matching(broken)[:, 0] == -1).all()
    assert nearest_matching(broken).equal(x)
    with pytest.raises(QubolearnError, match=r"\[1, 8\]"):
        decode_matching(torch.zeros(1, 8))


@needs_willow
def test_the_answer_joins_keypoints_of_one_number_and_classes_take_turns() -> None:
    problem = WillowMatching(split_seed=3)
    found = problem.sample(50, stream(0, "test"), "test")
    # a nearest neighbor is right more often than by chance
    pair = KeypointPair.from_flat(found.p, problem.features)
    cosines = pair.features[:, 0] @ pair.features[:, 1].mT
    x = encode_matching(cosines.argmax(2))
    assert evaluate_bits(problem, x, found).metrics["accuracy"] > 0.4
    assert evaluate_bits(problem, found.x_true, found).metrics["accuracy"] == 1
    assert problem.score(found.answer.flip(0), found)["accuracy"].mean() < 0.3
    again = problem.sample(50, stream(0, "test"), "test")
    assert again.p.equal(found.p)


@needs_willow
@pytest.mark.parametrize("seed", [0, 1])
def test_splits_are_disjoint_by_content(seed: int) -> None:
    from quant_reproduction.problems.willow_matching import _load

    problem = WillowMatching(split_seed=seed, validation_images=4)
    sources = _load(str(data_root() / "willow"), "cpu").sources
    sides = {split: problem.members(split) for split in ("train", "validation", "test")}  # type: ignore[arg-type]
    for name in sides["test"]:
        known = {sources[image] for side in ("train", "validation") for image in sides[side][name]}
        assert len(sides["train"][name]) == 16
        assert len(sides["validation"][name]) == 4
        assert not known & {sources[image] for image in sides["test"][name]}
        assert not set(sides["train"][name]) & set(sides["validation"][name])


@needs_willow
def test_validation_needs_its_own_images() -> None:
    with pytest.raises(QubolearnError, match="got 0"):
        WillowMatching().sample(5, stream(0, "validation"), "validation")
    with pytest.raises(QubolearnError, match="got 19"):
        WillowMatching(images=20, validation_images=19)


@needs_willow
def test_quick_tasks_score_every_class_and_the_best_permutation() -> None:
    found = structured.matched_pairs(0, "quant", quick=True) | structured.matched_pairs(0, "diag", quick=True)
    for name in ("quant", "diag", "diag, Hungarian"):
        kinds = [found[name][f"accuracy_{kind}"] for kind in CLASSES]
        assert found[name]["accuracy"] == pytest.approx(sum(kinds) / 5)
        assert 0.2 < found[name]["accuracy"] <= 1
    assert found["diag, Hungarian"]["accuracy"] > found["diag"]["accuracy"]
    assert found["quant"]["accuracy_projected"] == found["quant"]["accuracy"]  # a permutation


@needs_willow
def test_willow_with_all_ten_keypoints_is_trained_under_the_standard_protocol(tmp_path: Path) -> None:
    problem, recipe = preset("best", "willow", k=10, epochs=1, instances=30, hidden=8)
    assert isinstance(problem, WillowMatching)
    assert problem.bits == 100
    assert isinstance(preset("paper", "willow", k=10).problem, Willow)
    run = Run.create(tmp_path / "run", problem, recipe)
    train(problem, recipe, run)
    again = Run.open(tmp_path / "run", WillowMatching)
    assert again.problem == problem
    found = evaluate(again.network(), problem, instances=5)  # by the problem's own solver
    assert found.metrics["accuracy_projected"] == found.metrics["accuracy"]


def test_an_assignment_takes_its_rows_as_groups_and_no_others() -> None:
    A = torch.diag(torch.tensor([-3.0, -2.0, -2.5, 0.0]))[None]
    solver = Assignment(ExhaustiveSearch())
    assert solve(A, solver, 1, groups=Groups.consecutive(2, 2)).states.tolist() == [[[0.0, 1.0, 1.0, 0.0]]]
    with pytest.raises(QubolearnError, match="rows"):
        solve(A, solver, 1, groups=Groups([[0, 1]]))
