"""``quant report``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from quant_reproduction.cli import concise_errors, results_folder
from quant_reproduction.grid.views import SEEDS
from quant_reproduction.report import write_report
from quant_reproduction.report.errata import findings
from quant_reproduction.report.summary import COUNTED, gather
from qubolearn.cli.options import Output, count
from qubolearn.errors import QubolearnError

EXAMPLES = {
    "report": """examples:
  quant report                                     results/ -> report.html
  quant report --quick                             runs/quick/ -> report.html
  quant report --errata                            what in the paper looks like an error, computed and printed"""
}


def add_report(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("--results", metavar="DIR", help="folder of the records [reproduction/results]")
    parser.add_argument("--quick", action="store_true", help="report on the quick jobs")
    parser.add_argument("--seeds", type=count, metavar="N", help=f"seeds per cell [{SEEDS}, quick: 1]")
    parser.add_argument("--errata", action="store_true", help="print findings on the paper, write no page")
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page [report.html]")


def run_report(args: argparse.Namespace, output: Output) -> None:
    """Write the report: every table and figure of the paper alongside ours, as one HTML file.

    The page is one file without dependencies: open it from disk, print it or send it. It lists what has no record."""
    results = results_folder(args.results, args.quick)
    seeds = args.seeds if args.seeds is not None else (1 if args.quick else SEEDS)
    if args.errata:  # formulas and the paper's own numbers need no results
        with concise_errors(results):
            found = findings(gather(results, args.quick, seeds))
        for each in found:
            shown = "; ".join(filter(None, (each.quick, each.command)))
            output.say(each.where, f"  the paper: {each.printed}", f"  comes out: {each.found}")
            output.say(f"  shown by: {shown}\n")
        output.result(findings=[each._asdict() for each in found])
        return
    if not results.is_dir():
        again = "quant reproduce all --quick" if args.quick else "quant reproduce all"
        raise QubolearnError(f"no folder {results}; run: {again}")
    with concise_errors(results):
        summary = write_report(results, Path(args.out), args.quick, seeds)
    title = "numbers of the paper's own method; 25 % includes 10 %"
    heads, *rows = zip(["", *COUNTED], *summary.verdicts(), strict=True)
    output.table(title, heads, rows)
    claims = summary.answers().items()
    output.say(*(f"claims of the text under ({protocol}): {counts}" for protocol, counts in claims))
    output.say(f"{args.out}: {summary.done} of {summary.jobs} jobs done")
    output.result(out=args.out, **asdict(summary))
