"""Willow, small and real."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction.baselines.graphs import direct
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.datasets.willow import read_sources, read_willow
from quant_reproduction.problems.willow import Willow, split_images
from qubolearn.data.contract import Split
from qubolearn.errors import QubolearnError

Image = pytest.importorskip("PIL.Image")
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return two classes of ten distorted constellations."""
    random = np.random.default_rng(0)
    entries, features = [], []
    for class_name in ("car", "duck"):
        constellation = random.uniform(20, 80, size=(10, 2))
        for number in range(10):
            keypoints = constellation + random.normal(scale=1.0, size=(10, 2))
            name = f"{class_name}{number}"
            usual = {"class": class_name, "image": name, "file": f"{name}.jpg", "width": 100, "height": 100}
            entries.append(usual | {"keypoints_orig": keypoints.tolist()})
            features.append(np.eye(10) + random.normal(scale=0.1, size=(10, 10)))
    folder = tmp_path / "willow"
    folder.mkdir()
    (folder / "willow_keypoints.json").write_text(json.dumps(entries))
    names = np.array([entry["image"] for entry in entries])
    layers = {f"relu{i}": np.array(features, dtype="float16") for i in range(1, 6)}
    np.savez(folder / "willow_alexnet_features.npz", images=names, **layers)
    vgg = {layer: random.normal(size=(20, 10, 512)).astype("float16") for layer in ("relu4_2", "relu5_1")}
    np.savez(folder / "willow_vgg16_features.npz", images=names, **vgg)
    for name in names.tolist():
        noise = Image.fromarray(random.integers(0, 255, (8, 8, 3), np.uint8))
        noise.resize((64, 64)).save(folder / f"{name}.jpg", quality=95)
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    return folder


def naive_weights(similarity: np.ndarray, x: np.ndarray, y: np.ndarray, tau: float, eta: float) -> np.ndarray:
    """Compute W entry by entry."""
    k = len(x)
    edges = [(i, j) for i in range(k) for j in range(k) if i != j]

    def mean_length(points: np.ndarray) -> float:
        return sum(math.dist(points[i], points[j]) for i, j in edges) / len(edges)

    def difference(i: int, a: int, j: int, b: int) -> tuple[float, float]:
        angle = math.atan2(*(x[j] - x[i])[::-1]) - math.atan2(*(y[b] - y[a])[::-1])
        length = math.dist(x[i], x[j]) / mean_length(x) - math.dist(y[a], y[b]) / mean_length(y)
        return min(abs(angle), 2 * math.pi - abs(angle)), length

    pairs = [(i, a, j, b) for i, j in edges for a, b in edges]
    differences = {pair: difference(*pair) for pair in pairs}
    variances = [sum(d[part] ** 2 for d in differences.values()) / len(pairs) for part in (0, 1)]
    W = np.zeros((k * k, k * k))
    for (i, a, j, b), d in differences.items():
        direction, length = (math.exp(-(d[part] ** 2) / (2 * variances[part])) for part in (0, 1))
        W[k * i + a, k * j + b] = -(1 - tau) * (eta * direction + (1 - eta) * length) / k
    for i in range(k):
        for a in range(k):
            W[k * i + a, k * i + a] = -tau * similarity[i, a]
    return W


def test_weights_against_loops(small: Path) -> None:
    problem = Willow(k=3, tau=0.4, eta=0.7)
    pairs = problem.sample_pairs(4, torch.Generator().manual_seed(0))
    W = problem.weights(pairs)
    images = read_willow(small)
    with np.load(small / "willow_alexnet_features.npz") as arrays:
        features = arrays["relu4"].astype("float64")
    for index in range(4):
        source, target = int(pairs.source[index]), int(pairs.target[index])
        i, a = pairs.source_keypoints[index].numpy(), pairs.target_keypoints[index].numpy()
        f, g = features[source][i], features[target][a]
        similarity = (f @ g.T) / np.outer(np.linalg.norm(f, axis=1), np.linalg.norm(g, axis=1))
        x, y = images.keypoints[source][i].double().numpy(), images.keypoints[target][a].double().numpy()
        naive = naive_weights(similarity, x, y, 0.4, 0.7)
        assert W[index].numpy() == pytest.approx(naive, abs=1e-5)
        naive[~np.eye(9, dtype=bool)] *= 3  # as in the paper: not divided by k
        assert replace(problem, per_node=False).weights(pairs)[index].numpy() == pytest.approx(
            naive, abs=1e-5
        )


@pytest.mark.parametrize("k", [2, 4, 10])
def test_instances_are_pairs_of_one_class_with_uniform_labels(small: Path, k: int) -> None:
    problem = Willow(k=k)
    images = problem.images()
    pairs = problem.sample_pairs(600, torch.Generator().manual_seed(0))
    assert bool((pairs.source != pairs.target).all())
    assert all(
        images.classes[i] == images.classes[j] for i, j in zip(pairs.source, pairs.target, strict=True)
    )
    # node i of the first image is node P(i) of the second
    assert torch.equal(pairs.target_keypoints.gather(1, pairs.P), pairs.source_keypoints)
    assert all(len(set(row)) == k for row in pairs.source_keypoints.tolist())
    shares = torch.bincount(pairs.P[:, 0], minlength=k) / 600
    assert float((shares - 1 / k).abs().max()) < 5 * math.sqrt(1 / k / 600)

    instances = problem.sample(600, torch.Generator().manual_seed(0))
    assert instances.p.shape == (600, problem.input_size)
    assert instances.x_true.shape == (600, problem.bits)
    assert torch.equal(instances.answer, pairs.P)
    assert torch.equal(problem.decode(instances.x_true), pairs.P)
    assert torch.equal(problem.project(instances.x_true, instances.p), instances.x_true)
    assert torch.equal(instances.p, problem.weights(pairs).flatten(1))


def test_splits_share_no_image(small: Path) -> None:
    problem = Willow()
    seen = {}
    for split in SPLITS:
        pairs = problem.sample_pairs(500, torch.Generator().manual_seed(1), split)
        seen[split] = set(pairs.source.tolist()) | set(pairs.target.tolist())
        chosen = split_images(problem.images(), split, 1, range(20))
        assert seen[split] == {index for group in chosen.values() for index in group}
    assert sum(map(len, seen.values())) == len(set.union(*seen.values())) == 20
    assert [len(seen[split]) for split in SPLITS] == [12, 4, 4]


@pytest.mark.parametrize("split", [1, 2])
def test_a_planted_copy_is_on_one_side(small: Path, split: int) -> None:
    """A mirrored, compressed training image becomes a test image."""
    images = read_willow(small)
    blind = {part: split_images(images, part, split, range(20))["car"] for part in SPLITS}
    tested, trained = (images.files[blind[part][0]] for part in ("test", "train"))
    with Image.open(trained) as picture:
        picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tested, quality=20)
    sources = read_sources(images, small)
    problem, sides = Willow(split_seed=split), {}
    for part in SPLITS:
        pairs = problem.sample_pairs(500, torch.Generator().manual_seed(1), part)
        sides[part] = {sources[image] for image in [*pairs.source.tolist(), *pairs.target.tolist()]}
    assert not sides["train"] & sides["test"]
    assert len(set(sources)) == 19


def test_noise_is_for_training_only(small: Path) -> None:
    for split in SPLITS:
        clean = Willow().sample(50, torch.Generator().manual_seed(2), split)
        for noisy in (Willow(jitter=0.1), Willow(rotate=0.3)):
            instances = noisy.sample(50, torch.Generator().manual_seed(2), split)
            assert torch.equal(instances.answer, clean.answer)
            assert torch.equal(instances.p, clean.p) == (split != "train")


def test_direct_matches_real_images() -> None:
    try:
        data_folder("willow")
    except QubolearnError as error:
        pytest.skip(str(error))
    problem = Willow()
    for split in SPLITS:
        instances = problem.sample(846, torch.Generator().manual_seed(0), split)
        found = direct(instances.p.reshape(-1, 16, 16))
        assert float(problem.score(found, instances)["accuracy"].mean()) > 0.97


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 11}, "k from 2 to 10, got 11"),
        ({"layer": "relu6"}, "unknown layer 'relu6'"),
        ({"tau": 1.5}, r"tau .*1\.5"),
        ({"eta": float("nan")}, "eta .*nan"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        Willow(**options)  # type: ignore[arg-type]


def test_missing_data_and_small_classes(tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = json.loads((small / "willow_keypoints.json").read_text())
    (small / "willow_keypoints.json").write_text(json.dumps(entries[:13]))
    with pytest.raises(QubolearnError, match="images of duck"):
        split_images(read_willow(small), "validation", 1, range(13))
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(QubolearnError, match="QUBOLEARN_DATA"):
        Willow().sample(1, torch.Generator())
