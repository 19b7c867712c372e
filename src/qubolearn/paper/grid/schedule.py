"""What a job costs: whether a GPU does it faster than a core, and how long it will take, from those that have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from statistics import mean
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.jobs import Job
from qubolearn.problems import Problem, make_problem
from qubolearn.training.recipes import Recipe, recipe_for

__all__ = ["Pace", "effort", "suits_gpu"]

#: Qubits from which the state vector of an annealer outgrows the caches of a core.
LARGE_STATE = 20
#: Batch size from which a GPU step is much faster; GPU time hardly grows with the batch.
LARGE_BATCH = 200
#: Of a job of a kind of which none has ended: about what training a small network takes on one core.
SECONDS_PER_STEP_AND_BIT = 1.5e-4
#: Jobs that do not train count as so many steps times bits.
WITHOUT_TRAINING = 10_000
#: How many times as long a job takes as its steps with exact search and the paper's network would, about.
LONG_TASKS = {"second-best": 6, "stages": 3, "search": 7, "thermal": 4, "train-raw": 10}
LONG_SOLVERS = {"quantum": 30, "annealing": 3}
LONG_NETWORKS = {"matching": 10}
LONG_PROBLEMS = {"knapsack": 10, "maxcut": 20}
#: Seconds that jobs of one task take on a core, about; they say nothing of steps.
SECONDS = {
    "aqm": 60,
    "chip-view": 40,
    "qubits": 20,
    "scene": 10,
    "snakes": 30,
    "sudoku": 40,
    "sudoku-search": 10,
    "visual-sudoku": 20,
    "willow10": 40,
}


@lru_cache(maxsize=10_000)
def suits_gpu(job: Job) -> bool:
    """Whether it is a simulation of many qubits, or a training on large batches or of the permutation-aware network.

    This depends on the job alone, so that a machine makes a cell again on the same device. Steps of a training must be
    such as a CUDA graph can hold.
    """
    training = _training(job)
    if training is None:
        return _simulated_qubits(job) >= LARGE_STATE
    from qubolearn.training.build import make_loss

    problem, recipe = training
    needs_host = make_loss(recipe, problem).solves and not recipe.solver.startswith("exhaustive")
    return not needs_host and (recipe.batch_size >= LARGE_BATCH or recipe.network == "matching")


@lru_cache(maxsize=10_000)
def effort(job: Job) -> float:
    """Steps of training times bits, which is roughly what a job costs within a kind, in steps of the paper's network.

    What is tens of times as long must be known before: the longest jobs are run first.
    """
    if qubits := _simulated_qubits(job):
        return 0.03 * 2.0**qubits * float(job.options["instances"])
    if job.task in SECONDS and "quick" not in job.options:
        return SECONDS[job.task] / SECONDS_PER_STEP_AND_BIT
    training = _training(job)
    if training is None:
        return WITHOUT_TRAINING
    problem, config = training
    solver = job.options.get("sampler", config.solver).partition(":")[0]
    times = LONG_TASKS.get(job.task, 1) * LONG_SOLVERS.get(solver, 1) * LONG_NETWORKS.get(config.network, 1)
    times *= LONG_PROBLEMS.get(problem.name, 1)
    return float(config.steps * problem.bits * times)


def _simulated_qubits(job: Job) -> int:
    """Qubits of QGM, where a job simulates their anneals; those of the others are few."""
    if job.task != "qgm":
        return 0
    k: int = job.options["k"]
    return (k - 1) ** 2 if job.options["variant"] == "inserted" else k**2


def _training(job: Job) -> tuple[Problem, Recipe] | None:
    """What a job trains, or None where it trains nothing, or cannot: it says what is wrong with it when it runs."""
    options = job.options
    if "problem" not in options or "protocol" not in options:
        return None
    try:
        problem = make_problem(**options["problem"])
        return problem, recipe_for(options["protocol"], problem, **options.get("overrides") or {})
    except (QubolearnError, TypeError):
        return None


class Pace:
    """Learns from jobs that have ended how long others will take."""

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
        if same := self._cells.get((job.item, job.row, job.column)):
            return mean(same)
        kind = self._kinds.get((job.item, job.task), [(SECONDS_PER_STEP_AND_BIT, 1.0)])
        return effort(job) * sum(seconds for seconds, _ in kind) / sum(steps for _, steps in kind)

    def remaining(self, waiting: Iterable[Job], running: Mapping[Job, float], workers: int, on_gpu: int = 0) -> float:
        """Seconds until all jobs have ended; ``running`` holds how long each has been at it.

        ``on_gpu`` is how many of the jobs that suit a GPU run at a time, where these have one of their own.
        """
        left = {job: max(0.0, self.seconds(job) - elapsed) for job, elapsed in running.items()}
        left |= {job: self.seconds(job) for job in waiting}
        # Neither can the work be done faster than by all workers, nor any job faster than by itself.
        times = [sum(left.values()) / max(1, workers), *left.values()]
        if on_gpu:
            times.append(sum(seconds for job, seconds in left.items() if suits_gpu(job)) / on_gpu)
        return max(times)
