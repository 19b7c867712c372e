"""Records: the key is what was asked for, and beside the numbers stands which code and data made them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from quant_reproduction.grid import tasks as module
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Outcome, Store, by_code, run_job
from quant_reproduction.grid.runner import run_jobs
from qubolearn import provenance, recipes
from qubolearn.data.files import cached_data, data_root, files_read, note_file
from qubolearn.problems import make_problem
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import Recipe, recipe_for

RESULTS = Path(__file__).parents[2] / "results"


def stale() -> list[Job]:
    """Jobs of the full grid that have a file in results/ which is not theirs."""
    store = Store(RESULTS)
    jobs = [job for entry in ENTRIES.values() for job in entry.jobs(3, False)]
    return [job for job in jobs if job.place in store._records(store.path(job)) and store.get(job) is None]


def test_new_fields_with_defaults_make_no_record_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stale() == []

    @dataclass(frozen=True)
    class WiderGraph(RandGraph):
        added: int = 7

    @dataclass(frozen=True)
    class LongerRecipe(Recipe):
        added: float = 0.5

    monkeypatch.setattr("qubolearn.problems.randgraph.RandGraph", WiderGraph)
    monkeypatch.setattr(recipes, "Recipe", LongerRecipe)
    problem = make_problem("randgraph", k=4)
    assert "added" in {field.name for field in fields(problem)} & {  # type: ignore[arg-type]
        field.name for field in fields(recipe_for("best", problem))
    }
    assert stale() == []


def test_another_question_is_another_key() -> None:
    asked = Job("item", "row", "column", 0, "train", {"problem": {"k": 4}, "tests": ({"label": "a"},)})
    others = [
        replace(asked, seed=1),
        replace(asked, task="stages"),
        replace(asked, options={"problem": {"k": 5}, "tests": ({"label": "a"},)}),
    ]
    assert len({job.key for job in (asked, *others)}) == 4
    assert replace(asked, row="another", column="place").key == asked.key
    assert replace(asked, options=json.loads(json.dumps(asked.options))).key == asked.key


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A task that reads the file data/words.txt of the data folder, through a cache."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("three small words")
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))

    @cached_data(4)
    def words(name: str) -> list[str]:
        note_file(data_root() / "data" / name)
        return (data_root() / "data" / name).read_text().split()

    def task(seed: int, **options: Any) -> dict[str, Any]:
        return {"words": {"count": len(words("words.txt")) if options["read"] else 0}}

    monkeypatch.setitem(module.TASKS, "note", task)
    return tmp_path


def job(seed: int, read: bool = True) -> Job:
    return Job("item", "row", "column", seed, "note", {"read": read})


def test_a_record_says_which_code_data_command_and_machine_made_it_and_when(reading: Path) -> None:
    outcomes = run_jobs([job(0), job(1), job(2, read=False)], Store(reading / "out"), command="quant reproduce item")
    records = [Store(reading / "out").get(outcome.job) or {} for outcome in outcomes]
    digest = hashlib.sha256(b"three small words").hexdigest()
    assert [record["data"] for record in records] == [{"data/words.txt": digest}, {"data/words.txt": digest}, {}]
    for record in records:
        assert record["command"] == "quant reproduce item"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record["date"])
        assert re.fullmatch(r"[0-9a-f]{12}", record["source"])
        assert {"versions", "machine"} <= record.keys()
        assert str(reading) not in json.dumps(record)


def test_files_outside_the_data_folder_are_named_without_their_path(reading: Path) -> None:
    (reading / "data" / "more.txt").write_text("")
    os.environ["QUBOLEARN_DATA"] = "/nowhere"  # which the fixture resets
    with files_read() as found:
        note_file(reading / "data" / "more.txt")
    assert list(found) == ["more.txt"]


def test_a_folder_of_pictures_is_one_file_whose_digest_says_names_and_contents(reading: Path) -> None:
    """The digest is what sha256sum says of the lines that sha256sum prints of its files, in order."""

    def digest() -> str:
        with files_read() as found:
            note_file(reading / "data")
        return found["data"]

    (reading / "data" / "a").mkdir()
    (reading / "data" / "a" / "b.jpg").write_bytes(b"b")
    lines = [(b"b", "a/b.jpg"), (b"three small words", "words.txt")]
    listed = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for content, name in lines)
    first = digest()
    assert first == hashlib.sha256(listed.encode()).hexdigest()
    (reading / "data" / "a" / "b.jpg").rename(reading / "data" / "a" / "c.jpg")
    assert digest() != first


def test_records_of_other_and_of_unknown_code_are_counted_and_stay_valid(reading: Path) -> None:
    store = Store(reading / "out")
    record = run_job(job(0)).record
    assert record is not None
    old = {name: value for name, value in record.items() if name not in ("source", "commit", "dirty", "data", "date")}
    assert by_code([record, {**record, "source": "0" * 12}, old, old]) == {"this": 1, "other": 1, "unknown": 2}
    store.put(Outcome(job(0), old))
    assert store.get(job(0)) == old


COPY = "import json, qubolearn.provenance as p; print(p.__file__); print(json.dumps(p.code()))"


def code_of(folder: Path) -> dict[str, Any]:
    """What a copy of the package says of itself."""
    path = os.pathsep.join([str(folder), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", "-c", COPY]  # without site, whose finder of the editable install comes first
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    file, code = done.stdout.splitlines()
    assert file.startswith(str(folder))
    found: dict[str, Any] = json.loads(code)
    return found


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=nobody@example.org"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not there")
def test_commit_and_dirt_are_said_in_a_checkout_only(tmp_path: Path) -> None:
    package = tmp_path / "qubolearn"
    package.mkdir()
    for name in ("provenance.py", "version.py"):
        shutil.copy(provenance.PACKAGE / name, package / name)
    (package / "__init__.py").write_text("")
    plain = code_of(tmp_path)
    assert plain.keys() == {"source"}
    git(tmp_path, "init", "-q")
    (tmp_path / "other").write_text("of somebody else")
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "-qm", "one")
    assert code_of(tmp_path) == plain  # the package lies in a checkout that does not know it
    git(tmp_path, "add", "qubolearn")
    git(tmp_path, "commit", "-qm", "two")
    assert code_of(tmp_path) == {**plain, "commit": git(tmp_path, "rev-parse", "HEAD"), "dirty": False}
    (package / "cli").mkdir()
    (package / "cli" / "shown.py").write_text("")
    shown = code_of(tmp_path)
    assert (shown["dirty"], shown["source"]) == (True, plain["source"])  # what only shows computes nothing
    (package / "__init__.py").write_text("x = 1\n")
    assert code_of(tmp_path)["source"] != plain["source"]
