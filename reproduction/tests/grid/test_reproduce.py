"""The command that reproduces everything: what it says, and that it goes on after any end."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grids
import pytest
from grids import processes, wait_until

from quant_reproduction.cli import main, reproduce
from quant_reproduction.grid import tasks as tasks_module
from quant_reproduction.grid.entries import Entry
from quant_reproduction.grid.jobs import Job, Outcome, Store, all_pieces
from quant_reproduction.grid.runner import run_jobs
from quant_reproduction.grid.views import View
from qubolearn.errors import QubolearnError
from qubolearn.provenance import code

SEEDS, WORKERS = 8, 2
OPTIONS = ["reproduce", "tiny", "--seeds", str(SEEDS), "--processes", str(WORKERS), "--out"]
COMMAND = [sys.executable, grids.__file__, *OPTIONS]


def holding(seed: int) -> dict[str, str]:
    """The environment of a grid in which this seed and those after it never end."""
    return {**os.environ, "HOLD": str(seed)}


def records(folder: Path) -> list[str]:
    """Return the stored lines of the tiny grid."""
    path = folder / "tiny.jsonl"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the tiny grid finds in this process when nothing happens to it."""
    folder = tmp_path_factory.mktemp("whole")
    run_jobs(grids.TINY.jobs(SEEDS, False), Store(folder))
    return grids.metrics(folder)


def test_killed_twice_the_same_command_finishes(tmp_path: Path, uninterrupted: Mapping[str, Any]) -> None:
    kept: list[str] = []
    for kill, first_held in ((os.killpg, 2), (os.kill, 4)):  # the second time the parent only
        command = [*COMMAND, str(tmp_path)]
        with subprocess.Popen(command, env=holding(first_held), start_new_session=True) as process:
            wait_until(lambda: len(records(tmp_path)) >= len(kept) + 1)  # noqa: B023
            kill(process.pid, signal.SIGKILL)
            process.wait()
            wait_until(lambda: not processes(process.pid), seconds=10.0)  # no worker outlives its parent
        assert set(kept) <= set(records(tmp_path))
        kept = records(tmp_path)
    again = subprocess.run([*COMMAND, str(tmp_path), "--json"], capture_output=True, check=True, timeout=120)
    result = json.loads(again.stdout)
    assert (result["jobs"], result["done"], result["failed"]) == (SEEDS, SEEDS, [])
    assert set(kept) <= set(records(tmp_path))
    assert grids.metrics(tmp_path) == uninterrupted
    assert Path(result["report"]).is_file()


def test_sigterm_ends_the_jobs_and_says_how_to_go_on(tmp_path: Path) -> None:
    command, pipe = [*COMMAND, str(tmp_path)], subprocess.PIPE
    with subprocess.Popen(command, env=holding(1), start_new_session=True, stderr=pipe) as process:
        wait_until(lambda: len(records(tmp_path)) == 1)
        process.terminate()
        said = process.communicate(timeout=20)[1].decode()
    assert process.returncode == 143
    assert f"stopped; 1 of {SEEDS} jobs are done" in said
    assert "Traceback" not in said
    wait_until(lambda: not processes(process.pid), seconds=10.0)


def test_control_c_in_a_terminal_shows_progress_before_and_the_cursor_after(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        terms = {"TERM": "xterm", "COLUMNS": "120"}
        os.execve(sys.executable, [*COMMAND, str(tmp_path)], holding(1) | terms)
    shown = bytearray()
    while b"1/8" not in shown:
        shown += os.read(terminal, 65536)
    os.write(terminal, b"\x03")  # what the key sends
    with suppress(OSError):  # when the other side has closed
        while got := os.read(terminal, 65536):
            shown += got
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert code == 130
    text = shown.decode()
    assert "run the same command again" in text
    assert "Traceback" not in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


@pytest.fixture
def items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three items in place of the paper's, which run in this process: well, lucky but for seed 1, and without data."""

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
    """Exit code, the object on stdout and what was said on stderr."""
    capsys.readouterr()
    code = main(["reproduce", *words, "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out or "{}"), said.err


@pytest.mark.usefixtures("items")
def test_a_failed_job_is_said_once_and_the_others_are_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result, said = call(capsys, "unlucky", "well", "--out", str(tmp_path))
    assert code == 1
    assert (result["jobs"], result["done"]) == (6, 4)
    log = tmp_path / "logs" / "unlucky_row__column__seed_1.log"
    assert said.count(r"bad\nluck") == 1
    assert rf"failed: unlucky row, column, seed 1 and 1 more: bad\nluck (log: {log})" in said
    assert r"QubolearnError: bad\nluck" in log.read_text()
    assert [failed["job"] for failed in result["failed"]] == [f"unlucky row, column, seed {seed}" for seed in (1, 2)]
    assert result["results"]["well"] == {"row | column": [[0.5, 0.5, 0.5]]}


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


@pytest.mark.usefixtures("items")
def test_the_time_of_the_whole_is_kept_where_one_command_did_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "grid.json"
    for name in ("far", "unlucky"):
        monkeypatch.delitem(reproduce.ENTRIES, name)
    call(capsys, "well", "--out", str(tmp_path / "named"))
    assert not (tmp_path / "named" / "grid.json").exists()
    _, result, _ = call(capsys, "all", "--seeds", "2", "--out", str(tmp_path))
    made = json.loads(kept.read_text())
    (piece,) = made["pieces"]
    assert (made["jobs"], made["seconds"]) == (2, piece["seconds"])
    assert result["whole"] == {"seconds": made["seconds"], "pieces": 1}
    assert (piece["jobs"], piece["commit"]) == (2, code()["commit"])
    before = kept.read_bytes()
    call(capsys, "all", "--seeds", "2", "--out", str(tmp_path))  # which had nothing to do
    _, result, _ = call(capsys, "all", "--seeds", "3", "--out", str(tmp_path))  # and little
    assert kept.read_bytes() == before
    assert "whole" not in result


@pytest.mark.usefixtures("items")
def test_pieces_of_a_run_add_up_and_what_others_made_is_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("far", "unlucky"):
        monkeypatch.delitem(reproduce.ENTRIES, name)
    out = tmp_path / "new"
    first = call(capsys, "all", "--seeds", "3", "--out", str(out))[1]["whole"]
    store, jobs = Store(out), reproduce.ENTRIES["well"].jobs(3, False)
    assert all_pieces(store, jobs) is not None
    kept = json.loads((out / "grid.json").read_text())
    lines = store.path(jobs[0]).read_text().splitlines(keepends=True)
    store.path(jobs[0]).write_text(next(line for line in lines if '"seed":0' in line))
    # as if it had been killed after one job
    kept["pieces"][0]["jobs"] = 1
    (out / "grid.json").write_text(json.dumps(kept))
    assert all_pieces(store, jobs) is None
    _, result, _ = call(capsys, "all", "--seeds", "3", "--out", str(out))
    made = json.loads((out / "grid.json").read_text())
    assert [piece["jobs"] for piece in made["pieces"]] == [1, 2]
    assert result["whole"] == {"seconds": pytest.approx(first["seconds"] + made["pieces"][1]["seconds"]), "pieces": 2}
    store.path(jobs[0]).write_text("".join(lines[1:]))
    made["pieces"].pop()
    (out / "grid.json").write_text(json.dumps(made))  # which made one of the two that are there
    assert "whole" not in call(capsys, "all", "--seeds", "3", "--out", str(out))[1]
    assert json.loads((out / "grid.json").read_text()) == made


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for words, wrong in {
        "randgrph": "unknown item 'randgrph'; did you mean randgraph?",
        "randgraph --seeds 0": "--seeds: expected an integer from 1",
        "randgraph --address 10.0.0.1:6379": "use it with --engine ray",
        "randgraph --device cuda": "--device cuda, but torch finds no GPU here; use cpu",
    }.items():
        code, _, said = call(capsys, *words.split())
        assert code == 2
        assert wrong in said
        assert said.count("\n") == 1
