"""Tables of README and docs from result files, between ``<!-- table: NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.files import read_json
from qubolearn.paper.grid.entries import ENTRIES, SEEDS, Entry, search
from qubolearn.paper.grid.jobs import Outcome, Store
from qubolearn.paper.grid.views import View, markdown_table
from qubolearn.paper.report.couplings_pay import chip_table, pay_table, short_table
from qubolearn.paper.report.curves import choices_table, curves_table, sweeps_table
from qubolearn.paper.report.many_bits import losses_table
from qubolearn.paper.report.markdown import PAPER_TABLES, records_link
from qubolearn.paper.report.soak import classic_table, protections_table, soak_table
from qubolearn.paper.report.verified import verified_table
from qubolearn.paper.report.willow10 import published_table
from qubolearn.paper.report.wording import trained_on

__all__ = ["TABLES", "fill"]

MARKER = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def view_table(made: Entry, view: View) -> Callable[[Path], str]:
    """A table of an entry from the records of its full run."""

    def table(results: Path) -> str:
        store = Store(results)
        outcomes = [Outcome(job, store.get(job)) for job in made.jobs(SEEDS, False)]
        cells = view.cells(outcomes).values()
        if not cells:
            item = outcomes[0].job.item
            raise QubolearnError(f"no results of {item} in {results}; run: qubolearn reproduce {item} --out {results}")
        note = _note([record for cell in cells for record in cell.records], view.name)
        return f"{view.markdown(outcomes)}\n{note}\n"

    return table


def searches_table(results: Path) -> str:
    """The searches behind our recipes, one table after the other; one without a record yet is named."""
    store, made = Store(results), []
    for name, entry in search.ENTRIES.items():
        found = any(store.get(job) for job in entry.jobs(SEEDS, False))
        made.append(view_table(entry, entry.views[0])(results) if found else f"*`{name}` has no record yet.*\n")
    return "\n".join(made)


def _note(records: Sequence[Mapping[str, Any]], view: str) -> str:
    machines = sorted({str(record["machine"]) for record in records})
    versions = sorted({str(record["versions"]["qubolearn"]) for record in records})
    seeds = sorted({record["job"]["seed"] for record in records})
    several = f"Mean ± standard deviation over seeds {', '.join(map(str, seeds))}"
    return (
        f"*{several if len(seeds) > 1 else f'Seed {seeds[0]} alone'}; {_took(records)}"
        f"qubolearn {', '.join(versions)}; {'; '.join(machines)}. "
        f"Made by `qubolearn reproduce {records[0]['job']['item']}`. {records_link(view)}*"
    )


def _took(records: Sequence[Mapping[str, Any]]) -> str:
    trained = [record for record in records if "training_seconds" in record["metrics"]]
    if not trained:
        return ""
    seconds = sorted(round(record["metrics"]["training_seconds"]) for record in trained)
    span = " to ".join(map(str, dict.fromkeys((seconds[0], seconds[-1]))))
    return f"trainings of {span} s on {trained_on(trained)}; "


def benchmark_table(name: str, columns: Mapping[str, str]) -> Callable[[Path], str]:
    """Records of a benchmark: key -> shown header."""

    def table(results: Path) -> str:
        path = results / "benchmarks" / f"{name}.json"
        if not path.is_file():
            raise QubolearnError(f"no {path}; run: qubolearn benchmark {name} --out {results}/benchmarks")
        result = read_json(path)
        rows = ([_short(record.get(key, "–")) for key in columns] for record in result["records"])
        versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
        code = f"; commit `{result['commit'][:12]}`, {result['date'][:10]}" if "commit" in result else ""
        made = f"Made by `qubolearn benchmark {name}`: [its file](../results/benchmarks/{name}.json)"
        note = f"*{result['machine']}; {versions}{code}. {made}.*"
        return f"{markdown_table([f'{head}#' for head in columns.values()], rows)}\n{note}\n"

    return table


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_TIMES = {"n": "n", "solver": "solver", "us": "µs per QUBO", "ground_state_probability": "P(ground state)"}
_PROTOCOL = {"problem": "problem", "steps": "steps", "minutes": "minutes", "ms_per_step": "ms per step"}
_FOUND = {"x_star_found": "x* found", "x_plus_found": "x⁺ found"}

TABLES: Mapping[str, Callable[[Path], str]] = {
    "couplings-pay": pay_table,
    "couplings-short": short_table,
    "couplings-chip": chip_table,
    "losses": losses_table,
    "willow10-published": published_table,
    "searches": searches_table,
    "soak": soak_table,
    "classic": classic_table,
    "protections": protections_table,
    "verify": verified_table,
    **PAPER_TABLES,
    **{view.name: view_table(made, view) for made in ENTRIES.values() for view in made.views},
    "benchmark-exact": benchmark_table(
        "exact",
        {
            "n": "n",
            "batch": "batch",
            "us": "µs per QUBO",
            "ns_per_state": "ns per state",
            "dimod_us": "dimod.ExactSolver µs",
            "ratio": "ratio",
            "partition_over_search": "log Z / best two",
            "two_threads": "two threads",
        },
    ),
    "benchmark-exact-gpu": benchmark_table(
        "exact-gpu", {"n": "n", "seconds": "seconds", "states_per_second": "states per second"}
    ),
    "benchmark-exact-groups": benchmark_table(
        "exact-groups",
        {
            "groups": "groups of 5",
            "n": "n",
            "states": "allowed states",
            "us": "best two, µs per QUBO",
            "log_z_us": "log Z, µs",
            "ns_per_state": "ns per allowed state",
            "plain_us": "all 2ⁿ states, µs",
        },
    ),
    "benchmark-sudoku-rules": benchmark_table(
        "sudoku-rules",
        {
            "hints": "hints",
            "puzzles": "puzzles",
            "solved": "solved",
            "seconds": "mean, s",
            "median": "median, s",
            "longest": "longest, s",
            "sweeps": "sweeps, mean",
        },
    ),
    "benchmark-anneal": benchmark_table("anneal", {**_TIMES, **_FOUND}),
    "benchmark-anneal-large": benchmark_table(
        "anneal-large",
        {
            "family": "QUBO",
            "n": "n",
            "couplings": "couplings",
            "ours_seconds": "ours, s",
            "neal_seconds": "neal, s",
            "ratio": "neal / ours",
            "call_ratio": "with the two best states",
            "sampler_ratio": "from a dimod model",
            "sweeps_ratio": "neal's sweeps alone / ours",
            "one_read_ratio": "one read",
            "difference_in_errors": "mean energy, ours less neal's, in standard errors",
        },
    ),
    "benchmark-avx2": benchmark_table(
        "avx2",
        {"work": "work", "seconds": "as compiled for this CPU, s", "avx2_seconds": "AVX2 only, s", "ratio": "ratio"},
    ),
    "benchmark-cores": benchmark_table(
        "cores",
        {
            "family": "QUBO",
            "n": "n",
            "solver": "solver",
            "one": "one core, s",
            "all": "all cores, s",
            "cores": "cores",
            "ratio": "ratio",
        },
    ),
    "curves-best": curves_table("best"),
    "curves-near": curves_table("near"),
    "curves-sweeps": sweeps_table,
    "auto-choices": choices_table,
    "benchmark-anneal-gpu": benchmark_table(
        "anneal-gpu",
        {
            "family": "QUBO",
            "n": "n",
            "batch": "QUBOs",
            "cpu_batch": "on the cores",
            "reads": "reads",
            "gpu_updates_per_second": "GPU, updates/s",
            "cpu_updates_per_second": "all cores, updates/s",
            "ratio": "GPU / cores",
            "gpu_call_seconds": "whole call with the two best states, s",
            "gpu_energy": "mean energy, GPU",
            "cpu_energy": "mean energy, cores",
        },
    ),
    "benchmark-sudoku-gpu": benchmark_table(
        "sudoku-gpu",
        {"hints": "hints", "puzzles": "puzzles", "solved": "solved", "seconds": "all, s", "sweeps": "sweeps, mean"},
    ),
    "benchmark-fit": benchmark_table(
        "fit",
        {
            "network": "network",
            "steps": "steps",
            "fit_seconds": "fit, s",
            "by_hand_seconds": "by hand, s",
            "fit_over_by_hand": "fit / by hand",
        },
    ),
    "benchmark-many": benchmark_table(
        "many",
        {
            "problem": "protocol",
            "runs": "trainings",
            "engine": "by",
            "us": "a step, µs",
            "over_one": "over one training",
            "difference": "largest difference of weights from alone",
        },
    ),
    "benchmark-quantum": benchmark_table("quantum", {**_TIMES, "x_star_found": "x* found"}),
    "benchmark-protocol": benchmark_table("protocol", _PROTOCOL),
    "benchmark-protocol-gpu": benchmark_table("protocol-gpu", _PROTOCOL),
    "benchmark-train-gpu": benchmark_table(
        "train-gpu",
        {
            "k": "k",
            "n": "n",
            "loss": "loss",
            "cpu_us": "CPU, µs",
            "gpu_us": "GPU, kernel by kernel, µs",
            "graph_us": "GPU, CUDA graph, µs",
            "graph_over_gpu": "graph against kernels",
            "graph_over_cpu": "graph against CPU",
        },
    ),
    "benchmark-train": benchmark_table(
        "train",
        {"k": "k", "n": "n", "epoch_seconds": "epoch, s", "neal_epoch_seconds": "with neal, s", "ratio": "ratio"},
    ),
}


def fill(text: str, results: Path, docs: str = "") -> str:
    """The text with every marked table made anew; ``docs`` is where it finds the other pages."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise unknown_name("table", name, TABLES)
        try:
            table = TABLES[name](results)
        except (QubolearnError, OSError, MemoryError):
            raise
        except Exception as error:  # a record has no schema of its own
            raise QubolearnError(
                f"{_source(name, results)} is damaged ({type(error).__name__}: {error}); delete it and make it again"
            ) from error
        table = table.replace("](records.md", f"]({docs}records.md")
        table = table.replace("](../results/", "](results/") if docs else table  # a page beside the folder of results
        return f"{match[1]}{table}{match[3]}"

    return MARKER.sub(replace, text)


def _source(table: str, results: Path) -> str:
    """The file that a table is made of, or where it is made of many, how to find them."""
    name = {"classic": "soak.json"}.get(table, f"{table}.json")
    if table.startswith("benchmark-"):
        name = f"benchmarks/{name.removeprefix('benchmark-')}"
    path = results / name
    return str(path) if path.is_file() else f"a file of the table {table} in {results}"
