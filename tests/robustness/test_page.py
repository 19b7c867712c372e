"""The page of guarantees names tests that exist, and all long ones."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`(test_\w+)`", PAGE))


def sources() -> dict[str, str]:
    files = [path for path in HERE.rglob("test_*.py") if path.name != "test_page.py"]
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def test_every_test_on_the_page_exists() -> None:
    files = [path.read_text(encoding="utf-8") for path in HERE.parent.rglob("test_*.py")]
    written = {name for text in files for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert len(NAMED) > 40
    assert written >= NAMED, NAMED - written


def test_every_long_test_is_on_the_page() -> None:
    long = {
        name
        for text in sources().values()
        for name in re.findall(r"^@pytest\.mark\.soak\n(?:@.*\n)*def (test_\w+)\(", text, re.MULTILINE)
    }
    assert len(long) >= 6
    assert long <= NAMED, long - NAMED


def test_every_protection_can_be_taken_out_and_its_test_exists() -> None:
    root = HERE.parents[1]
    for each in runpy.run_path(str(root / "tools" / "protections.py"))["PROTECTIONS"]:
        assert (root / "src" / "qubolearn" / each.file).read_text(encoding="utf-8").count(each.before) == 1, each
        file, _, name = each.test.partition("::")
        assert f"def {name}(" in (root / "tests" / file).read_text(encoding="utf-8"), each


LEAVING = """
import os, subprocess, sys, time
from pathlib import Path

def test_fails():
    code = "import os, sys, time; print(os.getpid(), file=open('pid', 'w'), flush=True); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    while not Path("pid").exists() or not Path("pid").read_text():
        time.sleep(0.01)
    assert False
"""
TRY = """
import runpy, sys
from pathlib import Path
tool = runpy.run_path(sys.argv[1])
tool["adopt_orphans"]()
sys.exit(tool["passes"]("test_it.py", Path(sys.argv[2])))
"""


def test_what_a_test_starts_ends_with_it(tmp_path: Path) -> None:
    """A test that fails leaves its processes behind, even in a session of their own."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(LEAVING)
    tool = HERE.parents[1] / "tools" / "protections.py"
    done = subprocess.run([sys.executable, "-c", TRY, str(tool), str(tmp_path)], timeout=120, check=False)
    assert done.returncode == 0, "it does not pass"
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


def test_every_promise_of_the_issue_has_a_section() -> None:
    sections = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert sections == [
        *("Exact resume", "Files survive crashes", "Signals", "Numbers", "Strangers' files", "The QPU costs money"),
        *("Determinism", "Load", "Classic QUBOs", "Fork, threads, and torch's other modes", "Supply chain"),
        *("The grid of reproduce", "Figures", "Protections taken out"),
    ]
