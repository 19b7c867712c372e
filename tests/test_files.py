"""Files are written whole."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.files import (
    is_temporary,
    lock_folder,
    read_bytes,
    read_json,
    read_metadata,
    read_records,
    read_tensors,
    write_atomic,
    write_json,
    write_output,
    write_records,
    write_tensors,
)

TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.zeros(0), "c": torch.tensor(3)}


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """Return a device: as root, wrong code would destroy real ones."""
    path = tmp_path / "device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"gone")
    except PermissionError:
        pytest.skip("no devices can be made here")
    return path


# --- links, devices, pipes and modes


def test_links_in_a_folder_are_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "curves.png").symlink_to("../victim")
    write_atomic(tmp_path / "run" / "curves.png", b"new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "run" / "curves.png").read_bytes() == b"new"
    assert not (tmp_path / "run" / "curves.png").is_symlink()


@pytest.mark.parametrize("write", [write_atomic, write_output])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(write: object, mode: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path, b"new")  # type: ignore[operator]
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    """With umask 002 a group can replace each other's files."""
    before = os.umask(0o002)
    try:
        write_atomic(tmp_path / "x", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o664


def test_outputs_follow_links(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("not-yet")
    write_output(tmp_path / "link", b"new")
    write_output(tmp_path / "dangling", b"first")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    assert (tmp_path / "not-yet").read_bytes() == b"first"


def test_outputs_go_through_devices_and_pipes(device: Path, tmp_path: Path) -> None:
    write_output(device, b"gone")
    assert stat.S_ISCHR(device.stat().st_mode)
    (tmp_path / "null").symlink_to(device)
    write_output(tmp_path / "null", b"gone")
    assert (tmp_path / "null").is_symlink()
    assert stat.S_ISCHR(device.stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_output(tmp_path / "pipe", b"through")
    reader.join(timeout=10)
    assert got == [b"through"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("write", [write_atomic, write_output])
def test_a_folder_is_not_a_file(write: object, tmp_path: Path) -> None:
    for path in (tmp_path, Path("/")):
        with pytest.raises(QubolearnError, match=str(path)):
            write(path, b"x")  # type: ignore[operator]
    assert not any(map(is_temporary, tmp_path.parent.iterdir()))


READERS = {
    "bytes": lambda path: read_bytes(path, 100),
    "JSON": read_json,
    "records": lambda path: read_records(path, 100),
    "tensors": lambda path: read_tensors(path, TENSORS),
    "metadata": read_metadata,
}


@pytest.mark.parametrize("kind", READERS)
def test_a_pipe_raises_and_does_not_block(kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")

    def stop(*_: object) -> None:
        raise TimeoutError("the reader waits for a writer")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(5)
    try:
        for name in ("pipe", "link"):
            with pytest.raises(QubolearnError, match=name):
                READERS[kind](tmp_path / name)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- the lock


def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from qubolearn.files import lock_folder\n"
        "with lock_folder(Path(sys.argv[1])):\n    print('held', flush=True); input()"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(QubolearnError, match="another training"), lock_folder(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with lock_folder(tmp_path):
        pass


# --- checksums


def same(found: dict[str, Tensor]) -> bool:
    return found.keys() == TENSORS.keys() and all(torch.equal(found[name], TENSORS[name]) for name in found)


RECORDS = [{"step": 0, "loss": 1.25}, {"step": 7, "loss": -0.5}]
VALUE = {"seed": 0, "rates": {"b": [1.5, 2], "a": "text", "10": 1, "9": 2}}
#: Write a file; read it and return True if it is the same.
CHECKED: dict[str, tuple[Callable[[Path], object], Callable[[Path], bool]]] = {
    "tensors": (
        lambda path: write_tensors(path, TENSORS, step=3),
        lambda path: same(read_tensors(path, TENSORS)[0]),
    ),
    "JSON": (
        lambda path: write_json(path, VALUE, checksum=True),
        lambda path: {name: read_json(path)[name] for name in VALUE} == VALUE,
    ),
    "records": (
        lambda path: write_records(path, RECORDS),
        lambda path: read_records(path, 10**6)[:2] == RECORDS,
    ),
}


@pytest.mark.parametrize("kind", CHECKED)
def test_a_flipped_bit_is_found(kind: str, tmp_path: Path) -> None:
    path, (write, read_same) = tmp_path / "x", CHECKED[kind]
    write(path)
    assert read_same(path)
    whole = path.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(whole)), 1000):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with suppress(QubolearnError):
            assert read_same(path), bit


def test_files_without_a_checksum_are_read(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(TENSORS, tmp_path / "x", {"format_version": "1"})
    assert same(read_tensors(tmp_path / "x", TENSORS)[0])
    (tmp_path / "x.json").write_text('{"seed": 3}')
    assert read_json(tmp_path / "x.json") == {"seed": 3}
    (tmp_path / "x.jsonl").write_text('{"step": 3}\n{"st')
    assert read_records(tmp_path / "x.jsonl", 10**6) == [{"step": 3}]


def test_paths_that_are_not_text(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    folder.mkdir()
    write_tensors(folder / "x", TENSORS)
    assert same(read_tensors(folder / "x", TENSORS)[0])
    with pytest.raises(QubolearnError, match=r"\\udcff\\udcfe") as caught:
        read_json(folder / "missing")
    assert str(caught.value).isprintable()
