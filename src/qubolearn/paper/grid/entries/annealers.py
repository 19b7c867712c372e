"""What annealers make of the QUBOs: success, training through them, what they read, and what chips they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from qubolearn.paper.grid.entries.contract import Entry, cell
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import Place, View, by_job

__all__ = ["ENTRIES"]

FIVE: Mapping[str, Any] = {"name": "randgraph", "k": 5}


def success() -> Iterator[Job]:
    """One simulated quantum anneal with control errors: ours against QGM's QUBOs."""
    tests = [{"label": "quantum", "solver": "quantum:seed=0", "instances": 141}]
    for k in (4, 5):
        problem = {"name": "randgraph", "k": k}
        yield cell("success", f"k={k}", "ours", problem=problem, protocol="best", overrides={}, tests=tests)
        for variant in ("inserted", "baseline", "row-wise"):
            few = k == 5 and variant != "inserted"  # their 25 qubits take a core minutes an anneal
            options = {"variant": variant, "k": k, "solver": "quantum:seed=0", "instances": 4 if few else 141}
            yield cell("success", f"k={k}", f"QGM {variant}", "qgm", **options)


#: Training through annealers at k=5: simulated quantum anneals of 15 qubits are slow, so that the permutation-aware
#: network, which learns from few QUBOs, is trained for three epochs of fresh instances.
FEW_QUBOS: Mapping[str, Any] = {
    "network": "matching",
    "hidden": 64,
    "standardise": True,
    "fresh": True,
    "schedule": "cosine",
    "learning_rate": 3e-3,
    "weight_mlp": 0.0,
    "batch_size": 32,
    "epochs": 3,
}
#: column -> solver in training, what seeds it at test time, as in the paper under the same solver, and what is trained
OWN_SOLVERS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "exhaustive": ("exhaustive", "", FEW_QUBOS),
    "SA": ("annealing", ":seed=0", FEW_QUBOS),
    "QA (simulated)": ("quantum:anneal_time=5,tolerance=0.1", ",seed=0", FEW_QUBOS),
    # the paper's network, epochs and rate: what its numbers would be if every solution in training were exact
    "exhaustive, paper": ("exhaustive", "", {}),
}


def training_solvers() -> Iterator[Job]:
    """The paper's loss trained through exact search, annealing and simulated quantum annealing."""
    make = partial(cell, "training-solver", protocol="paper")
    for solver in ("exhaustive", "annealing", "quantum"):
        overrides = {"solver": solver, "epochs": 25, "instances": 5640}
        yield make("k=4, L5 H78, 25 epochs", solver, problem={"name": "randgraph", "k": 4}, overrides=overrides)
    for column, (solver, seed, trained) in OWN_SOLVERS.items():
        tests = [{"label": "own", "solver": solver + seed, "instances": 500 if seed else 2000}]
        yield make("k=5", column, problem=FIVE, overrides={"solver": solver, **trained}, tests=tests)


def _before_and_after(job: Job) -> list[Place]:
    return [Place("before projection", job.column, "own"), Place("after projection", job.column, "own", "_projected")]


def _at_four(job: Job) -> list[Place]:
    return [Place("k=4, L5 H78", job.column, "exhaustive")] if job.row.startswith("k=4") else []  # however many epochs


#: (row, column) -> bits and pattern of QUBOs: learned ones that fit the chip, and dense ones that need chains.
CHIPS: Mapping[tuple[str, str], tuple[int, str]] = {
    ("RandGraph k=4", "ours"): (8, "chimera"),
    ("RandGraph k=4", "QGM inserted"): (9, "dense"),
    ("RandGraph k=4", "QGM baseline"): (16, "dense"),
    ("RandGraph k=4", "QGM row-wise"): (16, "dense"),
    ("RandGraph k=5", "ours"): (15, "pegasus"),
    ("RandGraph k=5", "QGM inserted"): (16, "dense"),
    ("RandGraph k=5", "QGM baseline"): (25, "dense"),
    ("RandGraph k=5", "QGM row-wise"): (25, "dense"),
    ("point sets", "ours"): (9, "dense"),
    ("point sets", "diag"): (9, "diagonal"),
    ("point sets", "aqm"): (21, "dense"),
    ("rotations, per stage", "ours"): (5, "dense"),
    ("rotations, per stage", "diag"): (5, "diagonal"),
    ("rotations, per stage", "aqm"): (81, "dense"),
}
#: The paper's loss at k=5 until its QUBOs are neither random nor easy.
LONG: Mapping[str, Any] = {"solver": "exhaustive", "learning_rate": 1e-3}
NETWORK: Mapping[str, Any] = {"problem": FIVE, "protocol": "paper", "overrides": {**LONG, "epochs": 100}}
SAMPLERS = {
    "QA": "quantum:reads=1000",
    "SA (ours), 1000 sweeps": "annealing:reads=1000,sweeps=1000",
    "SA (ours), 10 sweeps": "annealing:reads=1000,sweeps=10",
    "SA (neal), 1000 sweeps": "neal:reads=1000,sweeps=1000",
    "SA (neal), 10 sweeps": "neal:reads=1000,sweeps=10",
}
#: Pure Python and slow, so that there are fewer instances of these.
DIMOD = {"QA": "quantum:reads=1000", "SA (dimod)": "dimod:reads=1000,sweeps=100"}
#: By the sweeps that samplers are given.
ENERGIES = [f"{name}:reads=1000,sweeps={count}" for name in ("annealing", "neal") for count in (1000, 10, 2)]


def _of_samplers(job: Job) -> list[Place]:
    """QA is 100 % of itself by definition; the job with most samplers says so once."""
    names = SAMPLERS if job.column == "samplers" else [name for name in DIMOD if name != "QA"]
    return [Place(job.row, name, name) for name in names]


ENTRIES: Mapping[str, Entry] = {
    "success": Entry(
        "Probability that one simulated quantum anneal with control errors finds the solution",
        "Table 9",
        [*success()],
        (View("success", "Success probability of one anneal", ("success_probability",), places=by_job("quantum")),),
        quick_rows=("k=4",),
    ),
    "training-solver": Entry(
        "The paper's loss trained through exact search, SA and simulated QA: accuracy under the solver of training",
        "Table 5",
        [*training_solvers()],
        (
            View(
                "training-solver",
                "k=5, the permutation-aware network on few QUBOs; in the last column the paper's network",
                ("accuracy",),
                places=_before_and_after,
            ),
            View("training-solver-k4", "k=4, the paper's network, before projection", ("accuracy",), places=_at_four),
        ),
    ),
    "qubits": Entry(
        "Logical / physical qubits / longest chain on a Pegasus chip of size 16",
        "Table 8, Section 4.1",
        [
            cell("qubits", *place, "qubits", bits=bits, pattern=pattern, chip="pegasus", size=16)
            for place, (bits, pattern) in CHIPS.items()
        ],
        (
            View(
                "qubits",
                "Logical / physical qubits / longest chain",
                ("logical", "physical", "chain"),
                "qubits",
                "lower",
                by_job("embedding"),
            ),
        ),
        one_seed=True,  # embeddings of several seeds are averaged within a job
    ),
    "second-best": Entry(
        "Second-best energies in raw reads of SA, in % of those of simulated QA: mean / deviation over instances",
        "Table 10",
        [
            cell("second-best", "k=5", "samplers", "second-best", **NETWORK, solvers=SAMPLERS, instances=141),
            cell("second-best", "k=5", "dimod", "second-best", **NETWORK, solvers=DIMOD, instances=20),
        ],
        (
            View(
                "second-best",
                "k=5, the paper's loss: mean / deviation over instances, of which there are fewer for dimod",
                ("relative", "deviation"),
                places=_of_samplers,
            ),
        ),
    ),
    "energies": Entry(
        "Energies that samplers read on one QUBO",
        "Figure 8",
        [
            cell(
                *("energies", "k=5", "samplers", "energies"),
                **NETWORK,
                solvers=["quantum:reads=1000", *ENERGIES, "dimod:reads=1000,sweeps=100"],
            )
        ],
        figures=("energies",),
        one_seed=True,
    ),
    "training": Entry(
        "Wrong bits and couplings over training",
        "Figure 4b",
        [
            cell("training", "k=5", protocol, "training", problem=FIVE, protocol=protocol, overrides=overrides)
            for protocol, overrides in {"paper": LONG, "best": {}}.items()
        ],
        figures=("training",),
        one_seed=True,
    ),
    "connectivity": Entry(
        "Chips with an instance per tile",
        "Figure 6",
        [
            cell("connectivity", row, "instances", "connectivity", chip=chip, size=3, bits=bits, pattern=chip)
            for row, chip, bits in (("Chimera", "chimera", 8), ("Pegasus", "pegasus", 15))
        ],
        figures=("connectivity",),
        one_seed=True,
    ),
}
