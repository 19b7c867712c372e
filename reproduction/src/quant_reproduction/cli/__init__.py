"""The command ``quant``."""

from __future__ import annotations

import argparse
import ast
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from quant_reproduction.grid.jobs import Outcome
from qubolearn import Problem
from qubolearn.cli import Parser
from qubolearn.cli import main as run_main
from qubolearn.cli.options import Output
from qubolearn.errors import QubolearnError, convert, unknown_name

#: command -> its module and one line of help. The module has ``add_COMMAND``,
#: EXAMPLES, and ``run_COMMAND``, whose docstring is the description.
COMMANDS = {
    "reproduce": ("reproduce", "fill the paper's tables, and ours alongside them"),
    "report": ("report", "write every table and figure alongside the paper's as one HTML page"),
    "figure": ("runs", "draw matches, alignments, failures, errors and energies of trained runs"),
    "baseline": ("runs", "score a method without learning: Direct, QGM, AQM, ICP, Procrustes"),
    "evaluate": ("runs", "score the three stages of a rotation together"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return run_main(argv, "quant", _dispatch)


def _dispatch(arguments: list[str], json: bool) -> int:
    name, rest = arguments[0] if arguments else "", arguments[1:]
    if name in ("", "-h", "--help"):
        rows = "\n".join(f"  {name:<11}{summary}" for name, (_, summary) in COMMANDS.items())
        print(f"usage: quant COMMAND ... [--json]\n\ncommands (each has its own --help):\n{rows}")
        return 0 if name else 2
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    module = import_module(f"quant_reproduction.cli.{COMMANDS[name][0]}")
    run, output = getattr(module, f"run_{name}"), Output(json)
    parser = Parser(f"quant {name}", None, run.__doc__, module.EXAMPLES[name], allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    getattr(module, f"add_{name}")(parser, rest)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    code = run(parser.parse_intermixed_args(rest), output)
    output.close()
    return int(code or 0)


#: Seconds between two lines of progress without a terminal.
SECONDS_BETWEEN_LINES = 30.0
#: A second Ctrl-C within these seconds may be a copy of the first one.
SECONDS_BETWEEN_INTERRUPTS = 2.0


@contextmanager
def concise_errors(folder: Path) -> Iterator[None]:
    """Report a damaged record in one line: records have no schema."""
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
    """Collect SIGINT and SIGTERM; a second Ctrl-C stops at once."""
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
    """Show progress on stderr: a bar on a terminal, else lines."""
    console, failed, last = output.errors, 0, time.monotonic()
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
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


def change_options(problem: Problem, settings: Sequence[str]) -> Problem:
    """Return a run's problem with options ``name=value`` replaced."""
    known, hints, chosen = [field.name for field in fields(problem)], get_type_hints(type(problem)), {}  # type: ignore[arg-type]
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise QubolearnError(f"expected OPTION=VALUE, got {setting!r}")
        if name not in known:
            raise unknown_name(f"option of {problem.name}", name, known)
        try:
            value: Any = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        chosen[name] = convert(value, hints[name], name)
    changed: Problem = replace(problem, **chosen)  # type: ignore[type-var]
    if (changed.input_size, changed.bits) != (problem.input_size, problem.bits):
        raise QubolearnError(f"{changed} has another size than the run's {problem}; train a run for it")
    return changed


def results_folder(given: str | None, quick: bool = False) -> Path:
    """Return the folder of records, by default that of full or quick runs."""
    inside = Path("reproduction/pyproject.toml").is_file()  # in a checkout
    return Path(given or ("runs/quick" if quick else "reproduction/results" if inside else "results"))
