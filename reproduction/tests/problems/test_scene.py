"""Labels of pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Generator

from quant_reproduction.datasets.files import data_root
from quant_reproduction.networks import Ensemble
from quant_reproduction.problems.scene import Scene, describe
from quant_reproduction.problems.structured import draw_rows
from qubolearn import SharedQubo, evaluate
from qubolearn.errors import QubolearnError
from qubolearn.recipes import preset, train
from qubolearn.testing import check_problem

GENERATED = Scene(source="generated", held_out=50)


def test_contract() -> None:
    check_problem(GENERATED)


@pytest.mark.parametrize("seed", [0, 3])
def test_splits_share_no_picture_and_are_of_one_size(seed: int) -> None:
    there = (data_root() / "structured" / "scene.npz").is_file()
    problem = Scene(source="data" if there else "generated", split_seed=seed)
    rows = {
        split: {p.numpy().tobytes() for p in problem.whole(split).p}
        for split in ("train", "validation", "test")
    }  # type: ignore[arg-type]
    assert not rows["train"] & rows["test"]
    assert not rows["validation"] & (rows["train"] | rows["test"])
    assert problem.available("validation") == 200
    assert problem.available("test") == Scene(source=problem.source).available("test")


def test_a_mirror_image_has_the_same_description() -> None:
    blocks = torch.rand(3, 6, 7, 7, generator=Generator().manual_seed(0)).numpy()
    same, other = (describe(each.reshape(3, -1)) for each in (blocks[..., ::-1], blocks[:, :, ::-1]))
    found = describe(blocks.reshape(3, -1))
    assert found.shape == (3, 546)
    np.testing.assert_allclose(same, found)
    assert not np.allclose(other, found)


def test_rows_come_equally_often_and_no_more_are_scored_than_there_are() -> None:
    drawn = draw_rows(torch.arange(5), 13, Generator().manual_seed(0))
    assert set(drawn.bincount().tolist()) == {2, 3}
    assert evaluate(SharedQubo(6), GENERATED, instances=10_000).instances == 450
    with pytest.raises(QubolearnError, match="got 500"):
        replace(GENERATED, held_out=500).sample(1, Generator())
    with pytest.raises(QubolearnError, match="got -1"):
        Scene(split_seed=-1)


def test_an_ensemble_returns_the_mean_of_its_qubos() -> None:
    networks = [SharedQubo(3), SharedQubo(3)]
    for number, network in enumerate(networks):
        torch.nn.init.constant_(network.linear, float(number))
        torch.nn.init.constant_(network.quadratic, 4.0 * number)
    A, each = Ensemble(networks)(torch.zeros(2, 1)), [network(torch.zeros(2, 1)) for network in networks]
    torch.testing.assert_close(A, (each[0] + each[1]) / 2)


def test_couplings_help_where_labels_exclude_each_other() -> None:
    found = {}
    for method in ("quant", "diag"):
        options = {"source": "generated", "epochs": 10, "instances": 250, "batch_size": 50}
        problem, recipe = preset("best", "scene", method=method, **options)
        found[method] = evaluate(train(problem, recipe), problem).metrics["accuracy"]
    assert found["quant"] > found["diag"] + 0.02
