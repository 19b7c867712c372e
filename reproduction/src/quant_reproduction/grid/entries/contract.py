"""Entries of the grid, their quick versions, and what several of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quant_reproduction.grid.jobs import Job, Outcome
from quant_reproduction.grid.views import Places, View, chosen_columns

__all__ = [
    "ABLATIONS",
    "METHODS",
    "RELEASED",
    "SEEDS",
    "SIZES",
    "SPLITS",
    "Entry",
    "ablation_columns",
    "cell",
    "pipeline_entry",
]

#: Seeds of every cell of a full run, and of those whose shapes or images are split: every seed has its own split.
SEEDS, SPLITS = 3, 5
#: Rates of Adam in the code that the paper's authors released (github.com/MSeelbach/QuAnt, commit b37bcc8), where the
#: paper prints 1e-3.
RELEASED: Mapping[str, Mapping[str, float]] = {
    "randgraph": {"learning_rate": 1e-5},
    "pointset": {"learning_rate": 1e-6},
    "rotation": {"learning_rate": 1e-4},
}
#: The paper's networks, smallest first, and its methods.
SIZES = {f"L{layers} H{hidden}": {"layers": layers, "hidden": hidden} for layers in (3, 5) for hidden in (32, 78)}
METHODS = ("quant", "diag", "pure")
#: The paper's loss without one of its terms.
ABLATIONS: Mapping[str, Mapping[str, float]] = {
    "without unique": {"weight_unique": 0.0},
    "without mlp": {"weight_mlp": 0.0},
}


#: Tasks that shorten themselves.
LEARNED = ("sudoku", "visual-sudoku", "willow10", "scene", "snakes")


@dataclass(frozen=True)
class Entry:
    """One item of the paper, or ours beside it: its cells, and the tables and figures made of their records."""

    title: str
    paper: str  # where in the paper: "Table 1a", "Figure 5b"; "" where beyond the paper
    cells: Sequence[Job]  # of the full grid, at seed 0
    views: tuple[View, ...] = ()
    figures: tuple[str, ...] = ()  # labels in a record's metrics that hold a figure
    data: str = ""  # the dataset that it needs: a folder in QUBOLEARN_DATA
    one_seed: bool = False  # a figure shows one
    splits: int = 0  # seeds of a full run, where every seed is a split and more than usual are wanted
    once: Sequence[Job] = ()  # cells that are the same for every seed; a quick run has none
    generated: bool = False  # a quick run generates its data
    quick_rows: tuple[str, ...] = ()  # of a quick run; empty for all

    def jobs(self, seeds: int, quick: bool) -> list[Job]:
        """Every cell for every seed; a quick run has some of the rows, in small."""
        cells = [shortened(each) for each in self.cells if each.row in (self.quick_rows or [each.row])]
        made = [] if quick else [*self.once]
        for each in cells if quick else self.cells:
            splits = self.splits or (SPLITS if each.options.get("problem", {}).get("split_seed", 0) > 0 else 0)
            more = splits if splits and seeds >= SEEDS else seeds
            made += [of_seed(each, seed) for seed in range(1 if self.one_seed else more)]
        return made

    def needs(self, quick: bool) -> str:
        """Return the dataset that a run needs, or ""."""
        return "" if quick and self.generated else self.data

    def markdown(self, outcomes: Sequence[Outcome]) -> str:
        """Return all tables that have a cell, with titles if there are several, and the titles of the figures."""
        parts = []
        for view in self.views:
            if view.cells(outcomes):
                parts.append((f"{view.title}\n" if len(self.views) > 1 else "") + view.markdown(outcomes))
        for record in (outcome.record for outcome in outcomes if outcome.record):
            figures = [record["metrics"][label]["figure"] for label in self.figures if label in record["metrics"]]
            parts += [f"figure of {len(drawn['panels'])} panels: {drawn['title']}\n" for drawn in figures]
        return "\n".join(parts)


def cell(item: str, row: str, column: str, task: str = "train", **options: Any) -> Job:
    """One cell of a table."""
    return Job(item, row, column, 0, task, options)


def pipeline_entry(item: str, row: str, trained: Mapping[str, Any], data: str) -> Entry:
    """The entry of the paper's first figure: one instance of a problem on its way, under the paper's protocol."""
    made = cell(item, row, "(a) quant", "pipeline", **trained, solvers=["quantum:reads=1000"], instances=1)
    title = f"An instance on its way through the pipeline, {row}: p, A, reads of simulated QA, solution"
    return Entry(title, "Figure 1", [made], figures=("pipeline",), data=data, one_seed=True)


def of_seed(job: Job, seed: int) -> Job:
    """A cell's job for another seed; where its problem has a split, that is the next one with every seed."""
    options = dict(job.options)
    if seed and options.get("problem", {}).get("split_seed", 0):  # 0 is one split for all
        options["problem"] = {**options["problem"], "split_seed": options["problem"]["split_seed"] + seed}
    return replace(job, seed=seed, options=options)


def shortened(job: Job) -> Job:
    """The same job in small: tens of steps of training, few instances and reads, every fourth test."""
    options = dict(job.options)
    if "problem" in options:  # a smaller pool to draw from
        small = {"pointset": {"rotations": 10}, "rotation": {"draws": 2}}.get(options["problem"]["name"], {})
        options["problem"] = {**options["problem"], **small}
    if "protocol" in options:
        slow = "quantum" in options["overrides"].get("solver", "")
        short = {"epochs": 1, "instances": 64} if slow else {"epochs": 3, "instances": 1410}
        options["overrides"] = {**options["overrides"], **short, "validation": 20}
    if job.task in LEARNED:
        options["quick"] = True
    if "tests" in options:
        few = [{**test, "instances": 20} if "instances" in test else test for test in options["tests"]]
        options["tests"] = few[::4]
    if "instances" in options or job.task == "baseline":
        options["instances"] = {"qgm": 4, "second-best": 1}.get(job.task, 100)
    if "candidates" in options:
        options["candidates"] = dict(list(options["candidates"].items())[:2])
    if "open_instances" in options:
        options["open_instances"] = 2
    if "solvers" in options:
        options["solvers"] = _fewer_reads(options["solvers"])
    return replace(job, options=options)


def _fewer_reads(solvers: Any) -> Any:
    if isinstance(solvers, Mapping):
        return {name: _fewer_reads(spec) for name, spec in solvers.items()}
    return solvers.replace("reads=1000", "reads=100") if isinstance(solvers, str) else [*map(_fewer_reads, solvers)]


def ablation_columns(full: str, label: str, best: str, before: str = "") -> Places:
    """The paper's loss in full (a column of jobs and the label of its test), without its parts, and our recipe.

    ``before`` is what the columns of jobs without a part have before its name.
    """
    parts = {before + name: (name, "exhaustive" if before else "ablation") for name in ABLATIONS}
    return chosen_columns({full: ("full", label), **parts, best: ("best", "exhaustive")})
