"""Estimates of time: from the same cell, else by effort within a kind."""

from __future__ import annotations

import pytest

from qubolearn.experiments.jobs import Job
from qubolearn.experiments.pace import Pace, effort, remaining


def job(seed: int = 0, row: str = "r", task: str = "train", epochs: int = 10, **more: object) -> Job:
    options = {"problem": {"name": "randgraph", "k": 4}, "protocol": "best", "overrides": {"epochs": epochs}, **more}
    return Job("item", row, "c", seed, task, options)


def test_effort_is_steps_times_bits_and_three_trainings_for_stages() -> None:
    assert effort(job(epochs=10)) == 10 * (5640 // 141) * 8
    assert effort(job(task="stages")) == 3 * effort(job())
    assert effort(Job("item", "r", "c", 0, "baseline", {"method": "icp"})) == effort(job(protocol="unheard of"))


def test_other_seeds_of_a_cell_say_most_and_other_cells_by_their_effort() -> None:
    pace = Pace()
    guess = pace.seconds(job(epochs=20))
    assert guess == 2 * pace.seconds(job(epochs=10)) > 0
    pace.learn(job(0, "r", epochs=10), {"seconds": 3.0})
    pace.learn(job(1, "r", epochs=10), {"seconds": 5.0})
    assert pace.seconds(job(2, "r", epochs=10)) == 4.0
    assert pace.seconds(job(0, "other", epochs=20)) == pytest.approx(8.0)
    assert pace.seconds(Job("another", "r", "c", 0, "train", job(epochs=20).options)) == guess


def test_what_remains_is_shared_by_the_workers_but_no_job_is() -> None:
    pace = Pace()
    pace.learn(job(0), {"seconds": 10.0})
    jobs = [job(seed) for seed in range(1, 6)]
    assert remaining(pace, jobs[2:], {jobs[0]: 4.0, jobs[1]: 25.0}, workers=2) == pytest.approx((6 + 0 + 30) / 2)
    assert remaining(pace, jobs[:1], {}, workers=8) == 10.0
    assert remaining(pace, [], {}, workers=0) == 0.0
