# ruff: noqa
"""python3 reproduction/tests/h200.py MINUTES STEP ...: run jobs on the H200 machine; new records come into $OUT/new.jsonl."""

import os, shutil, subprocess, sys, time
from pathlib import Path

from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Store
from quant_reproduction.grid.runner import LocalPool, run_jobs

RESULTS, BEFORE = Path("reproduction/results"), Path("/tmp/before")
STEPS = {
    "2d": (["released-2d"], 4, "cuda"),
    "five": (["released-five"], 2, "cuda"),
    "graphs": (["released-graphs"], 4, "cuda"),
    "3d": (["released-3d"], 4, "cuda"),
    "ten": (["rotation", "rotation-trained", "pointset"], 8, "cuda"),
    "raw": (["training-raw"], 3, "cpu"),
}


def collect():
    old = {line for f in BEFORE.glob("*.jsonl") for line in f.open()}
    new = [line for f in sorted(RESULTS.glob("*.jsonl")) for line in f.open() if line not in old]
    Path(os.environ["OUT"], "new.jsonl").write_text("".join(new))
    print(f"[{time.time() - began:.0f}] new records: {len(new)}", flush=True)


def step(name):
    items, workers, device = STEPS[name]
    store = Store(RESULTS)
    jobs = [job for item in items for job in ENTRIES[item].jobs(3, False) if store.get(job) is None]
    print(f"[{time.time() - began:.0f}] {name}: {len(jobs)} jobs", flush=True)
    show = lambda outcome: print(f"[{time.time() - began:.0f}] {outcome.job.name} {outcome.error or ''}", flush=True)
    with LocalPool(min(workers, len(jobs) or 1), device) as pool:
        run_jobs(jobs, store, pool, show, lambda: time.time() > end)


if __name__ == "__main__":
    began = time.time()
    end = began + 60 * float(sys.argv[1])
    if not BEFORE.exists():
        shutil.copytree(RESULTS, BEFORE)
    names = sys.argv[2:]
    aside = None
    if "raw" in names and len(names) > 1:  # a pool that ends would kill the processes of another one
        aside = subprocess.Popen([sys.executable, __file__, sys.argv[1], "raw"])
        names.remove("raw")
    for name in names:
        if time.time() < end:
            step(name)
            collect()
    if aside:
        aside.wait()
    collect()
