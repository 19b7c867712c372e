"""Promise 2: run folders hold complete files."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from child_training import CONFIG, PROBLEM, ChildTraining

from qubolearn.errors import QubolearnError
from qubolearn.files import is_temporary, write_atomic
from qubolearn.recipes import train
from qubolearn.runs import LEFT_BEHIND, Run
from qubolearn.training.callbacks import StopIf
from qubolearn.training.optimizers import FlatAdam


@pytest.fixture(scope="module")
def child() -> Iterator[ChildTraining]:
    made = ChildTraining()
    yield made
    made.close()


def check_whole(folder: Path) -> None:
    """Load everything that a kill left, down to the last byte."""
    if not (folder / "config.json").exists():
        assert all(map(is_temporary, folder.iterdir())) if folder.exists() else True
        return
    run = Run.open(folder)
    steps = [record["step"] for record in run.metrics()]
    assert len(steps) + 1 == (folder / "metrics.jsonl").read_bytes().count(b"\n") if steps else True
    if (folder / "checkpoint.safetensors").exists():
        network = run.network()
        run.restore(network, FlatAdam(network), 10**6)


def kill_at_random(child: ChildTraining, folder: Path, kills: int, rng: random.Random) -> dict[str, int]:
    """Train, kill -9 and resume; every run must end in the same bits."""
    want = train(PROBLEM, CONFIG).state_dict()
    counts = {"kills": 0, "of them while a file was written": 0, "runs ended in the same bits": 0}
    longest = 1.0
    while counts["kills"] < kills:
        process, began = child.start(folder), time.monotonic()
        time.sleep(rng.random() ** 2 * longest)  # rather early
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        code = child.wait()
        check_whole(folder)
        if code == -signal.SIGKILL:
            counts["kills"] += 1
            counts["of them while a file was written"] += any(map(is_temporary, folder.glob(".*")))
            for path in filter(is_temporary, folder.glob(".*")):
                path.unlink()
        else:
            assert code == 0
            longest = 0.9 * (time.monotonic() - began)
            found = Run.open(folder).network().state_dict()
            assert all(torch.equal(found[name], tensor) for name, tensor in want.items())
            counts["runs ended in the same bits"] += 1
            shutil.rmtree(folder)
    return counts


def test_a_few_kills_leave_whole_files(child: ChildTraining, tmp_path: Path) -> None:
    kill_at_random(child, tmp_path / "run", 8, random.Random(0))
    child.start(tmp_path / "run")
    assert child.wait() == 0  # and whatever they left is resumed to its end
    assert Run.open(tmp_path / "run").finished


@pytest.mark.soak
def test_hundreds_of_kills_leave_whole_files(
    child: ChildTraining, tmp_path: Path, figures: dict[str, Any]
) -> None:
    counts = kill_at_random(child, tmp_path / "run", 300, random.Random(1))
    assert counts["of them while a file was written"] >= 5, "too few kills hit a write to mean anything"
    assert counts["runs ended in the same bits"] >= 2
    figures["kill -9"] = counts


def test_what_killed_processes_left_is_swept_up_after_an_hour(tmp_path: Path) -> None:
    Run.create(tmp_path, PROBLEM, CONFIG)
    old, new = tmp_path / ".model.safetensors.1.tmp", tmp_path / ".model.safetensors.2.tmp"
    old.touch()
    new.touch()
    os.utime(old, (time.time() - LEFT_BEHIND - 60,) * 2)
    Run.create(tmp_path, PROBLEM, CONFIG)
    assert new.exists()
    assert not old.exists()


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Let writes beyond ``size`` bytes fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_and_the_last_checkpoint_kept(tmp_path: Path) -> None:
    asked = iter(range(7))
    run = Run.create(tmp_path, PROBLEM, CONFIG)
    train(PROBLEM, CONFIG, run, callbacks=[StopIf(lambda: next(asked) == 6)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with (
        disk_of(6000),
        pytest.raises(QubolearnError, match="safetensors"),
    ):
        train(PROBLEM, CONFIG, run, callbacks=[StopIf(lambda: True)])
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after["checkpoint.safetensors"] == before["checkpoint.safetensors"]
    assert set(after) == set(before), "nothing half-written stays"
    with disk_of(100), pytest.raises(QubolearnError, match=r"metrics\.jsonl"):
        train(PROBLEM, CONFIG, run)
    network = train(PROBLEM, CONFIG, run)  # there is room again
    assert all(
        torch.equal(a, b)
        for a, b in zip(network.parameters(), train(PROBLEM, CONFIG).parameters(), strict=True)
    )


@contextmanager
def read_only_folder() -> Iterator[Path]:
    """Return a run folder that even root may only read."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "run"
        train(PROBLEM, CONFIG, Run.create(folder, PROBLEM, CONFIG), callbacks=[StopIf(lambda: True)])
        folder.chmod(0o555)
        Path(made).chmod(0o555)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)  # nobody
            yield folder
        finally:
            os.seteuid(user)
            Path(made).chmod(0o755)
            folder.chmod(0o755)


def test_a_read_only_folder_is_reported_and_can_still_be_read() -> None:
    with read_only_folder() as folder:
        run = Run.create(folder, PROBLEM, CONFIG)
        with pytest.raises(QubolearnError, match=r"metrics\.jsonl: Permission denied"):
            train(PROBLEM, CONFIG, run)
        with pytest.raises(QubolearnError, match="Permission denied"):
            Run.create(folder / "inner", PROBLEM, CONFIG)
        assert Run.open(folder).network() is not None


def test_a_file_in_the_way_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for place in ("file", "file/run", "file/deep/run"):
        with pytest.raises(QubolearnError, match="file"):
            Run.create(tmp_path / place, PROBLEM, CONFIG)
    with pytest.raises(QubolearnError, match="file"):
        write_atomic(tmp_path / "file" / "x.json", b"x")
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("call", ["os.replace", "os.fsync", "os.open"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_any_step_of_a_write_may_fail(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(call, fail)
    with pytest.raises(QubolearnError if isinstance(error, OSError) else KeyboardInterrupt):
        write_atomic(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() in (b"old", b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fsync, replace_ = os.fsync, os.replace

    def flush(descriptor: int) -> None:
        calls.append("folder flushed" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file flushed")
        fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        calls.append("renamed")
        replace_(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    write_atomic(tmp_path / "x", b"whole")
    assert calls == ["file flushed", "renamed", "folder flushed"]
    assert (tmp_path / "x").read_bytes() == b"whole"
