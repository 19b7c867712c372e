"""Tables of README and docs from result files, between ``<!-- table: NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.experiments.entries import ENTRIES
from qubolearn.experiments.jobs import Outcome, Store
from qubolearn.experiments.summary import markdown

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
    return (
        f"*Mean ± standard deviation over seeds {', '.join(map(str, seeds))}; qubolearn {', '.join(versions)}; "
        f"{'; '.join(machines)}. Made by `qubolearn reproduce {done[0].job.item}`.*"
    )


TABLES: Mapping[str, Callable[[Path], str]] = {name: entry_table(name) for name in ENTRIES}


def fill(text: str, results: Path) -> str:
    """The text with every marked table made anew."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise unknown_name("table", name, TABLES)
        return f"{match[1]}{TABLES[name](results)}{match[3]}"

    return MARKER.sub(replace, text)
