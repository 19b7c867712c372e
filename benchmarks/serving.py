"""A network in production: latency, service and throughput.

Random weights make spin glasses, which are harder than trained QUBOs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks import Record, seconds_of, threads, timed
from qubolearn import MLP, QuboNetwork, SimulatedAnnealing, topology
from qubolearn.solvers import auto_solver

EXAMPLES, INPUTS = Path(__file__).parents[1] / "examples", 32
SIZES = [("dense" if n < 100 else "pegasus", n) for n in (8, 16, 32, 64, 128, 300, 700)]


def _made(kind: str, n: int, count: int) -> tuple[QuboNetwork, np.ndarray, Record]:
    """Return a network, its inputs, and the first columns of the record."""
    pattern, p = topology(kind, n), np.random.default_rng(0).normal(size=(count, INPUTS)).astype(np.float32)
    torch.manual_seed(0)
    solver = type(auto_solver(n, neighbors=2 * len(pattern.couplers) / n)).__name__
    network = QuboNetwork(MLP(INPUTS, pattern.size, 3, 64), pattern).eval()
    return network, p, {"bits": n, "topology": kind, "solver": solver}


def latency(quick: bool) -> Iterator[Record]:
    """Measure predict in CPU time, and requests to examples/serving.py."""
    for kind, n in SIZES[:1] if quick else SIZES:
        network, p, record = _made(kind, n, 200 if n < 200 else 60)
        with threads(1), torch.no_grad():
            alone = seconds_of(partial(network, torch.tensor(p[:1])), 20, time.process_time)
            calls = [timed(partial(network.predict, row[None]), time.process_time)[0] for row in p][5:]
        middle, high = np.quantile(calls, (0.5, 0.99))
        times = {"network, ms": alone, "predict, ms": middle, "99 % below, ms": high}
        record |= {name: float(1e3 * value) for name, value in times.items()}
        yield record | _served(network, p.tolist())


def _served(network: QuboNetwork, rows: list[list[float]], port: int = 8765) -> Record:
    """Return the median time of a request, and requests per second of 32 clients."""
    import httpx

    words = [sys.executable, *f"-m uvicorn serving:app --port {port} --log-level error".split()]
    path = network.save("build/serving.safetensors").resolve()
    service = subprocess.Popen(words, cwd=EXAMPLES, env={**os.environ, "MODEL": str(path)})
    retries = httpx.HTTPTransport(retries=8)  # until it has started
    with httpx.Client(transport=retries, timeout=60) as client, ThreadPoolExecutor(32) as pool:
        ask = lambda row: client.post(f"http://127.0.0.1:{port}/solve", json=row).raise_for_status()  # noqa: E731
        calls = [timed(partial(ask, row))[0] for row in rows[:51]][1:]
        seconds, _ = timed(lambda: list(pool.map(ask, 3 * rows)))
    service.terminate()
    service.wait()
    return {"request, ms": 1e3 * float(np.median(calls)), "requests/s": 3 * len(rows) / seconds}


def batch(quick: bool) -> Iterator[Record]:
    """Measure predict of batches on one core, first in Ray Data."""
    words = [sys.executable, str(EXAMPLES / "batch_inference.py"), "3000" if quick else "10000000"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = literal_eval("{" + printed.rpartition("{")[2])
    run = f"Ray Data, {found['seconds']:.0f} s in all"
    yield _costs(_made("dense", 8, 1)[2], run, found["rows"], found["cpu_seconds"], "core", 100)
    for kind, n in () if quick else SIZES:
        network, p, record = _made(kind, n, 8192 if n <= 16 else 512 if n <= 128 else 64)
        with threads(1):
            seconds = seconds_of(partial(network.predict, p), 3, time.process_time)
        yield _costs(record, "predict", len(p), seconds, "core", 100)


def batch_on_gpu(quick: bool) -> Iterator[Record]:
    """Measure predict of large batches on one NVIDIA GPU, in wall time."""
    for kind, n in SIZES[:1] if quick else SIZES:
        count = 2**21 if n <= 16 else 2**16 if n <= 64 else 2**13 if n <= 128 else 2**11
        network, p, record = _made(kind, n, count)
        # the GPU has no population kernel
        solver = SimulatedAnnealing(32, 1000, seed=0) if n > 128 else auto_solver(n)
        seconds = seconds_of(partial(network.cuda().predict, torch.tensor(p).cuda(), solver), 2)
        yield _costs({**record, "solver": type(solver).__name__}, "predict", len(p), seconds, "GPU", 8)


def _costs(record: Record, run: str, count: int, seconds: float, unit: str, units: int) -> Record:
    hours = 1e9 / count * seconds / 3600
    record |= {"run": run, "instances": count, f"instances per {unit} and second": count / seconds}
    return record | {f"{unit}-hours per billion": hours, f"minutes on {units} {unit}s": 60 * hours / units}
