"""Commands and the places they write to and read from: links, devices, full disks, odd names, other users."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from qubolearn.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.files import lock_folder

TINY = (
    *("train", "randgraph", "--k", "2", "--topology", "dense", "--layers", "2", "--hidden", "4", "--epochs", "2"),
    *("--instances", "8", "--batch-size", "8", "--validation", "4", "--test", "4", "--device", "cpu"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places") / "run"
    assert main([*TINY, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A device of the test's own: as root, code that is wrong would destroy the system's."""
    path = tmp_path / "device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"gone")
    except PermissionError:
        pytest.skip("no devices can be made here")
    return path


def command(*words: str | Path, **settings: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "qubolearn", *map(str, words)]
    given = {"stderr": subprocess.PIPE, "text": True, "timeout": 120, **settings}
    return subprocess.run(line, check=False, **given)  # type: ignore[call-overload, no-any-return]


# --- links (issue 17, point 21) and outputs (22)


def test_plot_writes_no_file_outside_the_run(run: Path) -> None:
    victim = run.parent / "victim"
    victim.write_text("precious")
    (run / "curves.png").symlink_to("../victim")
    assert main(["plot", str(run)]) == 0
    assert victim.read_text() == "precious"
    assert not (run / "curves.png").is_symlink()


def test_train_writes_no_file_outside_the_run(run: Path) -> None:
    for name in ("model.safetensors", "checkpoint.safetensors"):
        (run / name).unlink()
    victim = run.parent / "victim"
    victim.write_text("precious")
    for name in ("metrics.jsonl", "result.json"):
        (run / name).unlink()
        (run / name).symlink_to("../victim")
    for number in (os.getpid(), os.getpid() + 1):
        (run / f".metrics.jsonl.{number}.tmp").symlink_to("../victim")
    assert main([*TINY, "--out", str(run)]) == 0
    assert victim.read_text() == "precious"


def test_a_linked_folder_of_events_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("model.safetensors", "checkpoint.safetensors"):
        (run / name).unlink()
    (run.parent / "victim").mkdir()
    (run / "tensorboard").symlink_to("../victim")
    assert main([*TINY, "--out", str(run), "--tensorboard"]) == 2
    assert "tensorboard is a link" in capsys.readouterr().err
    assert not list((run.parent / "victim").iterdir())


def test_instances_go_through_devices_links_and_pipes(device: Path, tmp_path: Path) -> None:
    words = ["instances", "randgraph", "--k", "2", "--count", "3", "--out"]
    (tmp_path / "null").symlink_to(device)
    for target in (device, tmp_path / "null"):
        assert main([*words, str(target)]) == 0
        assert stat.S_ISCHR(target.stat().st_mode)
    (tmp_path / "real.npz").touch(mode=0o600)
    (tmp_path / "link.npz").symlink_to("real.npz")
    assert main([*words, str(tmp_path / "link.npz")]) == 0
    assert (tmp_path / "link.npz").is_symlink()
    assert stat.S_IMODE((tmp_path / "real.npz").stat().st_mode) == 0o600
    assert len(np.load(tmp_path / "real.npz")["p"]) == 3


def test_tables_are_filled_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("no table")
    (tmp_path / "link.md").symlink_to("real.md")
    assert main(["tables", str(tmp_path / "link.md"), "--results", str(tmp_path)]) == 0
    assert (tmp_path / "link.md").is_symlink()


# --- full disks


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["--help", "train --help", "evaluate {run} --instances 4", "tables {page} --json"])
def test_a_full_disk_behind_stdout_is_one_line(words: str, run: Path) -> None:
    page = run.parent / "page.md"
    page.write_text("no table")
    with open("/dev/full", "w") as full:
        done = command(*words.format(run=run, page=page).split(), stdout=full)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "qubolearn: error: No space left on device (standard output)"
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error_to_speak_of(run: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = command("evaluate", run, "--instances", "4", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_full_disk_under_plot_is_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(run.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    assert main(["plot", str(run)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(run.iterdir()) == before


# --- odd names


def test_names_that_look_like_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "x[" / "y]" / "[red]:smile:"
    assert main([*TINY, "--out", str(folder)]) == 0
    assert str(folder) in capsys.readouterr().out
    assert main(["plot", str(folder)]) == 0
    assert f"{folder}/curves.png" in capsys.readouterr().out


def test_names_that_look_like_markup_when_stopped(tmp_path: Path) -> None:
    folder = f"{tmp_path}/x[/y]"
    words = [*TINY, "--epochs", "1000000", "--out", folder]
    line = [sys.executable, "-m", "qubolearn", *words]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 90
        while not Path(folder, "metrics.jsonl").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert f"--out {folder}" in said
    assert "Traceback" not in said


def test_paths_that_are_no_text(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.rename(run, folder)
    name = os.fsdecode(folder)
    done = command("plot", name, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    for words in (["evaluate", name, "--instances", "4"], ["train", *TINY[1:], "--out", name]):
        assert main(words) == 0
    capsys.readouterr()
    assert main(["evaluate", name + "x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    made = command("instances", "randgraph", "--k", "2", "--out", name + "/p.npz", "--json", stdout=subprocess.PIPE)
    assert json.loads(made.stdout)["out"] == name + "/p.npz"


# --- writers and users


def test_a_second_training_of_a_folder_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("model.safetensors", "checkpoint.safetensors"):
        (run / name).unlink()
    with lock_folder(run):
        assert main([*TINY, "--out", str(run)]) == 2
    assert "is being written by another training" in capsys.readouterr().err
    assert main([*TINY, "--out", str(run)]) == 0


@contextmanager
def as_user(number: int) -> Iterator[None]:
    """As in containers that run under a number which no file of users knows, in group 0, with umask 002."""
    before = os.umask(0o002)
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(0)
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_any_user_id_will_do_and_the_next_one_goes_on(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A volume that belongs to a group: what one member writes, another one resumes, replaces and reads."""
    monkeypatch.setenv("HOME", "/")
    with TemporaryDirectory() as made:
        Path(made).chmod(0o775)
        folder = Path(made, "run")
        with as_user(54321):
            assert main([*TINY, "--out", str(folder)]) == 0
            assert main(["plot", str(folder)]) == 0
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o664}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o775
        for name in ("model.safetensors", "checkpoint.safetensors"):
            (folder / name).unlink()
        with as_user(54322):
            assert main([*TINY, "--out", str(folder)]) == 0
            assert main(["plot", str(folder)]) == 0
            assert main(["evaluate", str(folder), "--instances", "4"]) == 0
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o664}


def test_a_user_without_a_home_hears_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from qubolearn.problems.data import data_root

    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("QUBOLEARN_DATA", raising=False)
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(QubolearnError, match="set QUBOLEARN_DATA"):
        data_root()


def test_demo_without_matplotlib_shows_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from qubolearn.cli import demo

    real: Callable[[str], object] = demo.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "matplotlib" else real(name))
    assert main(["demo", "--out", str(tmp_path), "--epochs", "1"]) == 0
    said = capsys.readouterr().out
    assert "quant" in said
    assert "no pictures: drawing needs: pip install 'qubolearn[plots]'" in said
    assert not list(tmp_path.rglob("*.png"))
