"""tools/lines.py tells code from docstrings, comments and blank lines."""

from __future__ import annotations

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "lines.py"))
TEXT = '''"""Two lines

of a docstring."""

# a comment
x = 1  # code with a comment
text = """no docstring

but code"""


class Thing:
    field: int = 0
    """Of a field."""
'''


def test_every_line_is_of_one_kind() -> None:
    assert TOOL["kinds"](TEXT) == {"code": 6, "docstrings": 4, "comments": 1, "blank": 3}
    assert sum(TOOL["kinds"](TEXT).values()) == len(TEXT.splitlines())


def test_rows_are_rooms_or_files() -> None:
    files = [("src/a/top.py", "x = 1\n"), ("src/a/room/one.py", "x = 1\n"), ("src/a/room/two.py", "\n# why\n")]
    assert {row: sum(count.values()) for row, count in TOOL["table"](files, "src/a", False).items()} == {
        "(top)": 1,
        "room": 3,
    }
    assert set(TOOL["table"](files, "src/a", True)) == {"top.py", "room/one.py", "room/two.py"}
