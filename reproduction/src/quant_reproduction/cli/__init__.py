"""The command ``quant``: what all of its subcommands share; their modules are imported only when called."""

from __future__ import annotations

import argparse
import ast
import json as json_text
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from quant_reproduction.grid.jobs import Outcome
from qubolearn import Problem
from qubolearn.errors import QubolearnError, convert, unknown_name
from qubolearn.evaluation import Evaluation

#: command -> its module and one line of help. The module has ``add_COMMAND(parser)`` and ``run_COMMAND(args, output)``,
#: whose docstring is the description, and EXAMPLES by command.
COMMANDS = {
    "reproduce": ("reproduce", "fill the paper's tables, and ours alongside them"),
    "report": ("report", "write every table and figure alongside the paper's as one HTML page"),
    "tables": ("report", "fill the tables of Markdown files from records"),
    "figure": ("runs", "draw matches, alignments, failures, errors and energies of trained runs"),
    "baseline": ("runs", "score a method without learning: Direct, QGM, AQM, ICP, Procrustes"),
    "evaluate": ("runs", "score the three stages of a rotation together"),
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
        rows = "\n".join(f"  {name:<11}{summary}" for name, (_, summary) in COMMANDS.items())
        print(f"usage: quant COMMAND ... [--json]\n\ncommands (each has its own --help):\n{rows}")
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    module = import_module(f"quant_reproduction.cli.{COMMANDS[name][0]}")
    run = getattr(module, f"run_{name}")
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(f"quant {name}", None, run.__doc__, module.EXAMPLES[name], formatter_class=form, allow_abbrev=False)
    getattr(module, f"add_{name}")(parser)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    args, others = parser.parse_known_intermixed_args(rest)
    if others and not hasattr(args, "options"):
        raise QubolearnError(f"unrecognized arguments: {' '.join(others)}; see {parser.prog} --help")
    if others:
        args.options = others
    code = run(args, output)
    output.close()
    return int(code or 0)


#: Text is shown literally, because paths and names may look like rich's markup.
PLAIN: Mapping[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}
#: Seconds between two lines of progress without a terminal.
SECONDS_BETWEEN_LINES = 30.0
#: A second Ctrl-C within these seconds may be a copy of the first one.
SECONDS_BETWEEN_INTERRUPTS = 2.0


class Output:
    """The output of a command: with ``json``, tables and notes go to stderr and stdout gets one object."""

    def __init__(self, json: bool = False) -> None:
        self.json = json
        self.console = Console(stderr=json, **PLAIN)
        self.errors = Console(stderr=True, **PLAIN)
        self._result: Mapping[str, Any] | None = None

    def say(self, text: str) -> None:
        """Print a line for people."""
        self.console.print(text)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table for people; one with many columns may be wider than the terminal."""
        table = Table(title=title, title_justify="left")
        for index, header in enumerate(headers):
            table.add_column(header, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        needed = Measurement.get(self.console, self.console.options.update(width=10_000), table).minimum
        wide = needed > self.console.width  # rich would cut words off
        (Console(stderr=self.json, width=needed, **PLAIN) if wide else self.console).print(table)

    def result(self, **values: Any) -> None:
        """Set the result, which :meth:`close` prints with ``--json``."""
        self._result = values

    def close(self) -> None:
        if self.json:
            print(json_text.dumps(self._result or {}, allow_nan=False))


@contextmanager
def concise_errors(folder: Path) -> Iterator[None]:
    """Report a damaged record in one line: records have no schema, every task stores what its tables need."""
    try:
        yield
    except (QubolearnError, OSError, MemoryError):
        raise
    except Exception as error:
        raise QubolearnError(
            f"a result file in {folder} is damaged ({type(error).__name__}: {error}); delete it and reproduce it"
        ) from error


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, so that running jobs are ended in order; a second Ctrl-C stops at once."""
    caught: list[int] = []
    first = 0.0

    def handle(number: int, _: object) -> None:
        nonlocal first
        if not caught:
            first = time.monotonic()
        elif number == signal.SIGINT and time.monotonic() - first > SECONDS_BETWEEN_INTERRUPTS:
            raise KeyboardInterrupt
        caught.append(number)

    before = {name: signal.signal(name, handle) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def progress(output: Output, total: int) -> Iterator[Callable[[Outcome], None]]:
    """Show progress on stderr: a bar on a terminal, elsewhere a line now and then."""
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    console, failed, last = output.errors, 0, time.monotonic()
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        bar.disable = not console.is_terminal
        task = bar.add_task("", total=total)

        def watch(outcome: Outcome) -> None:
            nonlocal failed, last
            failed += outcome.record is None
            bar.update(task, advance=1, description=f"{failed} failed, last: {outcome.job.name}")
            if not console.is_terminal and time.monotonic() - last > SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                console.print(f"jobs: {bar.tasks[0].completed:.0f} of {total} ended, {failed} failed")

        yield watch


def at_least(least: int) -> Callable[[str], int]:
    """Return an argparse type for integers with a minimum."""

    def integer(text: str) -> int:
        if not least <= (number := int(text)) < 2**63:
            raise argparse.ArgumentTypeError(f"expected an integer from {least} to 2**63 - 1, got {text[:40]}")
        return number

    return integer


count, seed = at_least(1), at_least(0)


def add_draw(parser: argparse.ArgumentParser) -> None:
    """Add --solver, --seed and --split."""
    text = "solver, with options as in annealing:reads=50,sweeps=200,seed=1 [auto]"
    parser.add_argument("--solver", default="auto", metavar="NAME", help=text)
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of the instances [0]")
    splits = ["test", "validation", "train"]
    parser.add_argument("--split", choices=splits, default="test", help="split to draw from [test]")


def read_options(kind: type[Problem], settings: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a problem that ``name=value`` settings choose."""
    known, hints, chosen = [field.name for field in fields(kind)], get_type_hints(kind), {}  # type: ignore[arg-type]
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise QubolearnError(f"expected OPTION=VALUE, got {setting!r}")
        if name not in known:
            raise unknown_name(f"option of {kind.name}", name, known)
        chosen[name] = _value(text, hints[name], name)
    return chosen


def _value(text: str, hint: Any, name: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    return convert(value, hint, name)


def change_options(problem: Problem, settings: Sequence[str]) -> Problem:
    """Return a run's problem with options replaced, each given as ``name=value``; its size must stay the same."""
    changed: Problem = replace(problem, **read_options(type(problem), settings))  # type: ignore[type-var]
    if (changed.input_size, changed.bits) != (problem.input_size, problem.bits):
        raise QubolearnError(f"{changed} has another size than the run's {problem}; train a run for it")
    return changed


def metric_rows(found: Evaluation) -> list[tuple[str, str]]:
    """Return metrics as people read them: accuracies in percent, the rest as numbers."""
    return [
        (name.replace("_", ", "), f"{100 * value:.1f} %" if name.startswith("accuracy") else f"{value:.3f}")
        for name, value in found.metrics.items()
    ]


def results_folder(given: str | None, quick: bool = False) -> Path:
    """Return the folder of records: the given one, or the default of full or quick runs."""
    inside = Path("reproduction/pyproject.toml").is_file()  # in a checkout
    return Path(given or ("runs/quick" if quick else "reproduction/results" if inside else "results"))
