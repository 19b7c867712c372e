"""Count the lines of src by room at one or two commits: code, docstrings, comments and blank lines.

    python tools/lines.py                        the working tree
    python tools/lines.py 2aef459                that commit, the working tree, and the difference
    python tools/lines.py 2aef459 main --files   two commits, file by file

A room is a folder of src/qubolearn; files that lie beside the rooms count as "(top)". Needs nothing but Python and git.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("code", "docstrings", "comments", "blank")
Count = Counter[str]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", help="at most two; the second is the working tree where it is left out")
    parser.add_argument("--files", action="store_true", help="a row for every file instead of every room")
    parser.add_argument("--under", default="src/qubolearn", help="the folder to count (default: %(default)s)")
    given = parser.parse_args(arguments)
    if len(given.commits) > 2:
        parser.error(f"{len(given.commits)} commits; want at most 2")
    places = [*given.commits, None][:2] if given.commits else [None]
    try:
        tables = [table(sources(commit, given.under), given.under, given.files) for commit in places]
    except subprocess.CalledProcessError as error:
        print(f"lines: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return 2
    for commit, counts in zip(places, tables, strict=True):
        print_table(commit or "working tree", counts)
    if len(tables) == 2:
        before, after = tables
        rows = sorted(before.keys() | after.keys())
        print_table("difference", {row: minus(after.get(row, Count()), before.get(row, Count())) for row in rows}, "+")
    return 0


def sources(commit: str | None, under: str) -> Iterator[tuple[str, str]]:
    """Path and text of every Python file below a folder, at a commit or as it lies in the working tree."""
    if commit is None:
        for path in sorted((ROOT / under).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()
        return
    for path in git("ls-tree", "-r", "--name-only", "--full-tree", commit, "--", under).splitlines():
        if path.endswith(".py"):
            yield path, git("show", f"{commit}:{path}")


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout


def table(files: Iterable[tuple[str, str]], under: str, by_file: bool) -> dict[str, Count]:
    """Rows of counts, by room or by file."""
    rows: dict[str, Count] = {}
    for path, text in files:
        inside = Path(path).relative_to(under)
        row = str(inside) if by_file else inside.parts[0] if len(inside.parts) > 1 else "(top)"
        rows.setdefault(row, Count()).update(kinds(text))
    return rows


def kinds(text: str) -> Count:
    """How many lines are what. A line with code and a comment is code; a blank line within a docstring is docstring."""
    of_docstrings = docstring_lines(ast.parse(text))
    comments = set()
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            code.update(range(token.start[0], token.end[0] + 1))
    total = len(text.splitlines())
    code -= of_docstrings
    comments -= code | of_docstrings
    return Count(
        code=len(code),
        docstrings=len(of_docstrings),
        comments=len(comments),
        blank=total - len(code) - len(of_docstrings) - len(comments),
    )


def docstring_lines(tree: ast.AST) -> set[int]:
    """Lines of strings that stand alone as statements: docstrings of modules, classes, functions and fields."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def minus(after: Count, before: Count) -> Count:
    """Differences, which may be negative."""
    difference = Count(after)
    difference.subtract(before)
    return difference


def print_table(title: str, rows: dict[str, Count], sign: str = "") -> None:
    width = max(len(row) for row in [*rows, "total"])
    print(f"\n{title}\n{'':{width}}" + "".join(f"{kind:>12}" for kind in (*KINDS, "total")))
    total = Count()
    for count in rows.values():
        total.update(count)
    for row, count in [*sorted(rows.items()), ("total", total)]:
        numbers = [count[kind] for kind in KINDS]
        print(f"{row:{width}}" + "".join(f"{number:{sign}12,}" for number in (*numbers, sum(numbers))))


if __name__ == "__main__":
    raise SystemExit(main())
