"""The command ``quant``: one module per subcommand, imported only when called."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from quant_reproduction.cli.common import Output
from qubolearn.errors import QubolearnError, unknown_name

__all__ = ["COMMANDS", "main"]

#: command -> one line of help; its module has ``add_arguments(parser)`` and ``run(args, output)``
COMMANDS = {
    "reproduce": "fill the paper's tables, and ours alongside them",
    "report": "write every table and figure alongside the paper's as one HTML page",
    "tables": "fill the tables of Markdown files from records",
    "figure": "draw matches, alignments, failures, errors and energies of trained runs",
    "baseline": "score a method without learning: Direct, QGM, AQM, ICP, Procrustes",
    "evaluate": "score the three stages of a rotation together",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise QubolearnError(f"{message}; see {self.prog} --help")

    def print_help(self, file: object = None) -> None:
        print(self.format_help(), end="")  # argparse would ignore a full disk


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths need not be valid text
    output = Output(json="--json" in arguments)
    try:
        try:
            return _dispatch([word for word in arguments if word != "--json"], output)
        finally:
            sys.stdout.flush()  # so that a full disk is reported here and not by Python at its end
    except QubolearnError as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        print("quant: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        with suppress(OSError, ValueError):  # leave nothing that Python would try to write again when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone, e.g. head
            return 1
        return _failed(f"{error.strerror or error}{f': {error.filename}' if error.filename else ' (standard output)'}")


def _failed(message: str) -> int:
    with suppress(OSError):
        print(f"quant: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _dispatch(arguments: list[str], output: Output) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        rows = "\n".join(f"  {name:<11}{summary}" for name, summary in COMMANDS.items())
        print(f"usage: quant COMMAND ... [--json]\n\ncommands (each has its own --help):\n{rows}")
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    module = import_module(f"quant_reproduction.cli.{name}")
    parser = Parser(
        prog=f"quant {name}",
        description=module.__doc__,
        epilog=getattr(module, "EPILOG", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    args, others = parser.parse_known_intermixed_args(rest)
    if others and not hasattr(args, "options"):
        raise QubolearnError(f"unrecognized arguments: {' '.join(others)}; see {parser.prog} --help")
    if others:
        args.options = others
    code = module.run(args, output)
    output.close()
    return int(code or 0)
