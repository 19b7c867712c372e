"""The grid of jobs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from quant_reproduction.grid import tasks as module
from quant_reproduction.grid.jobs import Job, Outcome, Store
from quant_reproduction.grid.runner import run_jobs
from qubolearn.errors import QubolearnError


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Register a task that records its calls and fails for seed 13."""
    seen: list[int] = []

    def task(seed: int, **options: Any) -> dict[str, Any]:
        seen.append(seed)
        if seed == 13:
            raise QubolearnError("unlucky")
        return {"exhaustive": {"accuracy": seed / 10}, "training_seconds": 1.0}

    monkeypatch.setitem(module.TASKS, "note", task)
    return seen


def job(seed: int, **options: Any) -> Job:
    return Job("item", "L5 H78", "quant, best", seed, "note", options)


def test_finished_jobs_are_not_run_again_unless_they_changed(tmp_path: Path, calls: list[int]) -> None:
    store = Store(tmp_path)
    run_jobs([job(0), job(1)], store)
    run_jobs([job(0), job(1), job(2)], store)
    assert calls == [0, 1, 2]
    run_jobs([job(0, hidden=3)], store)
    assert calls == [0, 1, 2, 0]


def test_a_failed_job_is_reported_and_does_not_stop_the_others(tmp_path: Path, calls: list[int]) -> None:
    outcomes = run_jobs([job(0), job(13), job(1)], Store(tmp_path))
    assert [outcome.error for outcome in outcomes] == [None, "unlucky", None]
    assert [outcome.job.seed for outcome in outcomes] == [0, 13, 1]
    assert len((tmp_path / "item.jsonl").read_text().splitlines()) == 2
    assert "unlucky" in Store(tmp_path).log(job(13)).read_text()


def test_a_torn_last_line_is_skipped_and_the_next_record_replaces_it(
    tmp_path: Path, calls: list[int]
) -> None:
    store = Store(tmp_path)
    run_jobs([job(0), job(1)], store)
    path = store.paths("item")[0]
    path.write_bytes(path.read_bytes()[:-30])  # as a kill while writing leaves it
    assert (store.get(job(0)) is None) + (store.get(job(1)) is None) == 1
    run_jobs([job(0), job(1)], Store(tmp_path))
    assert len(calls) == 3
    assert all(store.get(job(seed)) for seed in (0, 1))
    assert len(path.read_bytes().splitlines()) == 2


def test_a_damaged_line_is_an_error_that_names_its_number(tmp_path: Path, calls: list[int]) -> None:
    store = Store(tmp_path)
    run_jobs([job(0), job(1)], store)
    lines = store.paths("item")[0].read_text().splitlines()
    store.paths("item")[0].write_text(f"{lines[0]}\n{lines[1][:20]}\n")
    with pytest.raises(QubolearnError, match="line 2"):
        store.get(job(0))


def test_writers_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    """File locks exclude threads with their own stores, too."""

    def write(first: int) -> None:
        store = Store(tmp_path)
        for made in map(job, range(first, first + 20)):
            store.put(Outcome(made, {"key": made.key, "job": asdict(made), "metrics": {"text": "x" * 20000}}))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, (0, 20, 40)))
    assert all(Store(tmp_path).get(job(seed)) for seed in range(60))
