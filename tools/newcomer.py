"""Do what a newcomer does who has nothing but the site: fresh environment, own arrays, train, evaluate, serve.

    python tools/newcomer.py [--python PATH] [--torch FOLDER] [--quick] [--page]

Builds the wheel, installs it with torch in a new environment, and follows docs/start.md
with other arrays. Output and times go to benchmarks/results/newcomer.json and
docs/newcomer.md. --quick runs the scripts in this Python and writes nothing; --page
writes only the page. --torch is as for release_check.py.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from release_check import build, clean, environment, wheel_of

from qubolearn.provenance import machine

ROOT = Path(__file__).parents[1]
OUT, PAGE = ROOT / "benchmarks/results/newcomer.json", ROOT / "docs/newcomer.md"
LIMIT = 1200  # seconds for one step

#: Values of eight jobs, and the best jobs to take together.
DATA = """\
import numpy as np

# jobs that exclude each other
pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0), (0, 4), (2, 6)]
states = (np.arange(256)[:, None] >> np.arange(8)) & 1  # all choices among eight jobs
allowed = states[[all(not (x[i] and x[j]) for i, j in pairs) for x in states]]
# 4000 days: the value of each job
weights = np.random.default_rng(1).uniform(0.1, 1, size=(4000, 8))
best = allowed[(weights @ allowed.T).argmax(1)]
np.savez("jobs.npz", weights=weights, best=best)
"""
#: Replaces the page's lines that generate arrays.
OWN = """\
jobs = np.load("jobs.npz")
p, x = jobs["weights"], jobs["best"]
"""
#: Added at the end.
THEN = """
found = network.predict(np.random.default_rng(2).uniform(0.1, 1, size=(1000, 8)))
pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0), (0, 4), (2, 6)]
clashes = sum((found[:, i] * found[:, j]).sum() for i, j in pairs)
print("pairs of jobs that exclude each other and were both taken on 1000 new days:")
print(clashes)
"""


#: The service of docs/production.md with the saved network, and a request.
SERVE = """MODEL=mine.safetensors uvicorn serving:app &
curl -s --retry 9 --retry-connrefused localhost:8000/solve \\
  --json '[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]'"""


def script() -> str:
    text = (ROOT / "docs/start.md").read_text()
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "fit(" in block)
    block, count = re.subn(r"p = .*\nx = .*\n", OWN, block)
    if count != 1:
        raise SystemExit("newcomer: docs/start.md generates arrays differently now; adapt tools/newcomer.py")
    return re.sub(r"accuracy: [\d.]+ ", "", block) + THEN  # which is that of the page's arrays


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the newcomer's interpreter [this one]")
    parser.add_argument("--torch", help="a site-packages folder whose torch is used")
    parser.add_argument("--quick", action="store_true", help="run in this Python, and write nothing")
    parser.add_argument("--page", action="store_true", help="only write docs/newcomer.md from the file")
    given = parser.parse_args()
    if not given.page:
        with tempfile.TemporaryDirectory() as scratch:
            done = session(given, Path(scratch))
        print("\n".join(f"$ {step['typed']}\n{step['printed']}" for step in done["steps"]))
        if given.quick:
            return 0
        OUT.write_text(json.dumps(done, indent=2) + "\n")
    PAGE.write_text(page(json.loads(OUT.read_text())))
    return 0


def session(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all steps, with --quick in this Python; return output and seconds."""
    work, steps = folder / "work", []
    work.mkdir()
    (work / "make_data.py").write_text(DATA)
    (work / "learn.py").write_text(script())
    own = Path(sys.executable)
    if not given.quick:
        began = time.perf_counter()
        own = environment(given.python, folder, given.torch)
        taken = round(time.perf_counter() - began, 1)
        steps.append({"typed": "python -m venv mine; . mine/bin/activate", "printed": "", "seconds": taken})
        wheel = wheel_of(build(folder), own)
        pin = (ROOT / "constraints-torch.txt").read_text().splitlines()[-1]
        for names in [*([] if given.torch else [pin]), wheel.name, "fastapi uvicorn"]:
            words = [str(wheel)] if names == wheel.name else names.split()
            command = [str(own), "-m", "pip", "install", "-q", *words]
            steps.append(step(f"pip install {names}", command, work, shown=False))
    steps.append(step("qubolearn --version", [str(own), "-m", "qubolearn", "--version"], work))
    steps.append(step("python make_data.py", [str(own), "make_data.py"], work))
    steps.append(step("python learn.py", [str(own), "learn.py"], work))
    shutil.copy(ROOT / "examples/serving.py", work)
    service = SERVE.replace("uvicorn", f"{own} -m uvicorn --log-level error")
    steps.append(step(SERVE, ["bash", "-c", f"{service}; kill %1"], work))
    version = step("", [str(own), "-c", "import platform; print(platform.python_version())"], work)["printed"]
    made = {"python": version, "machine": machine(), "date": str(date.today())}
    return {**made, "script": script(), "steps": steps}


def step(typed: str, command: list[str], folder: Path, shown: bool = True) -> dict[str, Any]:
    began = time.perf_counter()
    # without our path
    variables = None if sys.executable in command[0] + command[-1] else clean()
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=LIMIT)
    taken = round(time.perf_counter() - began, 1)
    if done.returncode:
        raise SystemExit(f"newcomer: {typed or command} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return {"typed": typed, "printed": done.stdout.strip() if shown else "", "seconds": taken}


def page(done: dict[str, Any]) -> str:
    """Return docs/newcomer.md."""
    steps = [(f"$ {each['typed']}", each["printed"], f"# {each['seconds']} s") for each in done["steps"]]
    lines = "\n".join(line for step in steps for line in step if line)
    return f"""# A newcomer's session

`make newcomer` writes this page. It builds the wheel, creates a fresh environment, and follows [first steps](start.md)
with other arrays: 4,000 days with the value of eight jobs each, and the best jobs to take together. Some pairs of jobs
exclude each other; the network has to learn this from the answers.

```
{DATA}```

The script is that of [first steps](start.md) with these arrays, and a few lines for days that are not in the data:

```
{done["script"]}```

## The session

`serving.py` is `examples/serving.py`, see [From training to production](production.md). All steps take
{sum(each["seconds"] for each in done["steps"]):.0f} s. Python {done["python"]}, {done["machine"]}, {done["date"]}.

```console
{lines}
```
"""


if __name__ == "__main__":
    sys.exit(main())
