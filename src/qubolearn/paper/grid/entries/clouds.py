"""Point clouds: 2D registration of point sets, and 3D rotation in three stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from qubolearn.paper.grid.entries.contract import ABLATIONS, METHODS, SIZES, Entry, ablation_columns, cell
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import View, conditions

__all__ = ["ENTRIES"]

Options = Mapping[str, Any]
LARGE = "L5 H78"
#: The paper's inputs: one AQM matrix, the cross-covariance; no noise or wrong matches in training.
POINTSET, ROTATION = {"name": "pointset"}, {"name": "rotation"}
#: Those of the preset `best`, spelled out: a record's key holds what was asked.
OUR_POINTSET = {**POINTSET, "starts": 4, "form": "features", "train_noise": 0.2, "rotations": 300}
OUR_ROTATION = {**ROTATION, "covariance": "joint", "train_noise": 0.2, "leftover": True, "draws": 100}
BASELINES = ("icp", "icp-two-starts", "aqm")
INTERVALS = ("0-10", "10-20", "20-30", "30-40", "40-50", "50-60")
#: row -> the share of wrong matches in training; p is the paper's, which withstands them best when none were seen
TRAINED = {"trained without wrong matches": 0.0, "trained with up to 10 % wrong matches": 0.1}


def noise_rows(what: str, *shares: float) -> dict[str, str]:
    """Shown row -> label of its test; the one without noise is the plain test."""
    return {f"{100 * share:.0f} % {what}": f"noise {share:.0%}" if share else "exhaustive" for share in shares}


def noise_tests(rows: Mapping[str, str]) -> list[Options]:
    """The tests of :func:`noise_rows`."""
    return [{"label": label, "set": {"noise": float(row.partition(" ")[0]) / 100}} for row, label in rows.items()]


NOISE, WRONG = noise_rows("noise", 0, 0.05, 0.1, 0.15, 0.2), noise_rows("wrong matches", 0, 0.01, 0.05, 0.1, 0.15, 0.2)
NOISE_TESTS, WRONG_TESTS = noise_tests(NOISE), noise_tests(WRONG)
INTERVAL_TESTS = [{"label": f"interval {each}", "set": {"interval": each}} for each in INTERVALS]
SOLVER_TESTS = [{"label": each, "solver": f"{each}:seed=0", "instances": 500} for each in ("annealing", "quantum")]
SOLVER_ROWS = {"exhaustive": "exhaustive", "annealing (simulated)": "annealing", "quantum (simulated)": "quantum"}


def by_size(make: Any, gap_epochs: int, tests: Sequence[Options], more_tests: Sequence[Options]) -> Iterator[Job]:
    """At each size the paper's loss on our inputs in full and without its parts, and our recipe for each method.

    quant at the largest size is scored under more tests than the others.
    """
    for row, size in SIZES.items():
        for column, without in {"full": {}, **ABLATIONS}.items():
            overrides = {**size, "loss": "gap", "weight_mlp": 1e-4, "epochs": gap_epochs, **without}
            yield make(row, column, overrides=overrides, tests=[{"label": "ablation"}])
        for method in METHODS:
            own = [*tests, *more_tests] if (method, row) == ("quant", LARGE) else tests
            yield make(row, method, overrides={"method": method, **size}, tests=own)


def pointsets() -> Iterator[Job]:
    """Our recipe at the paper's four sizes, the paper's protocol at the largest, its loss without parts, and peers."""
    make = partial(cell, "pointset", tests=NOISE_TESTS)
    ours = partial(make, problem=OUR_POINTSET, protocol="best")
    yield from by_size(ours, 25, NOISE_TESTS, [*INTERVAL_TESTS, *SOLVER_TESTS])
    yield make(LARGE, "quant, paper's p", problem=POINTSET, protocol="best", overrides={"epochs": 200})
    for method in METHODS:
        papers = partial(make, LARGE, f"{method}, paper", problem=POINTSET, protocol="paper")
        own = [*NOISE_TESTS, *(INTERVAL_TESTS if method == "quant" else [])]
        yield papers(overrides={"method": method}, tests=own)
    for name in BASELINES:
        yield make(LARGE, name, "baseline", method=name, problem=POINTSET)


def rotations() -> Iterator[Job]:
    """Our recipe at the paper's four sizes and with 8 bits, the paper's protocol at the largest, its loss in parts."""
    make = partial(cell, "rotation", task="stages", tests=WRONG_TESTS)
    yield from by_size(partial(make, problem=OUR_ROTATION, protocol="best"), 10, WRONG_TESTS, SOLVER_TESTS)
    yield make(LARGE, "quant, paper's p", problem=ROTATION, protocol="best", overrides={})
    sharp = {**OUR_ROTATION, "angle_bits": 8, "soft_width": 2.0}
    yield make(LARGE, "quant, 3 x 8 bits", problem=sharp, protocol="best", overrides={"beta": 20.0})
    for method in METHODS:
        yield make(LARGE, f"{method}, paper", problem=ROTATION, protocol="paper", overrides={"method": method})
    yield procrustes("rotation", LARGE)


def trained_with_noise() -> Iterator[Job]:
    """The smallest network, trained without and with wrong matches."""
    for row, share in TRAINED.items():
        problem = {**ROTATION, "leftover": True, "train_noise": share, "draws": 100}
        for method in METHODS:
            make = partial(cell, "rotation-trained", row, method, "stages", problem=problem, protocol="best")
            yield make(overrides={"method": method, **SIZES["L3 H32"]}, tests=WRONG_TESTS)
    yield procrustes("rotation-trained", "any")


def procrustes(item: str, row: str) -> Job:
    return cell(item, row, "procrustes", "baseline", method="procrustes", problem=ROTATION, tests=WRONG_TESTS)


def figure(title: str, paper: str, item: str, task: str, of_points: bool, **options: Any) -> Entry:
    """The entry of a figure of a model that is trained by our recipe, on point sets or else on rotations."""
    row, problem = ("point sets", OUR_POINTSET) if of_points else ("rotations", OUR_ROTATION)
    made = cell(item, row, "quant, best", task, problem=problem, protocol="best", overrides={}, **options)
    data = "shapes2d" if of_points else "modelnet10"
    return Entry(title, paper, [made], figures=(task,), data=data, one_seed=True)


degrees = partial(View, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")
by_solver = conditions(LARGE, SOLVER_ROWS, only=("quant",))
ablations = ablation_columns("full", "ablation", "quant")
clean, noisy = (conditions(row, WRONG, ("procrustes",)) for row in TRAINED)
intervals = conditions(LARGE, {f"{each} degrees": f"interval {each}" for each in INTERVALS})
ENTRIES: Mapping[str, Entry] = {
    "pointset": Entry(
        "2D point set registration, 9 bits: mean / median error in degrees on unseen shapes",
        "Tables 2, 4b, 6, 8, 13, 14",
        [*pointsets()],
        (
            degrees("pointset", "By size of the network; the paper's protocol at the largest"),
            degrees("pointset-noise", "Under noise, L5 H78", places=conditions(LARGE, NOISE, BASELINES)),
            degrees("pointset-noise-small", "Under noise, L3 H32", places=conditions("L3 H32", NOISE, BASELINES)),
            degrees("pointset-intervals", "By angle, L5 H78", places=intervals),
            degrees("pointset-solvers", "By solver at test time, L5 H78", places=by_solver),
            degrees("ablation-pointset", "The paper's loss without its parts, on our inputs", places=ablations),
        ),
        data="shapes2d",
        quick_rows=("L3 H32", LARGE),
    ),
    "alignment-2d": figure(
        "Point sets before and after alignment", "Figure 3", "alignment-2d", "alignment", True, cases=4
    ),
    "failures": figure(
        "Point sets that are aligned worst", "Figure 11", "failures", "failures", True, instances=1000, cases=3
    ),
    "rotation": Entry(
        "3D rotation in three stages of 5 bits: mean / median error in degrees on unseen shapes",
        "Tables 3, 4c, 11",
        [*rotations()],
        (
            degrees("rotation", "By size of the network; the paper's protocol at the largest"),
            degrees("rotation-noise", "With wrong matches, L5 H78", places=conditions(LARGE, WRONG)),
            degrees("rotation-solvers", "By solver at test time, L5 H78", places=by_solver),
            degrees("ablation-rotation", "The paper's loss without its parts, on our inputs", places=ablations),
        ),
        data="modelnet10",
        quick_rows=(LARGE,),
    ),
    "rotation-trained": Entry(
        "3D rotation with wrong matches, trained without and with them: mean / median degrees, L3 H32, the paper's p",
        "Tables 7, 12",
        [*trained_with_noise()],
        (
            degrees("rotation-noise-small", "Trained without wrong matches, L3 H32", places=clean),
            degrees("rotation-noise-trained", "Trained with up to 10 % wrong matches, L3 H32", places=noisy),
        ),
        data="modelnet10",
    ),
    "errors": figure(
        "Errors of rotations by solver at test time",
        *("Figure 4a", "errors", "errors", False),
        solvers=["exhaustive", "annealing", "quantum"],
        instances=1000,
    ),
    "alignment-3d": figure(
        "Rotations undone stage by stage, 10 % of the matches wrong",
        *("Figures 9, 10", "alignment-3d", "alignment", False),
        cases=2,
        noise=0.1,
    ),
}
