"""QUBOs on annealers: success, training, reads, and chips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.views import TEN, Entry, Place, View, accuracy, by_job, cell

FIVE: Mapping[str, Any] = {"name": "randgraph", "k": 5}
EXACT: Mapping[str, Any] = {"solver": "exhaustive"}


def success() -> Iterator[Job]:
    """Yield cells of one simulated anneal with control errors."""
    annealed = {"solver": "quantum:seed=0"}
    tests = [{"label": "quantum", **annealed, "instances": 141}]
    for k in (4, 5):
        make = partial(cell, "success", f"k={k}")
        problem = {"name": "randgraph", "k": k}
        yield make("ours", problem=problem, protocol="best", overrides={}, tests=tests)
        yield make("(a) ours", problem=problem, protocol="paper", overrides=EXACT, tests=tests)
        for variant in ("inserted", "baseline", "row-wise"):
            count = 7 if k == 5 and variant != "inserted" else 141  # 25 qubits: 21 seeds
            yield make(f"QGM {variant}", "qgm", variant=variant, k=k, instances=count, **annealed)
            lowest = {"method": f"qgm-{variant}", "tests": [{"label": "lowest"}], "instances": 141}
            yield make(f"QGM {variant}, lowest", "baseline", problem=problem, **lowest)
    chained = {"variant": "inserted", "k": 4, "instances": 20, "chip": "pegasus", "size": 4}
    yield cell("success", "k=4", "QGM inserted, with chains", "qgm", **chained, **annealed)


def _with_deviation(job: Job) -> list[Place]:
    mean = Place(job.row, job.column, "quantum")
    return [mean, mean._replace(column=f"{job.column}, deviation", suffix="_deviation")]


def _lowest(job: Job) -> list[Place]:
    return [Place(job.row, job.column.removesuffix(", lowest"), "lowest")]


def thermal() -> Iterator[Job]:
    """Yield cells on a closed chip, in equilibrium, and between."""
    for k in (4, 5):
        make = partial(cell, "thermal", f"k={k}")
        problem = {"name": "randgraph", "k": k}
        learned: dict[str, Any] = {"k": k, "problem": problem, "instances": 141}
        few_levels = {"open_instances": 20} if k == 4 else {}  # at k=5 hundreds are populated
        yield make("(a) ours", "thermal", protocol="paper", overrides=EXACT, **learned, **few_levels)
        few_levels = few_levels or {"open_instances": 5}
        yield make("ours", "thermal", protocol="best", overrides={}, **learned, **few_levels)
        for variant in ("inserted", "baseline", "row-wise"):
            few = k == 5 and variant != "inserted"
            options: dict[str, Any] = {"k": k, "variant": variant, "instances": 7 if few else 141}
            yield make(f"QGM {variant}", "thermal", **options)
            yield make(f"QGM {variant}, with chains", "thermal", **options, chip="pegasus", size=16)


#: label of a test -> row of the tables
MODELS: Mapping[str, str] = {
    "closed": "closed system, 10 ns",
    "open": "open system, 20 µs",
    "frozen": "Boltzmann, 15.4 mK, frozen at B = 3.91 GHz",
    "end": "Boltzmann, 15.4 mK, end of the anneal",
}


def _models(job: Job) -> list[Place]:
    """Return one row per model."""
    return [Place(f"{job.row}, {name}", job.column, label) for label, name in MODELS.items()]


#: Training through annealers at k=5: simulated quantum anneals of 15 qubits are slow, so
#: the permutation-aware network is trained for three epochs of fresh instances.
_AWARE = {"network": "matching", "hidden": 64, "standardize": True, "fresh": True, "schedule": "cosine"}
FEW_QUBOS = {**_AWARE, "learning_rate": 3e-3, "weight_mlp": 0.0, "batch_size": 32, "epochs": 3}
#: column -> solver in training, what seeds it at test time, what is trained
OWN_SOLVERS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "exhaustive": ("exhaustive", "", FEW_QUBOS),
    "SA": ("annealing", ":seed=0", FEW_QUBOS),
    "QA (simulated)": ("quantum:anneal_time=5,tolerance=0.1", ",seed=0", FEW_QUBOS),
    # the paper's network if every solution in training were exact
    "exhaustive, paper": ("exhaustive", "", {}),
}


def training_solvers() -> Iterator[Job]:
    """Yield cells of the paper's loss, trained through each solver."""
    make = partial(cell, "training-solver", protocol="paper")
    for solver in ("exhaustive", "annealing", "quantum"):
        overrides = {"solver": solver, "epochs": 25, "instances": 5640}
        yield make("k=4, L5 H78, 25 epochs", solver, problem={**FIVE, "k": 4}, overrides=overrides)
    for column, (solver, seed, trained) in OWN_SOLVERS.items():
        tests = [{"label": "own", "solver": solver + seed, "instances": 500 if seed else 2000}]
        yield make("k=5", column, problem=FIVE, overrides={"solver": solver, **trained}, tests=tests)


#: Trained through the raw reads of a sampler: a thirtieth of the paper's 450 epochs at
#: thirty times its rate for k=5, 1e-5: 18,000 steps are 2.5 million QUBOs.
RAW: Mapping[str, str] = {
    "exact": "exhaustive",
    "SA": "annealing:reads=100,sweeps=1000",
    "QA (simulated)": "quantum:reads=100,anneal_time=5,tolerance=0.1",
}
SHORT: Mapping[str, Any] = {"solver": "exhaustive", "epochs": 15, "learning_rate": 3e-4}


def raw_training() -> Iterator[Job]:
    """Yield Table 5 with the paper's network, trained through raw reads."""
    make = partial(cell, "training-raw", "k=5", problem=FIVE, protocol="paper")
    raw = partial(make, task="train-raw", instances=500)
    for column, sampler in RAW.items():
        yield raw(f"(a) {column}", overrides=SHORT, sampler=sampler)
    trained = {"label": "training", "on": "training set", "instances": 5640}
    whole = [{"label": "own", "instances": 2000}, trained]
    yield make("(a) exact, 450 epochs", overrides=EXACT, tests=whole)
    yield make("(a) exact, 450 epochs, 1e-3", overrides=LONG, tests=whole)
    yield raw("(a) SA, 450 epochs", overrides={}, sampler=RAW["SA"])


FIVE_RELEASED: Mapping[str, Any] = {"kind": "five", "method": "quant", "hidden": 78}


def _four_rows(job: Job) -> list[Place]:
    shown = {"": "own", ", training set": "training"}
    ways = [(where, label, when, more) for where, label in shown.items() for when, more in PROJECTED.items()]
    return [Place(f"{when} projection{where}", job.column, label, more) for where, label, when, more in ways]


PROJECTED = {"before": "", "after": "_projected"}


def _before_and_after(job: Job) -> list[Place]:
    label = "exhaustive" if job.task == "released" else "own"
    return [Place(f"{when} projection", job.column, label, more) for when, more in PROJECTED.items()]


def _at_four(job: Job) -> list[Place]:
    return [Place("k=4, L5 H78", job.column, "exhaustive")] if job.row.startswith("k=4") else []


#: (row, column) -> bits and pattern of QUBOs: learned ones, and dense ones.
#: AQM's twenty free qubits fall into two blocks of ten, of cosine and sine.
CHIPS: dict[tuple[str, str], tuple[int, str]] = {}
for _k, _bits, _pattern in ((4, 8, "chimera"), (5, 15, "pegasus")):
    CHIPS[f"RandGraph k={_k}", "ours"] = _bits, _pattern
    for _variant, _side in {"inserted": _k - 1, "baseline": _k, "row-wise": _k}.items():
        CHIPS[f"RandGraph k={_k}", f"QGM {_variant}"] = _side**2, "dense"
for _row, _bits, _aqm in (("point sets", 9, 21), ("rotations, per stage", 5, 81)):
    _methods = {"ours": (_bits, "dense"), "diag": (_bits, "diagonal"), "aqm": (_aqm, "dense")}
    CHIPS |= {(_row, name): needed for name, needed in _methods.items()}
TWO_BLOCKS: Mapping[str, Any] = {"bits": 10, "pattern": "dense", "chip": "pegasus", "size": 16, "blocks": 2}
#: The paper's loss at k=5 until its QUBOs are neither random nor easy.
LONG: Mapping[str, Any] = {"solver": "exhaustive", "learning_rate": 1e-3}
NETWORK: Mapping[str, Any] = {"problem": FIVE, "protocol": "paper", "overrides": {**LONG, "epochs": 100}}
_RECIPES: Any = (("paper", "paper", LONG), ("paper, 1e-5", "paper", EXACT), ("best", "best", {}))
#: The paper's own: 450 epochs at 1e-5.
OWN: Mapping[str, Any] = {"problem": FIVE, "protocol": "paper", "overrides": EXACT}
TRAINED = {"k=5": NETWORK, "k=5, 450 epochs at 1e-5": OWN}
SAMPLERS = {"QA": "quantum:reads=1000"} | {
    f"SA ({name}), {count} sweeps": f"{solver}:reads=1000,sweeps={count}"
    for name, solver in (("ours", "annealing"), ("neal", "neal"))
    for count in (1000, 10)
}
#: Pure Python and slow, so that there are fewer instances.
DIMOD = {"QA": "quantum:reads=1000", "SA (dimod)": "dimod:reads=1000,sweeps=100"}
#: By the sweeps that samplers are given.
SWEPT = [f"{name}:reads=1000,sweeps={count}" for name in ("annealing", "neal") for count in (1000, 10, 2)]
ENERGIES = ["quantum:reads=1000", *SWEPT, "dimod:reads=1000,sweeps=100"]


def _of_samplers(job: Job) -> list[Place]:
    """Return the places of samplers; QA is 100 % of itself."""
    names = SAMPLERS if job.column == "samplers" else [name for name in DIMOD if name != "QA"]
    return [Place(job.row, name, name) for name in names]


SPREAD = "success_deviation"
SMALLEST, SECOND = ("logical", "physical", "chain"), ("relative", "deviation")
MEANS = ("logical", "physical_mean", "physical_deviation", "chain_mean")
_success = partial(View, metrics=("success_probability",), deviation="success_probability_deviation")
_qubits = partial(View, better="lower", places=by_job("embedding"))
ENTRIES: Mapping[str, Entry] = {
    "success": Entry(
        "Probability that one simulated quantum anneal with control errors finds the solution",
        "Table 9",
        [*success()],
        (
            _success("success", "Success probability of one anneal", places=by_job("quantum")),
            accuracy("success-qgm", "QUBOs whose lowest energy is right", places=_lowest),
            _success("success-deviation", "Mean and deviation over instances", places=_with_deviation),
        ),
        quick_rows=("k=4",),
        more={"k=4 | (a) ours": TEN, "k=5 | QGM baseline": 21, "k=5 | QGM row-wise": 21},
    ),
    "thermal": Entry(
        "Success of one anneal between two limits: a closed system, and equilibrium at the chip's temperature",
        "Table 9",
        [*thermal()],
        (
            _success("thermal", "One anneal; chains never break", places=_models, deviation=SPREAD),
            View("thermal-cost", "Core seconds per anneal", ("solve_seconds",), "seconds", "lower", _models),
        ),
        quick_rows=("k=4",),
        more={"k=4 | (a) ours": TEN},
    ),
    "training-solver": Entry(
        "The paper's loss trained through exact search, SA and simulated QA: accuracy under the solver of training",
        "Table 5",
        [*training_solvers()],
        (
            accuracy("training-solver", "k=5, permutation-aware; last the paper's", places=_before_and_after),
            accuracy("training-solver-k4", "k=4, the paper's network, before projection", places=_at_four),
        ),
    ),
    "training-raw": Entry(
        "RandGraph k=5 trained through raw reads with the paper's network and loss: accuracy, also on the training set",
        "Table 5",
        [*raw_training()],
        (accuracy("training-raw", "L5 H78: 15 epochs at 3e-4, or 450 at 1e-5 or 1e-3", places=_four_rows),),
        more={"(a) exact": TEN},
    ),
    "released-five": Entry(
        "RandGraph k=5 as the released code trains it, through exact search: accuracy",
        "Table 5",
        [
            cell("released-five", "k=5", f"(r) L{layers} H78", "released", **FIVE_RELEASED, layers=layers)
            for layers in (3, 5)
        ],
        (accuracy("released-five", "450 epochs at 1e-5", places=_before_and_after),),
        splits=5,
    ),
    "qubits": Entry(
        "Logical / physical qubits / longest chain on a Pegasus chip of size 16",
        "Table 8, Section 4.1",
        [
            cell("qubits", *place, "qubits", bits=bits, pattern=pattern, chip="pegasus", size=16)
            for place, (bits, pattern) in CHIPS.items()
        ]
        + [cell("qubits", "point sets", "aqm, two blocks", "qubits", **TWO_BLOCKS)],
        (
            _qubits("qubits", "Logical / physical qubits / longest chain", SMALLEST, "qubits"),
            _qubits("qubits-mean", "Logical / physical, mean / deviation / chain", MEANS, "mean qubits"),
        ),
        one_seed=True,  # embeddings of several seeds are averaged within a job
    ),
    "second-best": Entry(
        "Second-best energies in raw reads of SA, in % of those of simulated QA: mean / deviation over instances",
        "Table 10",
        [
            cell("second-best", row, column, "second-best", **network, solvers=solvers, instances=instances)
            for row, network in TRAINED.items()
            for column, solvers, instances in (("samplers", SAMPLERS, 141), ("dimod", DIMOD, 20))
        ],
        (View("second-best", "Mean / deviation", SECOND, places=_of_samplers, deviation="deviation"),),
    ),
    "energies": Entry(
        "Energies that samplers read on one QUBO",
        "Figure 8",
        [
            cell("energies", row, "samplers", "energies", **network, solvers=ENERGIES)
            for row, network in TRAINED.items()
        ],
        figures=("energies",),
    ),
    "training": Entry(
        "Wrong bits and couplings over training",
        "Figure 4b",
        [
            cell("training", "k=5", column, "training", problem=FIVE, protocol=protocol, overrides=some)
            for column, protocol, some in _RECIPES
        ],
        figures=("training",),
    ),
    "connectivity": Entry(
        "Chips with an instance per tile",
        "Figure 6",
        [
            cell("connectivity", row, "instances", "connectivity", chip=chip, size=3, bits=bits, pattern=chip)
            for row, chip, bits in (("Chimera", "chimera", 8), ("Pegasus", "pegasus", 15))
        ],
        figures=("connectivity",),
    ),
}
