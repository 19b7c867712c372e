"""Point sets, and splits of shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quant_reproduction.baselines import evaluate_baseline, icp
from quant_reproduction.datasets import outlines_alike
from quant_reproduction.datasets.files import clear_data_cache, data_root
from quant_reproduction.datasets.shapes2d import NO_CLASS, load_outlines
from quant_reproduction.problems import pointset, split_by_class
from quant_reproduction.problems.clouds import rotation_2d
from quant_reproduction.problems.pointset import CloudPairs, PointSet
from qubolearn.errors import QubolearnError
from qubolearn.problems import Split
from qubolearn.random import stream
from qubolearn.solvers import ExhaustiveSearch

SMALL = {"train_shapes": 12, "test_shapes": 5, "rotations": 6}


@pytest.fixture(autouse=True)
def outlines(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write 130 wobbly circles in 6 classes, and squares without one."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "shapes2d").mkdir()
    rng = np.random.default_rng(0)
    shapes = []
    for _ in range(130):
        around = np.arange(rng.integers(20, 31))
        around = around * 2 * np.pi / len(around)
        radius = 1 + sum(
            rng.normal(scale=0.4 / k) * np.cos(k * around + rng.uniform(0, 6)) for k in range(1, 7)
        )
        shapes.append(np.stack([radius * np.cos(around), -radius * np.sin(around)], 1) + 5)
    shapes += [np.array([(0, 0), (0, 1), (1, 1), (1, 0)], float)] * 3
    np.savez(
        folder / "shapes2d" / "shapes2d_outlines.npz",
        points=np.concatenate(shapes).astype(np.float32),
        offsets=np.cumsum([0, *map(len, shapes)]),
        names=np.array([f"shape-{i}" for i in range(133)]),
        classes=np.array([f"class {i % 6}" for i in range(130)] + [NO_CLASS] * 3),
    )
    monkeypatch.setenv("QUBOLEARN_DATA", str(folder))
    clear_data_cache()
    yield
    clear_data_cache()


def real_points(clouds: CloudPairs, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    return clouds.template[row, : clouds.template_counts[row]], clouds.reference[
        row, : clouds.reference_counts[row]
    ]


@pytest.mark.parametrize(
    "options", [{}, {"starts": 3}, {"form": "features"}, {"starts": 2, "form": "features"}]
)
def test_samples_keep_the_contract(options: dict) -> None:
    problem = PointSet(**SMALL, **options)
    data = problem.sample(50, stream(0, "a"))
    assert data.p.shape == (50, problem.input_size)
    assert data.p.dtype == torch.float32
    assert torch.isfinite(data.p).all()
    assert data.x_true.shape == (50, problem.bits)
    error = problem.score(problem.decode(data.x_true), data)["degrees"]
    assert error.max() <= 60 / 2**9 / 2 + 1e-4
    same, other = problem.sample(50, stream(0, "a")), problem.sample(50, stream(1, "a"))
    assert all(torch.equal(a, b) for a, b in zip(data[:3], same[:3], strict=True))
    assert not torch.equal(data.p, other.p)
    assert problem.sample(0, stream(0, "a")).p.shape == (0, problem.input_size)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_samples_describe_the_pairs(split: str) -> None:
    problem = PointSet(**SMALL, starts=2, noise=0.1, train_noise=0.1)
    clouds = problem.sample_pairs(10_000, stream(1, "a"), split)  # all of them
    data = problem.sample(40, stream(0, "a"), split)
    for row in range(0, 40, 7):
        match = (clouds.angle == data.answer[row]).nonzero()
        template, reference = real_points(clouds, int(match[0]))
        p = problem.describe(template[None], reference[None])
        torch.testing.assert_close(p[0], data.p[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("split", "count"), [("train", 30), ("test", 30), ("validation", 2000), ("test", 2000)]
)
def test_baselines_see_the_instances_that_evaluate_draws(
    split: Split, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pointset, "CHUNK", 16)
    problem = PointSet(**SMALL, starts=2, noise=0.1, train_noise=0.1)
    data = problem.sample(count, stream(3, split), split)
    clouds = problem.sample_pairs(count, stream(3, split), split)
    assert torch.equal(clouds.angle, data.answer)
    for row in range(0, count, count // 6):
        p = problem.describe(*(cloud[None] for cloud in real_points(clouds, row)))
        torch.testing.assert_close(p[0], data.p[row], rtol=1e-4, atol=1e-5)
    found = evaluate_baseline("icp", problem, ExhaustiveSearch(), count, 3, split)
    guess = problem.score(icp(*clouds[:4], [0.0]), data)["degrees"]
    assert (found.instances, found.metrics["degrees"]) == (count, pytest.approx(guess.mean().item()))


def test_reference_is_the_template_turned() -> None:
    clouds = PointSet(**SMALL).sample_pairs(20, stream(0, "a"), "test")
    assert len(clouds.angle) == 20
    turned = clouds.template @ rotation_2d(clouds.angle).mT
    torch.testing.assert_close(turned, clouds.reference, rtol=0, atol=1e-5)
    assert (clouds.angle >= 0).all()
    assert (clouds.angle <= math.pi / 3).all()


def test_noise_stays_within_its_range_and_fills_it() -> None:
    problem = PointSet(**SMALL, noise=0.2)
    clouds = problem.sample_pairs(200, stream(0, "a"), "test")
    template, reference = zip(*(real_points(clouds, row) for row in range(200)), strict=True)
    shares = []
    for y, x, angle in zip(template, reference, clouds.angle, strict=True):
        turned = y @ rotation_2d(angle).mT
        extent = (turned.amax(0) - turned.amin(0)).max()
        spread = (x - turned).amax(0) - (x - turned).amin(0)  # along each axis
        shares.append(spread.max() / extent)
    assert min(shares) > 0.15
    assert max(shares) <= 0.2 + 1e-5


def test_splits_share_no_shape_and_no_square() -> None:
    problem = PointSet(**SMALL)
    seen: set[tuple] = set()
    for split, size in (("train", 12), ("validation", 100), ("test", 5)):
        points, counts = pointset._shapes(problem, split)
        keys = {tuple(shape.flatten().tolist()) for shape in points[:, :20]}
        assert len(keys) == size
        assert not keys & seen
        assert counts.min() >= 20  # squares have no class
        seen |= keys


def plant(name: str, copied: str) -> None:
    """Replace an outline by a turned, mirrored, smaller copy."""
    path = data_root() / "shapes2d" / "shapes2d_outlines.npz"
    arrays = dict(np.load(path))
    shapes = np.split(arrays["points"], arrays["offsets"][1:-1])
    names = arrays["names"].tolist()
    copy = torch.from_numpy(shapes[names.index(copied)]) * torch.tensor([-0.5, 0.5])
    shapes[names.index(name)] = (copy.flip(0) @ rotation_2d(torch.tensor(math.radians(50))).mT).numpy()
    points, offsets = np.concatenate(shapes), np.cumsum([0, *map(len, shapes)])
    np.savez(path, **{**arrays, "points": points, "offsets": offsets})
    clear_data_cache()


def copies_across(problem: PointSet) -> bool:
    """Return True if an outline has a copy in another split."""
    parts, outlines = [], []
    for part in ("train", "validation", "test"):
        for points, count in zip(*pointset._shapes(problem, part), strict=True):
            parts.append(part)
            outlines.append(points[: int(count)].numpy())
    first, second = outlines_alike(outlines).nonzero()
    return any(parts[i] != parts[j] for i, j in zip(first, second, strict=True))


@pytest.mark.parametrize("split", [1, 2, 3])
def test_a_planted_copy_is_on_one_side(split: int) -> None:
    names, classes = load_outlines().names, load_outlines().classes[:130]
    blind = split_by_class(classes, {"test": 5, "validation": 100, "train": 12}, "pointset", split)
    plant(names[blind["test"][0]], names[blind["train"][0]])
    assert not copies_across(PointSet(**SMALL, split_seed=split))


def test_intervals_are_for_held_out_shapes() -> None:
    problem = PointSet(**SMALL, interval="10-20")
    angles = torch.rad2deg(problem.sample_pairs(500, stream(0, "a"), "test").angle)
    assert 10 <= angles.min() < 11
    assert 19 < angles.max() <= 20
    assert torch.rad2deg(problem.sample_pairs(60, stream(0, "a")).angle).max() > 40


def test_starts_turn_the_template_first() -> None:
    problem = PointSet(starts=3, form="features")
    generator = torch.Generator().manual_seed(0)
    template, reference = torch.randn(4, 9, 2, generator=generator), torch.randn(4, 7, 2, generator=generator)
    p = problem.describe(template, reference).reshape(4, 3, 4)
    for part, degrees in enumerate((10.0, 30.0, 50.0)):
        turned = template @ rotation_2d(torch.tensor(math.radians(degrees))).mT
        torch.testing.assert_close(
            p[:, part], replace(problem, starts=0).describe(turned, reference), rtol=1e-4, atol=1e-4
        )


def test_descriptions_ignore_place_size_and_common_turns() -> None:
    problem = PointSet()
    generator = torch.Generator().manual_seed(0)
    template, reference = torch.randn(4, 9, 2, generator=generator), torch.randn(4, 7, 2, generator=generator)
    turn = rotation_2d(torch.tensor(2.0)).mT
    other = problem.describe(3 * template @ turn + 5, 3 * reference @ turn - 7)
    torch.testing.assert_close(other, problem.describe(template, reference), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"angle_bits": 0},
        {"low_degrees": 60.0},
        {"encoding": "octal"},
        {"form": "vector"},
        {"train_noise": -0.1},
        {"noise": math.nan},
        {"neighbors": 0},
        {"starts": -1},
        {"split_seed": 0},
        {"soft_width": -1.0},
        {"interval": "20-10"},
        {"interval": "50-70"},
    ],
)
def test_bad_options_are_rejected(options: dict) -> None:
    with pytest.raises(QubolearnError):
        PointSet(**options)


def test_too_many_shapes_or_points_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="validation shapes"):
        PointSet(train_shapes=500).sample(1, stream(0, "a"))
    with pytest.raises(QubolearnError, match="got 25"):
        PointSet(**SMALL, template_points=25).sample(1, stream(0, "a"))


DATA = data_root()


@pytest.mark.skipif(not (DATA / "shapes2d").is_dir(), reason="needs $QUBOLEARN_DATA/shapes2d")
def test_real_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(DATA))
    problem = PointSet(rotations=2)
    for split, size in (("train", 500), ("validation", 100), ("test", 50)):
        assert len(pointset._shapes(problem, split)[1]) == size
    assert not copies_across(problem)
    assert not copies_across(replace(problem, split_seed=5))
    data = problem.sample(64, stream(0, "a"))
    assert torch.isfinite(data.p).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=12, max_size=60), st.integers(1, 4), st.integers(1, 8))
def test_splits_are_disjoint_and_of_the_right_size(classes: list[str], test: int, train: int) -> None:
    splits = split_by_class(classes, {"test": test, "train": train}, "x")
    assert {name: len(set(chosen)) for name, chosen in splits.items()} == {"test": test, "train": train}
    assert not set(splits["test"]) & set(splits["train"])
    assert set(splits["test"] + splits["train"]) <= set(range(len(classes)))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_no_copy_is_on_two_sides(seed: int, copies: int) -> None:
    rng = np.random.default_rng(seed)
    alike = np.eye(60, dtype=bool)
    for first, second in rng.integers(60, size=(copies, 2)):
        alike[first, second] = alike[second, first] = True
    splits = split_by_class("abc" * 20, {"test": 5, "validation": 4, "train": 10}, "x", seed, alike)
    assert [len(chosen) for chosen in splits.values()] == [5, 4, 10]
    for one, other in (("test", "validation"), ("test", "train"), ("validation", "train")):
        assert not alike[np.ix_(splits[one], splits[other])].any()


def test_too_many_copies_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="0 train shapes"):
        split_by_class("aabb", {"test": 1, "train": 1}, "x", 1, np.ones((4, 4), bool))
