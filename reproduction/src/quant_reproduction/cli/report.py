"""Write the report: every table and figure of the paper alongside ours, as one HTML file.

The page needs no network and nothing beside it: open it from disk, print it, send it around. It is made of the result
files of `quant reproduce`; what has no result yet is named as missing.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from quant_reproduction.cli.common import Output, concise_errors, count, results_folder
from quant_reproduction.grid.entries import SEEDS
from quant_reproduction.report import gather, write_report
from quant_reproduction.report.errata import findings
from qubolearn.errors import QubolearnError

EPILOG = """examples:
  quant report                                     results/ -> report.html
  quant report --quick                             runs/quick/ -> report.html
  quant report --results results --out page.html --json
  quant report --errata                            what in the paper looks like an error, computed and printed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", metavar="DIR", help="folder of the records [reproduction/results]")
    parser.add_argument("--quick", action="store_true", help="report on the quick jobs")
    parser.add_argument("--seeds", type=count, metavar="N", help=f"requested seeds per cell [{SEEDS}, quick: 1]")
    parser.add_argument("--errata", action="store_true", help="write no page, print findings on the paper itself")
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page [report.html]")


def run(args: argparse.Namespace, output: Output) -> None:
    results = results_folder(args.results, args.quick)
    seeds = args.seeds if args.seeds is not None else (1 if args.quick else SEEDS)
    if args.errata:  # formulas and the paper's own numbers need no results
        print_findings(results, args.quick, seeds, output)
        return
    if not results.is_dir():
        again = "quant reproduce all --quick" if args.quick else "quant reproduce all"
        raise QubolearnError(f"no folder {results}; run: {again}")
    with concise_errors(results):
        summary = write_report(results, Path(args.out), args.quick, seeds)
    counted, claims = sum(summary.cells["a"].values()), sum(summary.claims["a"].values())
    better = ", ".join(f"{cells['better']} under ({protocol})" for protocol, cells in summary.cells.items())
    holding = ", ".join(f"{answers['holds']} under ({protocol})" for protocol, answers in summary.claims.items())
    output.say(
        f"{args.out}: of {counted} numbers better than the paper's {better}; of {claims} claims hold {holding}; "
        f"{summary.done} of {summary.jobs} jobs done"
    )
    output.result(out=args.out, **asdict(summary))


def print_findings(results: Path, quick: bool, seeds: int, output: Output) -> None:
    """Print what the paper prints, what we find, and the command that shows it."""
    with concise_errors(results):
        found = findings(gather(results, quick, seeds))
    for each in found:
        shown = "; ".join(filter(None, (each.quick, each.command)))
        output.say(f"{each.where}\n  the paper: {each.printed}\n  comes out: {each.found}\n  shown by: {shown}\n")
    output.result(findings=[each._asdict() for each in found])
