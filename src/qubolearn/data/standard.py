"""Standard instances of the data folder with their best known values."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

from qubolearn.data.files import load_npz
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.files import read_bytes
from qubolearn.qubo.files import Instance, max_cut, read_qubo
from qubolearn.qubo.interchange import add_up

#: The most bytes of a file of best known values.
MAX_BYTES = 2**24
#: Arrays of a graph and of a QUBO, with their dtypes and dimensions.
GRAPH = {"edges": ("iu", 2), "weights": ("iuf", 1)}
QUBO = {"i": ("iu", 1), "j": ("iu", 1), "value": ("iuf", 1)}


def load_instance(name: str) -> Instance:
    """Return an instance of the folder ``instances`` below ``$QUBOLEARN_DATA``.

    Collections are .npz files with ``NAME_edges``, ``NAME_weights`` and ``NAME_n`` of
    graphs, or ``NAME_i``, ``NAME_j``, ``NAME_value`` and ``NAME_n`` of QUBOs; best known
    values are in ``*_best.json``. Other files are named without their suffix.
    """
    where = _places()
    if name not in where:
        raise unknown_name("instance", name, sorted(where))
    path, is_graph = where[name]
    if is_graph is None:
        return read_qubo(path)
    kinds = GRAPH if is_graph else QUBO
    arrays = load_npz(path, {f"{name}_{key}": kind for key, kind in {**kinds, "n": ("iu", 0)}.items()})
    first, second, *rest = (arrays[f"{name}_{key}"] for key in (*kinds, "n"))
    if is_graph:
        made = Instance(max_cut(first, second, int(rest[0])), format="rudy", is_cut=True)
    else:
        entries = list(zip(first.tolist(), second.tolist(), map(float, rest[0]), strict=True))
        made = Instance(add_up(entries, int(rest[1])), format="coo")
    best = path.with_name(f"{path.stem}_best.json")
    known = json.loads(read_bytes(best, MAX_BYTES)).get(name, {}) if best.is_file() else {}
    value = -known["best_cut"] if "best_cut" in known else known.get("best_energy")
    return replace(made, best=None if value is None else float(value))


def instance_names() -> list[str]:
    """Return the names that :func:`load_instance` takes."""
    return list(_places())


def _places() -> dict[str, tuple[Path, bool | None]]:
    """Return the file of each instance; True is a collection's graph, False its QUBO."""
    found: dict[str, tuple[Path, bool | None]] = {}
    folder = Path(os.environ.get("QUBOLEARN_DATA") or "~/.cache/qubolearn").expanduser() / "instances"
    if not folder.is_dir():
        raise QubolearnError(f"no folder {folder}; set QUBOLEARN_DATA to the folder that holds instances/")
    for path in sorted(folder.iterdir()):
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                arrays = [entry.filename.removesuffix(".npy") for entry in archive.infolist()]
            names = [key.removesuffix("_n") for key in arrays if key.endswith("_n")]
            found |= {name: (path, f"{name}_edges" in arrays) for name in names}
        elif path.suffix not in (".json", ".md"):
            found[path.stem] = (path, None)
    return found
