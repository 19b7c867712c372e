"""Losses for many bits: the table and the figure of what ``qubolearn benchmark losses`` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.views import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["losses_figure", "losses_table"]

Records = Sequence[Mapping[str, Any]]
KINDS = {"bits": "bits", "groups": "one-hot groups of four"}


def _read(folder: Path) -> Mapping[str, Any]:
    path = folder / "losses.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: qubolearn benchmark losses --out {folder}")
    found: Mapping[str, Any] = read_json(path)
    return found


def losses_table(results: Path) -> str:
    """States that are right in %, and seconds of training, by loss and n."""
    found = _read(results / "benchmarks")
    records: Records = found["records"]
    sizes = sorted({record["n"] for record in records})
    lines = []
    for kind, words in KINDS.items():
        for loss in dict.fromkeys(record["loss"] for record in records if record["kind"] == kind):
            by_n = {r["n"]: r for r in records if r["kind"] == kind and r["loss"] == loss}
            lines.append((words, loss, *(_cell(by_n.get(n)) for n in sizes)))
    seeds = records[0]["seeds"]
    note = (
        f"*States right in % ± standard deviation over {seeds} plantings, and seconds of training on one core; "
        f"{found['machine']}; qubolearn {found['versions']['qubolearn']}. Made by `qubolearn benchmark losses`: "
        "[its file](../results/benchmarks/losses.json).*"
    )
    return f"{markdown_table(['', 'loss', *(f'n={n}#' for n in sizes)], lines)}\n{note}\n"


def _cell(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return "–"
    return f"{record['right']:.0f} ± {record['right_spread']:.0f}, {record['seconds']:.1f} s"


def losses_figure(folder: Path) -> Figure:
    """States that are right, and seconds of training, against n: a row for each kind, a line for each loss."""
    from qubolearn import plots

    records: Records = _read(folder)["records"]
    names = list(dict.fromkeys(record["loss"] for record in records))
    made, axes = plots.figure(2, len(KINDS), width=4.2, height=3.2)
    for row, (kind, words) in enumerate(KINDS.items()):
        left, right = axes[2 * row : 2 * row + 2]
        for number, name in enumerate(names):
            some = [record for record in records if record["kind"] == kind and record["loss"] == name]
            n, style = [record["n"] for record in some], f"C{number}{'osv^Dx'[number % 6]}-"
            if some:
                spread = [record["right_spread"] for record in some]
                left.errorbar(n, [record["right"] for record in some], spread, fmt=style, label=name, capsize=2)
                right.plot(n, [record["seconds"] for record in some], style)
        left.set(ylabel="states right, %", title=words)
        right.set(ylabel="training, s", yscale="log")
        for axis in (left, right):
            axis.set(xlabel="n", xscale="log")
            axis.minorticks_off()
            axis.set_xticks(sorted({record["n"] for record in records}))
            axis.get_xaxis().set_major_formatter("{x:.0f}")
        left.legend(fontsize=6)
    return made
