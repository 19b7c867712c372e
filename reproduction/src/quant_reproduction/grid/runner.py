"""Run the jobs that have no record yet, in processes of this machine or on a Ray cluster.

The calling process stores every outcome as it comes, so a grid that ends in any way resumes where it was. A worker that
dies takes no other job with it, and a worker whose parent dies ends at once. Numbers depend on the device alone.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from importlib import import_module
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Literal

from quant_reproduction.grid.jobs import Job, Outcome, Store, record_digest, run_job
from qubolearn.errors import QubolearnError
from qubolearn.provenance import provenance

__all__ = ["JOBS_PER_GPU", "Device", "LocalPool", "RayPool", "cores", "room_on_gpu", "run_jobs"]

Device = Literal["cpu", "cuda"]
Work = Callable[[Job], Outcome]

#: Jobs at a time on one GPU, and the memory that must be free for each: 25 qubits, or a pool of clouds.
JOBS_PER_GPU, BYTES_PER_JOB = 12, 5 * 2**30
#: Seconds between two calls of ``stop``.
TICK = 0.2
SECONDS_TO_CONNECT = 10.0


def run_jobs(
    jobs: Sequence[Job],
    store: Store,
    pool: LocalPool | RayPool | None = None,
    watch: Callable[[Outcome], None] = lambda outcome: None,
    stop: Callable[[], bool] = lambda: False,
    command: str = "",
) -> list[Outcome]:
    """Return the outcomes of all jobs in their order, including those stored before.

    The most expensive jobs are run first. If ``stop`` returns True, jobs that have not ended have no outcome. New
    records contain the ``command``.
    """
    from quant_reproduction.grid.cost import effort  # not at the top: it imports torch, which lists of jobs do not need

    outcomes: dict[Job, Outcome] = {}
    for job in dict.fromkeys(jobs):
        if (record := store.get(job)) is not None:
            outcomes[job] = Outcome(job, record)
            watch(outcomes[job])
    left = sorted((job for job in dict.fromkeys(jobs) if job not in outcomes), key=effort, reverse=True)
    for outcome in _in_pool(left, pool, stop) if pool else _in_this_process(left, stop):
        if outcome.record is not None and command:
            outcome = replace(outcome, record={**outcome.record, "command": command})
        store.put(outcome)
        outcomes[outcome.job] = outcome
        watch(outcome)
    return [outcomes[job] for job in jobs if job in outcomes]


def _in_this_process(jobs: Sequence[Job], stop: Callable[[], bool]) -> Iterator[Outcome]:
    for job in jobs:
        if stop():
            return
        yield run_job(job)


def _in_pool(jobs: Sequence[Job], pool: LocalPool | RayPool, stop: Callable[[], bool]) -> Iterator[Outcome]:
    waiting, again, tries = deque(jobs), deque[Job](), Counter[Job]()
    running: dict[Future[Outcome], Job] = {}
    while (waiting or again or running) and not stop():
        source = again or waiting
        for job in list(source):
            if pool.free(job, running.values()) and not (source is again and pool.one_by_one and running):
                source.remove(job)
                tries[job] += 1
                running[pool.submit(job)] = job
        done, _ = wait(running, TICK, FIRST_COMPLETED)
        for future in done:
            job, error = running.pop(future), future.exception()
            if error is None:
                yield future.result()
            elif not pool.died(error):
                raise QubolearnError(f"a worker cannot run jobs: {str(error).strip().splitlines()[-1]}") from error
            elif tries[job] < pool.tries:
                again.append(job)
            else:
                text = f"its worker died {tries[job]} times; if memory ran out, use fewer --processes"
                yield Outcome(job, None, text, pool.log(job) or str(error))


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def room_on_gpu() -> int:
    """Return how many jobs the free memory of this machine's GPU allows; 0 without a GPU."""
    import torch

    return min(JOBS_PER_GPU, torch.cuda.mem_get_info()[0] // BYTES_PER_JOB) if torch.cuda.is_available() else 0


class LocalPool:
    """Processes of this machine: ``workers`` on a device, and ``on_gpu`` for jobs that a GPU runs faster.

    They stay alive from job to job, since importing torch takes seconds. When one dies, all jobs of its pool are lost:
    they run again alone, up to twice, so that only the job that kills its worker fails.
    """

    tries, one_by_one = 3, True

    def __init__(self, workers: int, device: Device = "cpu", on_gpu: int = 0, work: Work = run_job) -> None:
        self._places: dict[Device, int] = {device: workers, **({"cuda": on_gpu} if on_gpu else {})}
        self._device, self._on_gpu, self._work = device, on_gpu, work
        self._executors: dict[Device, ProcessPoolExecutor] = {}

    def __enter__(self) -> LocalPool:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(TemporaryDirectory()))
        self._stack.enter_context(_shared_gpu(bool(self._places.get("cuda"))))
        return self

    def __exit__(self, *_: object) -> None:
        for child in multiprocessing.active_children():  # whatever they do
            child.kill()
        for executor in self._executors.values():
            executor.shutdown(cancel_futures=True)
        self._stack.close()

    def _device_of(self, job: Job) -> Device:
        from quant_reproduction.grid.cost import suits_gpu

        return "cuda" if self._on_gpu and suits_gpu(job) else self._device

    def free(self, job: Job, running: Collection[Job]) -> bool:
        device = self._device_of(job)
        return sum(self._device_of(other) == device for other in running) < self._places[device]

    def submit(self, job: Job) -> Future[Outcome]:
        device = self._device_of(job)
        if device not in self._executors:
            places = self._places[device]
            threads = max(1, cores() // sum(self._places.values()))
            self._executors[device] = ProcessPoolExecutor(
                places, multiprocessing.get_context("spawn"), _start_worker, (threads, device, self._folder)
            )
        with _interrupts_held():
            return self._executors[device].submit(_logged, self._work, job, self._folder / job.slug)

    def died(self, error: BaseException) -> bool:
        whole = {device: executor for device, executor in self._executors.items() if not executor._broken}
        self._executors = whole
        return isinstance(error, BrokenProcessPool)

    def log(self, job: Job) -> str:
        path = self._folder / job.slug
        return path.read_text(errors="replace") if path.exists() else ""


def prepare(threads: int, device: Device) -> None:
    """Set up a worker before CUDA starts."""
    import torch

    torch.set_num_threads(threads)
    if device == "cpu":  # jobs use a GPU if they see one
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def _start_worker(threads: int, device: Device, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ["QUBOLEARN_SHARED_NETWORKS"] = str(folder)
    prepare(threads, device)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _logged(work: Work, job: Job, log: Path) -> Outcome:
    """Run a job with all of its output in a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    faulthandler.enable()
    return work(job)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while a process starts, so that it never sees it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _shared_gpu(used: bool) -> Iterator[None]:
    """Let several processes compute on one GPU side by side if NVIDIA's MPS is installed; otherwise they take turns."""
    command, names = shutil.which("nvidia-cuda-mps-control"), ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
    if not used or command is None or names[0] in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="quant-mps-") as folder:
        environment = {**os.environ, **dict.fromkeys(names, folder)}
        started = subprocess.run([command, "-d"], env=environment, capture_output=True, timeout=20).returncode == 0
        os.environ.update(dict.fromkeys(names, folder) if started else {})
        try:
            yield
        finally:
            if started:
                subprocess.run([command], input=b"quit\n", env=environment, capture_output=True, timeout=20)
                for name in names:
                    del os.environ[name]


class RayPool:
    """A Ray cluster: one task per job. Records travel back to the driver, since nodes may not share a disk.

    ``address`` is that of a running cluster of which this machine is a node, by default RAY_ADDRESS; without any, a
    cluster of this machine alone is started. Nodes may join and die meanwhile.
    """

    tries, one_by_one = 4, False

    def __init__(
        self, address: str | None = None, workers: int | None = None, device: Device = "cpu", work: Work = run_job
    ) -> None:
        self.address = address or os.environ.get("RAY_ADDRESS") or "local"
        self._workers, self._device, self._work = workers, device, work
        self._counted, self._slots = 0.0, 0

    def __enter__(self) -> RayPool:
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise QubolearnError("--engine ray needs: pip install './reproduction[ray]'") from error
        ray = self._ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self.address == "local":
            options |= {"num_cpus": self._workers, "include_dashboard": False}
        check_listening(self.address)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            ray.init(self.address, **options)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())[:200]
            raise QubolearnError(f"cannot use the Ray cluster at {self.address}: {reason}") from error
        for number, handler in handlers.items():  # Ray has replaced them
            signal.signal(number, handler)
        self._kind = "GPU" if self._device == "cuda" else "CPU"
        if self._kind == "GPU" and ray.cluster_resources().get("GPU", 0) < 1:
            raise QubolearnError(f"--device cuda, but the Ray cluster at {self.address} has no GPU; use cpu")
        task = ray.remote(on_node).options(num_cpus=1, num_gpus=int(self._kind == "GPU"), max_retries=0)
        shared = ray.put((self._work, code_version(), self._device, os.environ.get("QUBOLEARN_DATA")))
        self._task: Any = lambda job: task.remote(shared, job).future()
        self._stdout: Any = redirect_stdout(sys.stderr)  # Ray prints news of nodes, and stdout may be a program's
        self._stdout.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._stdout.__exit__(None, None, None)
        self._ray.shutdown()  # which ends what still runs

    def free(self, job: Job, running: Collection[Job]) -> bool:
        if time.monotonic() > self._counted + 1:  # nodes come and go; one job asks for the first of them
            there = max(1, int(self._ray.cluster_resources().get(self._kind, 0)))
            self._counted, self._slots = time.monotonic(), min(there, self._workers or there)
        return len(running) < self._slots

    def submit(self, job: Job) -> Future[Outcome]:
        future: Future[Outcome] = self._task(job)
        return future

    def died(self, error: BaseException) -> bool:
        """An error of a task is not the death of its worker: run_job returns the errors of jobs."""
        kinds = self._ray.exceptions
        return isinstance(error, kinds.RayError) and not isinstance(error, kinds.RayTaskError)

    def log(self, job: Job) -> str:
        return ""


def check_listening(address: str) -> None:
    """Raise if nothing listens at an address; Ray itself takes minutes to notice."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not port.isdigit():  # "local", "auto"
        return
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise QubolearnError(f"no Ray cluster at {address} ({error}); start one: ray start --head") from error


def on_node(shared: tuple[Work, Mapping[str, str], Device, str | None], job: Job) -> Outcome:
    """Run a job on a node, unless its code differs from the driver's."""
    work, here, device, data = shared
    there = code_version()
    wrong = [f"{name} {there.get(name)} there, {here.get(name)} here" for name in here if here[name] != there.get(name)]
    if wrong:
        raise QubolearnError(
            f"node {platform.node()} has other code: {'; '.join(wrong)}; install the same on all nodes"
        )
    if data:
        os.environ.setdefault("QUBOLEARN_DATA", data)
    prepare(1, device)
    return work(job)


def code_version() -> dict[str, str]:
    """Return the versions of all that computes, and a digest of our own source."""
    return {**provenance()["versions"], "source": record_digest()}
