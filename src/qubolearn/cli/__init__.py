"""The command line; modules of commands are imported when called."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from inspect import cleandoc
from io import TextIOWrapper
from typing import Any, NoReturn

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.version import VERSION

__all__ = ["Parser", "main"]

#: command -> (module with add_COMMAND and run_COMMAND, help)
COMMANDS = {
    "train": ("training", "train a network that outputs QUBOs for a problem"),
    "evaluate": ("runs", "score a trained run on unseen instances, with any solver"),
    "compare": ("runs", "score runs on the same unseen instances"),
    "instances": ("solving", "write instances of a problem to a file"),
    "solve": ("solving", "solve a QUBO, or instances with a trained run"),
    "export": ("solving", "write the QUBOs of instances as COO text or dimod files"),
    "embed": ("solving", "count qubits, chains and instances per anneal on a chip"),
    "info": ("runs", "show the contents of a run or model file, or save a run as one file"),
    "runs": ("runs", "list run folders with their scores"),
    "plot": ("runs", "draw histograms and curves of runs"),
    "explore": ("runs", "write an interactive page about a run"),
    "demo": ("demo", "train, compare and draw: a tour of two minutes"),
    "completion": ("options", "print a completion script for your shell"),
}

#: Commands of the second distribution.
MOVED = ("baseline", "figure", "report", "reproduce", "tables")

#: Words in torch errors that mean out of memory.
OUT_OF_MEMORY = ("allocate", "out of memory", "not enough memory", "overflow")

ABOUT = """Learn QUBOs from data: train networks that output QUBOs, and solve them.

commands (each has its own --help):"""
EPILOG = """examples:
  qubolearn demo                                          max-cut, Sudoku and graph matching, with pictures
  qubolearn train randgraph --k 4 --out runs/k4           learn QUBOs that match graphs of 4 nodes
  qubolearn evaluate runs/k4 --solver annealing           score it with simulated annealing
  qubolearn instances randgraph --k 4 --out four.npz      write instances to a file ...
  qubolearn solve runs/k4 four.npz                        ... and solve them

--json anywhere prints the result as one JSON object on stdout, and everything else on stderr.
Exit codes: 0 success, 1 internal error, 2 bad input, 130 interrupted (SIGINT), 143 terminated (SIGTERM)."""


class Parser(argparse.ArgumentParser):
    """A parser that raises a QubolearnError with the nearest known option."""

    def error(self, message: str) -> NoReturn:
        near: list[str] = []
        if wrong := re.search(r"unrecognized arguments:.*?(--[\w-]+)", message):
            near = get_close_matches(wrong[1], self._option_string_actions, n=1)
        elif wrong := re.search(r"invalid choice: '([\w-]+)' \((.*)\)", message):
            near = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise QubolearnError(f"{message}{hint}; see {self.prog} --help")

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)  # argparse ignores a full disk


def main(argv: Sequence[str] | None = None, program: str = "qubolearn", dispatch: Any = None) -> int:
    """Run one command, or one of another ``dispatch``; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths need not be valid text
    try:
        try:
            words = [argument for argument in arguments if argument != "--json"]
            return int((dispatch or _dispatch)(words, "--json" in arguments))
        finally:
            sys.stdout.flush()  # a full disk fails here
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # such as head
        _drop_stdout()
        return 1
    except Exception as error:
        message = _describe(error)
        if message is None:
            raise
        with suppress(OSError):
            print(f"{program}: error: {' '.join(message.split())}", file=sys.stderr)
        return 2


def _describe(error: Exception) -> str | None:
    """Return an expected error as one line, or None for a bug."""
    if isinstance(error, QubolearnError):
        return str(error)
    if isinstance(error, OSError):
        _drop_stdout()
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ' (standard output)'}"
    memory = isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)
    if memory or isinstance(error, MemoryError):
        return f"not enough memory; use fewer instances or smaller batches ({str(error)[:100]})"
    return None


def _drop_stdout() -> None:
    """Discard unwritten output, which Python would write again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str], json: bool) -> int:
    name, rest = arguments[0] if arguments else "", arguments[1:]
    if name in ("", "-h", "--help"):
        rows = "\n".join(f"  {name:<11}{summary}" for name, (_, summary) in COMMANDS.items())
        print(f"usage: qubolearn COMMAND ... [--json]\n\n{ABOUT}\n{rows}\n\n{EPILOG}")
        return 0 if name else 2
    if name == "--version":
        print(f"qubolearn {VERSION}")
        return 0
    if name in MOVED:
        raise QubolearnError(f"{name} is now quant {name}, in quant-reproduction; pip install ./reproduction")
    if name == "benchmark":
        raise QubolearnError("benchmarks are not installed; run make benchmark NAME=... in a checkout")
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    parser = make_parser(name, rest[0] if rest and not rest[0].startswith("-") else None)
    run = getattr(import_module(f"qubolearn.cli.{COMMANDS[name][0]}"), f"run_{name}")
    output = import_module("qubolearn.cli.options").Output(json)
    code = run(parser.parse_intermixed_args(rest), output)
    output.close()
    return int(code or 0)


def make_parser(name: str, first: str | None = None, parser: argparse.ArgumentParser | None = None) -> Parser:
    """Return the parser of a command; ``first`` may name a problem with options."""
    module = import_module(f"qubolearn.cli.{COMMANDS[name][0]}")
    about, _, examples = cleandoc(getattr(module, f"run_{name}").__doc__).partition("examples:")
    made = parser or Parser(prog=f"qubolearn {name}", allow_abbrev=False)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.description, made.epilog = about, f"examples:{examples}" if examples else None
    getattr(module, f"add_{name}")(made, first)
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return made  # type: ignore[return-value]
