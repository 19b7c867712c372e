"""Point clouds: registration and rotation, under three protocols.

Columns: (a) is the paper's protocol, (b) our recipe with the paper's p and network,
(c) our recipe with our own inputs. Every seed has its own split of the shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quant_reproduction.grid.entries import graphs
from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.views import METHODS, Entry, Place, Places, View, by_job, cell, conditions

Options = Mapping[str, Any]
SMALL, LARGE = "L3 H32", "L5 H78"
#: The paper's inputs: no noise or wrong matches in training.
POINTSET, ROTATION = {"name": "pointset", "split_seed": 1}, {"name": "rotation", "split_seed": 1}
#: Those of the preset `best`, spelled out: a record's key depends on them.
OUR_POINTSET = {**POINTSET, "starts": 4, "form": "features", "train_noise": 0.2, "rotations": 300}
OUR_ROTATION = {**ROTATION, "covariance": "joint", "train_noise": 0.2, "leftover": True, "draws": 100}
BASELINES = ("icp", "icp-two-starts", "aqm", "aqm-iterated", "guess")
INTERVALS = ("0-10", "10-20", "20-30", "30-40", "40-50", "50-60")


def noise_rows(what: str, *shares: float) -> dict[str, str]:
    """Return the label of each row's test."""
    rows = {f"{100 * share:.0f} % {what}": f"noise {share:.0%}" for share in shares}
    return rows | {f"0 % {what}": "exhaustive"}


def noise_tests(rows: Mapping[str, str]) -> list[Options]:
    """Return the tests of :func:`noise_rows`."""
    shares = {label: float(row.partition(" ")[0]) / 100 for row, label in rows.items()}
    return [{"label": label, "set": {"noise": share}} for label, share in shares.items()]


NOISE = noise_rows("noise", 0, 0.05, 0.1, 0.15, 0.2)
WRONG = noise_rows("wrong matches", 0, 0.01, 0.05, 0.1, 0.15, 0.2)
NOISE_TESTS, WRONG_TESTS = noise_tests(NOISE), noise_tests(WRONG)
INTERVAL_TESTS = [{"label": f"interval {each}", "set": {"interval": each}} for each in INTERVALS]
SYMMETRY = {"nearly symmetric shapes": "near-symmetric", "other shapes": "others"}
SYMMETRY_TESTS = [{"label": each, "set": {"shapes": each}, "instances": 1000} for each in SYMMETRY.values()]
SAMPLED = ("annealing", "quantum")
SOLVER_TESTS = [{"label": each, "solver": f"{each}:seed=0", "instances": 500} for each in SAMPLED]
SOLVER_ROWS = {"exhaustive": "exhaustive"} | {f"{each} (simulated)": each for each in SAMPLED}


def under_protocols(
    make: Any, paper: Options, ours: Options, tests: Sequence[Options], more: Sequence[Options]
) -> Iterator[Job]:
    """Yield cells of all methods and sizes under (a), (b) and (c)."""
    at_paper, at_best = partial(make, problem=paper, protocol="paper"), partial(make, protocol="best")
    p, longer = paper, {"epochs": 200}
    if paper["name"] == "rotation":  # stages follow one another
        p, longer = {**paper, "leftover": True}, {}
    for row, size in graphs.SIZES.items():
        for method in METHODS:
            own = {"method": method, **size}
            scored = [*tests, *more] if (method, row) == ("quant", LARGE) else tests
            yield at_paper(row, f"(a) {method}", overrides=own, tests=scored)
            slow = {**own, **graphs.RELEASED[paper["name"]]}
            yield at_paper(row, f"(a) {method}, released rate", overrides=slow, tests=tests[:1])
            yield at_best(row, f"(b) {method}", problem=p, overrides={**own, **longer}, tests=scored)
            yield at_best(row, f"(c) {method}", problem=ours, overrides=own, tests=scored)
        for column, without in graphs.ABLATIONS.items():
            yield at_paper(row, f"(a) {column}", overrides={**size, **without}, tests=tests[:1])


def pointsets() -> Iterator[Job]:
    """Yield cells of point sets, also of unequal sizes, and of baselines."""
    make = partial(cell, "pointset")
    more: list[Options] = [*INTERVAL_TESTS, *SYMMETRY_TESTS, *SOLVER_TESTS]
    yield from under_protocols(make, POINTSET, OUR_POINTSET, NOISE_TESTS, more)
    unequal = {**POINTSET, "template_points": 100, "reference_points": 70}
    papers: Any = {"problem": unequal, "protocol": "paper", "overrides": {}}
    yield make(LARGE, "(a) quant, unequal sizes", **papers, tests=NOISE_TESTS)
    tests: list[Options] = [*NOISE_TESTS, *SYMMETRY_TESTS]
    for name in BASELINES:
        yield make(LARGE, name, "baseline", method=name, problem=POINTSET, tests=tests)


def rotations() -> Iterator[Job]:
    """Yield cells of rotations, and of Procrustes."""
    make = partial(cell, "rotation", task="stages")
    yield from under_protocols(make, ROTATION, OUR_ROTATION, WRONG_TESTS, SOLVER_TESTS)
    papers = partial(make, LARGE, protocol="paper", overrides={}, tests=WRONG_TESTS)
    yield papers("(a) quant, random pairs", problem={**ROTATION, "turned": True})
    yield papers("(a) quant, one network", task="train", problem=ROTATION)
    sharp: Any = {"problem": {**OUR_ROTATION, "angle_bits": 8, "soft_width": 2.0}, "protocol": "best"}
    yield make(LARGE, "(c) quant, 3 x 8 bits", **sharp, overrides={"beta": 20.0}, tests=WRONG_TESTS)
    for name in ("procrustes", "guess"):
        yield cell("rotation", LARGE, name, "baseline", method=name, problem=ROTATION, tests=WRONG_TESTS)


def trained_with_noise() -> Iterator[Job]:
    """Yield cells of the smallest network, trained with wrong matches."""
    make = partial(cell, "rotation-trained", SMALL, task="stages", tests=WRONG_TESTS)
    for method in METHODS:
        overrides = {"method": method, **graphs.SIZES[SMALL]}
        every = {**ROTATION, "train_noise": 0.1, "same_noise": True, "draws": 100}
        yield make(f"(a) {method}", problem=every, protocol="paper", overrides=overrides)
        up_to = {**ROTATION, "train_noise": 0.1, "leftover": True, "draws": 100}
        yield make(f"(b) {method}", problem=up_to, protocol="best", overrides=overrides)


def as_released(kind: str) -> list[Job]:
    """Yield cells of protocol (r), and untrained baselines."""
    make = partial(cell, f"released-{kind}")
    trained = [
        make(row, f"(r) {method}", "released", kind=kind, method=method, **size)
        for row, size in graphs.SIZES.items()
        for method in METHODS
    ]
    if kind == "2d":
        return trained
    noisy = {"kind": kind, **graphs.SIZES[SMALL], "noisy": True}
    trained += [make(SMALL, f"(r) {method}, noisy", "released", method=method, **noisy) for method in METHODS]
    chains = [replace(job, options={**job.options, "chain": True}) for job in trained]
    trained += [replace(job, column=f"{job.column}, chain") for job in chains]
    return [*trained, make(SMALL, "levels", "released-levels")]


def of_levels(rows: Mapping[str, str]) -> Places:
    """Return the smallest networks under each test, next to fixed answers."""
    trained = conditions(SMALL, rows)

    def places(job: Job) -> Iterable[Place]:
        if job.task != "released-levels":
            return () if "noisy" in job.column else trained(job)
        names = ("procrustes", "procrustes, points in a chain", "constant", "random")
        return [Place(row, name, f"{name}, {label}") for row, label in rows.items() for name in names]

    return places


def of_noisy(job: Job) -> list[Place]:
    """Return the networks trained with wrong matches, under each test."""
    return [Place(row, job.column, label) for row, label in WRONG.items() if "noisy" in job.column]


def of_variants(shown: Mapping[str, str], chained: Mapping[str, str] = {}) -> Places:
    """Return variants that the released code leaves open, for quant."""
    both = {"(r) quant": shown, "(r) quant, chain": chained}
    return lambda job: [Place(job.row, *each) for each in both.get(job.column, {}).items()]


def figure(title: str, paper: str, item: str, of_points: bool = True, **options: Any) -> Entry:
    """Return the entry of a figure of models trained under (a) and (c); the item begins with the task."""
    row, data = ("point sets", "shapes2d") if of_points else ("rotations", "modelnet10")
    theirs, ours = (POINTSET, OUR_POINTSET) if of_points else (ROTATION, OUR_ROTATION)
    task = item.partition("-")[0]
    make = partial(cell, item, row, task=task, overrides={})
    of_paper = make("(a) quant", problem=theirs, protocol="paper", **options)
    made = [of_paper, make("(c) quant", problem=ours, protocol="best", **options)]
    return Entry(title, paper, made, figures=(task,), data=data)


PAPER: Options = {"protocol": "paper", "problem": POINTSET}
#: The paper's protocol for a tenth of its epochs.
EARLY_POINTS: Options = {**PAPER, "overrides": {"epochs": 2}}
EARLY_TURNS: Options = {**EARLY_POINTS, "problem": ROTATION}


#: Neighbors of each point, and how often they are found again.
AQM: Options = {"neighbors": [1, 3, 10], "rounds": [1, 10, 100], "instances": 2000}


def aqm_places(job: Job) -> list[Place]:
    """Return a row per number of neighbors, a column per number of rounds."""
    shown = {str(count): f"{count} nearest neighbor{'s' * (count > 1)}" for count in job.options["neighbors"]}
    shown["starts"] = "3, the better of two starts"
    shown["own"] = "every point with its own (not known in the problem)"
    rounds = {each: f"rounds: {each}" for each in job.options["rounds"]}
    return [Place(row, rounds[each], f"{count}, {each}") for count, row in shown.items() for each in rounds]


degrees = partial(View, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")


def by_size(
    name: str, title: str, rows: Mapping[str, str], large: Sequence[str] = (), small: Sequence[str] = ()
) -> list[View]:
    """Return test conditions of the largest and of the smallest networks."""
    shown = {"": (LARGE, large), "-small": (SMALL, small)}
    return [
        degrees(name + more, f"{title}, {size}", places=conditions(size, rows, always))
        for more, (size, always) in shown.items()
    ]


LOSSES = {"full": {}, **graphs.ABLATIONS}
panel = partial(cell, "loss-panels", "point sets", task="alignment", cases=2)
by_solver = conditions(LARGE, SOLVER_ROWS, only=("(a) quant", "(c) quant"))
ablations = graphs.ablation_columns("(a) quant", "exhaustive", "(c) quant", "(a) ")
intervals = conditions(LARGE, {f"{each} degrees": f"interval {each}" for each in INTERVALS})
symmetry = conditions(LARGE, SYMMETRY, BASELINES)
#: Columns of variants -> tests.
TRAINED_AND_NEW = ("trained shapes", "new shapes")
PAIRED = ("3 neighbors, all pairs", "10 neighbors, per instance", "3 neighbors, per instance")
PLANAR = {"10 neighbors, all pairs": "exhaustive"} | {each: each for each in (*PAIRED, *TRAINED_AND_NEW)}
CHAINED = {"0 %, chain": "exhaustive"} | {f"1 %, {each}, chain": each for each in TRAINED_AND_NEW}
SPATIAL = {"1 %, random order": "noise 1%", "0 %, random order": "exhaustive"}
SPATIAL |= {"0 %, random order, per instance": "per instance"}
ENTRIES: Mapping[str, Entry] = {
    "pointset": Entry(
        "2D point set registration, 9 bits: mean / median error in degrees on unseen shapes",
        "Tables 2, 4b, 6, 8, 13, 14",
        [*pointsets()],
        (
            degrees("pointset", "By size of the network"),
            *by_size("pointset-noise", "Under noise", NOISE, BASELINES, BASELINES),
            degrees("pointset-intervals", "By angle, L5 H78", places=intervals),
            degrees("pointset-symmetry", "By symmetry of the shape, L5 H78", places=symmetry),
            degrees("pointset-solvers", "By solver at test time, L5 H78", places=by_solver),
            degrees("ablation-pointset", "The paper's loss without its parts, under (a)", places=ablations),
        ),
        data="shapes2d",
        quick_rows=(LARGE,),
        ten="(a)",
    ),
    "aqm": Entry(
        "AQM by its settings: mean / median error in degrees, and how much of the turn it finds",
        "Table 8",
        [cell("aqm", "point sets", "AQM", "aqm", problem=POINTSET, **AQM)],
        (
            degrees("aqm", "Mean / median error, by neighbors and rounds", places=aqm_places),
            View("aqm-found", "Share of the turn that is found, in %", ("found",), places=aqm_places),
        ),
        data="shapes2d",
    ),
    "released-2d": Entry(
        "Point sets as the released code runs them: mean / median error in degrees, wrapped at 30",
        "Tables 2, 4b, 6, 8, 13, 14",
        as_released("2d"),
        (
            degrees("released-2d", "By size of the network"),
            *by_size("released-2d-noise", "Under the text's noise", NOISE),
            degrees("released-2d-intervals", "By angle, L5 H78", places=intervals),
            degrees("released-2d-variants", "Variants; trained and new shapes", places=of_variants(PLANAR)),
        ),
        data="shapes2d",
        splits=5,
    ),
    "released-3d": Entry(
        "Rotations as the released code runs them: mean / median error in whole degrees",
        "Tables 3, 4c, 7, 11",
        as_released("3d"),
        (
            degrees("released-3d", "By size of the network, 1 % wrong matches", places=by_job("noise 1%")),
            degrees("released-3d-noise-trained", "Trained with wrong matches, too, L3 H32", places=of_noisy),
            degrees("released-3d-noise", "With wrong matches, L5 H78", places=conditions(LARGE, WRONG)),
            degrees("released-3d-noise-small", "With wrong matches, L3 H32", places=of_levels(WRONG)),
            degrees(
                "released-3d-variants", "Variants; both kinds of shapes", places=of_variants(SPATIAL, CHAINED)
            ),
        ),
        data="modelnet10",
        splits=5,
    ),
    "pipeline-2d": graphs.pipeline_entry("pipeline-2d", "point sets", EARLY_POINTS, "shapes2d"),
    "alignment-2d": figure("Point sets before and after alignment", "Figure 3", "alignment-2d", cases=4),
    "loss-panels": Entry(
        "The same point sets aligned by the paper's loss in full and without its parts",
        "Figure 5",
        [panel(f"(a) {name}", **PAPER, overrides=without) for name, without in LOSSES.items()],
        figures=("alignment",),
        data="shapes2d",
    ),
    "failures": figure("Point sets that are aligned worst", "Figure 11", "failures", instances=1000, cases=3),
    "rotation": Entry(
        "3D rotation in three stages of 5 bits: mean / median error in degrees on unseen shapes",
        "Tables 3, 4c, 7, 11, 12a, Figure 4a",
        [*rotations()],
        (
            degrees("rotation", "By size of the network"),
            *by_size("rotation-noise", "With wrong matches", WRONG, small=("procrustes", "guess")),
            degrees("rotation-solvers", "By solver at test time, L5 H78", places=by_solver),
            degrees("ablation-rotation", "The paper's loss without its parts, under (a)", places=ablations),
        ),
        data="modelnet10",
        quick_rows=(LARGE,),
        ten="(a)",
    ),
    "rotation-trained": Entry(
        "3D rotation, trained with 10 % wrong matches: mean / median error in degrees, L3 H32",
        "Table 12b",
        [*trained_with_noise()],
        (degrees("rotation-noise-trained", "Trained with wrong matches", places=conditions(SMALL, WRONG)),),
        data="modelnet10",
        ten="(a)",
    ),
    "pipeline-3d": graphs.pipeline_entry("pipeline-3d", "rotations", EARLY_TURNS, "modelnet10"),
    "errors": figure(
        "Errors of rotations by solver at test time",
        *("Figure 4a", "errors", False),
        solvers=["exhaustive", "annealing", "quantum"],
        instances=1000,
    ),
    "alignment-3d": figure(
        "Rotations undone stage by stage, 10 % of the matches wrong",
        *("Figures 9, 10", "alignment-3d", False),
        cases=2,
        noise=0.1,
    ),
}


FIRST_STAGE = {**OUR_ROTATION, "stage": "alpha"}
#: problem -> what is trained, its share of epochs, and rate and β of the recipe
SEARCHED: Mapping[str, tuple[str, Mapping[str, Any], int, float, float]] = {
    "randgraph": ("RandGraph k=4, 30 of 150 epochs", graphs.GRAPHS, 30, 3e-3, 6.0),
    "willow": ("Willow k=4, 40 of 375 epochs", graphs.OUR_WILLOW, 40, 3e-3, 8.0),
    "pointset": ("point sets, 10 of 100 epochs", OUR_POINTSET, 10, 2e-3, 10.0),
    "rotation": ("rotations, first stage, 10 of 40 epochs", FIRST_STAGE, 10, 4e-3, 10.0),
}
SEARCH_DATA = {"willow": "willow", "pointset": "shapes2d", "rotation": "modelnet10"}


def candidates(rate: float, beta: float) -> dict[str, Mapping[str, Any]]:
    """Return our recipe, and variants of rate, β, schedule or scale of p."""
    changed: dict[str, Mapping[str, Any]] = {"the recipe as it is": {}}
    changed |= {f"rate {value:.2g}": {"learning_rate": value} for value in (rate / 3, 3 * rate)}
    changed |= {f"β {value:.2g}": {"beta": value} for value in (beta / 3, 3 * beta)}
    changed["constant rate"] = {"schedule": "constant"}
    return {**changed, "p not standardised": {"standardize": False}}


def by_candidate(job: Job) -> list[Place]:
    """Return a row per candidate."""
    return [Place(label.replace("ised", "ized"), job.row, label) for label in job.options["candidates"]]


def search_entry(name: str) -> Entry:
    """Return the entry of the search for the recipe of one problem."""
    row, problem, epochs, rate, beta = SEARCHED[name]
    trained = {"problem": problem, "protocol": "best", "overrides": {"epochs": epochs}}
    item = f"search-{name}"
    title = f"Our recipe with one choice changed at a time, on validation instances: {row}"
    made = cell(item, row, "validation", "search", **trained, candidates=candidates(rate, beta))
    view = degrees if name in ("pointset", "rotation") else partial(View, metrics=("accuracy",))
    views = (view(item, title, places=by_candidate),)
    return Entry(title, "", [made], views, data=SEARCH_DATA.get(name, ""))


SEARCHES: Mapping[str, Entry] = {f"search-{name}": search_entry(name) for name in SEARCHED}
