"""Entries of the grid."""

from __future__ import annotations

from pathlib import Path

import pytest

from quant_reproduction.datasets.files import data_folder
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Store, run_job
from quant_reproduction.grid.tasks import TASKS
from quant_reproduction.presets import recipe_for
from qubolearn.errors import QubolearnError
from qubolearn.problems import make_problem
from qubolearn.recipes import Recipe

RESULTS = Path(__file__).parents[2] / "results"


def jobs(quick: bool) -> list[Job]:
    return [job for made in ENTRIES.values() for job in made.jobs(1 if quick else 3, quick)]


@pytest.mark.parametrize("quick", [False, True])
def test_every_job_has_a_task_its_own_file_and_options_that_make_sense(quick: bool) -> None:
    made = jobs(quick)
    assert {job.task for job in made} <= set(TASKS)
    assert len({(job.item, job.place) for job in made}) == len(made)
    for job in made:
        if "protocol" in job.options:  # raises if an option is unknown or wrong
            problem = make_problem(**job.options["problem"])
            config = recipe_for(job.options["protocol"], problem, **job.options["overrides"])
            assert isinstance(config, Recipe)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_shows_its_own_jobs(name: str) -> None:
    made = ENTRIES[name]
    assert made.title
    assert made.views or made.figures
    assert {job.item for job in made.jobs(1, True)} == {job.item for job in made.jobs(3, False)} == {name}
    assert len(made.jobs(1, True)) <= len(made.jobs(3, False))


def test_a_quick_training_never_passes_for_a_full_one() -> None:
    full = {(job.item, job.place): job.key for job in jobs(False)}
    same = {job.task for job in jobs(True) if full.get((job.item, job.place)) == job.key}
    assert same <= {"qubits", "connectivity", "baseline"}


def test_every_stored_record_belongs_to_a_job() -> None:
    store = Store(RESULTS)
    claimed = sum(store.get(job) is not None for job in jobs(False))
    assert claimed == sum(len(path.read_text().splitlines()) for path in RESULTS.glob("*.jsonl")) > 1000


def test_quick_jobs_run_for_real_and_fill_their_tables() -> None:
    pytest.importorskip("minorminer")
    picked = {
        "qubits": "QGM inserted",
        "training-solver": "SA",
        "randgraph": "without unique",
        "rotation": "(a) quant",
        "training-raw": "(a) SA",
        "search-randgraph": "validation",
        "thermal": "QGM inserted",
    }
    for item, column in picked.items():
        if ENTRIES[item].data and not _has(ENTRIES[item].data):
            continue
        job = next(job for job in ENTRIES[item].jobs(1, True) if job.column == column)
        outcome = run_job(job)
        assert outcome.error is None, outcome.log
        tables = [view.cells([outcome]) for view in ENTRIES[item].views]
        assert any(tables), item


def _has(dataset: str) -> bool:
    try:
        data_folder(dataset)
    except QubolearnError:
        return False
    return True


def test_qubits_of_dense_and_of_native_qubos() -> None:
    pytest.importorskip("minorminer")
    native = TASKS["qubits"](0, bits=15, pattern="pegasus", chip="pegasus", size=16)["embedding"]
    assert (native["logical"], native["physical"], native["chain"]) == (15, 15, 1)
    dense = TASKS["qubits"](0, bits=9, pattern="dense", chip="pegasus", size=16)["embedding"]
    assert dense["physical"] > dense["logical"] == 9
    assert dense["physical"] <= dense["report"]["physical_qubits"]


def test_every_seed_has_its_own_split() -> None:
    made = [
        job for job in ENTRIES["pointset"].jobs(3, False) if (job.row, job.column) == ("L5 H78", "(a) quant")
    ]
    found = [(job.seed, job.options["problem"]["split_seed"]) for job in made]
    assert found == [(seed, seed + 1) for seed in range(10)]
    one = ENTRIES["pointset"].jobs(1, False)
    assert {job.seed for job in one} == {0}
    assert {job.options["problem"]["split_seed"] for job in one} == {1}


def test_the_papers_protocol_is_the_papers() -> None:
    wanted = {"learning_rate": 1e-3, "epochs": 20, "batch_size": 32, "standardize": False, "fresh": False}
    for item, instances in (("pointset", 500_000), ("rotation", 300_000)):
        for job in ENTRIES[item].jobs(3, False):
            if job.column not in ("(a) quant", "(a) diag", "(a) pure"):
                continue
            recipe = recipe_for("paper", make_problem(**job.options["problem"]), **job.options["overrides"])
            assert {name: getattr(recipe, name) for name in wanted} == wanted
            assert (recipe.instances, recipe.weight_mlp, recipe.weight_unique) == (instances, 1e-4, 1e-3)
            assert recipe.loss == ("l1" if recipe.head == "direct" else "gap")
            assert job.options["problem"].keys() == {"name", "split_seed"}  # without our input or noise
