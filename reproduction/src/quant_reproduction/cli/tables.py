"""Fill the tables of Markdown files from result files, or check that they are up to date.

A table stands between the lines <!-- table: NAME --> and <!-- end -->.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from quant_reproduction.cli.common import Output, concise_errors, results_folder
from quant_reproduction.report.tables import TABLES, fill
from qubolearn.errors import QubolearnError
from qubolearn.files import write_output

EPILOG = """examples:
  quant tables README.md docs/results.md
  quant tables README.md docs/results.md --check"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE.md", help=f"files with tables among: {', '.join(TABLES)}")
    parser.add_argument("--results", metavar="DIR", help="folder of the records [reproduction/results]")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 2 where a table is out of date")


def run(args: argparse.Namespace, output: Output) -> None:
    stale, results = [], results_folder(args.results)
    for path in map(Path, args.files):
        try:
            before = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise QubolearnError(f"cannot read {path}: {getattr(error, 'strerror', 'expected text')}") from error
        with concise_errors(results):
            after = fill(before, results, "" if path.resolve().parent.name == "docs" else "docs/")
        if after != before:
            stale.append(str(path))
            if not args.check:
                write_output(path, after.encode())
    if args.check and stale:
        raise QubolearnError(f"tables out of date in {', '.join(stale)}; run: quant tables {' '.join(stale)}")
    output.say(f"changed: {', '.join(stale) or 'nothing'}")
    output.result(changed=stale)
