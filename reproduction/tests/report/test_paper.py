"""The paper's numbers against its LaTeX."""

import os
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from quant_reproduction.grid.paper import PaperTable, paper

TEX = Path(os.environ.get("QUBOLEARN_PAPER") or Path(__file__).parents[4] / "shared/paper/quant-paper.tex")
needs_tex = pytest.mark.skipif(
    not TEX.is_file(), reason="the paper's LaTeX is not here: set QUBOLEARN_PAPER to its quant-paper.tex"
)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def tex() -> str:
    return re.sub(r"(?<!\\)%.*", "", TEX.read_text(encoding="utf-8"))


def tabulars(tex: str, label: str) -> list[str]:
    """Return the innermost tabulars around a label."""
    at = tex.index(f"\\label{{{label}}}")
    open_at, around = [], []
    for found in re.finditer(r"\\(begin|end)\{(table|figure|minipage)\*?\}", tex):
        if found[1] == "begin":
            open_at.append(found.start())
        elif (start := open_at.pop()) < at < found.end():
            around.append(tex[start : found.end()])
    kind = re.compile(r"\\begin\{tabular\}\{[^}]*\}(.*?)\\end\{tabular\}", re.DOTALL)
    return next(inside for text in around if (inside := kind.findall(text)))


def body(tabular: str) -> Iterator[tuple[str, list[str]]]:
    """Return (header, numbers) per row of a tabular."""
    for line in tabular.partition("\\hline")[2].replace("\\hline", "").split("\\\\"):
        first, *rest = line.split("&")
        headed = re.search(
            r"[A-Za-z]{6}|=|\$\d+\$\s*$", first.replace("\\textbf", "").replace("\\textit", "")
        )
        header, cells = (first, rest) if headed else ("", [first, *rest])
        if numbers := NUMBER.findall("&".join(cells)):
            yield header, numbers


def printed(tables: list[PaperTable]) -> list[tuple[str, list[str]]]:
    """Return the rows of the data file as they are printed."""
    rows: dict[str, list[str]] = {}
    for table in tables:
        for cell in table.cells:
            spread = cell.spread or (None,) * len(cell.values)
            pairs = [str(n) for both in zip(cell.values, spread, strict=True) for n in both if n is not None]
            rows.setdefault(cell.row, []).extend(pairs)
    return list(rows.items())


GROUPS = [
    (key, list(group))
    for key, group in groupby([t for t in paper().tables if t.label], lambda table: (table.label, table.part))
]


@needs_tex
@pytest.mark.parametrize(
    ("key", "tables"), GROUPS, ids=lambda value: value[0] if isinstance(value, tuple) else ""
)
def test_every_number_of_every_table(tex: str, key: tuple[str, int], tables: list[PaperTable]) -> None:
    label, part = key
    found = list(body(tabulars(tex, label)[part]))
    ours = printed(tables)
    assert [n for _, numbers in found for n in numbers] == [n for _, numbers in ours for n in numbers]
    if len(found) == len(ours):  # not so where the paper's table lies on its side
        for (header, _), (row, _) in zip(found, ours, strict=True):
            assert NUMBER.findall(header) in ([], NUMBER.findall(row))


def test_claims_name_tables_rows_and_columns_that_exist() -> None:
    for claim in paper().claims:
        for comparison in claim.comparisons:
            for name, (row, column) in (
                (comparison.table, comparison.better),
                (comparison.than_table, comparison.than),
            ):
                table = paper().table(name)
                assert row == "*" or row in table.rows or not table.cells, (claim.text, row)
                known = column in table.ours or column in {cell.column for cell in table.cells}
                assert known or (column == "guess" and comparison.value is not None), (claim.text, column)
                assert set(comparison.metrics) <= set(table.metrics)
