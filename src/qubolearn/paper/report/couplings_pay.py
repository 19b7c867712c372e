"""The tables of where couplings pay, and of what that costs on a chip, from the rows of several benchmarks' files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.views import markdown_table

__all__ = ["FILES", "chip_table", "pay_table", "short_table"]

#: Benchmarks whose files have rows, in the order of the table.
FILES = ("couplings", "sudoku", "visual-sudoku", "willow10", "scene", "snakes")
METHODS = ("quant", "diag", "pure")


def pay_table(results: Path) -> str:
    """quant beside diag, pure, a classical rival and published numbers, one line for each problem."""
    found, sources = list(_rows(results)), list[str]()
    lines = [
        (
            f"{row['problem']}: {row['metric']}",
            *(_number(row[method]) for method in METHODS),
            f"{_number(row['rival'])} ({row['rival_name']})" if row["rival"] else "–",
            _published(row["published"], sources) or "–",
            row["given"],
            f"{row['splits_or_seeds']}, `{name}`",
        )
        for name, row in found
    ]
    heads = ["", "quant#", "diag#", "pure#", "classical rival#", "published", "given", "over, benchmark"]
    notes = [
        "Mean ± standard deviation. Each line is made by `qubolearn benchmark NAME --out results/benchmarks`, "
        "NAME being in the last column.",
        *(f"[{place}] {source}." for place, source in enumerate(sources, 1)),
    ]
    return f"{markdown_table(heads, lines)}\n*{' '.join(notes)}*\n"


def short_table(results: Path) -> str:
    """The same lines in the README's few columns."""
    lines = [
        (
            f"{row['problem']}: {row['metric']}",
            *(_number(row[method]) for method in METHODS),
            f"{_number(row['rival'])} ({row['rival_name']})" if row["rival"] else "–",
        )
        for _, row in _rows(results)
    ]
    heads = ["", "with couplings#", "without#", "bits themselves#", "classical rival#"]
    note = "*Mean ± standard deviation over seeds or splits. Made by `qubolearn benchmark`.*"
    return f"{markdown_table(heads, lines)}\n{note}\n"


def chip_table(results: Path) -> str:
    """Bits, couplers, physical qubits and chains of one learned QUBO of each problem."""
    lines = [
        (row["problem"], str(chip["bits"]), str(chip["couplers"]), chip["chip"], *_embedded(chip))
        for _, row in _rows(results)
        if (chip := row.get("chip"))
    ]
    heads = ["", "bits#", "couplers#", "chip", "physical qubits#", "mean chain#", "longest chain#", "per anneal#"]
    return markdown_table(heads, lines)


def _embedded(chip: Mapping[str, Any]) -> tuple[str, ...]:
    if not chip["fits"]:
        return "no embedding found", "–", "–", "–"
    return f"{chip['qubits']:.0f}", f"{chip['mean_chain']:.1f}", f"{chip['longest_chain']:.1f}", str(chip["per_anneal"])


def _rows(results: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Benchmark and row, of all files that are there."""
    there = [(name, path) for name in FILES if (path := results / "benchmarks" / f"{name}.json").is_file()]
    if not there:
        raise QubolearnError(
            f"no results in {results}/benchmarks; run: qubolearn benchmark {FILES[0]} --out {results}/benchmarks"
        )
    for name, path in there:
        yield from ((name, row) for row in read_json(path).get("rows", []))


def _number(value: Mapping[str, Any] | None) -> str:
    """Mean ± deviation with one digit; with two where one would make 100 of less than that."""
    if value is None:
        return "–"
    digits = 2 if 99 <= value["mean"] < 100 else 1
    spread = f" ± {value['spread']:.{digits}f}" if value["n"] > 1 else ""
    return f"{value['mean']:.{digits}f}{spread}"


def _published(found: Sequence[Mapping[str, Any]], sources: list[str]) -> str:
    """Names and values with the numbers of their sources, which are gathered in ``sources``."""
    said = []
    for each in found:
        if each["source"] not in sources:
            sources.append(each["source"])
        said.append(f"{each['name']} {each['value']:g} [{sources.index(each['source']) + 1}]")
    return ", ".join(said)
