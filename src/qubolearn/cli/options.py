"""Options that commands share, and dataclass fields as options."""

from __future__ import annotations

import argparse
import ast
import inspect
import json as json_text
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from qubolearn import problems
from qubolearn.errors import QubolearnError
from qubolearn.files import read_text
from qubolearn.solvers import solver_names

if TYPE_CHECKING:
    import torch

    from qubolearn.evaluation import Evaluation
    from qubolearn.qubo import Clamp, Groups
    from qubolearn.runs import Run

__all__ = ["Output", "add_count", "add_fields", "add_shared", "chosen", "count", "metric_rows", "seed"]

#: Text is literal, because paths may look like markup of rich.
PLAIN: Mapping[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}


class Output:
    """Output of a command; with ``json``, stdout gets one object, stderr the rest."""

    def __init__(self, json: bool = False) -> None:
        self.json = json
        self.console = Console(stderr=json, **PLAIN)
        self.errors = Console(stderr=True, **PLAIN)
        self._result: Mapping[str, Any] | None = None

    def say(self, *lines: object) -> None:
        for line in lines:
            self.console.print(str(line))

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        table = Table(title=title, title_justify="left")
        for index, header in enumerate(headers):
            table.add_column(header, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        needed = Measurement.get(self.console, self.console.options.update(width=10_000), table).minimum
        wide = needed > self.console.width  # rich would cut words off
        (Console(stderr=self.json, width=needed, **PLAIN) if wide else self.console).print(table)

    def result(self, **values: Any) -> None:
        """Set the result, which :meth:`close` prints as JSON."""
        self._result = values

    def close(self) -> None:
        if self.json:
            print(json_text.dumps(self._result or {}, allow_nan=False))

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Progress]:
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
        hidden = not self.errors.is_terminal
        with Progress(*columns, console=self.errors, disable=hidden, transient=True) as bar:
            bar.add_task(title, total=total)
            yield bar


def metric_rows(found: Evaluation) -> list[tuple[str, str]]:
    """Return metrics by name, accuracies in percent."""
    shown = {name: percent if name.startswith("accuracy") else "{:.3f}".format for name in found.metrics}
    return [(name.replace("_", ", "), shown[name](value)) for name, value in found.metrics.items()]


def percent(value: float) -> str:
    """Format 0.98765 as '98.8 %'"""
    return f"{100 * value:.1f} %"


def integer(text: str, least: int = 1 - 2**63) -> int:
    if not least <= (number := int(text)) < 2**63:
        raise argparse.ArgumentTypeError(f"{text[:40]}; expected an integer from {least} to 2**63 - 1")
    return number


def seed(text: str) -> int:
    return integer(text, 0)


def count(text: str) -> int:
    return integer(text, 1)


SOLVERS = f"{', '.join(solver_names())}; with options as in annealing:reads=50,sweeps=200,seed=1 [auto]"
#: Options of several commands.
SHARED: dict[str, dict[str, Any]] = {
    "--seed": {"type": seed, "default": 0, "metavar": "S", "help": "seed of the instances [0]"},
    "--split": {"choices": ["test", "validation", "train"], "default": "test", "help": "its split [test]"},
    "--device": {"metavar": "NAME", "help": "cpu or cuda [cuda if available]"},
    "--solver": {"default": "auto", "metavar": "NAME", "help": SOLVERS},
}


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        parser.add_argument(name, **SHARED[name])


def add_count(parser: argparse.ArgumentParser, name: str, default: int, text: str) -> None:
    parser.add_argument(name, type=count, default=default, metavar="N", help=f"{text} [{default}]")


def add_fields(parser: argparse.ArgumentParser, kind: type, title: str, defaults: bool = True) -> None:
    """Add one option per field of a dataclass; those not given stay absent."""
    group = parser.add_argument_group(title)
    hints, helps = get_type_hints(kind), _field_docs(kind) | getattr(kind, "helps", {})
    readers = {int: (integer, "N"), float: (float, "X"), str: (str, "NAME"), Path: (Path, "PATH")}
    for field in fields(kind):
        text = helps.get(field.name, "").replace("%", "%%")
        if defaults and field.default is not MISSING:
            text = f"{text} [{field.default}]".strip()
        option, hint = "--" + field.name.replace("_", "-"), hints[field.name]
        settings: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS, "help": text}
        plain = next((part for part in get_args(hint) or (hint,) if part is not type(None)), hint)
        if hint is bool:
            settings["action"] = argparse.BooleanOptionalAction
        elif get_origin(hint) is Literal:
            settings["choices"] = get_args(hint)
        elif plain in readers:
            settings["type"], settings["metavar"] = readers[plain]
        else:
            raise QubolearnError(f"an option of type {hint} cannot be given on the command line")
        group.add_argument(option, **settings)


def chosen(args: argparse.Namespace, kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass that the command line sets."""
    return {field.name: getattr(args, field.name) for field in fields(kind) if hasattr(args, field.name)}


def _field_docs(kind: type) -> dict[str, str]:
    """Return field -> the string literal below it in the source."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        with suppress(OSError, TypeError, SyntaxError):
            body: Any = ast.parse(dedent(inspect.getsource(base))).body[0]
            for field, below in pairwise(body.body):
                literal = isinstance(getattr(below, "value", None), ast.Constant)
                if literal and isinstance(field, ast.AnnAssign):
                    docs[ast.unparse(field.target)] = " ".join(str(below.value.value).split())
    return docs


def add_problem(parser: argparse.ArgumentParser, first: str | None) -> None:
    """Add the argument PROBLEM and the options of that problem."""

    def read(text: str) -> str:
        if first is None:
            raise argparse.ArgumentTypeError(f"name it first, as in {parser.prog} {text} ...")
        return text

    text = f"{', '.join(problems.problem_names())}, or FILE.py:CLASS ({parser.prog} PROBLEM --help shows its options)"
    parser.add_argument("problem", metavar="PROBLEM", type=read, help=text)
    if first is not None and fields(kind := problem_class(first)):  # type: ignore[arg-type]
        add_fields(parser, kind, f"options of {first}")


def problem_class(name: str) -> type[problems.Problem]:
    """Return the problem class that the user named, maybe in FILE.py."""
    return problems.load_problem(name) if problems.is_reference(name) else problems.problem_type(name)


def add_run(parser: argparse.ArgumentParser, nargs: str | None = None, text: str = "") -> None:
    text = text or "run folder, model file or pretrained:NAME"
    parser.add_argument("run" if nargs in (None, "?") else "runs", nargs=nargs, metavar="RUN", help=text)
    text = "the class of the run's problem if it is in a file of yours; a run itself never executes code"
    parser.add_argument("--problem", metavar="FILE.py:CLASS", help=text)
    text = "for a run of fit(folder=...): a function that makes its network, if that has classes of yours"
    parser.add_argument("--network", metavar="FILE.py:NAME", help=text)
    text = "for such a run: instances p and x_true [those it stores]"
    parser.add_argument("--data", metavar="FILE.npz", help=text)


def open_run(folder: Path | str, args: argparse.Namespace | None = None) -> Run:
    """Open a run folder, a model file or ``pretrained:NAME``."""
    from qubolearn.runs import OwnRun, Run, StoredInstances, pretrained

    if str(folder).startswith("pretrained:"):
        return pretrained(str(folder).partition(":")[2])
    if args is None:
        return Run.open(folder)
    data: Any = problem_class(args.problem) if args.problem else None
    if args.data:
        from qubolearn.data import load_npz

        arrays = load_npz(args.data, {"p": ("biuf", None), "x_true": ("biuf", 2)})
        data = StoredInstances(arrays["p"], arrays["x_true"])
    here = Run.open(folder, data)
    needs_code = args.network and isinstance(here, OwnRun) and '"own": ' in here.structure
    return Run.open(folder, data, problems.load_attribute(args.network)()) if needs_code else here


def pick_device(name: str | None) -> torch.device:
    import torch

    from qubolearn.training.threads import usable_device

    return usable_device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def clamp_from(text: str) -> Clamp:
    if text.endswith(".npz"):
        import torch

        from qubolearn.data import load_npz

        return torch.tensor(load_npz(text, {"clamp": ("biu", 2)})["clamp"])
    clamp: dict[int, int] = {}
    for word in text.replace(",", " ").split():
        bit, _, value = word.partition("=")
        valid = bit.isdecimal() and value in ("0", "1")
        if not valid or clamp.setdefault(int(bit), int(value)) != int(value):
            raise QubolearnError(f"--clamp {word[:40]}; expected each bit once, as in 3=1,7=0")
    return clamp


def groups_from(text: str, n: int) -> Groups:
    from qubolearn.qubo import Groups

    if text.isdecimal():
        size = int(text)
        if size < 1 or n % size:
            raise QubolearnError(f"--groups {text}: n={n} is not a multiple; pass a file of groups")
        return Groups.consecutive(n // size, size)
    lines = [line.replace(",", " ").split() for line in read_text(Path(text)).splitlines()]
    for line in lines:
        if not all(map(str.isdecimal, line)):
            raise QubolearnError(f"{text}: {' '.join(line)[:40]!r} is not a list of bits, as in 0 1 2")
    return Groups([list(map(int, line)) for line in lines if line])


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
    commands, parsers = tree.add_subparsers(), []
    for name, (_, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in ("train", "instances"):
            kinds = command.add_subparsers()
            for kind in problems.problem_names():  # others may import torch
                first = kind if kind in problems.PROBLEMS else None
                parsers.append(make_parser(name, first, kinds.add_parser(kind, help=kind)))
        else:
            parsers.append(make_parser(name, None, command))
    for action in (action for parser in parsers for action in parser._actions):
        if action.dest == "solver":
            action.choices = solver_names()
        elif isinstance(action.metavar, str) and action.metavar not in ("N", "X", "S", "NAME"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(tree, args.shell)
    output.say(script)
    output.result(shell=args.shell, script=script)
