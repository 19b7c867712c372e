"""Compiled kernels are kept where that is possible, and nothing that a disk does ends in an error."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from numba.core import event

from qubolearn.evaluation import solve_time

PROGRAM = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("kernel", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["kernel"] = module
spec.loader.exec_module(module)
print(module.double(np.arange(3.0)).tolist(), module.double.stats.cache_hits.total())
"""
KERNEL = """
from qubolearn.kernels.compiling import compiled

@compiled
def double(x):
    return 2 * x
"""
CALLER = """
@compiled
def double(x):
    return twice(x)
"""


def run(source: Path, program: str = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a kernel in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, str(source)],
        env=os.environ | {"NUMBA_CACHE_DIR": ""} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    path = tmp_path / "code" / "kernel.py"
    path.write_text(KERNEL)
    return path


def test_a_kernel_is_kept_for_the_next_process(source: Path) -> None:
    first, second = run(source), run(source)
    assert (first.stdout, second.stdout) == ("[0.0, 2.0, 4.0] 0\n", "[0.0, 2.0, 4.0] 1\n")
    assert first.stderr == second.stderr == ""


CALLING = """
import numpy as np
from qubolearn.kernels.compiling import compiled

@compiled
def root(x):
    if x < 0:
        raise ValueError("below zero")
    return x**0.5

@compiled
def add_roots(x):
    total = 0.0
    for value in x:
        total += root(value)
    return total

@compiled
def double(x):
    return np.array([add_roots(x), add_roots(x[::-1]), root(16.0)])
"""
REFUSED = """
for number in (4.0, -4.0):
    try:
        print(module.root(number))
        module.double(np.array([1.0, number]))
    except ValueError as error:
        print(error)
"""


def test_kernels_that_call_kernels_are_kept_and_raise(source: Path) -> None:
    """A part of a kernel can be called by Python, too, and raise in both."""
    source.write_text(CALLING)
    first, second = run(source, PROGRAM + REFUSED), run(source, PROGRAM + REFUSED)
    numbers = [1 + 2**0.5] * 2 + [4.0]
    assert first.stdout.splitlines() == [f"{numbers} 0", "2.0", "below zero"]
    assert second.stdout.splitlines() == [f"{numbers} 1", "2.0", "below zero"]
    assert first.stderr == second.stderr == ""
    kept = {path.name.split("-")[0] for path in (source.parent / "__pycache__").glob("*.nbi")}
    assert kept == {"kernel.double", "kernel.root"}  # nobody called add_roots


DAMAGED = """
import importlib.util, os, sys
from pathlib import Path
import numpy as np

def hits():
    "Load the file as another module, whose kernels look for what was kept, and call one."
    spec = importlib.util.spec_from_file_location("kernel", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    assert module.double(np.arange(3.0)).tolist() == [0, 2, 4]
    return module.double.stats.cache_hits.total()

hits()
for what in ("nbi", "nbc"):
    for size in (0, 5, 100):
        (file,) = (Path(sys.argv[1]).parent / "__pycache__").glob(f"*.{what}")
        os.truncate(file, size)
        print(what, size, hits(), hits())
"""


def test_files_that_were_cut_off_are_made_anew(source: Path) -> None:
    done = run(source, DAMAGED)
    assert done.stdout.splitlines() == [f"{what} {size} 0 1" for what in ("nbi", "nbc") for size in (0, 5, 100)]
    assert "Traceback" not in done.stderr
    assert "made anew" in done.stderr


def test_without_a_folder_to_write_a_process_has_its_own(source: Path, tmp_path: Path) -> None:
    """A regular file stands where each folder would be: that stops root as well."""
    (source.parent / "__pycache__").write_text("in the way")
    (tmp_path / "home").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    places = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    done = run(source, XDG_CACHE_HOME=str(tmp_path / "home" / "cache"), **places)
    assert done.stdout == "[0.0, 2.0, 4.0] 0\n", done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []  # it took its own away


def test_without_any_folder_kernels_are_not_kept(source: Path, tmp_path: Path) -> None:
    (source.parent / "__pycache__").write_text("in the way")
    blocked = str(tmp_path / "home" / "cache")
    (tmp_path / "home").write_text("in the way")
    program = "import tempfile; tempfile.tempdir = sys.argv[2]\n"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("import numpy", program + "import numpy", 1), str(source), blocked],
        env=os.environ | {"NUMBA_CACHE_DIR": "", "HOME": blocked, "XDG_CACHE_HOME": blocked},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "[0.0, 2.0, 4.0] 0\n", done.stderr
    assert "cannot be kept" in done.stderr


def test_a_full_disk_is_said_once(source: Path) -> None:
    """A limit on the size of files makes writes fail in the kernel of the system."""
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + PROGRAM.replace(
        "print(", "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\nprint(", 1
    )
    done = run(source, limited)
    assert "cannot be kept" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_user_at_a_terminal_is_told_that_it_compiles_and_only_then(source: Path) -> None:
    said = []
    for _ in range(2):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", PROGRAM, str(source)]
        environment = os.environ | {"NUMBA_CACHE_DIR": ""}
        subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=theirs, timeout=120, check=True)
        os.write(theirs, b".")  # so that there is something to read
        said.append(os.read(ours, 4096))
        os.close(ours)
        os.close(theirs)
    assert b"compiling kernels" in said[0]
    assert said[1] == b"."


def test_the_seconds_of_solving_do_not_count_those_of_compiling() -> None:
    """``solve_seconds`` was 14 s where nothing was compiled yet, and 0.7 s afterwards."""
    began = time.perf_counter()
    with solve_time() as taken:
        for depth in (1, 2):  # kernels that compile others
            with event.trigger_event("numba:compile", {"depth": depth}), event.trigger_event("numba:compile"):
                time.sleep(0.1)
    assert time.perf_counter() - began - taken[0] >= 0.2


def test_a_numba_of_another_version_compiles_in_its_own_way(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL.replace("def double", "def twice") + CALLER)
    said = run(
        tmp_path / "kernel.py", "from qubolearn.kernels import compiling; compiling.PARTS = (9, 0), (9, 9)" + PROGRAM
    )
    assert (said.stdout, said.stderr) == ("[0.0, 2.0, 4.0] 0\n", "")
