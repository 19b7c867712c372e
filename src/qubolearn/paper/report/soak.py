"""The figures of ``make soak`` and ``make protections`` as tables of docs/guarantees.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.views import markdown_table

__all__ = ["classic_table", "protections_table", "soak_table"]


def soak_table(results: Path) -> str:
    """What was injected and what came of it, one line per figure; fuzzed inputs by kind."""
    result = _read(results, "soak")
    figures = dict(result["figures"])
    kinds = figures.pop("fuzzing")
    figures.pop("classic", None)  # has a table of its own
    inputs, refused = (sum(kind[key] for kind in kinds.values()) for key in ("inputs", "refused"))
    rows = [(test, name, f"{value:,}") for test, values in figures.items() for name, value in values.items()]
    rows += [
        ("**fuzzing**", "**inputs**", f"**{inputs:,}**"),
        ("fuzzing", "refused by our own error in one line", f"{refused:,}"),
        ("fuzzing", "read as valid", f"{inputs - refused:,}"),
    ]
    rows += [(f"fuzzed: {name}", "inputs", f"{kind['inputs']:,}") for name, kind in kinds.items()]
    machine = f"{result['machine']}, torch {result['versions']['torch']}, qubolearn {result['versions']['qubolearn']}"
    note = (
        f"*{machine}. Made by `make soak` in {result['seconds'] / 60:.0f} minutes: [its file](../results/soak.json).*"
    )
    return f"{markdown_table(['test', 'figure', 'count#'], rows)}\n{note}\n"


def classic_table(results: Path) -> str:
    """How often each solver was right about QUBOs of each family and size, of how many, and what right means."""
    result = _read(results, "soak")
    found = result["figures"].get("classic")
    if not found:
        raise QubolearnError(f"no classic families in {results / 'soak.json'}; run: make soak")
    solvers = list(dict.fromkeys(name for row in found["rows"] for name in row["right"]))
    rows = [
        (row["family"], row["n"], row["against"], *(_share(row["right"].get(name)) for name in solvers))
        for row in found["rows"]
    ]
    head = ["family", "n", "right is", *(f"{name}#" for name in solvers)]
    named = "; ".join(f"n {size}: {', '.join(f'`{spec}`' for spec in specs.values())}" for size, specs in _specs(found))
    made = f"made by `make soak`, {found['seconds']} s of it: [its file](../results/soak.json)"
    note = f"*Solvers at {named}. {result['machine']}; {made}.*"
    return f"{markdown_table(head, rows)}\n{note}\n"


def _share(cell: list[int] | None) -> str:
    return "–" if cell is None else f"{cell[0]} of {cell[1]}"


def _specs(found: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """The solvers of each size, and neal at ten times the reads where that is a measure."""
    ten = found["ten times the reads"]
    return [
        (size, specs | ({"neal × 10": ten[size]} if size in ten else {})) for size, specs in found["solvers"].items()
    ]


def protections_table(results: Path) -> str:
    """What was taken out of the source, and whether its test failed."""
    result = _read(results, "protections")
    rows = (
        (each["promise"], each["removed"], f"`{each['test']}`", "fails" if each["fails"] else "**passes**")
        for each in result["protections"]
    )
    made = f"Made by `make protections` in {result['seconds']} s: [its file](../results/protections.json)"
    note = f"*{result['machine']}. {made}.*"
    return f"{markdown_table(['promise', 'taken out', 'test', 'it then'], rows)}\n{note}\n"


def _read(results: Path, name: str) -> Any:
    path = results / f"{name}.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: make {name}")
    return read_json(path)
