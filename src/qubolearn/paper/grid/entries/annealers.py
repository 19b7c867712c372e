"""What annealers make of the QUBOs: success, training through them, what they read, and what chips they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qubolearn.paper.grid.entries.contract import Entry, over_seeds
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import Place, View, by_job

__all__ = ["ENTRIES"]

FIVE: Mapping[str, Any] = {"name": "randgraph", "k": 5}


def success_probabilities(seeds: int, quick: bool) -> list[Job]:
    """One simulated quantum anneal with control errors: ours against QGM's QUBOs."""
    made: list[Job] = []
    for k in (4,) if quick else (4, 5):
        tests = [{"label": "quantum", "solver": "quantum:seed=0", "instances": 20 if quick else 141}]
        overrides = {"epochs": 3} if quick else {}
        problem = {"name": "randgraph", "k": k}
        ours = {"problem": problem, "protocol": "best", "overrides": overrides, "tests": tests}
        made += over_seeds(seeds, "success", f"k={k}", "ours", "train", **ours)
        for variant in ("inserted", "baseline", "row-wise"):
            few = quick or (k == 5 and variant != "inserted")  # their 25 qubits take a core minutes an anneal
            options = {"variant": variant, "k": k, "solver": "quantum:seed=0", "instances": 4 if few else 141}
            made += over_seeds(seeds, "success", f"k={k}", f"QGM {variant}", "qgm", **options)
    return made


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
SHORT_ANNEAL = "quantum:anneal_time=5,tolerance=0.1"
#: column -> solver in training and, as in the paper, at test time
OWN_SOLVERS = {"exhaustive": "exhaustive", "SA": "annealing", "QA (simulated)": SHORT_ANNEAL}


def training_solvers(seeds: int, quick: bool) -> list[Job]:
    """The paper's loss trained through exact search, annealing and simulated quantum annealing."""
    made: list[Job] = []
    for solver in ("exhaustive", "annealing", "quantum"):
        overrides = {"solver": solver, "epochs": 1 if quick else 25, "instances": 141 if quick else 5640}
        options = {"problem": {"name": "randgraph", "k": 4}, "protocol": "paper", "overrides": overrides}
        made += over_seeds(seeds, "training-solver", "k=4, L5 H78, 25 epochs", solver, "train", **options)
    short = {"epochs": 1, "instances": 64} if quick else {}
    for column, solver in OWN_SOLVERS.items():
        made += _trained_through(column, solver, {**FEW_QUBOS, **short}, seeds, quick)
    # the paper's network, epochs and rate: what its numbers would be if every solution in training were exact
    made += _trained_through("exhaustive, paper", "exhaustive", short, seeds, quick)
    return made


def _trained_through(column: str, solver: str, overrides: Mapping[str, Any], seeds: int, quick: bool) -> list[Job]:
    seed_of_test = "" if solver == "exhaustive" else ":seed=0" if ":" not in solver else ",seed=0"
    count = (20 if quick else 500) if solver != "exhaustive" else 2000
    tests = [{"label": "own", "solver": solver + seed_of_test, "instances": count}]
    options = {"problem": FIVE, "protocol": "paper", "overrides": {"solver": solver, **overrides}}
    return over_seeds(seeds, "training-solver", "k=5", column, "train", **options, tests=tests)


def _before_and_after(job: Job) -> list[Place]:
    return [Place("before projection", job.column, "own"), Place("after projection", job.column, "own", "_projected")]


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


def qubits(seeds: int, quick: bool) -> list[Job]:
    """Logical and physical qubits on a Pegasus P16; embeddings of several seeds are averaged within a job."""
    return [
        Job("qubits", row, column, 0, "qubits", {"bits": bits, "pattern": pattern, "chip": "pegasus", "size": 16})
        for (row, column), (bits, pattern) in CHIPS.items()
    ]


#: The paper's loss at k=5 until its QUBOs are neither random nor easy.
GAP_TRAINED: Mapping[str, Any] = {"solver": "exhaustive", "learning_rate": 1e-3, "epochs": 100}
QUICKLY = {"epochs": 2, "instances": 1410}
SAMPLERS = {
    "QA": "quantum:reads=1000",
    "SA (ours), 1000 sweeps": "annealing:reads=1000,sweeps=1000",
    "SA (ours), 10 sweeps": "annealing:reads=1000,sweeps=10",
    "SA (neal), 1000 sweeps": "neal:reads=1000,sweeps=1000",
    "SA (neal), 10 sweeps": "neal:reads=1000,sweeps=10",
}
#: Pure Python and slow, so that there are fewer of these.
DIMOD = {"QA": "quantum:reads=1000", "SA (dimod)": "dimod:reads=1000,sweeps=100"}
DIMOD_INSTANCES = 20


def second_best(seeds: int, quick: bool) -> list[Job]:
    """Second-best energies of samplers relative to those of simulated quantum annealing."""
    network = {"problem": FIVE, "protocol": "paper", "overrides": {**GAP_TRAINED, **(QUICKLY if quick else {})}}
    made: list[Job] = []
    for column, solvers, instances in (("samplers", SAMPLERS, 141), ("dimod", DIMOD, DIMOD_INSTANCES)):
        options = {**network, "solvers": solvers, "instances": 1 if quick else instances}
        made += over_seeds(seeds, "second-best", "k=5", column, "second-best", **options)
    return made


def _of_samplers(job: Job) -> list[Place]:
    """QA is 100 % of itself by definition; the job with most samplers says so once."""
    names = SAMPLERS if job.column == "samplers" else [name for name in DIMOD if name != "QA"]
    return [Place(job.row, name, name) for name in names]


def energies(seeds: int, quick: bool) -> list[Job]:
    """What samplers read on one QUBO, by the sweeps that they are given."""
    reads = 100 if quick else 1000
    sweeps = [f"{name}:reads={reads},sweeps={count}" for name in ("annealing", "neal") for count in (1000, 10, 2)]
    solvers = [f"quantum:reads={reads}", *sweeps, f"dimod:reads={reads},sweeps={10 if quick else 100}"]
    network = {"problem": FIVE, "protocol": "paper", "overrides": {**GAP_TRAINED, **(QUICKLY if quick else {})}}
    return over_seeds(1, "energies", "k=5", "samplers", "energies", **network, solvers=solvers)


def training(seeds: int, quick: bool) -> list[Job]:
    """Wrong bits and couplings over training: the paper's loss for long, and our recipe."""
    overrides: Mapping[str, Mapping[str, Any]] = {"paper": {"solver": "exhaustive", "learning_rate": 1e-3}, "best": {}}
    made: list[Job] = []
    for protocol, changed in overrides.items():
        options = {"protocol": protocol, "overrides": {**changed, **(QUICKLY if quick else {})}}
        made += over_seeds(1, "training", "k=5", protocol, "training", problem=FIVE, **options)
    return made


def connectivity(seeds: int, quick: bool) -> list[Job]:
    """Chips with an instance per tile."""
    chips = {
        "Chimera": {"chip": "chimera", "size": 3, "bits": 8, "pattern": "chimera"},
        "Pegasus": {"chip": "pegasus", "size": 3, "bits": 15, "pattern": "pegasus"},
    }
    return [Job("connectivity", name, "instances", 0, "connectivity", chip) for name, chip in chips.items()]


ENTRIES: Mapping[str, Entry] = {
    "success": Entry(
        "Probability that one simulated quantum anneal with control errors finds the solution",
        "Table 9",
        success_probabilities,
        (View("success", "Success probability of one anneal", ("success_probability",), places=by_job("quantum")),),
    ),
    "training-solver": Entry(
        "The paper's loss trained through exact search, SA and simulated QA: accuracy under the solver of training",
        "Table 5",
        training_solvers,
        (
            View(
                "training-solver",
                "k=5, the permutation-aware network, three epochs; in the last column the paper's own, 450 epochs",
                ("accuracy",),
                places=_before_and_after,
            ),
            View("training-solver-k4", "k=4, the paper's network, before projection", ("accuracy",)),
        ),
    ),
    "qubits": Entry(
        "Logical / physical qubits / longest chain on a Pegasus chip of size 16",
        "Table 8, Section 4.1",
        qubits,
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
    ),
    "second-best": Entry(
        "Second-best energies in raw reads of SA, in % of those of simulated QA: mean / deviation over instances",
        "Table 10",
        second_best,
        (
            View(
                "second-best",
                f"k=5, the paper's loss: mean / deviation over 141 instances, for dimod over {DIMOD_INSTANCES}",
                ("relative", "deviation"),
                places=_of_samplers,
            ),
        ),
    ),
    "energies": Entry("Energies that samplers read on one QUBO", "Figure 8", energies, figures=("energies",)),
    "training": Entry("Wrong bits and couplings over training", "Figure 4b", training, figures=("training",)),
    "connectivity": Entry("Chips with an instance per tile", "Figure 6", connectivity, figures=("connectivity",)),
}
