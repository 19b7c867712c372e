"""``quant reproduce``, and how it resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grids
import pytest
from grids import processes, wait_until

from quant_reproduction.cli import main, reproduce
from quant_reproduction.grid import tasks as tasks_module
from quant_reproduction.grid.jobs import Job, Outcome, Store
from quant_reproduction.grid.runner import run_jobs
from quant_reproduction.grid.views import Entry, View
from qubolearn.errors import QubolearnError

SEEDS, WORKERS = 8, 2
OPTIONS = ["reproduce", "tiny", "--seeds", str(SEEDS), "--processes", str(WORKERS), "--out"]
COMMAND = [sys.executable, grids.__file__, *OPTIONS]


def holding(seed: int) -> dict[str, str]:
    """Return an environment in which seeds from this one never end."""
    return {**os.environ, "HOLD": str(seed)}


def records(folder: Path) -> list[str]:
    """Return the stored lines of the tiny grid."""
    path = folder / "tiny.jsonl"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return the results of the tiny grid without interruptions."""
    folder = tmp_path_factory.mktemp("whole")
    run_jobs(grids.TINY.jobs(SEEDS, False), Store(folder))
    return grids.metrics(folder)


def test_killed_twice_the_same_command_finishes(tmp_path: Path, uninterrupted: Mapping[str, Any]) -> None:
    kept: list[str] = []
    for kill, first_held in ((os.killpg, 2), (os.kill, 4)):  # then the parent only
        command = [*COMMAND, str(tmp_path)]
        with subprocess.Popen(command, env=holding(first_held), start_new_session=True) as process:
            wait_until(lambda: len(records(tmp_path)) >= len(kept) + 1)  # noqa: B023
            kill(process.pid, signal.SIGKILL)
            process.wait()
            wait_until(lambda: not processes(process.pid), seconds=10.0)  # no worker outlives it
        assert set(kept) <= set(records(tmp_path))
        kept = records(tmp_path)
    again = subprocess.run([*COMMAND, str(tmp_path), "--json"], capture_output=True, check=True, timeout=120)
    result = json.loads(again.stdout)
    assert (result["jobs"], result["done"], result["failed"]) == (SEEDS, SEEDS, [])
    assert set(kept) <= set(records(tmp_path))
    assert grids.metrics(tmp_path) == uninterrupted
    assert Path(result["report"]).is_file()


def test_sigterm_ends_the_jobs_and_reports_how_to_resume(tmp_path: Path) -> None:
    command, pipe = [*COMMAND, str(tmp_path)], subprocess.PIPE
    with subprocess.Popen(command, env=holding(1), start_new_session=True, stderr=pipe) as process:
        wait_until(lambda: len(records(tmp_path)) == 1)
        process.terminate()
        said = process.communicate(timeout=20)[1].decode()
    assert process.returncode == 143
    assert f"stopped; 1 of {SEEDS} jobs are done" in said
    assert "Traceback" not in said
    wait_until(lambda: not processes(process.pid), seconds=10.0)


@pytest.fixture
def items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return items: one works, one fails for seed 1, one lacks data."""

    def task(seed: int, **options: Any) -> dict[str, Any]:
        if options.get("unlucky") and seed:
            raise QubolearnError("bad\nluck")
        return {"exhaustive": {"accuracy": 0.5}}

    def entry(name: str, data: str = "", **options: Any) -> Entry:
        cell = Job(name, "row", "column", 0, "note", options)
        return Entry(f"About {name}", "Table 1", [cell], (View(name, "", ("accuracy",)),), data=data)

    made = {"well": entry("well"), "unlucky": entry("unlucky", unlucky=True), "far": entry("far", "nowhere")}
    monkeypatch.setitem(tasks_module.TASKS, "note", task)
    monkeypatch.setattr(reproduce, "ENTRIES", made)
    monkeypatch.setattr(reproduce, "pool_of", lambda args, jobs: nullcontext())
    monkeypatch.setenv("QUBOLEARN_DATA", "/dev/null")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    """Return the exit code, the object on stdout and stderr."""
    capsys.readouterr()
    code = main(["reproduce", *words, "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out or "{}"), said.err


@pytest.mark.usefixtures("items")
def test_a_failed_job_is_reported_once_and_the_others_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result, said = call(capsys, "unlucky", "well", "--out", str(tmp_path))
    assert code == 1
    assert (result["jobs"], result["done"]) == (6, 4)
    log = tmp_path / "logs" / "unlucky_row__column__seed_1.log"
    assert said.count(r"bad\nluck") == 1
    assert rf"failed: unlucky row, column, seed 1 and 1 more: bad\nluck (log: {log})" in said
    assert r"QubolearnError: bad\nluck" in log.read_text()
    assert [failed["job"] for failed in result["failed"]] == [
        f"unlucky row, column, seed {seed}" for seed in (1, 2)
    ]
    assert result["results"]["well"] == {"row | column": [[0.5, 0.5, 0.5]]}


@pytest.mark.usefixtures("items")
def test_the_time_and_load_of_the_whole_grid_are_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "ENTRIES", {"well": reproduce.ENTRIES["well"]})
    code, result, _ = call(capsys, "all", "--out", str(tmp_path))
    (piece,) = (grid := json.loads((tmp_path / "grid.json").read_text()))["pieces"]
    assert (code, grid["jobs"], piece["jobs"]) == (0, 3, 3)
    assert result["whole"] == {"seconds": grid["seconds"], "pieces": 1}
    assert 0 <= piece["mean_load"] <= piece["peak_load"] + 0.1


@pytest.mark.usefixtures("items")
def test_all_leaves_out_what_lacks_its_data_and_a_named_item_must_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, said = call(capsys, "well", "far", "--out", str(tmp_path))
    assert code == 2
    assert said.startswith("quant: error: far: no dataset at /dev/null/nowhere; set QUBOLEARN_DATA")
    assert not list(tmp_path.rglob("*.json*"))
    monkeypatch.delitem(reproduce.ENTRIES, "unlucky")
    code, result, said = call(capsys, "all", "--seeds", "1", "--out", str(tmp_path))
    assert code == 0
    assert (result["jobs"], result["done"]) == (1, 1)
    assert said.count("skipping far: no dataset at /dev/null/nowhere") == 1
    assert result["missing_data"]["far"] in said
    done = Job("far", "row", "column", 0, "note", {})
    Store(tmp_path).put(Outcome(done, {"key": done.key, "job": asdict(done), "metrics": {}, "seconds": 1.0}))
    code, result, _ = call(capsys, "far", "--seeds", "1", "--out", str(tmp_path))
    assert (code, result["done"]) == (0, 1)  # what is done already needs no data


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for words, wrong in {
        "randgrph": "unknown item 'randgrph'; did you mean randgraph?",
        "randgraph --seeds 0": "--seeds: 0; expected an integer from 1",
        "randgraph --device cuda": "--device cuda, but torch finds no GPU here; use cpu",
    }.items():
        code, _, said = call(capsys, *words.split())
        assert code == 2
        assert wrong in said
        assert said.count("\n") == 1
