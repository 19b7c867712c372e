"""Build the sdist, and from it a wheel in a fresh environment without extras; install it and use it there.

    python tools/release_check.py [--python PATH ...] [--constraint FILE] [--torch FOLDER] [--out FILE]

For each --python it builds and installs the wheel in a fresh environment, where it trains, evaluates, solves, saves and
loads a model; errors of missing extras are checked, too. --constraint pins versions, e.g. the lowest ones:

    uv pip compile --resolution lowest-direct pyproject.toml > lowest.txt

--torch FOLDER uses the torch in the site-packages of another environment. Results go to the file --out, one entry per
Python and set of versions, and from there to docs/release.md; --page writes only the page. Exits with 1 on a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

from qubolearn.provenance import machine, source_digest

ROOT = Path(__file__).parents[1]
LIMIT = 1200  # seconds for one step

#: Pins of torch and what some of its builds need.
WITH_TORCH = re.compile(r"torch=|triton=|nvidia-|cuda-")
#: Files of a checkout that are not part of a release.
NOT_SOURCE = ".* __pycache__ *.so *.egg-info build dist runs results reproduction benchmarks"

TRAIN = "train randgraph --k 3 --hidden 16 --epochs 2 --instances 300 --validation 20 --test 50 --out run"
WORKS = (
    TRAIN,
    "evaluate run --instances 50",
    "instances randgraph --k 3 --count 5 --out five.npz",
    "solve run five.npz --out solved.npz",
    "export run five.npz --out qubos",
    "runs .",
    "info run --save model.safetensors",
    "info model.safetensors",
    "solve model.safetensors five.npz --out again.npz",
    "completion bash",
    "info",
    "evaluate pretrained:maxcut --instances 50",
    "explore pretrained:sudoku --out sudoku.html",
)
#: Packages whose versions are recorded.
NAMES = ("torch", "numpy", "scipy", "dimod", "dwave-samplers", "safetensors")
#: commands that need an extra -> the extra that their error must name
LACKS = {"plot run": "plots", "solve run five.npz --out x.npz --solver dwave-mock": "dwave"}


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--python", action="append", help="an interpreter; several times for several")
    parser.add_argument("--constraint", default=ROOT / "constraints-torch.txt", help="versions [torch's pin]")
    parser.add_argument("--torch", help="a site-packages folder whose torch is used")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/release.json")
    parser.add_argument("--page", action="store_true", help="only write docs/release.md from the file")
    given = parser.parse_args()
    done = []
    if not given.page:
        with tempfile.TemporaryDirectory() as scratch:
            sdist = build(Path(scratch))
            done = [check(python, sdist, Path(scratch), given) for python in given.python or [sys.executable]]
        print(json.dumps(done, indent=2))
        earlier = json.loads(given.out.read_text())["checked"] if given.out.is_file() else []
        given.out.write_text(json.dumps({"checked": merged(earlier, done)}, indent=2) + "\n")
    page = ROOT / "docs/release.md"
    page.write_text(filled(page.read_text(), json.loads(given.out.read_text())["checked"]))
    return int(any(found["failed"] for found in done))


def merged(earlier: list[dict[str, Any]], done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all checks, the newest per Python and set of versions."""
    found = {}
    for each in [*earlier, *done]:
        found[tuple(map(int, each["python"].split(".")[:2])), each["pins"]] = each
    return [found[key] for key in sorted(found)]


def filled(page: str, checked: list[dict[str, Any]]) -> str:
    """Return the page with its table filled in."""
    rows = [["Python", "versions", *NAMES, "commands", "date, source"], ["---"] * (len(NAMES) + 4)]
    for each in checked:
        right = f"{each['commands'] - len(each['failed'])} of {each['commands']} right"
        versions = [each["versions"][name] for name in NAMES]
        rows.append([each["python"], each["pins"], *versions, right, f"{each['date']}, {each['source']}"])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    machines = ", ".join(sorted({each["machine"] for each in checked}))
    text = "\n".join([*lines, "", f"*{machines}. Made by `make release-check`.*"])
    before, _, rest = page.partition("<!-- checked -->\n")
    return f"{before}<!-- checked -->\n{text}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"


def build(folder: Path) -> Path:
    """Build the sdist; return its path."""
    ignored = shutil.ignore_patterns(*NOT_SOURCE.split())
    shutil.copytree(ROOT, folder / "tree", ignore=ignored)  # a build writes into its tree
    backend = f"import scikit_build_core.build as b; b.build_sdist({str(folder)!r})"
    step([sys.executable, "-c", backend], folder / "tree")
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def environment(python: str, folder: Path, torch: str | None) -> Path:
    """Create a virtual environment, with another one's torch; return its Python."""
    home = folder / re.sub(r"\W", "_", python)
    step([python, "-m", "venv", str(home)], folder)
    if torch:  # pip treats it as installed
        (here,) = (home / "lib").glob("python*/site-packages")
        (here / "torch.pth").write_text(torch + "\n")
    return home / "bin" / "python"


def wheel_of(sdist: Path, python: Path) -> Path:
    """Build the wheel of an sdist with the Python of an environment; return its path."""
    out = python.parents[1] / "dist"
    step([str(python), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(out), str(sdist)], sdist.parent)
    return next(out.glob("*.whl"))


def check(python: str, sdist: Path, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Build and install the wheel and use it; return versions and failures."""
    own = environment(python, folder, given.torch)
    home = own.parents[1]
    wheel = wheel_of(sdist, own)
    names = zipfile.ZipFile(wheel).namelist()
    files = [path for path in (folder / "tree/src/qubolearn").rglob("*") if path.is_file()]
    missing = sorted({path.relative_to(folder / "tree/src").as_posix() for path in files} - set(names))
    if missing:
        raise SystemExit(f"release_check: the wheel lacks {missing[:5]}")
    pins = Path(given.constraint).read_text()
    if given.torch:
        pins = "".join(line for line in pins.splitlines(True) if not WITH_TORCH.match(line))
    (home / "pins.txt").write_text(pins)
    install = ["-m", "pip", "install", "-q", "--no-compile", "-c", str(home / "pins.txt"), str(wheel)]
    step([str(own), *install], folder)
    work = home / "work"
    work.mkdir()
    failed = []
    for words in WORKS:
        code, said = qubolearn(own, words, work)
        if code:
            failed.append(f"{words}: exit code {code}: {said[-300:]}")
    for words, extra in LACKS.items():
        code, said = qubolearn(own, words, work)
        if code != 2 or f"qubolearn[{extra}]" not in said or said.count("\n") > 3:
            failed.append(f"{words}: expected a line that names {extra}, got {code}: {said[-300:]}")
    ask = f"import json; from importlib.metadata import version as v; print(json.dumps({{n: v(n) for n in {NAMES}}}))"
    pins = Path(given.constraint).stem
    return {
        "python": step([str(own), "--version"], work).split()[1],
        "pins": "newest" if pins == "constraints-torch" else pins,
        "versions": json.loads(step([str(own), "-c", ask], work)),
        "commands": len(WORKS) + len(LACKS),
        "failed": failed,
        "wheel": {"name": wheel.name, "bytes": wheel.stat().st_size},
        "source": source_digest(),
        "date": date.today().isoformat(),
        "machine": machine(),
    }


def clean() -> dict[str, str]:
    """Return an environment without Python variables, qubolearn's and GPUs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "QUBOLEARN"))}
    return {**kept, "CUDA_VISIBLE_DEVICES": ""}


def qubolearn(python: Path, words: str, folder: Path) -> tuple[int, str]:
    command = [str(python), "-m", "qubolearn", *words.split()]
    done = subprocess.run(command, cwd=folder, env=clean(), capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stderr if done.returncode else done.stdout


def step(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=clean(), capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise SystemExit(f"release_check: {' '.join(command)[:200]} failed:\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
