"""Which jobs a GPU does faster than a core. That depends on the job alone: a machine makes a cell in the same place."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from qubolearn.errors import QubolearnError
from qubolearn.problems import Problem, make_problem
from qubolearn.training.fast.captured import needs_no_host
from qubolearn.training.recipes import TrainConfig, preset

if TYPE_CHECKING:
    from qubolearn.paper.grid.jobs import Job

__all__ = ["simulated_qubits", "suits_gpu", "training_of"]

#: Qubits from which the state vector of an annealer outgrows the caches of a core.
LARGE_STATE = 20
#: Instances of a step from which it is shorter on a GPU by far, which takes as long for a few.
LARGE_BATCH = 200


@lru_cache(maxsize=10_000)
def suits_gpu(job: Job) -> bool:
    """Whether it is a simulation of many qubits, or a training on large batches or of the permutation-aware network.

    Steps of a training must be such as a CUDA graph can hold.
    """
    if simulated_qubits(job) >= LARGE_STATE:
        return True
    training = training_of(job)
    if training is None:
        return False
    config = training[1]
    return needs_no_host(config) and (config.batch_size >= LARGE_BATCH or config.network == "matching")


def simulated_qubits(job: Job) -> int:
    """Qubits of QGM, where a job simulates their anneals; those of the others are few."""
    if job.task != "qgm":
        return 0
    k: int = job.options["k"]
    return (k - 1) ** 2 if job.options["variant"] == "inserted" else k**2


def training_of(job: Job) -> tuple[Problem, TrainConfig] | None:
    """What a job trains, or None where it trains nothing, or cannot: it says what is wrong with it when it runs."""
    options = job.options
    if "problem" not in options or "protocol" not in options:
        return None
    try:
        problem = make_problem(**options["problem"])
        return problem, preset(options["protocol"], problem, **options.get("overrides") or {})
    except (QubolearnError, TypeError):
        return None
