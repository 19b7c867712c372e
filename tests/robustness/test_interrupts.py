"""Long kernel calls answer signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

#: What each process works on: minutes at least, were it not interrupted.
WORK = {
    "exhaustive": "ExhaustiveSearch(max_bits=44)(torch.randn(1, 44, 44), 2)",
    "exhaustive, many states": "ExhaustiveSearch()(torch.randn(1, 26, 26), 2_000_000)",
    "partition": "partition.MAX_BITS = 40; log_partition(torch.randn(1, 40, 40))",
    "annealing": "SimulatedAnnealing(reads=256, sweeps=10**6)(torch.randn(1, 400, 400), 2)",
    "annealing, sparse": "SimulatedAnnealing(reads=256, sweeps=10**7)(torch.eye(3000)[None], 2)",
    "population": "PopulationAnnealing(sweeps=10**7)(torch.randn(1, 400, 400), 2)",
    "refinement": "SimulatedAnnealing(reads=20000, sweeps=1)(torch.randn(1, 1200, 1200), 2)",
    "ranking": "best_distinct(torch.randn(1, 3000, 3000), torch.randint(0, 2, (1, 20000, 3000)), 2)",
    "tempering": "ParallelTempering(sweeps=10**7)(torch.randn(1, 400, 400), 1)",
    "quantum": "QuantumAnnealing(steps=10**6)(torch.randn(1, 20, 20), 2)",
    "neal": "neal(reads=10**6, sweeps=10**5)(torch.randn(1, 50, 50), 2)",
    "tabu": "tabu(reads=1, restarts=10**6, updates=10**6)(torch.randn(1, 50, 50), 2)",
}

PROGRAM = """
import signal, sys, time
import torch
from qubolearn.solvers import ExhaustiveSearch, PopulationAnnealing, log_partition, partition
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import best_distinct
from qubolearn.solvers.dimod_adapter import neal, tabu
from qubolearn.solvers.quantum import QuantumAnnealing
from qubolearn.solvers.tempering import ParallelTempering

class Terminated(BaseException): pass

def terminate(number, frame): raise Terminated

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, terminate)
torch.set_num_threads(2)
for small in (2, 12):  # what is compiled on first use
    A = torch.randn(1, small, small)
    ExhaustiveSearch()(A, 2), log_partition(A), SimulatedAnnealing(reads=2, sweeps=2)(A, 2)
    QuantumAnnealing(reads=2, steps=2)(A, 2), neal(reads=2, sweeps=2)(A, 2), tabu(reads=1)(A, 2)
for A in (torch.randn(1, 300, 300), torch.eye(300)[None]):
    SimulatedAnnealing(reads=20, sweeps=20)(A, 2)
for line in sys.stdin:
    print("ready", flush=True)
    try:
        exec(compile(line, "work", "exec"))  # exec of text makes Python end by SIGINT even where that was caught
    except (KeyboardInterrupt, Terminated):
        print("interrupted", flush=True)
    else:
        print("ended", flush=True)
"""


class Worker:
    """A process that runs one job after another."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def interrupted(self, work: str, number: signal.Signals) -> tuple[str, float]:
        """Return its output after a signal, and the seconds until then."""
        process = self.process
        assert process.stdin
        assert process.stdout
        print(work, file=process.stdin, flush=True)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.7)
        began = time.monotonic()
        process.send_signal(number)
        watchdog = threading.Timer(30, process.kill)
        watchdog.start()
        message = process.stdout.readline()
        watchdog.cancel()
        return message, time.monotonic() - began

    def end(self) -> int:
        """Close the input of the process and return its exit code."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    """Return workers; a killed one is replaced."""
    started = [Worker()]
    yield started
    for worker in started:
        worker.end()


@pytest.mark.parametrize("name", WORK)
def test_a_long_call_answers_signals(name: str, workers: list[Worker]) -> None:
    number = signal.SIGTERM if name in ("annealing", "exhaustive") else signal.SIGINT
    if workers[-1].process.poll() is not None:
        workers.append(Worker())
    message, seconds = workers[-1].interrupted(WORK[name], number)
    print(f"{name}: {seconds:.2f} s")
    assert message == "interrupted\n"
    assert seconds < 5.0  # mostly well below one; this machine may be busy


def test_a_process_ends_after_all_these_signals(workers: list[Worker]) -> None:
    assert workers[-1].end() == 0
