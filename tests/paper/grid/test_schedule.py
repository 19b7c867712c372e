"""Estimates of time: from the same cell, else by effort within a kind."""

from __future__ import annotations

import pytest

from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.schedule import Pace, effort, suits_gpu


def job(
    seed: int = 0, row: str = "r", task: str = "train", epochs: int = 10, batch_size: int = 141, **more: object
) -> Job:
    overrides = {"epochs": epochs, "batch_size": batch_size}
    options = {"problem": {"name": "randgraph", "k": 4}, "protocol": "best", "overrides": overrides, **more}
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
    assert pace.remaining(jobs[2:], {jobs[0]: 4.0, jobs[1]: 25.0}, workers=2) == pytest.approx((6 + 0 + 30) / 2)
    assert pace.remaining(jobs[:1], {}, workers=8) == 10.0
    assert pace.remaining([], {}, workers=0) == 0.0


def test_jobs_of_a_gpu_wait_for_each_other() -> None:
    pace = Pace()
    large = [job(seed, "large", batch_size=512) for seed in range(8)]
    assert [suits_gpu(each) for each in (large[0], job())] == [True, False]
    pace.learn(large[0], {"seconds": 10.0})
    pace.learn(job(0), {"seconds": 1.0})
    waiting = [*large, *(job(seed) for seed in range(16))]
    assert pace.remaining(waiting, {}, workers=16) == 10.0
    assert pace.remaining(waiting, {}, workers=16, on_gpu=2) == 40.0


def test_what_takes_long_is_known_before() -> None:
    guess = Pace().seconds
    plain = guess(job(overrides={"epochs": 10}))
    assert guess(job(overrides={"epochs": 10, "network": "matching"})) > 5 * plain
    assert guess(job(overrides={"epochs": 10, "solver": "quantum:reads=10"})) > 20 * plain
    assert guess(job(task="second-best")) > 5 * guess(job())
    raw = [
        guess(job(task="train-raw", sampler=name)) for name in ("exhaustive", "annealing:reads=9", "quantum:reads=9")
    ]
    assert raw == sorted(set(raw))
    assert raw[2] > 100 * plain
    large, small = (
        Job("success", "k=5", variant, 0, "qgm", {"variant": variant, "k": 5, "solver": "quantum", "instances": 4})
        for variant in ("baseline", "inserted")
    )
    assert guess(large) == 512 * guess(small) > 100
