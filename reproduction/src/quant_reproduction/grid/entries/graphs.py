"""Graph matching: RandGraph and Willow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.views import METHODS, TEN, Entry, Place, Places, accuracy, by_job, cell

#: Rates of Adam in the released code (github.com/MSeelbach/QuAnt,
#: commit b37bcc8), where the paper prints 1e-3.
RATES = {"randgraph": 1e-5, "pointset": 1e-6, "rotation": 1e-4}
RELEASED = {name: {"learning_rate": rate} for name, rate in RATES.items()}
#: The paper's networks, smallest first.
SIZES = {f"L{L} H{H}": {"layers": L, "hidden": H} for L in (3, 5) for H in (32, 78)}
#: The paper's loss without one of its terms.
ABLATIONS = {f"without {term}": {f"weight_{term}": 0.0} for term in ("unique", "mlp")}
#: Here annealing finds what exhaustive search finds, at a higher cost.
EXACT: Mapping[str, Mapping[str, Any]] = {"paper": {"solver": "exhaustive"}, "best": {}}
#: Those of the presets `paper` and `best`, spelled out.
WILLOW: Mapping[str, Any] = {"name": "willow", "k": 4, "split_seed": 1}
PAPER_WILLOW = {**WILLOW, "tau": 0.81, "eta": 0.98, "per_node": False}
OUR_WILLOW = {**WILLOW, "rotate": 0.3, "jitter": 0.05}
GRAPHS: Mapping[str, Any] = {"name": "randgraph", "k": 4}


def randgraph() -> Iterator[Job]:
    """Yield cells of all methods at four sizes; the loss without parts."""
    for row, size in SIZES.items():
        for protocol, exact in EXACT.items():
            make = partial(cell, "randgraph", row, problem=GRAPHS, protocol=protocol)
            for method in METHODS:
                own = {"method": method, **size, **exact}
                yield make(f"{method}, {protocol}", overrides=own)
                if protocol == "paper":
                    yield make(f"{method}, released rate", overrides={**own, **RELEASED["randgraph"]})
            for column, without in ABLATIONS.items() if protocol == "paper" else ():
                yield make(column, overrides={**size, **exact, **without}, tests=[{"label": "ablation"}])


def as_released() -> Iterator[Job]:
    """Yield cells of protocol (r): RandGraph and Willow at both depths."""
    make = partial(cell, "released-graphs", task="released")
    for row, size in SIZES.items():
        for method in METHODS:
            options: dict[str, Any] = {"method": method, **size}
            yield make(row, f"(r) {method}", kind="randgraph", **options)
            if size["hidden"] == 78:
                yield make(row, f"(r) {method}, Willow", kind="willow", **options)
    yield make("L5 H78", "(r) direct, Willow", task="released-direct")


def randgraph_at_scale() -> Iterator[Job]:
    """Yield cells beyond the paper: k = 4 ... 8 and 10, one bit per qubit."""
    make = partial(cell, "randgraph-scale", protocol="best")
    for k in (4, 5, 6, 7, 8):
        for method in METHODS:
            yield make(f"k={k}", method, problem={"name": "randgraph", "k": k}, overrides={"method": method})
    # 40 bits are beyond exhaustive search.
    sampled = [{"label": "annealing", "solver": "annealing:seed=0", "instances": 2000}]
    yield make("k=10", "quant", problem={"name": "randgraph", "k": 10}, overrides={}, tests=sampled)


def willow() -> Iterator[Job]:
    """Yield cells of Willow: all methods, and Direct on both W."""
    make = partial(cell, "willow", "k=4")
    for method in METHODS:
        own = {"method": method}
        exact = {**own, **EXACT["paper"]}
        yield make(f"(a) {method}", problem=PAPER_WILLOW, protocol="paper", overrides=exact)
        yield make(f"(b) {method}", problem=PAPER_WILLOW, protocol="best", overrides=own)
        yield make(f"(c) {method}", problem=OUR_WILLOW, protocol="best", overrides=own)
    yield make("(a) direct", "baseline", method="direct", problem=PAPER_WILLOW)
    yield make("(c) direct", "baseline", method="direct", problem=WILLOW)
    yield make("guess", "baseline", method="guess", problem=WILLOW)


def pipeline_entry(item: str, row: str, trained: Mapping[str, Any], data: str) -> Entry:
    """Return the entry of Figure 1: the stages of an instance."""
    made = cell(item, row, "(a) quant", "pipeline", **trained, solvers=["quantum:reads=1000"], instances=1)
    title = f"An instance on its way through the pipeline, {row}: p, A, reads of simulated QA, solution"
    return Entry(title, "Figure 1", [made], figures=("pipeline",), data=data)


def ablation_columns(full: str, label: str, best: str, before: str = "") -> Places:
    """Return columns of the loss with and without parts."""
    parts = {before + name: (name, "exhaustive" if before else "ablation") for name in ABLATIONS}
    shown = {full: ("full", label), **parts, best: ("best", "exhaustive")}
    return lambda job: [Place(job.row, *shown[job.column])] if job.column in shown else []


#: Of the first split.
MATCHES: Mapping[str, Mapping[str, Any]] = {
    "(a) quant": {"problem": PAPER_WILLOW, "protocol": "paper", "overrides": EXACT["paper"]},
    "(c) quant": {"problem": OUR_WILLOW, "protocol": "best", "overrides": {"epochs": 60}},
}
by_solver = by_job("exhaustive", "annealing")
ABLATED = ablation_columns("quant, paper", "exhaustive", "quant, best")
ENTRIES: Mapping[str, Entry] = {
    "randgraph": Entry(
        "RandGraph k=4, 8 Chimera qubits: accuracy before projection, and the paper's loss without its parts",
        "Tables 1a, 4a",
        [*randgraph()],
        (
            accuracy("randgraph", "Accuracy before projection"),
            accuracy("ablation-randgraph", "The paper's loss without its parts", places=ABLATED),
        ),
        quick_rows=("L5 H78",),
        more=dict.fromkeys(("quant, paper", "diag, paper", "pure, paper", *ABLATIONS), TEN),
    ),
    "released-graphs": Entry(
        "Graph matching as the released code trains it: accuracy before projection",
        "Tables 1a, 1b",
        [*as_released()],
        (accuracy("released-graphs", "Accuracy before projection"),),
        data="willow alexnet",
        splits=TEN,
    ),
    "randgraph-scale": Entry(
        "RandGraph beyond the paper: accuracy before projection, one bit per physical qubit",
        "",
        [*randgraph_at_scale()],
        (accuracy("randgraph-scale", "Before projection; k=10 by annealing", places=by_solver),),
        quick_rows=("k=4", "k=5", "k=10"),
    ),
    "willow": Entry(
        "Willow k=4, 8 Chimera qubits: accuracy before projection on unseen images",
        "Table 1b",
        [*willow()],
        (accuracy("willow", "Accuracy before projection"),),
        data="willow",
        ten="(a)",
    ),
    "pipeline": pipeline_entry("pipeline", "Willow k=4", MATCHES["(a) quant"], "willow"),
    "matches": Entry(
        "Keypoints of images, matched rightly and wrongly, under the paper's protocol and by our recipe",
        "Figures 2, 7",
        [
            cell("matches", "Willow k=4", name, "matches", **trained, instances=1000)
            for name, trained in MATCHES.items()
        ],
        figures=("matches",),
        data="willow",
    ),
}
