"""Options that several commands share, and fields of frozen dataclasses as options."""

from __future__ import annotations

import argparse
import ast
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.files import read_text
from qubolearn.problems import PROBLEMS, Problem, is_reference, load_problem, problem_names, problem_type
from qubolearn.solvers import solver_names

if TYPE_CHECKING:
    import torch

    from qubolearn.qubo import Clamp, Groups
    from qubolearn.runs import Run


def integer(text: str) -> int:
    """Parse an integer of 64 bits."""
    number = int(text)
    if abs(number) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text[:40]} is too large; expected less than 2**63 in size")
    return number


def seed(text: str, least: int = 0) -> int:
    """Parse an integer of at least 0."""
    if integer(text) < least:
        raise argparse.ArgumentTypeError(f"{text}; expected at least {least}")
    return integer(text)


def count(text: str) -> int:
    """Parse an integer of at least 1."""
    return seed(text, 1)


def add_fields(parser: argparse.ArgumentParser, kind: type, title: str, defaults: bool = True) -> None:
    """Add one option per field of a dataclass. Options that are not given stay absent, see :func:`chosen`."""
    group = parser.add_argument_group(title)
    hints, helps = get_type_hints(kind), _field_docs(kind) | getattr(kind, "helps", {})
    readers: dict[Any, tuple[Callable[[str], Any], str]]
    readers = {int: (integer, "N"), float: (float, "X"), str: (str, "NAME"), Path: (Path, "PATH")}
    for field in fields(kind):
        text = helps.get(field.name, "").replace("%", "%%")
        if defaults and field.default is not MISSING:
            text = f"{text} [{field.default}]".strip()
        option, hint = "--" + field.name.replace("_", "-"), hints[field.name]
        settings: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS, "help": text}
        plain = next((part for part in get_args(hint) or (hint,) if part is not type(None)), hint)
        if hint is bool:
            group.add_argument(option, action=argparse.BooleanOptionalAction, **settings)
        elif get_origin(hint) is Literal:
            group.add_argument(option, choices=get_args(hint), **settings)
        elif plain in readers:
            read, metavar = readers[plain]
            group.add_argument(option, type=read, metavar=metavar, **settings)
        else:
            raise QubolearnError(f"an option of type {hint} cannot be given on the command line")


def chosen(args: argparse.Namespace, kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass that the command line specifies."""
    return {field.name: getattr(args, field.name) for field in fields(kind) if hasattr(args, field.name)}


@lru_cache
def _field_docs(kind: type) -> dict[str, str]:
    """Return field -> the string literal below it, from the source of the class and its bases."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            body = ast.parse(dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        for statement, following in pairwise(getattr(body, "body", [])):
            if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
                continue
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                docs[statement.target.id] = " ".join(str(following.value.value).split())
    return docs


def add_problem(parser: argparse.ArgumentParser, first: str | None) -> None:
    """Add the first argument PROBLEM, and the options of the problem that it names."""

    def read(text: str) -> str:
        if first is None:
            raise argparse.ArgumentTypeError(f"name it first, as in {parser.prog} {text} ...")
        return text

    text = f"{', '.join(problem_names())}, or FILE.py:CLASS ({parser.prog} PROBLEM --help shows its options)"
    parser.add_argument("problem", metavar="PROBLEM", type=read, help=text)
    if first is not None and fields(kind := problem_class(first)):  # type: ignore[arg-type]
        add_fields(parser, kind, f"options of {first}")


def is_problem(word: str) -> bool:
    """Return True if a word of the command line names a problem type."""
    return is_reference(word) or word in problem_names()


def problem_class(name: str) -> type[Problem]:
    """Return the problem class that the user named; this executes a user's FILE.py."""
    return load_problem(name) if is_reference(name) else problem_type(name)


def add_run(parser: argparse.ArgumentParser, nargs: str | None = None, text: str = "") -> None:
    """Add the argument RUN and the option --problem for its class."""
    text = text or "run folder, model file or pretrained:NAME"
    parser.add_argument("run" if nargs in (None, "?") else "runs", nargs=nargs, metavar="RUN", help=text)
    text = "the class of the run's problem if it is in a file of yours; a run itself never executes code"
    parser.add_argument("--problem", metavar="FILE.py:CLASS", help=text)
    text = "for a run of fit(folder=...): a function that makes its network, if that has classes of yours"
    parser.add_argument("--network", metavar="FILE.py:NAME", help=text)
    parser.add_argument("--data", metavar="FILE.npz", help="for such a run: instances p and x_true [those it stores]")


def open_run(folder: Path | str, args: argparse.Namespace | None = None) -> Run:
    """Open a run folder, a model file or ``pretrained:NAME``, with the problem of --problem."""
    from qubolearn.runs import Run, pretrained

    if str(folder).startswith("pretrained:"):
        return pretrained(str(folder).partition(":")[2])
    if args and (args.network or args.data):
        from qubolearn.data import load_npz
        from qubolearn.problems import load_attribute
        from qubolearn.runs import OwnRun, StoredInstances

        arrays = load_npz(args.data, {"p": ("biuf", None), "x_true": ("biuf", 2)}) if args.data else {}
        data = StoredInstances(arrays["p"], arrays["x_true"]) if args.data else None
        here = Run.open(folder, data)
        if not args.network or not isinstance(here, OwnRun) or '"own": ' not in here.structure:  # it needs no code
            return here
        return Run.open(folder, data, load_attribute(args.network)())
    return Run.open(folder, problem_class(args.problem) if args and args.problem else None)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add the option --seed."""
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of the instances [0]")


def add_draw(parser: argparse.ArgumentParser, name: str, default: int, text: str) -> None:
    """Add the options --seed, --split and a number of instances to draw."""
    parser.add_argument(name, type=count, default=default, metavar="N", help=f"{text} [{default}]")
    add_seed(parser)
    splits = ["test", "validation", "train"]
    parser.add_argument("--split", choices=splits, default="test", help="split to draw from [test]")


def add_solver(parser: argparse.ArgumentParser) -> None:
    """Add the option --solver."""
    text = f"{', '.join(solver_names())}; with options as in annealing:reads=50,sweeps=200,seed=1 [auto]"
    parser.add_argument("--solver", default="auto", metavar="NAME", help=text)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option --device."""
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda [cuda if available]")


def pick_device(name: str | None) -> torch.device:
    """Return the named device, or the best one that is available."""
    import torch

    from qubolearn.training.threads import usable_device

    return usable_device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def add_constraints(parser: argparse.ArgumentParser) -> None:
    """Add the options --clamp and --groups."""
    text = "hold bits at values: 3=1,7=0, or an .npz with clamp [count, n] of 0, 1 and -1"
    parser.add_argument("--clamp", metavar="BITS", help=text)
    text = "exactly one bit of each group is 1: the size of equal groups, or a text file with one group per line"
    parser.add_argument("--groups", metavar="SIZE|FILE", help=text)


def clamp_from(text: str) -> Clamp:
    """Return the value of --clamp."""
    if text.endswith(".npz"):
        import torch

        from qubolearn.data import load_npz

        return torch.tensor(load_npz(text, {"clamp": ("biu", 2)})["clamp"])
    clamp: dict[int, int] = {}
    for word in text.replace(",", " ").split():
        bit, _, value = word.partition("=")
        if not bit.isdecimal() or value not in ("0", "1"):
            raise QubolearnError(f"--clamp: {word[:40]!r} is not BIT=0 or BIT=1, as in 3=1,7=0")
        if clamp.setdefault(int(bit), int(value)) != int(value):
            raise QubolearnError(f"--clamp: bit {bit} is clamped to 0 and to 1; keep one of them")
    return clamp


def groups_from(text: str, n: int) -> Groups:
    """Return the value of --groups for n bits."""
    from qubolearn.qubo import Groups

    if text.isdecimal():
        size = int(text)
        if size < 1 or n % size:
            raise QubolearnError(f"--groups {text}: n={n} bits are not a multiple of {text}; pass a file of groups")
        return Groups.consecutive(n // size, size)
    lines = [line.replace(",", " ").split() for line in read_text(Path(text)).splitlines()]
    for line in lines:
        if not all(bit.isdecimal() for bit in line):
            raise QubolearnError(f"{text}: {' '.join(line)[:40]!r} is not a list of bits, as in 0 1 2")
    return Groups([[int(bit) for bit in line] for line in lines if line])


def add_completion(parser: argparse.ArgumentParser, _: str | None) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"], help="your shell")


def run_completion(args: argparse.Namespace, output: Output) -> None:
    """Print a script that completes commands, options and names in your shell.

    bash: add  eval "$(qubolearn completion bash)"  to ~/.bashrc
    zsh:  qubolearn completion zsh > a folder of $fpath, as _qubolearn
    fish: qubolearn completion fish > ~/.config/fish/completions/qubolearn.fish
    """
    import shtab

    from qubolearn.cli import COMMANDS, make_parser

    tree = argparse.ArgumentParser(prog="qubolearn", allow_abbrev=False)
    commands = tree.add_subparsers()
    for name, (_, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in ("train", "instances"):
            problems = command.add_subparsers()
            kinds = {kind: kind if kind in PROBLEMS else None for kind in problem_names()}  # others may import torch
            leaves = [make_parser(name, first, problems.add_parser(kind, help=kind)) for kind, first in kinds.items()]
        else:
            leaves = [make_parser(name, None, command)]
        for action in (action for leaf in leaves for action in leaf._actions):
            if action.dest == "solver":
                action.choices = solver_names()
            elif isinstance(action.metavar, str) and not {"N", "X", "S", "NAME"} & {action.metavar}:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(tree, args.shell)
    output.say(script)
    output.result(shell=args.shell, script=script)
