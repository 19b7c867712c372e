"""How long jobs will take, from the seconds of those that have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from statistics import mean
from typing import TYPE_CHECKING, Any

from qubolearn.paper.grid.placement import simulated_qubits, suits_gpu, training_of

if TYPE_CHECKING:
    from qubolearn.paper.grid.jobs import Job

__all__ = ["Pace", "remaining"]

#: Of a job of a kind of which none has ended: about what training a small network takes on one core.
SECONDS_PER_STEP_AND_BIT = 1.5e-4
#: Jobs that do not train count as so many steps times bits.
WITHOUT_TRAINING = 10_000
#: How many times as long a job takes as its steps with exact search and the paper's network would, about.
LONG_TASKS = {"second-best": 20}
LONG_SOLVERS = {"quantum": 100}
LONG_NETWORKS = {"matching": 10}


class Pace:
    """Learns from jobs that have ended."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        self._kinds: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)

    def learn(self, job: Job, record: Mapping[str, Any]) -> None:
        """Take note of the seconds of a finished job."""
        seconds = float(record["seconds"])
        self._cells[job.item, job.row, job.column].append(seconds)
        self._kinds[job.item, job.task].append((seconds, effort(job)))

    def seconds(self, job: Job) -> float:
        """Like the other seeds of its cell; else by its effort, at the pace of the jobs of its item and task."""
        same = self._cells.get((job.item, job.row, job.column))
        if same:
            return mean(same)
        kind = self._kinds.get((job.item, job.task))
        if kind:
            return effort(job) * sum(seconds for seconds, _ in kind) / sum(steps for _, steps in kind)
        return effort(job) * SECONDS_PER_STEP_AND_BIT


def remaining(pace: Pace, waiting: Iterable[Job], running: Mapping[Job, float], workers: int, on_gpu: int = 0) -> float:
    """Seconds until all jobs have ended; ``running`` holds how long each has been at it.

    ``on_gpu`` is how many of the jobs that suit a GPU run at a time, where these have one of their own.
    """
    left = {job: max(0.0, pace.seconds(job) - elapsed) for job, elapsed in running.items()}
    left |= {job: pace.seconds(job) for job in waiting}
    # Neither can the work be done faster than by all workers, nor any job faster than by itself.
    times = [sum(left.values()) / max(1, workers), *left.values()]
    if on_gpu:
        times.append(sum(seconds for job, seconds in left.items() if suits_gpu(job)) / on_gpu)
    return max(times)


@lru_cache(maxsize=10_000)
def effort(job: Job) -> float:
    """Steps of training times bits, which is roughly what a job costs within a kind, in steps of the paper's network.

    What is tens of times as long must be known before: the longest jobs are run first.
    """
    if qubits := simulated_qubits(job):
        return 0.03 * 2.0**qubits * float(job.options["instances"])
    training = training_of(job)
    if training is None:
        return WITHOUT_TRAINING
    problem, config = training
    times = 3.0 if job.task == "stages" else 1.0
    times *= LONG_TASKS.get(job.task, 1) * LONG_SOLVERS.get(config.solver.partition(":")[0], 1)
    times *= LONG_NETWORKS.get(config.network, 1)
    return config.steps * problem.bits * times
