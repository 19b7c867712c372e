"""Promise 5: untrusted files."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dimod
import file_fuzzing
import numpy as np
import pytest
import torch
from file_fuzzing import CONFIG, PROBLEM, Kind
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from qubolearn.data.files import load_npz
from qubolearn.errors import QubolearnError
from qubolearn.files import MAX_JSON
from qubolearn.qubo import from_bqm
from qubolearn.qubo.files import read_bqm
from qubolearn.recipes import train
from qubolearn.runs import MAX_WEIGHTS, Run

KINDS = ("coo", "bqm", "run json", "metrics", "model", "checkpoint", "npz instances")
#: Inputs of the long test.
COUNTS = {
    "coo": 600_000,
    "bqm": 300_000,
    "run json": 80_000,
    "metrics": 30_000,
    "npz instances": 30_000,
    **dict.fromkeys(("model", "checkpoint"), 6_000),
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    return file_fuzzing.kinds(tmp_path_factory.mktemp("files"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / "run", PROBLEM, CONFIG)
    train(PROBLEM, CONFIG, made)
    return made


@pytest.mark.parametrize("name", KINDS)
def test_mutated_files_are_read_or_rejected(name: str, kinds: dict[str, Kind]) -> None:
    refused = file_fuzzing.fuzz(kinds[name], 60, f"short {name}")
    assert refused > 0 or name == "metrics"  # bad metrics are skipped


@settings(max_examples=80, deadline=None)
@given(name=st.sampled_from(("coo", "bqm", "metrics", "run json")), data=st.binary())
def test_any_bytes_are_read_or_rejected(name: str, data: bytes) -> None:
    file_fuzzing.rejects(SHARED[name], data)


SHARED: dict[str, Kind] = {}


@pytest.fixture(autouse=True, scope="module")
def share_kinds(kinds: dict[str, Kind]) -> Iterator[None]:
    """hypothesis takes no fixtures of a module as arguments."""
    SHARED.update(kinds)
    yield
    SHARED.clear()


@pytest.mark.soak
def test_a_million_mutated_files_are_read_or_rejected(tmp_path: Path, figures: dict[str, Any]) -> None:
    memory = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    halves = {name: count // 2 for name, count in COUNTS.items()}
    processes = []
    for seed in range(2):
        folder = memory / f"qubolearn-soak-{os.getpid()}-{seed}"
        words = [sys.executable, "-W", "error", file_fuzzing.__file__]
        words += [json.dumps(halves), str(seed), str(folder)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append((folder, process))
    found = []
    for folder, process in processes:
        out, err = process.communicate()
        subprocess.run(["rm", "-r", str(folder)], check=True)
        assert process.returncode == 0, err[-3000:]
        found.append(json.loads(out))
    figures["fuzzing"] = {
        name: {key: sum(part[name][key] for part in found) for key in ("inputs", "refused")}
        for name in COUNTS
    }
    assert sum(kind["inputs"] for kind in figures["fuzzing"].values()) >= 1_000_000


class Evil:
    """A pickle that runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_pickles_are_never_loaded(run: Run, tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    evil = pickle.dumps(Evil(trap))
    model = run.folder / "model.safetensors"
    for write in (
        lambda: model.write_bytes(evil + bytes(4096)),
        lambda: torch.save({"a": Evil(trap)}, model),
    ):
        write()
        with pytest.raises(QubolearnError, match=r"model\.safetensors"):
            run.network()
    (run.folder / "config.json").write_bytes(evil)
    with pytest.raises(QubolearnError, match=r"config\.json"):
        Run.open(run.folder)
    np.savez(tmp_path / "p.npz", p=np.array([Evil(trap)], dtype=object))
    (tmp_path / "q.npz").write_bytes(evil)
    for name in ("p.npz", "q.npz"):
        with pytest.raises(QubolearnError, match=name):
            load_npz(tmp_path / name, {"p": ("f", 2)})
    assert not trap.exists()
    pickle.loads(evil)
    assert trap.exists(), "the trap works"


def peak_of(call: Callable[[], object]) -> int:
    """Return the peak bytes of a call that must reject its input."""
    tracemalloc.start()
    try:
        with pytest.raises(QubolearnError) as caught:
            call()
        assert "\n" not in str(caught.value)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_oversized_files_are_rejected_before_they_are_read(run: Run, tmp_path: Path) -> None:
    with (run.folder / "config.json").open("wb") as file:
        file.truncate(2**36)  # 64 GiB of nothing
    assert peak_of(lambda: Run.open(run.folder)) < 4 * MAX_JSON

    model = run.folder / "model.safetensors"
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**34], "data_offsets": [0, 2**36]}}).encode()
    with model.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 2**36)
    assert peak_of(lambda: run.network()) < 2**24


@pytest.mark.parametrize(
    ("option", "value"),
    [("hidden", 10**9), ("layers", 10**9), ("hidden", 2**62), ("hidden", 200_000), ("layers", 200_000)],
)
def test_a_config_cannot_ask_for_a_network_larger_than_memory(run: Run, option: str, value: int) -> None:
    path = run.folder / "config.json"
    header = json.loads(path.read_text())
    header["training"][option] = value
    del header["sha256"]
    path.write_text(json.dumps(header))
    with pytest.raises(QubolearnError, match=f"limits {MAX_WEIGHTS}"):
        Run.open(run.folder)


def test_zip_bombs_are_rejected(tmp_path: Path) -> None:
    """64 MiB, packed to 64 kB; the header says 2 GiB or 1000 bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.npy", b"\x93NUMPY\x01\x00" + bytes(2**26))
    data = bytearray(buffer.getvalue())
    size_in_directory = data.rindex(b"PK\x01\x02") + 24
    for claimed in (2**31, 1000):
        data[size_in_directory : size_in_directory + 4] = struct.pack("<I", claimed)
        (tmp_path / "bomb.zip").write_bytes(data)
        assert peak_of(lambda: load_npz(tmp_path / "bomb.zip", {"p": ("f", 2)})) < 2**23
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 2**20


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_rejected(run: Run, value: float) -> None:
    weights = {name: tensor.clone() for name, tensor in run.network().state_dict().items()}
    weights["body.linears.0.weight"][0, 0] = value
    save_file(weights, run.folder / "model.safetensors")
    with pytest.raises(QubolearnError, match=r"linears\.0\.weight"):
        run.network()


def test_bqm_files_are_read_as_dimod_reads_them() -> None:
    rng = np.random.default_rng(0)
    for vartype in ("BINARY", "SPIN"):
        for size in (1, 2, 7):
            bqm = dimod.BinaryQuadraticModel(
                rng.normal(size=(size, size)) * (rng.random((size, size)) < 0.6), vartype
            )
            bqm.relabel_variables({i: f"v{i}" for i in range(size)})
            with bqm.to_file() as file:
                A, offset = read_bqm(file.read())
            want, want_offset = from_bqm(bqm)
            torch.testing.assert_close(A.dense()[0], want)
            assert offset == pytest.approx(want_offset)


def test_a_bqm_file_cannot_choose_its_size() -> None:
    with dimod.BinaryQuadraticModel({"a": 1.0}, {("a", "b"): 1.0}, 0.0, "BINARY").to_file() as file:
        data = file.read()
    for shape in ("[9, 1]", "[2, 9]", "[1e9, 1]", "[99999999999, 1]", "[-2, 1]", "[2, -1]"):
        changed = data.replace(b'"shape": [2, 1]', f'"shape": {shape}'.encode())
        grown = len(changed) - len(data)
        changed = changed[:10] + struct.pack("<I", struct.unpack("<I", data[10:14])[0] + grown) + changed[14:]
        assert peak_of(lambda: read_bqm(changed)) < 2**22, shape  # noqa: B023
    with pytest.raises(QubolearnError, match="n=500000"):
        from_bqm(dimod.BinaryQuadraticModel(500000, "BINARY"))
    with pytest.raises(QubolearnError, match="finite"):
        from_bqm(dimod.BinaryQuadraticModel({0: float("nan")}, {}, 0.0, "BINARY"))
