"""The grid of jobs: nothing runs twice, a failure stops nothing, results do not depend on the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid import tasks as module
from qubolearn.paper.grid.jobs import Job, Store, run_jobs


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A task that notes its calls and fails for seed 13."""
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
    assert len(list(tmp_path.rglob("*.json"))) == 2


def test_records_carry_their_job_versions_and_machine(tmp_path: Path, calls: list[int]) -> None:
    (outcome,) = run_jobs([job(3)], Store(tmp_path))
    assert outcome.record is not None
    assert {"job", "key", "metrics", "seconds", "versions", "machine"} <= outcome.record.keys()
