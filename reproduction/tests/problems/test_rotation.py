"""Rotations against Procrustes and scipy."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation as ScipyRotation

from quant_reproduction.baselines import procrustes
from quant_reproduction.datasets import clouds_alike
from quant_reproduction.datasets.files import clear_data_cache, data_root
from quant_reproduction.datasets.modelnet import COMPACT
from quant_reproduction.problems import clouds as clouds_module
from quant_reproduction.problems import rotation
from quant_reproduction.problems.clouds import STAGES, advance, cross_covariance, euler_matrix, solve_stages
from quant_reproduction.problems.rotation import Rotation
from qubolearn.errors import QubolearnError
from qubolearn.random import stream

SMALL = {"train_shapes": 12, "test_shapes": 5, "draws": 8}
FORMS = ["cross", "joint"]
DATA = data_root()


@pytest.fixture(autouse=True)
def clouds(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write 100 random boxes of 50 points; every tenth is a test shape."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "modelnet10").mkdir()
    rng = np.random.default_rng(0)
    sides = rng.uniform(0.3, 2, (100, 1, 3)) * 10 ** rng.uniform(-1, 4, (100, 1, 1))
    np.savez(
        folder / "modelnet10" / COMPACT,
        points=(rng.uniform(-1, 1, (100, 50, 3)) * sides + 10 * sides).astype(np.float32),
        labels=(np.arange(100) // 10 % 5).astype(np.int8),
        is_test=np.arange(100) % 10 == 0,
        names=np.array([f"box_{i}" for i in range(100)]),
        class_names=np.array(["a", "b", "c", "d", "e"]),
    )
    monkeypatch.setenv("QUBOLEARN_DATA", str(folder))
    clear_data_cache()
    yield
    clear_data_cache()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stage", ["alpha", "beta", "gamma", "all"])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_samples_keep_the_contract(stage: str, form: str, noise: float) -> None:
    problem = Rotation(stage, covariance=form, noise=noise, train_noise=noise, **SMALL)
    for split in ("train", "validation", "test"):
        data = problem.sample(40, stream(0, "a"), split)
        assert data.p.shape == (40, problem.input_size)
        torch.testing.assert_close(data.p.norm(dim=1), torch.ones(40))
        assert data.x_true.shape == (40, problem.bits) == (40, 15 if stage == "all" else 5)
        assert data.answer.shape == ((40, 3) if stage == "all" else (40,))
        decoded = problem.decode(data.x_true)
        assert (decoded - data.answer).abs().max() <= math.radians(40 / 32 / 2) + 1e-6
        again = problem.sample(40, stream(0, "a"), split)
        assert all(torch.equal(a, b) for a, b in zip(data[:3], again[:3], strict=True))
    assert not torch.equal(problem.sample(40, stream(1, "a")).p, problem.sample(40, stream(0, "a")).p)


@pytest.mark.parametrize("form", FORMS)
def test_without_noise_procrustes_finds_the_answer(form: str) -> None:
    data = Rotation(covariance=form, **SMALL).sample(30, stream(0, "a"), "test")
    R = procrustes(cross_covariance(data.p))
    assert clouds_module.geodesic_so3(R, euler_matrix(data.answer)).max() < 0.01
    limits = torch.tensor([20.0, 10.0, 20.0])
    spread = torch.rad2deg(Rotation(**SMALL).sample(2000, stream(0, "a")).answer).abs().amax(0)
    assert (spread <= limits).all()
    assert (spread > 0.98 * limits).all()


@pytest.mark.parametrize("leftover", [False, True])
def test_later_stages_see_earlier_angles_undone(leftover: bool) -> None:
    for number, stage in enumerate(STAGES):
        problem = Rotation(stage, leftover=leftover, **SMALL)
        data = problem.sample(300, stream(0, "a"))
        R = procrustes(cross_covariance(data.p)).numpy()
        angles = ScipyRotation.from_matrix(R).as_euler("ZYX")
        for i in range(number):
            half_a_bin = problem.bins(STAGES[i]).width / 2
            largest = np.abs(angles[:, i]).max()
            assert largest < 1e-4 if not leftover else 0.9 * half_a_bin < largest < half_a_bin + 1e-4
        np.testing.assert_allclose(angles[:, number], data.answer.numpy(), atol=1e-3)


def test_euler_angles_are_scipys() -> None:
    angles = torch.rand(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.5
    np.testing.assert_allclose(
        euler_matrix(angles), ScipyRotation.from_euler("ZYX", angles).as_matrix(), atol=1e-12
    )


@pytest.mark.parametrize("form", FORMS)
def test_advance_is_undoing_the_turn_of_the_clouds(form: str) -> None:
    problem = Rotation(covariance=form)
    generator = torch.Generator().manual_seed(0)
    template, reference = torch.randn(2, 6, 9, 3, dtype=torch.float64, generator=generator)
    for stage, axis in zip(STAGES, "zyx", strict=True):
        angle = torch.rand(6, dtype=torch.float64, generator=generator)
        turned = torch.tensor(ScipyRotation.from_euler(axis, -angle[:, None]).as_matrix())
        wanted = problem.describe(template, reference @ turned.mT)
        torch.testing.assert_close(
            advance(problem.describe(template, reference), stage, angle), wanted, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("form", FORMS)
def test_stages_chain(form: str) -> None:
    problem = Rotation(covariance=form, **SMALL)
    data = problem.sample(500, stream(0, "a"), "test")

    def exact(column: int):
        return lambda p: torch.tensor(
            ScipyRotation.from_matrix(procrustes(cross_covariance(p))).as_euler("ZYX").copy()
        )[:, column]

    def binned(column: int):
        bins = problem.bins(STAGES[column])
        return lambda p: bins.decode(bins.encode(exact(column)(p).clamp(bins.low, bins.high)))

    assert problem.score(solve_stages([exact(i) for i in range(3)], data.p), data)["degrees"].max() < 0.02
    error = problem.score(solve_stages([binned(i) for i in range(3)], data.p), data)["degrees"]
    assert 0.45 < error.mean() < 0.6  # 0.625, 0.3125 and 0.625 at most
    assert error.max() < math.hypot(0.625, 0.3125, 0.625) + 0.05


def test_a_share_of_the_points_trade_matches() -> None:
    problem = Rotation(noise=0.2, **SMALL)
    found = problem.clouds(30, stream(0, "a"))
    straight = found.reference @ euler_matrix(found.angles)  # rows x, so x R is Rᵀx
    moved = (straight - found.template).abs().amax(2) > 1e-4
    assert moved.sum(1).tolist() == [10] * 30  # 20 % of 50
    for before, after in zip(found.template, straight, strict=True):
        assert sorted(before[:, 0].tolist()) == pytest.approx(sorted(after[:, 0].tolist()), abs=1e-4)
    assert len({tuple(row.tolist()) for row in moved}) > 20


def test_splits_share_no_shape() -> None:
    problem = Rotation(**SMALL)
    shapes = [rotation._shapes(problem, split) for split in ("train", "validation", "test")]
    assert [len(shape) for shape in shapes] == [12, 60, 5]
    keys = {tuple(cloud.flatten().tolist()) for split in shapes for cloud in split}
    assert len(keys) == 77
    for split in shapes:
        assert split.mean(1).abs().max() < 1e-5
        torch.testing.assert_close(split.square().sum(2).mean(1), torch.ones(len(split)))


def copies_across(problem: Rotation) -> bool:
    shapes = [rotation._shapes(problem, part).numpy() for part in ("train", "validation", "test")]
    side = np.repeat(np.arange(3), [len(part) for part in shapes])
    return bool((clouds_alike(np.concatenate(shapes)) & (side[:, None] != side)).any())


@pytest.mark.parametrize("split", [1, 2])
def test_a_planted_copy_is_on_one_side(split: int) -> None:
    """Every training shape has a mirrored copy among the test shapes."""
    path = data_root() / "modelnet10" / COMPACT
    arrays = dict(np.load(path))
    turn = euler_matrix(torch.tensor([0.5, 1.0, -2.0])).numpy()
    copied = [i for i in range(100) if i % 10 == 3]
    arrays["points"][::10] = 3 * (arrays["points"][copied] * np.float32([1, 1, -1])) @ turn.T
    np.savez(path, **arrays)
    clear_data_cache()
    assert not copies_across(Rotation(train_shapes=20, test_shapes=5, split_seed=split))


@pytest.mark.parametrize(
    "options",
    [
        {"stage": "delta"},
        {"covariance": "own"},
        {"angle_bits": 0},
        {"beta_degrees": math.nan},
        {"encoding": "octal"},
        {"noise": 1.1},
        {"draws": 0},
        {"soft_width": math.inf},
    ],
)
def test_bad_options_are_rejected(options: dict) -> None:
    with pytest.raises(QubolearnError):
        Rotation(**options)


def test_wrong_sizes_are_rejected() -> None:
    with pytest.raises(QubolearnError, match=r"got \[2, 5\]"):
        Rotation().decode(torch.zeros(2, 5))
    with pytest.raises(QubolearnError, match=r"got \[2, 8\]"):
        advance(torch.zeros(2, 8), "alpha", torch.zeros(2))
    with pytest.raises(QubolearnError, match="10 test shapes"):
        Rotation(train_shapes=40).sample(1, stream(0, "a"))


@pytest.mark.skipif(not (DATA / "modelnet10").is_dir(), reason="needs $QUBOLEARN_DATA/modelnet10")
def test_procrustes_on_real_shapes_is_what_the_notes_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(DATA))
    data = Rotation(noise=0.2, draws=10).sample(300, stream(0, "a"), "test")
    error = clouds_module.geodesic_so3(procrustes(cross_covariance(data.p)), euler_matrix(data.answer))
    assert error.mean() == pytest.approx(0.92, abs=0.15)  # the paper prints 75
