"""Print the line budget at one or two commits: ``python tools/lines.py [BEFORE [AFTER]]``.

By default the working tree is counted, blank lines and comments included. Templates,
JSON and CSS are listed separately, because code may not hide there.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PYTHON, CPP = (".py", ".pyi"), (".cpp", ".hpp", ".h", ".cc")
OLD_PAPER = re.compile(
    r"src/qubolearn/(paper/|cli/(reproduce|report|tables|figure|grid_progress|verify|baseline)\.py|networks/(matching_pairs"
    r"|grid|ensemble)\.py|problems/(sudoku_sets|visual_sudoku|digit_reader|structured|scene|snakes|snake_grids|pools|"
    r"matchings)\.py)"
)
OLD_KERNELS = re.compile(r"src/qubolearn/kernels/(\w*_numba|lanes|float_lanes|parts|compiling)\.py")


def part_of(path: str) -> str:
    """Return the part of a file; old commits have one package."""
    if path.startswith(("reproduction/tests/", "tests/")):
        return "tests"
    if path.startswith("reproduction/src/") or OLD_PAPER.match(path):
        return "reproduction"
    if path.startswith("benchmarks/") or re.match(r"src/qubolearn/(benchmarks/|cli/benchmark\.py)", path):
        return "benchmarks"
    if path.startswith("src/kernels/") or OLD_KERNELS.match(path):
        return "kernels"
    if path.startswith("tools/"):
        return "tools"
    return "library" if path.startswith("src/qubolearn/") else ""


#: part -> lines allowed by ARCHITECTURE.md after the split, and with all issues
BUDGET = {
    "library": (16_500, 18_000),
    "kernels": (3_500, 5_000),
    "reproduction": (10_000, 11_000),
    "benchmarks": (1_600, 2_000),
    "tools": (1_500, 1_500),
    "tests": (20_000, 22_000),
}
MAX_FILES, MAX_NAMES = (125, 140), (44, 50)
#: Files that are wholly new since 0bb55be (issues 26 to 29), with their tests and
#: benchmarks; files that also hold older code are not among them.
ADDED = re.compile(
    r"src/qubolearn/((boltzmann|costs|tuning|data/standard|qubo/constraints|training/defaults)\.py|networks/(graph|"
    r"predicting|saving)\.py|solvers/(inequalities|population)\.py)|src/kernels/(constrained|elimination|population)\.cpp"
    r"|reproduction/src/quant_reproduction/(released|stacks|grid/side_by_side)\.py|reproduction/tests/(test_released|grid/test_side_by_side)\.py"
    r"|benchmarks/(constraints|costs|defaults|labels|penalties|samples|serving)\.py"
    r"|tests/(.*/)?test_(boltzmann|costs|tuning|inequalities|population|defaults|after_training|graph_body)\.py"
)


class Part(NamedTuple):
    """Counts of one part."""

    lines: int = 0
    files: int = 0
    characters: int = 0
    added: int = 0  # of new abilities
    other: int = 0  # neither Python nor C++


class Tree(NamedTuple):
    """Counts of one commit."""

    parts: dict[str, Part]
    names: int

    @property
    def width(self) -> float:
        """The mean number of characters of a line, blank ones included."""
        counted = self.parts.values()
        return sum(part.characters for part in counted) / max(1, sum(part.lines for part in counted))


def files_of(commit: str | None) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield every tracked path and a function that reads it."""
    words = f"ls-tree -r --name-only {commit}" if commit else "ls-files -co --exclude-standard"
    for path in git(*words.split()).splitlines():
        if commit is None:
            if (ROOT / path).is_file():
                yield path, (ROOT / path).read_text
        else:
            yield path, lambda path=path: git("show", f"{commit}:{path}")


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout


def count(commit: str | None) -> Tree:
    parts, names = dict.fromkeys(BUDGET, Part()), 0
    for path, read in files_of(commit):
        part = part_of(path)
        if not part or path.endswith((".png", ".npz", ".safetensors", ".mat")) or "/results/" in path:
            continue
        try:
            text = read()
        except UnicodeDecodeError:
            continue
        lines, old = text.splitlines(), parts[part]
        counted = path.endswith(PYTHON + CPP)
        added = len(lines) if ADDED.match(path) else 0
        new = Part(len(lines), 1, sum(map(len, lines)), added) if counted else Part(other=len(lines))
        parts[part] = Part(*(a + b for a, b in zip(old, new, strict=True)))
        if path in ("src/qubolearn/__init__.py", "src/qubolearn/__init__.pyi"):
            names = max(names, public_names(text))
    return Tree(parts, names)


def public_names(text: str) -> int:
    """Return the length of ``__all__``, or the imports that it was made from."""
    for node in ast.walk(ast.parse(text)):
        named = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        if named and isinstance(node.value, (ast.List, ast.Tuple)):
            return len(node.value.elts)
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return sum(alias.name == alias.asname for node in imports for alias in node.names)


def report(trees: list[Tree]) -> str:
    """Return the table of lines, with the last commit against both budgets."""
    last, titles = trees[-1], ["before", "after"][-len(trees) :]
    rows = [("", *titles, "new", "existed", "after split", "over", "with everything", "over")]
    for part, limits in BUDGET.items():
        found = last.parts[part]
        existed = found.lines - found.added
        counts = [*(tree.parts[part].lines for tree in trees), found.added, existed]
        rows.append((part, *(f"{each:,}" for each in counts), *against(limits, existed, found.lines)))
    for title, limits, value in (
        ("files of the library", MAX_FILES, lambda tree: tree.parts["library"].files),
        ("names in qubolearn.__all__", MAX_NAMES, lambda tree: tree.names),
    ):
        now = value(last)
        rows.append((title, *(str(value(tree)) for tree in trees), "", "", *against(limits, now, now)))
    for title, shown in (
        ("other lines of the library", lambda tree: f"{tree.parts['library'].other:,}"),
        ("other lines of the reproduction", lambda tree: f"{tree.parts['reproduction'].other:,}"),
        ("mean line length", lambda tree: f"{tree.width:.2f}"),
    ):
        rows.append((title, *map(shown, trees), *[""] * 6))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def against(limits: tuple[int, int], *counts: int) -> Iterator[str]:
    """Yield both limits, each with the excess."""
    for limit, count in zip(limits, counts, strict=True):
        yield from (f"{limit:,}", f"{100 * (count / limit - 1):+.1f} %" if count > limit else "-")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="*", help="at most two; a missing second one is the working tree")
    given = parser.parse_args(arguments)
    if len(given.commits) > 2:
        parser.error(f"expected at most 2 commits, got {len(given.commits)}")
    places = [*given.commits, None][:2] if given.commits else [None]
    try:
        print(report([count(commit) for commit in places]))
    except subprocess.CalledProcessError as error:
        print(f"lines: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
