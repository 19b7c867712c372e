"""Run the long tests, a file of them in each process, and write their figures: ``make soak``; ``--only`` runs some.

docs/guarantees.md shows benchmarks/results/soak.json, which this writes. Where a test fails, no figures are written.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qubolearn.files import write_json
from qubolearn.provenance import code, provenance

ROOT = Path(__file__).parents[1]
SECONDS = 1800  # for one file of tests
#: Files of long tests, the longest first.
FILES = ("classic", "structured", "crashes", "untrusted_files", "load", "commands")


def figures_of(name: str, folder: Path) -> dict[str, Any]:
    """Return the counts of one file; print its output if a test fails."""
    target = folder / f"{name}.json"
    test = f"tests/robustness/test_{name}.py"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "-p", "no:cacheprovider", test]
    began = time.perf_counter()
    environment = {**os.environ, "QUBOLEARN_SOAK": str(target)}
    how: Any = {"env": environment, "capture_output": True, "text": True, "timeout": SECONDS}
    try:
        done = subprocess.run(command, cwd=ROOT, **how)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{test} took more than {SECONDS} s, so no figures are written") from None
    print(f"{test}: exit code {done.returncode} after {time.perf_counter() - began:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-1000:], sep="\n", flush=True)
        raise SystemExit(f"{test} failed, so no figures are written")
    found: dict[str, Any] = json.loads(target.read_text())["figures"] if target.exists() else {}
    return found


def main() -> int:
    """Run all or the named files; other counts stay, with their date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "benchmarks/results/soak.json")
    parser.add_argument("--only", nargs="+", choices=FILES, default=FILES)
    cores = os.cpu_count() or 1
    parser.add_argument("--together", type=int, default=max(2, cores // 2), help="files at a time")
    given = parser.parse_args()
    began, some = time.perf_counter(), given.out.exists() and given.only != FILES
    before: dict[str, Any] = json.loads(given.out.read_text()) if some else {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.together) as pool:
        parts = list(pool.map(lambda name: figures_of(name, Path(folder)), given.only))
    figures = before.get("figures", {}) | {name: value for part in parts for name, value in part.items()}
    taken = round(time.perf_counter() - began)
    when = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": taken, **code()}
    made = before.get("made", {}) | dict.fromkeys(given.only, when)
    seconds = before.get("seconds", 0) if before else taken
    write_json(given.out, {"seconds": seconds, "figures": figures, "made": made, **provenance()})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
