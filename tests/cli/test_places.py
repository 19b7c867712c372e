"""Commands and the places they write to and read from: links, devices, full disks, odd names, other users."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qubolearn.cli import main
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


def command(*words: str | Path, **settings: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "qubolearn", *map(str, words)]
    given = {"stderr": subprocess.PIPE, "text": True, "timeout": 120, **settings}
    return subprocess.run(line, check=False, **given)  # type: ignore[call-overload, no-any-return]


# --- links (issue 17, point 21) and outputs (22)


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


# --- full disks


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["--help", "train --help", "evaluate {run} --instances 4", "runs {run} --json"])
def test_a_full_disk_behind_stdout_is_one_line(words: str, run: Path) -> None:
    with open("/dev/full", "w") as full:
        done = command(*words.format(run=run).split(), stdout=full)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "qubolearn: error: No space left on device (standard output)"
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error_to_speak_of(run: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = command("evaluate", run, "--instances", "4", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


# --- odd names


def test_names_that_look_like_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "x[" / "y]" / "[red]:smile:"
    assert main([*TINY, "--out", str(folder)]) == 0
    assert str(folder) in capsys.readouterr().out
    assert main(["plot", str(folder)]) == 0
    assert f"{folder}/curves.png" in capsys.readouterr().out


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
