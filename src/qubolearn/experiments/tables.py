"""Tables of README and docs from result files, between ``<!-- table: NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.experiments.entries import ENTRIES, INTERVALS, POINTSET_NOISE, ROTATION_NOISE, noise_label
from qubolearn.experiments.jobs import Outcome, Store
from qubolearn.experiments.soak import soak_table
from qubolearn.experiments.summary import markdown
from qubolearn.storage import read_json

__all__ = ["TABLES", "fill"]

MARKER = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SEEDS = 3


def entry_table(name: str) -> Callable[[Path], str]:
    """The table of an entry from the records of its full run."""

    def table(results: Path) -> str:
        store, made = Store(results), ENTRIES[name]
        outcomes = [Outcome(job, store.get(job)) for job in made.jobs(SEEDS, False)]
        done = [outcome for outcome in outcomes if outcome.record is not None]
        if not done:
            raise QubolearnError(f"no results of {name} in {results}; run: qubolearn reproduce {name} --out {results}")
        return f"{markdown(made, done)}\n{_note(done)}\n"

    return table


def _note(done: list[Outcome]) -> str:
    records = [outcome.record for outcome in done if outcome.record is not None]
    machines = sorted({str(record["machine"]) for record in records})
    versions = sorted({str(record["versions"]["qubolearn"]) for record in records})
    seeds = sorted({outcome.job.seed for outcome in done})
    times = [record["metrics"]["training_seconds"] for record in records if "training_seconds" in record["metrics"]]
    took = f"trainings of {min(times):.0f} to {max(times):.0f} s on one core; " if times else ""
    return (
        f"*Mean ± standard deviation over seeds {', '.join(map(str, seeds))}; {took}qubolearn {', '.join(versions)}; "
        f"{'; '.join(machines)}. Made by `qubolearn reproduce {done[0].job.item}`.*"
    )


def conditions_table(item: str, row: str, conditions: Mapping[str, str]) -> Callable[[Path], str]:
    """Mean / median of one row's jobs under test conditions, one line each: shown name -> label of the test."""

    def table(results: Path) -> str:
        store, made = Store(results), ENTRIES[item]
        records = [(job, store.get(job)) for job in made.jobs(SEEDS, False) if job.row == row]
        done = [(job, record) for job, record in records if record is not None]
        if not done:
            raise QubolearnError(f"no results of {item} in {results}; run: qubolearn reproduce {item} --out {results}")
        labels = set(conditions.values())
        columns = list(dict.fromkeys(job.column for job, record in done if labels & set(record["metrics"])))
        lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
        for shown, label in conditions.items():
            texts = [
                _mean_and_median([r["metrics"][label] for j, r in done if j.column == c and label in r["metrics"]])
                for c in columns
            ]
            lines.append(f"| {shown} | " + " | ".join(texts) + " |")
        return "\n".join(lines) + f"\n\n{_note([Outcome(job, record) for job, record in done])}\n"

    return table


def _mean_and_median(found: list[Mapping[str, float]]) -> str:
    if not found:
        return "–"
    means = [metrics["degrees"] for metrics in found]
    medians = [metrics["degrees_median"] for metrics in found]
    spread = f" ± {statistics.stdev(means):.2f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.2f}{spread} / {statistics.mean(medians):.2f}"


def benchmark_table(name: str, columns: Mapping[str, str]) -> Callable[[Path], str]:
    """Records of a benchmark: key -> shown header."""

    def table(results: Path) -> str:
        path = results / "benchmarks" / f"{name}.json"
        if not path.is_file():
            raise QubolearnError(f"no {path}; run: qubolearn benchmark {name} --out {results}/benchmarks")
        result = read_json(path)
        lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---:|" * len(columns)]
        for record in result["records"]:
            lines.append("| " + " | ".join(_short(record.get(key, "–")) for key in columns) + " |")
        versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
        return "\n".join(lines) + f"\n\n*{result['machine']}; {versions}. Made by `qubolearn benchmark {name}`.*\n"

    return table


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_TIMES = {"n": "n", "solver": "solver", "us": "µs per QUBO", "ground_state_probability": "P(ground state)"}
_SOLVERS = {"exhaustive": "exhaustive", "annealing (simulated)": "annealing", "quantum (simulated)": "quantum"}
_FOUND = {"x_star_found": "x* found", "x_plus_found": "x⁺ found"}

TABLES: Mapping[str, Callable[[Path], str]] = {
    "soak": soak_table,
    **{name: entry_table(name) for name in ENTRIES},
    "pointset-noise": conditions_table(
        "pointset", "L5 H78", {f"{s:.0%} noise": noise_label(s) for s in POINTSET_NOISE}
    ),
    "pointset-intervals": conditions_table("pointset", "L5 H78", {f"{i} degrees": f"interval {i}" for i in INTERVALS}),
    "pointset-solvers": conditions_table("pointset", "L5 H78", _SOLVERS),
    "rotation-noise": conditions_table(
        "rotation", "L5 H78", {f"{s:.0%} wrong matches": noise_label(s) for s in ROTATION_NOISE}
    ),
    "rotation-solvers": conditions_table("rotation", "L5 H78", _SOLVERS),
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
    "benchmark-anneal": benchmark_table("anneal", {**_TIMES, **_FOUND}),
    "benchmark-quantum": benchmark_table("quantum", {**_TIMES, "x_star_found": "x* found"}),
    "benchmark-train": benchmark_table(
        "train",
        {"k": "k", "n": "n", "epoch_seconds": "epoch, s", "neal_epoch_seconds": "with neal, s", "ratio": "ratio"},
    ),
}


def fill(text: str, results: Path) -> str:
    """The text with every marked table made anew."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise unknown_name("table", name, TABLES)
        return f"{match[1]}{TABLES[name](results)}{match[3]}"

    return MARKER.sub(replace, text)
