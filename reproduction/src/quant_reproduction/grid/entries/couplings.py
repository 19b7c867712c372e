"""Problems beyond the paper for which couplings help."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.views import METHODS, Entry, Place, Places, View, accuracy, cell

#: Columns of baselines.
CUTS, RESTARTED = "greedy and local search", "local search, 30 restarts"
PACKING, FLIPPED = "greedy by density", "greedy and 3-flip local search"
SEARCH, READ = "exact search with the true rules", "reading each image, then solving"
JOINT = "reader and true rules"
FOREST, HUNGARIAN = "random forest on windows", "Hungarian on diag's scores"
POWERSET = "SVM on label sets"
SVMS = ("chain of SVMs", "chains of SVMs, 10 that vote", POWERSET)
MAXCUT: Mapping[str, Mapping[str, Any]] = {f"{n} nodes": {"name": "maxcut", "nodes": n} for n in (8, 16)}
KNAPSACK: Mapping[str, Any] = {"name": "knapsack", "items": 10}
PUZZLES = {"SATNet's": "satnet", "RRN's": "rrn"}
CLASSES = ("car", "duck", "face", "motorbike", "winebottle")
#: Settings that were tried for Willow's ten keypoints.
TRIED: Mapping[str, Mapping[str, Any]] = {
    "600 steps, 50 % dropped": {"epochs": 60, "dropout": 0.5},
    "1,200 steps, 70 % dropped": {"epochs": 120, "dropout": 0.7},
    "2,000 steps, 80 % dropped": {},
    "3,000 steps, 85 % dropped": {"epochs": 300, "dropout": 0.85},
    "2,000 steps, 80 % dropped, rotated by 0.35": {"inputs": {"rotate": 0.35}},
    "uncoupled, Hungarian, 100 steps, 30 % dropped": {"method": "diag", "epochs": 10, "dropout": 0.3},
    "uncoupled, Hungarian, 2,000 steps, 80 % dropped": {"method": "diag", "epochs": 200, "dropout": 0.8},
}
#: Metrics of views.
RULES, SECONDS = ("rules", "of", "others"), ("learning_seconds", "solve_seconds")
ALONE = ("only_quant", "only_rival")
CHECKED = ("above_the_truth", "checked_exactly", "lowest_found")
CHECKS = "Grids above the true one's cost / solved exactly / found lowest"
counts = partial(View, unit="count")


def trained(item: str, row: str, problem: Mapping[str, Any], baselines: Mapping[str, str]) -> list[Job]:
    """Return cells of quant, diag and pure, and of classical methods."""
    make = partial(cell, item, row, problem=problem)
    ways = [make(method, protocol="best", overrides={"method": method}) for method in METHODS]
    return [*ways, *(make(column, "baseline", method=name) for column, name in baselines.items())]


def on_chip(item: str, row: str, **options: Any) -> Job:
    """Return the job for the cost of a row's QUBO on a chip."""
    return cell(item, row, "on a chip", "chip-view", **options)


def tried(row: str, method: str = "quant", **options: Any) -> Job:
    """Return the job of settings of one network, on a split that is not reported."""
    options |= {"method": method, "first_split": 100, "members": 1}
    return cell("search-willow10", row, method, "willow10", **options)


def _of_quant(label: str) -> Places:
    return lambda job: [Place(job.row, "quant", label)] if job.column in ("quant", "all") else []


def _sudoku(job: Job) -> list[Place]:
    label = "search" if job.column == SEARCH else job.column
    rows = {"RRN's of 17 hints": "_17", "RRN's 9,000": ""} if job.row == "RRN's" else {"SATNet's 1,000": ""}
    return [Place(row, job.column, label, suffix) for row, suffix in rows.items()]


def _visual(job: Job) -> list[Place]:
    labels = {"quant": "quant", "diag": "diag", READ: "read", JOINT: "joint"}
    return [Place(job.row, column, label) for column, label in labels.items()]


def _willow(job: Job) -> list[Place]:
    method = job.column
    labels = {method: method, f"Hungarian on {method}'s scores": f"{method}, Hungarian"}
    if method == "quant":
        labels = {method: method, "quant, mean of 3": "quant, mean of 3"}
    rows = {"all classes": ""} | {name: f"_{name}" for name in CLASSES}
    return [Place(row, *both, suffix) for row, suffix in rows.items() for both in labels.items()]


def _tried(job: Job) -> list[Place]:
    shown = HUNGARIAN if job.column == "diag" else job.column
    places = [place for place in _willow(job) if place.column == shown]
    return [place._replace(row=job.row, column=place.row) for place in places]


def _scene(job: Job) -> list[Place]:
    columns = [*METHODS, "one SVM per label", *SVMS]
    rows = ["given split", "all splits"] if job.seed == 0 else ["all splits"]
    return [Place(row, column, column) for row in rows for column in columns]


def _paired(job: Job) -> list[Place]:
    return [Place("given split", column, column) for column in SVMS if job.seed == 0]


def _snakes(job: Job) -> list[Place]:
    label = "forest" if job.column == FOREST else job.column
    rows = {"cells": "", "cells of snakes": "_snake", "whole grids": "_grid"}
    return [Place(row, job.column, label, suffix) for row, suffix in rows.items()]


ENTRIES: Mapping[str, Entry] = {
    "maxcut": Entry(
        "Max-cut of random graphs: the share of cuts that are optimal",
        "",
        [
            job
            for row, problem in MAXCUT.items()
            for job in trained("maxcut", row, problem, {CUTS: "local-search", RESTARTED: "restarts"})
        ],
        (accuracy("maxcut", "Optimal cuts"),),
        once=[on_chip("maxcut", row, bits=problem["nodes"]) for row, problem in MAXCUT.items()],
        quick_rows=("8 nodes",),
    ),
    "knapsack": Entry(
        "Knapsack: the value of the repaired packing against the best",
        "",
        trained("knapsack", "10 items", KNAPSACK, {PACKING: "greedy", FLIPPED: "three-flips"}),
        (
            View("knapsack", "Value of the repaired packing, in % of the best", ("value_projected",)),
            View("knapsack-feasible", "Packings that fit before repair", ("feasible",)),
        ),
        once=[on_chip("knapsack", "10 items", bits=10)],
    ),
    "sudoku": Entry(
        "Sudoku's rules learned from solved grids: puzzles of two published test sets that are solved",
        "",
        [
            cell("sudoku", row, method, "sudoku", set=name, method=method)
            for row, name in PUZZLES.items()
            for method in METHODS
        ],
        (
            accuracy("sudoku", "Puzzles solved", places=_sudoku),
            counts("sudoku-rules", "Learned rules / all / other couplings", RULES, places=_of_quant("rules")),
            View("sudoku-seconds", "Learning / solving", SECONDS, "seconds", "lower", _of_quant("quant")),
        ),
        data="sudoku",
        generated=True,
        once=[
            *(cell("sudoku", row, SEARCH, "sudoku-search", set=name) for row, name in PUZZLES.items()),
            on_chip("sudoku", "SATNet's", problem={"name": "sudoku", "set": "satnet"}),
            on_chip("sudoku", "RRN's", problem={"name": "sudoku", "set": "rrn", "hints": 17}),
        ],
        quick_rows=("SATNet's",),
    ),
    "visual-sudoku": Entry(
        "Sudoku with hints as images: the first 1,000 of SATNet's puzzles, grids that are all right",
        "",
        [cell("visual-sudoku", "SATNet's 1,000", "all", "visual-sudoku")],
        (
            accuracy("visual-sudoku", "Grids all right", places=_visual),
            counts("visual-sudoku-checked", CHECKS, CHECKED, places=_of_quant("quant")),
        ),
        data="sudoku",
        generated=True,
    ),
    "willow10": Entry(
        "Willow's ten keypoints on frozen VGG16 features: keypoints matched right, over random splits by content",
        "",
        [cell("willow10", "ten keypoints", method, "willow10", method=method) for method in METHODS],
        (accuracy("willow10", "Keypoints matched right", places=_willow),),
        data="willow",
        splits=10,
        once=[on_chip("willow10", "ten keypoints", bits=100)],
    ),
    "search-willow10": Entry(
        "Willow's ten keypoints: settings of one network, on splits 100 to 104, which chose them",
        "",
        [tried(row, **options) for row, options in TRIED.items()],
        (accuracy("search-willow10", "Keypoints matched right", places=_tried),),
        data="willow",
        splits=5,
        quick_rows=("2,000 steps, 80 % dropped",),
    ),
    "scene": Entry(
        "scene: pictures all of whose six labels are right",
        "",
        [cell("scene", "six labels", "all", "scene")],
        (
            accuracy("scene", "Pictures with all labels right", places=_scene),
            counts("scene-paired", "Right by quant alone / by the baseline alone", ALONE, places=_paired),
            View("scene-chance", "McNemar's probability", ("chance",), "%", "lower", _paired),
        ),
        data="structured",
        generated=True,
        splits=5,
        once=[on_chip("scene", "six labels", bits=6)],
    ),
    "snakes": Entry(
        "snakes: cells numbered from tail to head on grids of different sizes",
        "",
        [
            cell("snakes", "11 labels per cell", column, "snakes", method=method)
            for column, method in {**dict(zip(METHODS, METHODS, strict=True)), FOREST: "forest"}.items()
        ],
        (accuracy("snakes", "Right", places=_snakes),),
        data="structured",
        generated=True,
        once=[on_chip("snakes", "11 labels per cell", problem={"name": "snakes"})],
    ),
}
