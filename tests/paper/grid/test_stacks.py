"""Trainings of many jobs taken together: each has the record that it would have alone, beside jobs in processes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.engines import stacks
from qubolearn.paper.grid.engines.local import LocalEngine
from qubolearn.paper.grid.engines.stacks import StackEngine, can_be_stacked, stacks_of
from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Job, Started, Store, run_job, run_jobs
from qubolearn.problems.data import data_folder

SMALL = {"train_shapes": 20, "test_shapes": 5}


def tiny(seed: int, column: str = "quant", task: str = "stages", **overrides: Any) -> Job:
    short = {"epochs": 1, "instances": 64, "batch_size": 32, "validation": 8, "layers": 3, "hidden": 8, **overrides}
    options = {"problem": {"name": "rotation", "split_seed": 1, **SMALL}, "protocol": "paper", "overrides": short}
    return Job("item", "row", column, seed, task, {**options, "instances": 50})


@pytest.fixture(autouse=True)
def needs_clouds() -> None:
    try:
        data_folder("modelnet10")
    except QubolearnError as error:
        pytest.skip(str(error))


def test_records_are_those_of_jobs_alone_and_say_with_how_many_they_were_trained(tmp_path: Path) -> None:
    jobs = [tiny(0), tiny(1), tiny(0, "rate", learning_rate=1e-2), tiny(0, "one network", "train")]
    other = Job("item", "row", "guess", 0, "baseline", {"method": "guess", "problem": jobs[0].options["problem"]})
    events: list[Any] = []
    beside = LocalEngine(1)
    engine = StackEngine(beside, 2, "cpu")
    outcomes = run_jobs([*jobs, other], Store(tmp_path), engine, events.append)
    assert [outcome.error for outcome in outcomes] == [None] * 5
    assert {event.job for event in events if isinstance(event, Started)} == {*jobs, other}
    assert beside.busy_elsewhere == 0  # all cores again, once there is no stack left
    for outcome in outcomes:
        alone = run_job(outcome.job).record
        assert outcome.record is not None
        assert alone is not None
        for label in ("exhaustive",):
            assert outcome.record["metrics"][label]["degrees"] == alone["metrics"][label]["degrees"]
    assert [outcome.record["metrics"].get("trained_together") for outcome in outcomes if outcome.record] == [
        *[9] * 3,  # three stages each
        None,
        None,
    ]


def test_a_figure_is_drawn_of_the_networks_that_its_table_trains(tmp_path: Path) -> None:
    table = tiny(0)
    options = {name: table.options[name] for name in ("problem", "protocol", "overrides")}
    figure = Job("figure", "row", "alignment", 0, "alignment", {**options, "cases": 1, "noise": 0.1})
    assert stacks_of([table, figure]) == [[table, figure]]
    outcomes = run_jobs([figure, table], Store(tmp_path), StackEngine(LocalEngine(1), 1, "cpu"))
    for outcome in outcomes:
        alone = run_job(outcome.job).record
        assert outcome.record is not None
        assert alone is not None
        assert outcome.record["metrics"]["trained_together"] == 3  # the three stages, once
        for label in ("exhaustive", "alignment"):
            drop = {"solve_seconds", "scores"}
            found, wanted = (record["metrics"].get(label, {}) for record in (outcome.record, alone))
            assert {k: v for k, v in found.items() if k not in drop} == {
                k: v for k, v in wanted.items() if k not in drop
            }


def test_figures_of_clouds_need_no_training_of_their_own_beside_their_tables() -> None:
    figures = ("alignment-2d", "failures", "loss-panels", "errors", "alignment-3d")
    tables = [job for item in ("pointset", "rotation") for job in ENTRIES[item].jobs(1, False) if can_be_stacked(job)]
    tables = [job for job in tables if job.row == "L5 H78" and "(b)" not in job.column]
    drawn = [job for item in figures for job in ENTRIES[item].jobs(3, False)]
    assert len(stacks_of([*tables, *drawn])) == len(stacks_of(tables))
    known = {training for job in tables for training in stacks.trainings_of(job)}
    assert all(training in known for job in drawn for training in stacks.trainings_of(job))


def test_a_training_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    bad = tiny(1, learning_rate=3e37)
    outcomes = run_jobs([tiny(0), bad], Store(tmp_path), StackEngine(LocalEngine(1), 2, "cpu"))
    assert outcomes[0].error is None
    assert outcomes[1].record is None
    assert "step" in str(outcomes[1].error)


def test_nothing_is_scored_once_the_grid_is_stopped(tmp_path: Path) -> None:
    outcomes = run_jobs([tiny(0), tiny(1)], Store(tmp_path), StackEngine(LocalEngine(1), 2, "cpu"), stop=lambda: True)
    assert outcomes == []
    assert not list(tmp_path.glob("*/*.json"))


def test_stacks_hold_one_shape_each_and_the_longest_comes_first() -> None:
    jobs = [job for job in ENTRIES["rotation"].jobs(3, False) if can_be_stacked(job)]
    found = stacks_of(jobs)
    assert sum(map(len, found)) == len(jobs)
    assert sorted(job.name for stack in found for job in stack) == sorted(job.name for job in jobs)
    protocols = [stack[0].options["protocol"] for stack in found]
    assert protocols == sorted(protocols, reverse=True)  # trainings of the paper's protocol are the longest
    assert max(len(stack) for stack in found) >= 20
    for stack in found:
        assert len({job.options["overrides"].get("layers", 5) for job in stack}) == 1
    assert not any(can_be_stacked(replace(job, task="baseline")) for job in jobs)


def test_a_worker_that_dies_is_the_error_of_all_jobs_of_its_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "train_stack", os.abort)  # which takes no job, and ends the worker
    jobs = [tiny(0), tiny(1)]
    outcomes = run_jobs(jobs, Store(tmp_path), StackEngine(LocalEngine(1), 1, "cpu"))
    assert [outcome.job for outcome in outcomes] == jobs
    assert all("worker process" in str(outcome.error) for outcome in outcomes)
