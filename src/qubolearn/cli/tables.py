"""Fill the tables of Markdown files from result files, or check that they are up to date.

A table stands between the lines <!-- table: NAME --> and <!-- end -->.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from qubolearn.cli.output import Output, damage_said
from qubolearn.errors import QubolearnError
from qubolearn.files import write_output
from qubolearn.paper.report.tables import TABLES, fill

EPILOG = """examples:
  qubolearn tables README.md docs/results.md
  qubolearn tables README.md docs/results.md --check"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE.md", help=f"files with tables among: {', '.join(TABLES)}")
    parser.add_argument("--results", default="results", metavar="DIR", help="folder of the results [results]")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 2 where a table is out of date")


def run(args: argparse.Namespace, output: Output) -> None:
    stale = []
    for path in map(Path, args.files):
        try:
            before = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise QubolearnError(f"cannot read {path}: {getattr(error, 'strerror', 'it is no text')}") from error
        with damage_said(Path(args.results)):
            after = fill(before, Path(args.results), "" if path.resolve().parent.name == "docs" else "docs/")
        if after != before:
            stale.append(str(path))
            if not args.check:
                write_output(path, after.encode())
    if args.check and stale:
        raise QubolearnError(f"tables out of date in {', '.join(stale)}; run: qubolearn tables {' '.join(stale)}")
    output.say(f"changed: {', '.join(stale) or 'nothing'}")
    output.result(changed=stale)
