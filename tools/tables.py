"""Fill the tables of Markdown pages from result files: ``python tools/tables.py PAGE.md ... [--check]``.

A table is between ``<!-- table: NAME -->`` and ``<!-- end -->``, filled from
benchmarks/results or, by ``quant_reproduction``, from reproduction/results. ``--check``
writes nothing and exits with 1 if a table is out of date.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # for benchmarks
RESULTS = ROOT / "benchmarks/results"
MARKER = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: key of a record -> header, unless that is the key itself
HEADERS = {
    "us": "µs per QUBO",
    "seconds": "CPU s",
    "states": "allowed states",
    "ground_state_probability": "P(ground state)",
    "x_star_found": "x* found",
    "family": "QUBO",
}
#: benchmark -> columns: keys of a record, with `=header` if it is a header of this table alone
COLUMNS = {
    "exact": (
        "n | batch | us | ns_per_state | dimod_us=dimod.ExactSolver, µs | ratio | "
        "partition_over_search=log Z / best two"
    ),
    "defaults": (
        "problem | right=exactly right, % | spread=standard deviation | chain=logistic chain, % | "
        "seconds=CPU seconds | seeds"
    ),
    "defaults-variants": (
        "change | signs, choosing=signs, % | vertex cover, choosing=vertex cover, % | "
        "independent set, choosing=independent set, % | signs, reporting=signs, other seeds | "
        "vertex cover, reporting=vertex cover, other seeds | "
        "independent set, reporting=independent set, other seeds"
    ),
    "labels": (
        "data | part=test rows | qubo=QuboClassifier, % | interval=95 % interval | chain=logistic chain, % | "
        "minus chain=difference | p chain=p | chains=ten chains, % | minus chains=difference | "
        "powerset=powerset SVC, % | minus powerset=difference | p powerset=p | seconds=CPU s per fit"
    ),
    "exact-gpu": "n | seconds=seconds | states_per_second",
    "anneal": "n | solver | us | ground_state_probability | x_star_found | x_plus_found=x⁺ found",
    "anneal-large": (
        "family | n | couplings | ours_seconds=ours, s | neal_seconds=neal, s | ratio=neal / ours | "
        "call_ratio=with the two best states | sampler_ratio=from a dimod model | "
        "difference_in_errors=mean energy, ours minus neal's, in standard errors"
    ),
    "anneal-gpu": (
        "family | n | reads | sweeps | kernel_seconds=kernel, s | gpu_seconds=call, s | over_kernel=call / kernel | "
        "gpu_rate=GPU, updates/s | cpu_rate=all cores, updates/s | ratio=GPU / cores | gpu_energy=mean energy, GPU | "
        "cpu_energy=mean energy, cores"
    ),
    "quantum": "n | solver | us | ground_state_probability | x_star_found",
    "fit": "network | steps | fit_seconds=fit, s | by_hand_seconds=by hand, s | fit_over_by_hand=fit / by hand",
    "costs-linear": (
        "task | states | PyEPO=PyEPO, regret in % | qubolearn | difference error=error of the difference | "
        "PyEPO s=PyEPO, CPU s | qubolearn s=qubolearn, CPU s | ratio"
    ),
    "samples": (
        "data | method | log_likelihood=log-likelihood of unseen samples | error=error of log Z | "
        "wrong_pairs | recovered=structure recovered | kl=KL divergence | seconds"
    ),
    "rna": "data | method | base_pairs | of | objective | seconds",
    "penalties": (
        "task | rule=usual rule | rule_share=optimal reads, % | rule_error=± | tuned | "
        "tuned_share=optimal reads, % | tuned_error=± | ratio | calls=solver calls of the tuning"
    ),
    "train-gpu": (
        "k | n | loss | cpu_us=CPU, µs | gpu_us=GPU, kernel by kernel, µs | graph_us=GPU, CUDA graph, µs | "
        "graph_over_gpu=kernels / graph | graph_over_cpu=CPU / graph"
    ),
}


def markdown(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table, with columns of numbers aligned right."""
    numeric = [bool(re.match(r"[*–\d.+-]+", str(cell))) for cell in rows[-1]]
    lines = [headers, ["---:" if right and at else "---" for at, right in enumerate(numeric)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def short(value: object) -> str:
    """Format three digits, or a dash."""
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def read(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise SystemExit(f"tables: no {path.relative_to(ROOT)}; run: make benchmark NAME={name}")
    return json.loads(path.read_text())


def note(result: Mapping[str, Any], name: str, more: str = "", command: str = "") -> str:
    """Return the line below a table: machine, versions, commit, command."""
    versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
    commit = f"; commit `{result['commit'][:12]}`, {result['date'][:10]}" if "commit" in result else ""
    made = f"`{command or f'make benchmark NAME={name}'}`: [results](ROOT/benchmarks/results/{name}.json)"
    return f"*{result['machine']}; {versions}{commit}.{more} Made by {made}.*"


def benchmark(name: str) -> str:
    result = read(name)
    shown = COLUMNS.get(name) or " | ".join(result["records"][0])
    columns = [column.split("=") for column in shown.split(" | ")]
    headers = [own[0] if own else HEADERS.get(key, key.replace("_", " ")) for key, *own in columns]
    rows = [[short(record.get(key)) for key, *_ in columns] for record in result["records"]]
    return f"{markdown(headers, rows)}\n\n{note(result, name)}\n"


def instances() -> str:
    """Return hits, gaps and CPU seconds of all solvers on each group."""
    from benchmarks.instances import summary

    result, cells = read("instances"), {}
    for group, solver, v in summary(result["records"]):
        text = f"{v['hit']} of {v['instances']}, {v['gap']:.4f} % ({v['cpu_seconds']:.1f} s)"
        cells.setdefault(solver, {})[group] = text
    return f"{_crossed('solver', cells)}\n\n{note(result, 'instances')}\n"


def instances_short() -> str:
    """Return hits and gaps at equal CPU seconds for the README."""
    from benchmarks.instances import summary

    cells: dict[str, dict[str, str]] = {}
    for group, solver, v in summary(read("instances")["records"]):
        if solver not in ("auto, default", "tempering"):
            cells.setdefault(group, {})[solver] = f"{v['hit']} of {v['instances']}, {v['gap']:.2g} %"
    return _crossed("", cells) + "\n"


def _crossed(corner: str, cells: dict[str, dict[str, str]]) -> str:
    """Return a table of cells by row and column."""
    columns = list(dict.fromkeys(column for some in cells.values() for column in some))
    rows = [[name, *(some.get(column, "–") for column in columns)] for name, some in cells.items()]
    return markdown([corner, *columns], rows)


def constraints() -> str:
    """Return hits, gaps and CPU seconds of all solvers on each family."""
    result, cells = read("constraints"), {}
    for r in result["records"]:
        gap = f"{short(r['gap'])} %" if r["allowed"] == r["instances"] else f"{r['allowed']} allowed"
        text = f"{r['best']} of {r['instances']}, {gap} ({r['cpu_seconds']:.1f} s)"
        cells.setdefault(f"{r['family']} ({r['n']} bits)", {})[r["solver"]] = text
    return f"{_crossed('problem', cells)}\n\n{note(result, 'constraints')}\n"


def gset_gpu() -> str:
    """Return hits and gaps on a GPU, by size of the graph."""
    result, rows = read("gset-gpu"), []
    sizes = {"800, 1,000": 0, "2,000, 3,000": 1001, "5,000 and more": 3001}
    for (name, low), high in zip(sizes.items(), (1000, 3000, 20000), strict=True):
        some = [r for r in result["records"] if low <= r["n"] <= high]
        hits = sum(r["cut"] >= r["best_known"] for r in some)
        gap = sum(max(0.0, r["gap"]) for r in some) / len(some)
        rows.append([name, f"{hits} of {len(some)}", f"{gap:.4f}", f"{sum(r['seconds'] for r in some):.0f}"])
    text = markdown(["nodes", "at the best known cut or above", "mean gap, %", "seconds"], rows)
    return f"{text}\n\n{note(result, 'gset-gpu')}\n"


def gset() -> str:
    """Return the cuts of all solvers on large Gset graphs."""
    some = [r for r in read("instances")["records"] if r["group"].startswith("Gset, 2,000")]
    names = list(dict.fromkeys(r["solver"] for r in some))
    rows: dict[str, list[str]] = {}
    for r in some:
        about = [r["instance"], str(r["n"]), f"{-r['best_known']:.0f}"]
        cuts = ", ".join(f"{-energy:.0f}" for energy in r["energies"])
        rows.setdefault(r["instance"], about).append(cuts)
    return markdown(["graph", "nodes", "best known", *names], list(rows.values())) + "\n"


def targets() -> str:
    """Return seconds to target with probability 0.99, and intervals."""
    result = read("time-to-target")
    rows: dict[str, dict[str, str]] = {}

    def cell(r: dict[str, Any]) -> str:
        if r["seconds"] is None:
            return f"none in {sum(r['cpu_seconds']) * r['runs']:.0f}"
        high = "∞" if r["high"] is None else f"{r['high']:.2g}"
        return f"{r['seconds']:.2g} ({r['low']:.2g} to {high})"

    for r in result["records"]:
        rows.setdefault(r["instance"], {})[r["solver"]] = cell(r)
    headers = ["instance", *rows[result["records"][0]["instance"]]]
    text = markdown(headers, [[name, *some.values()] for name, some in rows.items()])
    return f"{text}\n\n{note(result, 'time-to-target')}\n"


def choices() -> str:
    """Return the rules of ``auto``."""
    from qubolearn.solvers.auto import CHOICES

    rows = []
    for choice in CHOICES:
        size = f"2**{choice.bits:g} allowed states" if choice.groups else f"{choice.bits:g} free bits"
        limit = f"up to {size}" if math.isfinite(choice.bits) else "more"
        limit += f", up to {choice.neighbors:g} neighbors per bit" if math.isfinite(choice.neighbors) else ""
        rows.append(["with groups" if choice.groups else "without groups", limit, f"`{choice.solver}`"])
    return markdown(["QUBO", "size", "solver"], rows) + "\n"


def losses() -> str:
    """Return correct states and training seconds."""
    result = read("losses")
    sizes = sorted({record["n"] for record in result["records"]})
    cells: dict[tuple[str, str], dict[int, str]] = {}
    for r in result["records"]:
        kind = {"bits": "bits", "groups": "one-hot groups of four"}[r["kind"]]
        cell = f"{r['right']:.0f} ± {r['right_spread']:.0f}, {r['seconds']:.1f} s"
        cells.setdefault((kind, r["loss"]), {})[r["n"]] = cell
    rows = [[*key, *(some.get(n, "–") for n in sizes)] for key, some in cells.items()]
    seeds = result["records"][0]["seeds"]
    more = f" Correct states in % ± standard deviation over {seeds} plantings, and seconds of training on one core."
    text = markdown(["", "loss", *(f"n={n}" for n in sizes)], rows)
    return f"{text}\n\n{note(result, 'losses', more)}\n"


def costs() -> str:
    """Return regrets with standard errors, and training seconds."""
    result = read("costs")
    losses = [key.removesuffix(" s") for key in result["records"][0] if key.endswith(" s")]
    rows = []
    for r in result["records"]:
        cells = [f"{r[name]:.1f} ± {r[f'{name} error']:.1f}, {r[f'{name} s']:.1f} s" for name in losses]
        rows.append([r["task"], r["degree"], *cells, f"{r['QuboLayer']:.1f}"])
    text = markdown(["task", "degree", *losses, "QuboLayer, pairs"], rows)
    more = " Regret in % ± standard error over test instances, and CPU seconds of training on one core."
    return f"{text}\n\n{note(result, 'costs', more)}\n"


def soak() -> str:
    """Return what was injected, and how often."""
    result = read("soak")
    figures = {name: values for name, values in result["figures"].items() if name != "classic"}
    kinds = figures.pop("fuzzing").values()
    inputs, refused = (sum(kind[key] for kind in kinds) for key in ("inputs", "refused"))
    fuzzing = {"inputs": inputs, "rejected with one of our errors": refused}
    figures["fuzzing"] = {**fuzzing, "read as valid": inputs - refused}
    rows = [(test, name, f"{value:,}") for test, values in figures.items() for name, value in values.items()]
    more = f" {result['seconds'] / 60:.0f} minutes."
    return f"{markdown(['test', 'count of', 'count'], rows)}\n\n{note(result, 'soak', more, 'make soak')}\n"


def classic() -> str:
    """Return how often each solver was right."""
    result = read("soak")
    found = result["figures"]["classic"]
    solvers = list(dict.fromkeys(name for row in found["rows"] for name in row["right"]))
    rows = []
    for row in found["rows"]:
        cells = [row["right"].get(name) for name in solvers]
        counts = ["–" if cell is None else f"{cell[0]} of {cell[1]}" for cell in cells]
        rows.append([row["family"], row["n"], row["against"], *counts])
    return f"{markdown(['family', 'n', 'right is', *solvers], rows)}\n\n{note(result, 'soak', command='make soak')}\n"


TABLES: dict[str, Callable[[], str]] = {
    **{f"benchmark-{name}": partial(benchmark, name) for name in (*COLUMNS, "serving", "batch", "batch-gpu")},
    "auto-choices": choices,
    "losses": losses,
    "costs": costs,
    "constraints": constraints,
    "instances": instances,
    "instances-short": instances_short,
    "gset": gset,
    "gset-gpu": gset_gpu,
    "time-to-target": targets,
    "soak": soak,
    "classic": classic,
}


def table(name: str, page: Path) -> str:
    """Return a table, with links relative to a page."""

    def way(folder: Path) -> str:
        return Path(os.path.relpath(folder, page.resolve().parent)).as_posix()

    if name in TABLES:
        return TABLES[name]().replace("](ROOT", f"]({way(ROOT)}")
    from quant_reproduction.report.tables import make_table

    return make_table(name, ROOT / "reproduction/results", f"{way(ROOT / 'reproduction/docs')}/")


def fill(text: str, page: Path) -> str:
    return MARKER.sub(lambda match: f"{match[1]}{table(match['name'], page)}{match[3]}", text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE.md")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a table is out of date")
    given = parser.parse_args(arguments)
    stale = []
    for page in given.pages:
        before = page.read_text()
        if (after := fill(before, page)) != before:
            stale.append(str(page))
            if not given.check:
                page.write_text(after)
    print(f"{'out of date' if given.check else 'changed'}: {', '.join(stale) or 'nothing'}")
    return int(given.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
