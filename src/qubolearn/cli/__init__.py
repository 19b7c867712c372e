"""The command line: one module per command, found in the table below and imported only when called."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

from qubolearn.cli.output import Output
from qubolearn.cli.own_code import in_one_line
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.version import VERSION

__all__ = ["COMMANDS", "main", "make_parser"]

#: command -> (module with ``add_arguments(parser, argv)`` and ``run(args, output)``, one line of help)
COMMANDS = {
    "train": ("qubolearn.cli.train", "train a network that outputs QUBOs for a problem"),
    "evaluate": ("qubolearn.cli.evaluate", "score a trained run on unseen instances, with any solver"),
    "instances": ("qubolearn.cli.instances", "write instances of a problem to a file"),
    "solve": ("qubolearn.cli.solve", "solve instances from a file: QUBOs, bits and answers"),
    "export": ("qubolearn.cli.export", "write the QUBOs of instances as COO text or dimod files"),
    "baseline": ("qubolearn.cli.baseline", "score a method without learning: Direct, QGM, AQM, ICP, Procrustes"),
    "embed": ("qubolearn.cli.embed", "qubits, chains and instances per anneal on a chip"),
    "benchmark": ("qubolearn.cli.benchmark", "our solvers and the peers, side by side"),
    "info": ("qubolearn.cli.info", "say what a run or a model file holds; save a run as one file to share"),
    "runs": ("qubolearn.cli.runs", "list run folders with their scores"),
    "compare": ("qubolearn.cli.compare", "score runs on the same unseen instances, side by side"),
    "plot": ("qubolearn.cli.plot", "draw what a run learned: histograms, couplings, curves"),
    "explore": ("qubolearn.cli.explore", "write a run as one page to play with in the browser"),
    "figure": ("qubolearn.cli.figure", "draw matches, alignments, failures, errors and energies of trained runs"),
    "reproduce": ("qubolearn.cli.reproduce", "fill tables of the paper, and ours beside them"),
    "report": ("qubolearn.cli.report", "write every table and figure beside the paper's, as one HTML page"),
    "tables": ("qubolearn.cli.tables", "fill the tables of Markdown files from result files"),
    "demo": ("qubolearn.cli.demo", "train, compare and draw: the tour in two minutes"),
    "completion": ("qubolearn.cli.completion", "print a script that completes commands in bash, zsh or fish"),
}

#: Words in torch's errors that mean that there is not enough memory.
OUT_OF_MEMORY = ("allocate", "out of memory", "not enough memory", "overflow")

EPILOG = """examples:
  qubolearn demo                                          quant, diag and pure on graph matching, with pictures
  qubolearn train randgraph --k 4 --out runs/k4           learn QUBOs that match graphs of 4 nodes
  qubolearn evaluate runs/k4 --solver annealing           score it with simulated annealing
  qubolearn instances randgraph --k 4 --out four.npz      write instances to a file ...
  qubolearn solve runs/k4 four.npz                        ... and solve them
  qubolearn export runs/k4 four.npz --format bqm          ... or hand their QUBOs to D-Wave's tools

--json anywhere prints the result as one JSON object on stdout, and nothing else there.
QUBOLEARN_TRACEBACK=1 shows the traceback of an error in a problem of your own, and not one line.
Exit codes: 0 done, 1 internal error (of reproduce: some jobs failed), 2 bad input, 130 interrupted (SIGINT), 143
terminated (SIGTERM)."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are ours: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise QubolearnError(f"{message}{self._hint(message)}; see {self.prog} --help")

    def _hint(self, message: str) -> str:
        """The option or choice that a misspelt one is nearest to."""
        wrong = re.search(r"unrecognized arguments:.*?(--[\w-]+)|invalid choice: '([\w-]+)' \((.*)\)", message)
        if wrong is None:
            return ""
        known = self._option_string_actions if wrong[1] else re.findall(r"[\w-]+", wrong[3])
        near = get_close_matches(wrong[1] or wrong[2], known, n=1)
        return f" (did you mean {near[0]}?)" if near else ""

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)  # argparse would ignore a full disk


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths need not be valid text
    output = Output(json="--json" in arguments)
    arguments = [argument for argument in arguments if argument != "--json"]
    try:
        try:
            with in_one_line():
                return _dispatch(arguments, output)
        finally:
            sys.stdout.flush()  # so that a full disk is reported here and not by Python at its end
    except QubolearnError as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        print("qubolearn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, e.g. head
        _drop_stdout()
        return 1
    except OSError as error:
        _drop_stdout()
        return _failed(f"{error.strerror or error}{f': {error.filename}' if error.filename else ' (standard output)'}")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in OUT_OF_MEMORY):
            raise
        return _failed(f"not enough memory; ask for fewer instances or smaller batches ({str(error)[:100]})")


def _failed(message: str) -> int:
    with suppress(OSError):
        print(f"qubolearn: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _drop_stdout() -> None:
    """Leave nothing that Python would try to write again when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str], output: Output) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"qubolearn {VERSION}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    parser = make_parser(name, rest)
    code = import_module(COMMANDS[name][0]).run(parser.parse_intermixed_args(rest), output)
    output.close()
    return int(code or 0)


def make_parser(name: str, argv: Sequence[str]) -> Parser:
    """The parser of a command; argv may name a problem, whose options it then has."""
    module = import_module(COMMANDS[name][0])
    parser = Parser(
        prog=f"qubolearn {name}",
        description=module.__doc__,
        epilog=getattr(module, "EPILOG", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser, argv)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return parser


def _help() -> str:
    rows = "\n".join(f"  {name:<11}{summary}" for name, (_, summary) in COMMANDS.items())
    about = "Learn QUBOs from data: networks that output an annealer's couplings, trained through the solver."
    return (
        f"usage: qubolearn COMMAND ... [--json]\n\n{about}\n\ncommands (each has its own --help):\n{rows}\n\n{EPILOG}"
    )
