"""The cost of a job before it runs: whether a GPU is faster than a core, and about how long it takes."""

from __future__ import annotations

from functools import lru_cache

from quant_reproduction.grid.jobs import Job
from quant_reproduction.presets import recipe_for
from qubolearn.errors import QubolearnError
from qubolearn.problems import Problem, make_problem
from qubolearn.recipes import Recipe

__all__ = ["SECONDS_PER_STEP_AND_BIT", "effort", "suits_gpu"]

#: Qubits from which a state vector outgrows the caches of a core, and batches from which a GPU step is much faster.
LARGE_STATE, LARGE_BATCH = 20, 200
SECONDS_PER_STEP_AND_BIT = 1.5e-4
#: Jobs that do not train count as this many steps times bits.
WITHOUT_TRAINING = 10_000
#: Factors against exact search with the paper's network.
FACTORS = {
    "second-best": 6,
    "stages": 3,
    "search": 7,
    "thermal": 4,
    "train-raw": 10,  # tasks
    "quantum": 30,
    "annealing": 3,
    "matching": 10,
    "knapsack": 10,
    "maxcut": 20,  # solvers, networks, problems
}
#: Seconds on a core of tasks whose options do not show their length.
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
#: Losses whose steps call a solver.
SOLVING = ("gap", "hinge", "hamming", "contrastive")


@lru_cache(maxsize=10_000)
def suits_gpu(job: Job) -> bool:
    """Return True for simulations of many qubits and training on large batches or of the permutation-aware network.

    This depends on the job alone, so that a cell is rerun on the same device.
    """
    training = _training(job)
    if training is None:
        return _simulated_qubits(job) >= LARGE_STATE
    _, recipe = training
    if recipe.loss in SOLVING and not recipe.solver.startswith("exhaustive"):  # no CUDA graph can hold such steps
        return False
    return recipe.batch_size >= LARGE_BATCH or recipe.network == "matching"


@lru_cache(maxsize=10_000)
def effort(job: Job) -> float:
    """Return about how many steps of the paper's network times bits a job costs; the longest jobs are run first."""
    if qubits := _simulated_qubits(job):
        return 0.03 * 2.0**qubits * float(job.options["instances"])
    if job.task in SECONDS and "quick" not in job.options:
        return SECONDS[job.task] / SECONDS_PER_STEP_AND_BIT
    training = _training(job)
    if training is None:
        return WITHOUT_TRAINING
    problem, recipe = training
    cost = float(recipe.steps * problem.bits)
    solver = job.options.get("sampler", recipe.solver).partition(":")[0]
    for name in (job.task, solver, recipe.network, problem.name):
        cost *= FACTORS.get(name, 1)
    return cost


def _simulated_qubits(job: Job) -> int:
    """Return the qubits of QGM's anneals; other simulations are small."""
    if job.task != "qgm":
        return 0
    k: int = job.options["k"]
    return (k - 1) ** 2 if job.options["variant"] == "inserted" else k**2


def _training(job: Job) -> tuple[Problem, Recipe] | None:
    """Return what a job trains, or None if it trains nothing or has bad options, which it reports when it runs."""
    options = job.options
    if "problem" not in options or "protocol" not in options:
        return None
    try:
        problem = make_problem(**options["problem"])
        return problem, recipe_for(options["protocol"], problem, **options.get("overrides") or {})
    except (QubolearnError, TypeError):
        return None
