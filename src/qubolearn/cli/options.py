"""Frozen dataclasses as command-line options: a field is an option, the string below it is its help."""

from __future__ import annotations

import argparse
import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from qubolearn.errors import QubolearnError
from qubolearn.problems import Problem, problem_names, problem_type
from qubolearn.problems.from_file import is_reference, load_problem
from qubolearn.solvers import solver_names
from qubolearn.typed import MAX_WHOLE

if TYPE_CHECKING:
    from qubolearn.training.runs import Run

__all__ = [
    "add_draw",
    "add_fields",
    "add_problem",
    "add_problem_of_run",
    "add_solver",
    "at_least",
    "chosen",
    "count",
    "is_problem",
    "named_problem",
    "open_run",
    "problem_class",
    "problem_from",
    "seed",
    "whole",
]

SOLVER_HELP = "with options as in annealing:reads=50,sweeps=200,seed=1"


def add_fields(
    parser: argparse.ArgumentParser, kind: type, title: str, defaults: bool = True, skip: Sequence[str] = ()
) -> None:
    """One option per field of a dataclass. Options that are not given stay absent, see :func:`chosen`."""
    group = parser.add_argument_group(title)
    hints, helps = get_type_hints(kind), _field_docs(kind)
    for field in fields(kind):
        if field.name in skip:
            continue
        text = helps.get(field.name, "").replace("%", "%%")
        if defaults and field.default is not MISSING:
            text = f"{text} [{field.default}]".strip()
        option = "--" + field.name.replace("_", "-")
        settings: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS, "help": text}
        hint = hints[field.name]
        if hint is bool:
            group.add_argument(option, action=argparse.BooleanOptionalAction, **settings)
        elif get_origin(hint) is Literal:
            group.add_argument(option, choices=get_args(hint), **settings)
        else:
            group.add_argument(option, type=_reader(hint), metavar=_metavar(hint), **settings)


def chosen(args: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The fields of a dataclass that the command line gave."""
    return {field.name: getattr(args, field.name) for field in fields(kind) if hasattr(args, field.name)}


def add_problem(parser: argparse.ArgumentParser, argv: Sequence[str], position: int = 0) -> None:
    """The positional PROBLEM, and the options of the one that argv names as its word number ``position``.

    Call it after the command's other options have been added, so that their values are not taken for problem names.
    """
    known = ", ".join(problem_names())
    parser.add_argument("problem", metavar="PROBLEM", help=f"{known}, or FILE.py:CLASS (PROBLEM --help: its options)")
    words = _positionals(parser, argv)
    name = named_problem(parser, argv) or (words[position] if position < len(words) else None)
    if name is not None and fields(kind := problem_class(name)):  # type: ignore[arg-type]
        add_fields(parser, kind, f"options of {name}")


def is_problem(word: str) -> bool:
    """Whether a word of the command line names a problem type."""
    return word in problem_names() or is_reference(word)


def named_problem(parser: argparse.ArgumentParser, argv: Sequence[str]) -> str | None:
    """The first positional word of argv that names a problem."""
    return next(filter(is_problem, _positionals(parser, argv)), None)


def _positionals(parser: argparse.ArgumentParser, argv: Sequence[str]) -> list[str]:
    """The words of argv that are neither options nor values of options.

    Options that the parser does not know yet may be the problem's own. The word after one is its value, unless it is
    a problem's name.
    """
    words, option = [], ""  # the option whose value the next word may be
    for word in argv:
        if word.startswith("-"):
            option = "" if "=" in word else word
            continue
        action = parser._option_string_actions.get(option)
        takes_it = action.nargs != 0 if action else bool(option) and not is_problem(word)
        option = ""
        if not takes_it:
            words.append(word)
    return words


def problem_class(name: str) -> type[Problem]:
    """The problem class that the command line names; a user's file is executed to get it."""
    return load_problem(name) if is_reference(name) else problem_type(name)


def problem_from(args: argparse.Namespace) -> Problem:
    """The problem that the command line describes, with its defaults."""
    kind = problem_class(args.problem)
    return kind(**chosen(args, kind))


def add_problem_of_run(parser: argparse.ArgumentParser) -> None:
    """The option --problem of commands that open runs."""
    text = "the class of the run's problem, where it lies in a file of yours: a run never says which code to execute"
    parser.add_argument("--problem", metavar="FILE.py:CLASS", help=text)


def open_run(folder: Path | str, args: argparse.Namespace | None = None) -> Run:
    """The run in a folder, of the problem that --problem names, or the model ``pretrained:NAME`` of the package."""
    from qubolearn.training.pretrained import pretrained
    from qubolearn.training.runs import Run

    if str(folder).startswith("pretrained:"):
        return pretrained(str(folder).partition(":")[2])
    return Run.open(folder, problem_class(args.problem) if args and args.problem else None)


def whole(text: str) -> int:
    """A whole number that fits 64 bits."""
    number = int(text)
    if abs(number) >= MAX_WHOLE:
        raise argparse.ArgumentTypeError(f"{text[:40]} is too large; want less than 2**63 in size")
    return number


def at_least(least: int) -> Callable[[str], int]:
    """A parser of whole numbers with a minimum."""

    def read(text: str) -> int:
        number = whole(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text}; want at least {least}")
        return number

    read.__name__ = "whole"  # argparse shows this name for text that is not a number
    return read


#: The types of options that count something, and of seeds.
count, seed = at_least(1), at_least(0)


def add_draw(parser: argparse.ArgumentParser) -> None:
    """The options --seed and --split, which say which instances are drawn."""
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of the instances [0]")
    splits = ["test", "validation", "train"]
    parser.add_argument("--split", choices=splits, default="test", help="split to draw from [test]")


def add_solver(parser: argparse.ArgumentParser, default: str = "auto") -> None:
    """The option --solver."""
    text = f"{', '.join(solver_names())}; {SOLVER_HELP} [{default}]"
    parser.add_argument("--solver", default=default, metavar="NAME", help=text)


@lru_cache
def _field_docs(kind: type) -> dict[str, str]:
    """field -> the string literal below it, through all base classes that have source."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            body = ast.parse(dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        statements = getattr(body, "body", [])
        for statement, following in pairwise(statements):
            if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
                continue
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                docs[statement.target.id] = " ".join(str(following.value.value).split())
    return docs


def _reader(hint: Any) -> Any:
    plain = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    if plain[0] is int:
        return whole
    if plain[0] in (float, str, Path):
        return plain[0]
    raise QubolearnError(f"an option of type {hint} cannot be given on the command line")


def _metavar(hint: Any) -> str:
    return {whole: "N", float: "X", str: "NAME", Path: "PATH"}[_reader(hint)]
