"""Tables of the reproduction, for the page and for Markdown files, which ``tools/tables.py`` fills."""

from __future__ import annotations

import json
import math
import posixpath
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from quant_reproduction.cli import concise_errors
from quant_reproduction.cli.reproduce import AGAIN
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.entries.clouds import SEARCHES
from quant_reproduction.grid.jobs import Store, unpacked
from quant_reproduction.grid.paper import PROTOCOLS, PaperTable, Protocol, paper
from quant_reproduction.grid.views import DIGITS, SEEDS, Cell
from quant_reproduction.report import compare, couplings, errata, numbers
from quant_reproduction.report.claims import ANSWERS, SOURCES, Checked
from quant_reproduction.report.compare import CLOSE, REPRODUCED, Compared, find_view, format_counts, levels
from quant_reproduction.report.numbers import MARKS, Table, format_duration, format_spread, link_records
from quant_reproduction.report.summary import COUNTED, Item, Report, gather
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.files import read_json


def summary_table(report: Report) -> Table:
    """Count the verdicts under each protocol, and those of controls."""
    found = report.summary
    heads = ["", *(f"{name}#" for name in (*COUNTED, "Diag better too", "Pure better too"))]
    beaten = [[f"{better} of {of}" for better, of in found.control[each].values()] for each in PROTOCOLS]
    rows = [(*verdicts, *more) for verdicts, more in zip(found.verdicts(), beaten, strict=True)]
    total = sum(found.cells["a"].values())
    different = [f"{count} ({protocol})" for protocol, count in found.different.items() if count]
    ours = numbers.join_words(different)
    note = (
        f"{total} numbers of the paper's own method. Reproduced: two one-sided tests at 5 % place our mean within that "
        "share of the printed number; 25 % includes 10 %. Of the others, a number is better or worse if a 95 % "
        "interval over seeds excludes the paper's number, which counts as one run if it has no spread. Each is a "
        f"separate test: expect about {round(0.05 * total)} by chance. The last two columns are the control: how often "
        f"networks without couplings beat the same numbers. Several tables print the same number: {ours} of our "
        f"numbers are distinct. {'; '.join(found.machines)}. Made by `quant reproduce all`; [records](records.md) list "
        "files, commands, commits and data."
    )
    return Table(heads, rows, [note])


def facts_table(report: Report) -> Table:
    """List claims, qubits and jobs in one line each."""
    found = report.summary
    rows = [(f"claims of the paper under ({each})", counts) for each, counts in found.answers().items()]
    for problem, methods in found.qubits.items():
        counts = ", ".join(f"{name} {n['ours']:.0f} (paper {n['paper']:.0f})" for name, n in methods.items())
        rows.append((f"physical qubits, {problem}", counts))
    seconds = format_duration(sum(record["seconds"] for record in report.records))
    rows.append(("all jobs", f"{found.done} of {found.jobs} done; their times add up to {seconds}"))
    if found.grid:
        pieces = f", in {found.grid['pieces']} pieces" if found.grid["pieces"] > 1 else ""
        time_taken = f"[{format_duration(found.grid['seconds'])}](../results/grid.json)"
        rows.append(("all jobs as one command", f"{time_taken} on {found.grid['machine']}{pieces}"))
    return Table(["", ""], rows)


def claims_table(claims: Sequence[Checked], quotes: bool = False) -> Table:
    """Show whether each claim holds in the paper and in our runs."""
    rows = []
    for checked in claims:
        marks = []
        for source in SOURCES:
            answer, effect = checked.answer(source), checked.effect(source)
            text = f" ({effect})" if effect and answer in ANSWERS[:3] else ""
            words = "no numbers printed" if source == "printed" and answer == "does not apply" else answer
            marks.append(f"{MARKS[answer]} {words}{text}")
        claim = checked.claim
        links = link_records(*sorted({find_view(pair.table.view)[0] for pair in checked.pairs}))
        more = [*([f"“{claim.quote}”"] if quotes else []), *([f"*{claim.note}*"] if claim.note else [])]
        rows.append((" ".join([f"{claim.text} ({claim.paper}; records: {links}).", *more]), *marks))
    notes = [] if quotes else ["The page of `quant report` shows the numbers behind each claim."]
    return Table(["claim", *SOURCES.values()], rows, notes)


def pairs_table(claims: Sequence[Checked]) -> Table:
    """Show the numbers behind claims."""
    pairs = [(checked.claim.text, pair) for checked in claims for pair in checked.pairs]
    rows = [(text, str(pair), *(pair.format(source) for source in SOURCES)) for text, pair in pairs]
    return Table(["claim", "compared", *(f"{name}#" for name in SOURCES.values())], rows)


#: Views of (r) -> what differs there.
RELEASED: Mapping[str, str] = {
    "released-2d": "(r): ten neighbors, loss over all pairs; 200 of 1,000 angles of 62 test shapes (30 trained).",
    "released-3d": "(r): clouds are 1,024 sampled points, each followed by its nearest one, not all vertices of a mesh "
    "file; sizes are scored at 1 % wrong matches, as in the released scripts. The test has trained shapes.",
    "released-graphs": "(r): QUBOs are solved exactly, not by neal; the released code has three layers only: those of "
    "five are ours, and its training of Pure is missing. Willow has the 300 epochs of the text, the code 150.",
    "released-five": "(r): QUBOs are solved exactly, not by neal; five layers and 450 epochs as in the text; "
    "5,640 test instances.",
}

ADDED = re.compile(r"[1-9]\d* % noise|\d+-\d+ degrees")  # rows of tests that the released code lacks
#: Degrees at which the released code's errors of point sets start again at 0.
WRAP = 256 * 60 / 511
TEXT = "†: with noise or intervals of the text, which the released code lacks."


def comparison_table(report: Report, table: PaperTable) -> Table:
    """Show one table of the paper with ours and the verdicts."""
    compared = report.of_table(table)
    cells: dict[tuple[str, str], list[Compared]] = {}
    for each in compared:
        cells.setdefault((each.row, each.column), []).append(each)
    digits, rows = DIGITS[find_view(table.view)[1].unit], []
    chance = ["constant#", "random#"] if levels(table.view, table.rows[0]) else []
    there = table.place(table.rows[0], table.own[0], "r") if table.own else None
    explained = next((note for view, note in RELEASED.items() if there and there[0].startswith(view)), "")
    if chance and explained and levels(table.view, table.rows[0], True) != levels(table.view, table.rows[0]):
        chance += ["(r) constant#", "(r) random#"]
    more = ", and under (r) as the released code does" if len(chance) > 2 else ""
    for (row, column), cell in cells.items():
        texts = [" / ".join(format_spread(each.paper, each.paper_spread) for each in cell)]
        found = [*levels(table.view, row), *levels(table.view, row, True)][: len(chance)]
        texts += [" / ".join(f"{level['median' in each.metric]:.1f}" for each in cell) for level in found]
        for protocol in PROTOCOLS:
            numbers = [number for each in cell if (number := each.numbers[protocol])]
            shown = " / ".join(format_spread(each.mean, each.spread, digits) for each in numbers) or "–"
            texts.append(f"{shown} †" if protocol == "r" and numbers and ADDED.match(row) else shown)
            texts.append(" / ".join(dict.fromkeys(_verdict(each, protocol) for each in cell)))
        rows.append((row, column, *texts))
    notes = [
        format_counts(compared),
        f"Not counted in the summary: {table.not_counted}." if table.not_counted else "",
        f"Differences from the paper: {table.differs}" if table.differs else "",
        explained + (f" {TEXT}" if explained and ADDED.match(table.rows[-1]) else ""),
        f"The best constant and a random answer are scored as the text draws answers{more}." * bool(chance),
        f"Records: {link_records(find_view(table.view)[0])}.",
    ]
    heads = [head for protocol, what in PROTOCOLS.items() for head in (f"({protocol}) {what}#", "verdict")]
    return Table(["", "", "paper#", *chance, *heads], rows, [note for note in notes if note])


def _verdict(each: Compared, protocol: Protocol) -> str:
    found = each.verdict(protocol)
    width = CLOSE if each.within(protocol, CLOSE) else REPRODUCED
    return f"{found}, ±{100 * width:.0f} %" if found == "reproduced" else found


def medians_table(report: Report) -> Table:
    """Show medians of point sets, and by how much errors that wrap would change them."""
    rows = []
    for each in report.compared:
        view, *place = each.table.place(each.row, each.column, "a") or ("", "", "")
        if each.metric == "degrees_median" and each.counted and view.startswith("pointset"):
            scores = map(unpacked, report.found[view][place[0], place[1]].scores)
            both = [(np.median(score), np.median(score % WRAP)) for score in scores]
            wrapped = statistics.fmean(after - before for before, after in both)
            ours = [each.numbers["a"], each.numbers["r"]]
            text, released = (format_spread(n.mean, n.spread, 2) if n else "–" for n in ours)
            shown = [text, _verdict(each, "a"), f"{wrapped:+.2f}", released, _verdict(each, "r")]
            rows.append((f"{each.table.name}, {each.row}", str(each.paper), *shown))
    heads = [
        "paper#",
        "(a) the paper's text#",
        "verdict",
        "if errors wrap#",
        "(r) the released code#",
        "verdict",
    ]
    note = "Wrapped errors are of the first instances of each seed, which records hold."
    return Table(["", *heads], rows, [note])


def orders_table(report: Report) -> Table:
    """Count the verdicts of (r) on rotations for both orders of the points."""
    orders: dict[str, list[Compared]] = {"chain": [], "random order": []}
    for each in report.compared:
        view, row, column = each.table.place(each.row, each.column, "r") or ("",) * 3
        if each.counted and column.endswith(", chain"):
            orders["chain"].append(each)
            places = {**each.table.ours[each.column], "r": (row, column.removesuffix(", chain"), view)}
            table = replace(each.table, ours={each.column: places})
            number = compare.find_number(report.found, table, each.row, each.column, each.metric, "r")
            orders["random order"].append(replace(each, numbers={"r": number}))
    counts = [
        (compare.count_close(of, "r"), *compare.count_verdicts(of, "r").values()) for of in orders.values()
    ]
    rows = [(name, *map(str, count)) for name, count in zip(orders, counts, strict=True)]
    return Table(["points", *(f"{name}#" for name in COUNTED)], rows)


def view_table(report: Report, name: str) -> Table:
    return cells_table(report.found[name])


def cells_table(cells: Mapping[tuple[str, str], Cell]) -> Table:
    """Show everything that was measured for a view, with its provenance."""
    if not cells:
        return Table([], [])
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    texts = [(row, *(cells[row, c].text() if (row, c) in cells else "–" for c in columns)) for row in rows]
    records = [record for cell in cells.values() for record in cell.records]
    counts = sorted(len(cell.records) for cell in cells.values())
    return Table(["", *(f"{column}#" for column in columns)], texts, [_origin(records, counts)])


def _origin(records: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> str:
    machines = sorted({str(record["machine"]) for record in records})
    versions = sorted({str(record["versions"]["qubolearn"]) for record in records})
    trained = [record for record in records if "training_seconds" in record["metrics"]]
    seconds = sorted(round(record["metrics"]["training_seconds"]) for record in trained)
    span, seeds = (" to ".join(map(str, dict.fromkeys([*n[:1], *n[-1:]]))) for n in (seconds, counts))
    parts = [f"Mean ± standard deviation over {seeds} seeds" if counts[-1] > 1 else "One seed"]
    parts += [f"training takes {span} s on {numbers.training_hardware(trained)}"] if trained else []
    parts += [f"qubolearn {', '.join(versions)}", *machines]
    item = records[0]["job"]["item"]
    return f"{'; '.join(parts)}. Made by `quant reproduce {item}`; records: {link_records(item)}."


def searches(report: Report) -> str:
    """Show the searches behind our recipes, one table after the other."""
    found = {name: report.found[name] for name in SEARCHES}
    missing = {name: f"*`{name}` has no record yet.*\n" for name in SEARCHES}
    return "\n".join(str(cells_table(cells)) if cells else missing[name] for name, cells in found.items())


def records_table(item: Item) -> Table:
    """Show the source of each number, and the keys of its records."""
    rows: dict[tuple[str, ...], list[str]] = {}
    done = [(outcome.job, outcome.record) for outcome in item.outcomes]
    for job, record in [(job, record) for job, record in done if record is not None]:
        codes = [f"`{str(record[name])[:12]}`" if name in record else "–" for name in ("commit", "source")]
        read = sorted(record.get("data", {}).items())
        data = ", ".join(f"{name.rpartition('/')[2]} `{sha[:12]}`" for name, sha in read)
        origin = (record.get("date", "–")[:10], *codes, data or "–", record["machine"])
        rows.setdefault((job.row, job.column, *origin), []).append(f"{job.seed} `{job.key}`")
    heads = ["row", "column", "seeds and keys", "date", "commit", "source", "data", "machine"]
    return Table(heads, [(*key[:2], ", ".join(seeds), *key[2:]) for key, seeds in rows.items()])


def all_records(report: Report) -> str:
    """Show the records behind every number, item by item."""
    unknown = sum("commit" not in record for record in report.records)
    remake = "`quant reproduce --key KEY` remakes a record alone and compares"
    count = numbers.plural(len(report.records), "record")
    parts = [f"{count}; {unknown or 'none'} without a commit. {remake}.\n"]
    for item in report.items:
        if item.records:
            names = [path.name for path in Store(report.results).paths(item.name)]
            files_of = ", ".join(f"[{name}](../results/{name})" for name in names)
            parts.append(f"## {item.name}\n\n{item.entry.title}. File: {files_of}.\n\n{records_table(item)}")
    return "\n".join(parts)


def data_table(report: Report) -> Table:
    """Show the source, license and digest of every dataset file."""
    text = files("quant_reproduction.datasets").joinpath("manifest.json").read_text(encoding="utf-8")
    names = ("what", "source", "license")
    known = json.loads(text)["files"]
    rows = [(f"`{each['file']}`", *(each[name] for name in names), f"`{each['sha256']}`") for each in known]
    return Table(["file below QUBOLEARN_DATA", "content", "source", "license", "SHA-256"], rows)


def errata_table(report: Report) -> Table:
    """Show what looks like an error, and the command that shows it."""
    rows = []
    for each in errata.findings(report):
        item = each.command.removeprefix("quant reproduce ")
        links = f" (records: {link_records(item)})" if item != each.command else ""
        quick = f"`{each.quick}`, in seconds; " if each.quick else ""
        rows.append((each.where, each.printed, each.found, f"{quick}`{each.command}`{links}"))
    return Table(["where", "the paper", "our finding", "shown by"], rows)


#: Solvers of Figure 4a -> our rows; samplers of Figure 8 -> our names.
SOLVERS = {"ES": "exhaustive", "QA": "quantum (simulated)", "SA": "annealing (simulated)"}
SAMPLERS = {f"SA, {count} sweeps": f"SA (neal), {count} sweeps (simulated)" for count in (1000, 10, 2)}
SAMPLERS |= {"dimod": "SA (dimod), 100 sweeps (simulated)", "QA": "simulated QA"}


def bars_table(report: Report) -> Table:
    """Compare the bars of Figures 4a, 4b and 8 with ours."""
    note = f"Records: {link_records('rotation', 'training', 'energies')}."
    return Table(["", "", "the paper's bars#", "(a) ours#"], list(_bars(report)), [note])


def _bars(report: Report) -> Iterator[Sequence[str]]:
    printed = errata.series()
    for name, row in SOLVERS.items():
        mean = sum(degrees * share for degrees, share in enumerate(printed["Figure 4a"][name]))
        ours = report.text("rotation-solvers", row, "(a) quant").partition(" / ")[0]
        yield f"Figure 4a, {name}", "mean error, degrees, from integer bins", f"{mean:.1f}", ours
    metrics = _first_metrics(report, "training", "k=5", "paper, 1e-5")
    found = list(metrics.get("training", {}).get("wrong_bits", {}).values())
    for place, epoch in enumerate((0, 245, 450)):
        bars = printed[f"Figure 4b, epoch {epoch}"]
        for name, ours in {"unprojected": "as solved", "projected": "projected"}.items():
            if name in bars:
                mine = found[place].get(ours) if len(found) == 3 else None
                what = f"Figure 4b, epoch {epoch}, {name}"
                right = f"{100 * bars[name][0] / sum(bars['unprojected']):.1f}"  # projected bars miss nine
                yield what, "correct, % (ours: of the training set)", right, _first_share(mine)
                yield what, "wrong bits, mean", _mean(bars[name]), _mean(mine)
    metrics = _first_metrics(report, "energies", "k=5, 450 epochs at 1e-5", "samplers")
    panels = metrics.get("energies", {}).get("figure", {}).get("panels", ())
    counts = {each["name"]: each["counts"] for panel in panels for each in panel["series"]}
    for name, ours in SAMPLERS.items():
        shares = map(_first_share, ([*filter(None, printed["Figure 8"][name])], counts.get(ours)))
        yield f"Figure 8, {name}", "reads in its lowest bar, %", *shares


def _first_metrics(report: Report, item: str, row: str, column: str) -> Mapping[str, Any]:
    records = (record for each in report.items if each.name == item for record in each.records)
    jobs = ((record["job"], record["metrics"]) for record in records)
    return next((found for job, found in jobs if (job["row"], job["column"]) == (row, column)), {})


def _first_share(heights: Sequence[float] | None) -> str:
    return f"{100 * heights[0] / sum(heights):.1f}" if heights else "–"


def _mean(heights: Sequence[float] | None) -> str:
    return f"{sum(at * height for at, height in enumerate(heights)) / sum(heights):.2f}" if heights else "–"


def verified_table(results: Path) -> Table:
    """Show how reruns of records compare, from ``verify.json``."""
    path = results / "verify.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: quant reproduce --verify 20 --json > {path}")
    made = read_json(path)
    rows = []
    for again, meaning in AGAIN.items():
        found = [each for each in made["records"] if each["again"] == again]
        # a missing metric or a failed job has no difference
        by_size = {math.inf if each["difference"] is None else each["difference"]: each for each in found}
        far = max(by_size, default=0.0)
        size = f", {100 * far:.2g} %" if far < math.inf else ""
        where = f"{by_size[far]['job']}: {by_size[far]['where']}{size}" if far else "–"
        rows.append((f"{again}: {meaning}", str(len(found)), where))
    left = "; ".join(f"{count} {reason}" for reason, count in made["left_out"].items()) or "none"
    note = (
        f"{len(made['records'])} of {made['of']} records, chosen by `--seed {made['seed']}`; left out: {left}. "
        f"Tolerance {100 * made['tolerance']:g} %. {made['machine']}; commit `{made.get('commit', '–')[:12]}`, "
        f"{made['date'][:10]}; [all records](../results/verify.json)."
    )
    return Table(["", "records#", "largest difference"], rows, [note])


#: name of a marked table -> function that makes it
TABLES: Mapping[str, Callable[[Report], object]] = {
    "summary": summary_table,
    "facts": facts_table,
    "claims": lambda report: claims_table(report.claims),
    "errata": errata_table,
    "bars": bars_table,
    "medians": medians_table,
    "orders": orders_table,
    "data": data_table,
    "records": all_records,
    "verify": lambda report: verified_table(report.results),
    "searches": searches,
    "couplings-pay": couplings.pay_table,
    "couplings-short": couplings.short_table,
    "couplings-chip": couplings.chip_table,
    **{f"paper-{each.slug}": partial(comparison_table, table=each) for each in paper().tables if each.cells},
    **{view.name: partial(view_table, name=view.name) for entry in ENTRIES.values() for view in entry.views},
}


@lru_cache(maxsize=2)
def _report(results: Path) -> Report:
    return gather(results, quick=False, seeds=SEEDS)


def make_table(name: str, results: Path, docs: str = "") -> str:
    """Return a table in Markdown; ``docs`` is the path to the pages."""
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    with concise_errors(results):
        table = TABLES[name](_report(results))
    if isinstance(table, Table) and not table.rows:
        raise QubolearnError(f"no results for table {name}; run: quant reproduce all --out {results}")
    link = re.compile(r"\]\((?![\w+]+:|#)([^)]+)\)")
    return link.sub(lambda match: f"]({posixpath.normpath(docs + match[1])})", str(table))
