"""Run the long tests, a file of them in each process, and write their figures in one go: ``make soak [OUT=FILE]``.

docs/guarantees.md shows results/soak.json, which this writes. Where a test fails, no figures are written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from qubolearn.files import write_json
from qubolearn.provenance import code, provenance

ROOT = Path(__file__).parents[1]
SECONDS = 700  # for one file of tests
#: Files of long tests, the longest first.
FILES = ("classic", "crashes", "strangers", "load", "commands", "signals", "resume", "numbers", "determinism")


def figures_of(name: str, folder: Path) -> dict[str, Any]:
    """The figures of the long tests in one file; what they print goes to the terminal where one fails."""
    target = folder / f"{name}.json"
    test = f"tests/robustness/test_{name}.py"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "-p", "no:cacheprovider", test]
    began = time.perf_counter()
    environment = {**os.environ, "QUBOLEARN_SOAK": str(target)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)
    print(f"{test}: exit code {done.returncode} after {time.perf_counter() - began:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-1000:], sep="\n", flush=True)
        raise SystemExit(f"{test} failed, so no figures are written")
    found: dict[str, Any] = json.loads(target.read_text())["figures"] if target.exists() else {}
    return found


def main() -> int:
    began = time.perf_counter()
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results" / "soak.json"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(2, (os.cpu_count() or 1) // 2)) as pool:
        parts = list(pool.map(lambda name: figures_of(name, Path(folder)), FILES))
    figures = {name: value for part in parts for name, value in part.items()}
    write_json(out, {"seconds": round(time.perf_counter() - began), "figures": figures, **provenance(), "code": code()})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
