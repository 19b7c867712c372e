"""Jobs in processes of this machine, which live on from job to job: importing torch takes seconds.

Each worker has a pipe of its own, so that one that dies (out of memory, kill -9, a fault in compiled code) takes only
its own job with it. A worker whose parent dies, however that happens, ends at once.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Literal

from qubolearn.paper.grid.jobs import Events, Job, Outcome, Started, Work

__all__ = ["JOBS_PER_GPU", "Device", "LocalEngine", "cores", "prepare", "room_on_gpu"]

Device = Literal["cpu", "cuda"]

#: How often a job is given to a worker that does not live to its end.
TRIES = 2
#: Jobs at a time on one GPU, at most, and the memory that must be free for each: 25 qubits, or a pool of clouds.
JOBS_PER_GPU, BYTES_PER_JOB = 4, 5 * 2**30
#: Seconds after which ``stop`` is asked again.
TICK = 0.2


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def room_on_gpu(most: int = JOBS_PER_GPU, bytes_each: int = BYTES_PER_JOB) -> int:
    """Jobs that the GPU of this machine has room for now, at most so many; 0 where there is none."""
    import torch

    return min(most, torch.cuda.mem_get_info()[0] // bytes_each) if torch.cuda.is_available() else 0


class LocalEngine:
    """So many jobs at a time, each in a process with its share of the cores.

    With ``on_gpu``, jobs that suit a GPU run there, so many of them at a time, and all others on ``device``. While
    others need the cores, ``busy_elsewhere`` of the jobs wait.
    """

    busy_elsewhere = 0

    def __init__(self, workers: int, device: Device = "cpu", on_gpu: int = 0) -> None:
        self.workers = workers
        self.device = device
        self.on_gpu = on_gpu

    def run(self, jobs: Sequence[Job], work: Work, stop: Callable[[], bool]) -> Events:
        waiting, tries = deque(jobs), Counter[Job]()
        with TemporaryDirectory() as logs:
            idle = self._all_workers(Path(logs), len(jobs))
            busy: list[_Worker] = []
            try:
                while waiting or busy:
                    stopping = stop()
                    room = max(1, self.workers - self.busy_elsewhere)
                    while not stopping and len(busy) < room and (pair := self._pair(idle, waiting)):
                        worker, job = pair
                        idle.remove(worker)
                        waiting.remove(job)
                        tries[job] += 1
                        worker.give(job, work)
                        busy.append(worker)
                        yield Started(job, "again, since its worker died" if tries[job] > 1 else "")
                    ready = wait([worker.pipe for worker in busy], 0 if stopping else TICK)
                    for worker in [worker for worker in busy if worker.pipe in ready]:
                        busy.remove(worker)
                        idle.append(worker)
                        outcome, died = worker.take()
                        if died and tries[outcome.job] < TRIES:
                            waiting.append(outcome.job)
                        else:
                            yield outcome
                    if stopping:
                        return
            finally:
                for worker in [*idle, *busy]:
                    worker.end()

    def _all_workers(self, logs: Path, jobs: int) -> list[_Worker]:
        threads = max(1, cores() // self.workers)
        counts: list[tuple[Device, int]] = [(self.device, min(self.workers, jobs)), ("cuda", self.on_gpu)]
        devices = [device for device, count in counts for _ in range(count)]
        return [_Worker(logs / str(number), threads, device) for number, device in enumerate(devices)]

    def _pair(self, idle: Sequence[_Worker], waiting: Iterable[Job]) -> tuple[_Worker, Job] | None:
        """The first job for which a worker is free, and that worker."""
        from qubolearn.paper.grid.schedule import suits_gpu

        free = {worker.device: worker for worker in idle}
        for job in waiting:
            device = "cuda" if self.on_gpu and suits_gpu(job) else self.device
            if device in free:
                return free[device], job
        return None


class _Worker:
    """The parent's side of a worker process, which is started with its first job, and anew where it died."""

    pipe: Connection

    def __init__(self, log: Path, threads: int, device: Device) -> None:
        self._log, self._threads, self.device = log, threads, device
        self._process: SpawnProcess | None = None

    def _start(self) -> None:
        # spawn, since forked children of a process that has used threads or CUDA may hang
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, self._log, self._threads, self.device)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        with _interrupts_held():
            self._process.start()
        theirs.close()  # the worker's copy alone is open now, so that its end is seen here

    def give(self, job: Job, work: Work) -> None:
        if self._process is None:
            self._start()
        self._job = job
        with suppress(OSError):  # one that died while idle is found out by take()
            self.pipe.send((work, job))

    def take(self) -> tuple[Outcome, bool]:
        """What came of the job, and whether the worker died of it."""
        try:
            outcome: Outcome = self.pipe.recv()
            return outcome, False
        except (EOFError, OSError):
            assert self._process is not None
            self._process.join()
            log = self._log.read_text(errors="replace") if self._log.exists() else ""
            died = Outcome(self._job, None, f"its worker process {_end(self._process.exitcode)}", log)
            self.end()
            return died, True

    def end(self) -> None:
        """End the process, whatever it is at."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self.pipe.close()
            self._process = None


def prepare(threads: int, device: Device) -> None:
    """What every job wants of its process, before CUDA is first asked for."""
    import torch

    torch.set_num_threads(threads)
    if device == "cpu":
        # Jobs take a GPU where they see one. Many processes with tiny networks share one badly, cores they do not.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def serve(pipe: Connection, log: Path, threads: int, device: Device) -> None:
    """Do (work, job) after (work, job) from a pipe, until it closes. All that is printed goes to the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    Thread(target=_end_with_parent, daemon=True).start()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    faulthandler.enable()
    os.environ["QUBOLEARN_SHARED_NETWORKS"] = str(log.parent)  # of all workers of this run, and gone after it
    prepare(threads, device)
    while True:
        try:
            work, job = pipe.recv()
        except EOFError:
            return
        os.ftruncate(file, 0)
        pipe.send(work(job))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers, and a job of minutes would go on for nobody."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _end(code: int | None) -> str:
    """An exit code in words, with what to do."""
    if code == -signal.SIGKILL:
        return f"was killed {TRIES} times; where memory ran out, try fewer --processes"
    if code is not None and code < 0:
        return f"died {TRIES} times, of {signal.Signals(-code).name}"
    return f"ended {TRIES} times, with exit code {code}"


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: a process that is born meanwhile never sees it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
