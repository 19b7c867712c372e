"""Places to read and write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qubolearn.cli import main
from qubolearn.files import lock_folder

TRAIN = (
    "train randgraph --k 2 --topology dense --layers 2 --hidden 4 --epochs 2"
    " --instances 8 --batch-size 8 --validation 4 --test 4 --device cpu --out"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places") / "run"
    assert main(f"{TRAIN} {folder}".split()) == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


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
    assert main(f"{TRAIN} {run}".split()) == 0
    assert victim.read_text() == "precious"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words", ["--help", "train --help", "evaluate {run} --instances 4", "info {run} --json"]
)
def test_a_full_disk_behind_stdout_is_one_line(words: str, run: Path) -> None:
    command = [sys.executable, "-m", "qubolearn", *words.format(run=run).split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "qubolearn: error: No space left on device (standard output)"
    assert "Traceback" not in done.stderr


def test_a_second_training_of_a_folder_is_rejected(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("model.safetensors", "checkpoint.safetensors"):
        (run / name).unlink()
    with lock_folder(run):
        assert main(f"{TRAIN} {run}".split()) == 2
    assert "is being written by another training" in capsys.readouterr().err
    assert main(f"{TRAIN} {run}".split()) == 0
