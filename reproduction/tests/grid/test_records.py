"""Records and their keys."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from quant_reproduction.datasets.files import cached_data, data_root, note_file
from quant_reproduction.grid import tasks as module
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Outcome, Store, run_job
from quant_reproduction.grid.runner import run_jobs
from qubolearn import recipes
from qubolearn.problems import make_problem
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import Recipe, recipe_for

RESULTS = Path(__file__).parents[2] / "results"


def stale() -> list[Job]:
    """Return jobs of the full grid whose file is not theirs."""
    store = Store(RESULTS)
    jobs = [job for entry in ENTRIES.values() for job in entry.jobs(3, False)]
    known = [job for job in jobs if job.place in store._records(store.paths(job.item)[0])]
    return [job for job in known if store.get(job) is None]


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
    """Return a task that reads data/words.txt through a cache."""
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


def test_a_record_stores_which_code_data_command_and_machine_made_it_and_when(reading: Path) -> None:
    outcomes = run_jobs([job(0), job(1), job(2, read=False)], Store(reading / "out"), suffix=" --quick")
    records = [Store(reading / "out").get(outcome.job) or {} for outcome in outcomes]
    digest = hashlib.sha256(b"three small words").hexdigest()
    assert [record["data"] for record in records] == [{"data/words.txt": digest}] * 2 + [{}]
    for record in records:
        assert record["command"] == f"quant reproduce --key {record['key']} --quick"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record["date"])
        assert re.fullmatch(r"[0-9a-f]{12}", record["source"])
        assert {"versions", "machine"} <= record.keys()
        assert str(reading) not in json.dumps(record)


def test_records_of_unknown_code_stay_valid(reading: Path) -> None:
    store = Store(reading / "out")
    record = run_job(job(0)).record
    assert record is not None
    newer = ("source", "commit", "dirty", "data", "date")
    old = {name: value for name, value in record.items() if name not in newer}
    store.put(Outcome(job(0), old))
    assert store.get(job(0)) == old
