"""``qubolearn benchmark curves`` as tables and as a figure, and the table by which ``auto`` chooses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn import plots
from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.views import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["choices_table", "curves_figure", "curves_table", "sweeps_table"]

TARGETS = {"best": "the lowest energy known", "near": "1 % above it"}


def read_curves(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records of all solvers that took part, and the whole result."""
    path = folder / "curves.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: qubolearn benchmark curves --out {folder}")
    result = read_json(path)
    return [record for record in result["records"] if "family" in record], result


def curves_table(target: str) -> Callable[[Path], str]:
    """Seconds to a target, ``"best"`` or ``"near"``: a row for each family and n, a column for each solver."""

    def table(results: Path) -> str:
        records, result = read_curves(results / "benchmarks")
        solvers = list(dict.fromkeys(record["solver"] for record in records))
        rows: dict[tuple[str, int], dict[str, float | None]] = {}
        for record in records:
            rows.setdefault((record["family"], record["n"]), {})[record["solver"]] = record[target]
        cells = [
            [family, str(n), *(_seconds(found.get(name), found) for name in solvers)]
            for (family, n), found in rows.items()
        ]
        peers = {record["solver"]: record["version"] for record in records if "version" in record}
        versions = ", ".join(f"{key} {value}" for key, value in {**result["versions"], **peers}.items())
        missing = "".join(f" {one['solver']}: {one['missing']}." for one in result["records"] if "missing" in one)
        made = "Made by `qubolearn benchmark curves`: [its file](../results/benchmarks/curves.json)"
        note = f"*{result['machine']}; {versions}.{missing} {made}.*"
        return f"{markdown_table(['QUBO', 'n#', *(f'{name}#' for name in solvers)], cells)}\n{note}\n"

    return table


def _seconds(seconds: float | None, row: dict[str, float | None]) -> str:
    """Two digits, the best of a row in bold."""
    if seconds is None:
        return "–"
    text = f"{seconds:.2g}" if seconds < 100 else f"{seconds:.0f}"
    return f"**{text}**" if seconds == min(found for found in row.values() if found is not None) else text


def sweeps_table(results: Path) -> str:
    """The sweeps at which annealing took the least time to each target: a row for each family without groups and n."""
    records, _ = read_curves(results / "benchmarks")
    rows = [
        [one["family"], str(one["n"]), *(str(one.get(f"{target}_effort", "–")) for target in TARGETS)]
        for one in records
        if one["solver"] == "annealing" and "one-hot" not in one["family"]
    ]
    return f"{markdown_table(['QUBO', 'n#', *(f'sweeps to {target}#' for target in TARGETS.values())], rows)}\n"


def choices_table(results: Path) -> str:
    """By what ``auto`` chooses, from the table in the code."""
    from qubolearn.solvers.auto import CHOICES

    rows = []
    for choice in CHOICES:
        size = f"2**{choice.bits:g} allowed states" if choice.groups else f"{choice.bits:g} free bits"
        limit = f"up to {size}" if math.isfinite(choice.bits) else "more"
        rows.append(["with groups" if choice.groups else "without groups", limit, f"`{choice.solver}`"])
    return f"{markdown_table(['QUBO', 'size', 'solver'], rows)}\n"


def curves_figure(folder: Path) -> Figure:
    """Time to target against n: a column for each family, a row for each target, a line for each solver."""
    records, _ = read_curves(folder)
    families = list(dict.fromkeys(record["family"] for record in records))
    solvers = list(dict.fromkeys(record["solver"] for record in records))
    made, axes = plots.figure(len(families), len(TARGETS), width=3.2, height=2.8)
    for place, axis in enumerate(axes):
        row, column = divmod(place, len(families))
        target, family = list(TARGETS)[row], families[column]
        for number, solver in enumerate(solvers):
            points = [
                (r["n"], r[target]) for r in records if (r["family"], r["solver"]) == (family, solver) and r[target]
            ]
            style = "-" if number < 4 else "--"  # ours, then the peers
            axis.plot(
                *zip(*points, strict=True) if points else ([], []), style, marker=".", color=f"C{number}", label=solver
            )
        axis.set(xscale="log", yscale="log", title=family if row == 0 else "", xlabel="n")
        sizes = sorted({record["n"] for record in records if record["family"] == family})
        axis.set_xticks(sizes, [str(n) for n in sizes], fontsize=6)
        axis.set_xticks([], minor=True)
        if column == 0:
            axis.set_ylabel(f"seconds to {TARGETS[target]}", fontsize=8)
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(solvers), fontsize=8)
    return made
