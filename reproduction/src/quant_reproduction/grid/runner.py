"""Run the jobs that have no record yet, in processes of this machine.

A worker that dies takes no other job with it; one whose parent dies ends.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Literal

from quant_reproduction.grid.jobs import Job, Outcome, Store, run_job
from qubolearn.errors import QubolearnError

Device = Literal["cpu", "cuda"]
Work = Callable[[Job], Outcome]

#: Jobs at a time on one GPU, those of them that keep a core busy (stacks do not), and the memory that each needs.
JOBS_PER_GPU, BUSY_PER_GPU, BYTES_PER_JOB = 24, 4, 5 * 2**30
#: Seconds between calls of ``stop``, starts of a job whose worker dies, and seconds that NVIDIA's MPS may take.
TICK, TRIES, MPS_SECONDS = 0.2, 2, 20.0


def run_jobs(
    jobs: Sequence[Job],
    store: Store,
    pool: LocalPool | None = None,
    watch: Callable[[Outcome], None] = lambda outcome: None,
    stop: Callable[[], bool] = lambda: False,
    suffix: str = "",
) -> list[Outcome]:
    """Return the outcomes of all jobs in their order, stored ones included.

    If ``stop`` returns True, jobs that have not ended have no outcome.
    """
    outcomes: dict[Job, Outcome] = {}
    for job in dict.fromkeys(jobs):
        if (record := store.get(job)) is not None:
            outcomes[job] = Outcome(job, record)
            watch(outcomes[job])
    left = sorted((job for job in dict.fromkeys(jobs) if job not in outcomes), key=effort, reverse=True)
    for outcome in pool.outcomes(left, stop) if pool else (run_job(job) for job in left if not stop()):
        if outcome.record is not None:
            command = f"quant reproduce --key {outcome.job.key}{suffix}"
            outcome = replace(outcome, record={**outcome.record, "command": command})
        store.put(outcome)
        outcomes[outcome.job] = outcome
        watch(outcome)
    return [outcomes[job] for job in jobs if job in outcomes]


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def room_on_gpu() -> int:
    """Return how many jobs the GPU's free memory allows; 0 without one."""
    import torch

    free = torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0
    return min(JOBS_PER_GPU, free // BYTES_PER_JOB)


class LocalPool:
    """Processes of this machine, ``workers`` on a device and ``on_gpu``; a crash affects one job only."""

    def __init__(self, workers: int, device: Device = "cpu", on_gpu: int = 0, work: Work = run_job) -> None:
        self._sizes: dict[Device, int] = {device: workers, **({"cuda": on_gpu} if on_gpu else {})}
        self._device, self._on_gpu, self._work = device, on_gpu, work

    def __enter__(self) -> LocalPool:
        self._stack, self._executors = ExitStack(), list[ProcessPoolExecutor]()
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers would start one per core each
        self._folder = Path(self._stack.enter_context(TemporaryDirectory()))
        self._stack.enter_context(_shared_gpu("cuda" in self._sizes))
        self._free = {device: [self._executor(device) for _ in range(n)] for device, n in self._sizes.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for child in multiprocessing.active_children():  # whatever they do
            child.kill()
        for executor in self._executors:
            executor.shutdown(cancel_futures=True)
        self._stack.close()

    def _executor(self, device: Device) -> ProcessPoolExecutor:
        threads = max(1, cores() // self._sizes["cpu"]) if device == "cpu" else 1  # others wait for the GPU
        given = (threads, device, self._folder)
        made = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _start_worker, given)
        self._executors.append(made)
        return made

    def outcomes(self, jobs: Sequence[Job], stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Run jobs in this order, and yield their outcomes as they end.

        Jobs whose network or stack another one trains wait for it. Large simulations come first and alone,
        because they slow down small kernels; then one job of each stack.
        """
        from quant_reproduction.grid.models import write_plan  # imports torch

        first = set({stack_of(job): job for job in reversed(jobs) if stack_of(job)}.values())
        waiting = sorted(jobs, key=lambda job: (_fills_gpu(job), job in first), reverse=True)
        tries, trained = Counter[Job](), {""}
        write_plan(jobs, self._folder)
        running: dict[Future[Outcome], tuple[Job, Device, ProcessPoolExecutor]] = {}
        while (waiting or running) and not stop():
            idle = max(0, len(self._free[self._device]) - sum(not suits_gpu(job) for job in waiting))
            for job in list(waiting):
                device: Device = "cuda" if self._on_gpu and suits_gpu(job) else self._device
                others = [each for each, on, _ in running.values() if on == device]
                # beside a GPU the cores have jobs, too
                most = BUSY_PER_GPU + idle if self._on_gpu else self._sizes[device]
                if self._free[device] and _has_room(job, device, others, trained, most):
                    executor = self._free[device].pop()
                    waiting.remove(job)
                    tries[job] += 1
                    with _interrupts_held():
                        future = executor.submit(_logged, self._work, job, self._folder / job.slug)
                    running[future] = job, device, executor
            for future in wait(running, TICK, FIRST_COMPLETED)[0]:
                job, device, executor = running.pop(future)
                error = future.exception()
                died = isinstance(error, BrokenProcessPool)
                self._free[device].append(self._executor(device) if died else executor)
                if error is None:
                    trained.add(network_of(job))
                    yield future.result()
                elif not died:
                    reason = str(error).strip().splitlines()[-1]
                    raise QubolearnError(f"a worker cannot run jobs: {reason}") from error
                elif tries[job] < TRIES:
                    waiting.append(job)
                else:
                    log = self._folder / job.slug
                    text = f"its worker died {TRIES} times; if memory ran out, use fewer --processes"
                    said = log.read_text(errors="replace") if log.exists() else str(error)
                    yield Outcome(job, None, text, said)


def _has_room(job: Job, device: Device, running: Sequence[Job], trained: set[str], most: int) -> bool:
    """Return True if a job may start beside others on its device; ``most`` may keep a core busy on a GPU."""
    training = [each for each in running if network_of(each) not in trained]
    if network_of(job) in map(network_of, training):
        return False
    if device == "cpu" or (stack_of(job) and network_of(job) not in trained):
        return True
    if _fills_gpu(job):
        return all(map(_fills_gpu, running))
    return len(running) - sum(bool(stack_of(each)) for each in training) < most


def _start_worker(threads: int, device: Device, folder: Path) -> None:
    """Set up a worker before CUDA starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides on Ctrl-C
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ["QUBOLEARN_SHARED_NETWORKS"] = str(folder)
    import torch

    torch.set_num_threads(threads)
    if device == "cuda":
        wait_without_spinning()
    else:  # jobs use a GPU if they see one
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def wait_without_spinning() -> None:
    """Let threads that wait for the GPU sleep: 24 that spin leave the other jobs no core."""
    with suppress(OSError, AttributeError):  # no driver, or an old one
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuInit(0)
        driver.cuDevicePrimaryCtxSetFlags_v2(0, 4)  # CU_CTX_SCHED_BLOCKING_SYNC


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _logged(work: Work, job: Job, log: Path) -> Outcome:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    faulthandler.enable()
    return work(job)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while a process starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _shared_gpu(used: bool) -> Iterator[None]:
    """Let processes share one GPU if NVIDIA's MPS is installed."""
    command = shutil.which("nvidia-cuda-mps-control")
    names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
    if not used or command is None or names[0] in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="quant-mps-") as folder:
        environment = {**os.environ, **dict.fromkeys(names, folder)}
        call: Any = {"env": environment, "capture_output": True, "timeout": MPS_SECONDS}
        started = subprocess.run([command, "-d"], **call).returncode == 0
        os.environ.update(dict.fromkeys(names, folder) if started else {})
        try:
            yield
        finally:
            if started:
                with suppress(subprocess.TimeoutExpired):  # of workers that were killed
                    subprocess.run([command], input=b"quit\n", **call)
                for name in names:
                    del os.environ[name]


#: Qubits and batches from which a GPU step is much faster.
LARGE_STATE, LARGE_BATCH = 20, 200
SECONDS_PER_STEP_AND_BIT = 1.5e-4
#: Jobs that do not train count as this many steps times bits.
WITHOUT_TRAINING = 10_000
#: Factors of tasks, solvers, networks and problems against exact search.
FACTORS = {"second-best": 6, "stages": 3, "search": 7, "thermal": 4, "train-raw": 10, "quantum": 30}
FACTORS |= {"annealing": 3, "matching": 10, "knapsack": 10, "maxcut": 20}
#: Seconds on a core of tasks whose options do not show them.
SECONDS = {"aqm": 60, "chip-view": 40, "qubits": 20, "scene": 10, "snakes": 30, "sudoku": 40}
SECONDS |= {"sudoku-search": 10, "visual-sudoku": 20, "willow10": 120}
#: Losses whose steps call a solver.
SOLVING = ("gap", "hinge", "hamming", "contrastive")


@lru_cache(maxsize=10_000)
def suits_gpu(job: Job) -> bool:
    """Return True for large jobs, by the job alone, so that reruns agree."""
    training = _training(job)
    if training is None:
        return job.task == "released" or _simulated_qubits(job) >= LARGE_STATE
    _, recipe = training
    if stack_of(job):
        return True
    if recipe.loss in SOLVING and not recipe.solver.startswith("exhaustive"):  # not in a CUDA graph
        return False
    return bool(recipe.batch_size >= LARGE_BATCH or recipe.network == "matching")


@lru_cache(maxsize=10_000)
def stack_of(job: Job) -> str:
    """Return the name of the stack in which a job's networks train, or ""."""
    from quant_reproduction.grid.side_by_side import joins, shape_of

    training = _training(job)
    if training is None or not joins(*training):
        return ""
    one = job.task == "train" and training[0].name == "rotation"  # not one network per angle
    return f"{shape_of(*training)}{' at once' * one}"


@lru_cache(maxsize=10_000)
def network_of(job: Job) -> str:
    """Return the name of what a job trains, which others may share: its stack, its network, or ""."""
    training = _training(job)
    return "" if training is None else stack_of(job) or f"{training}, seed {job.seed}"


@lru_cache(maxsize=10_000)
def effort(job: Job) -> float:
    """Return the steps times bits that a job costs; long ones run first."""
    if job.task == "released":  # the first seed trains those of all others
        return 1e9 - job.seed
    if qubits := _simulated_qubits(job):
        return 0.03 * 2.0**qubits * float(job.options["instances"])
    if job.task in SECONDS and "quick" not in job.options:
        return SECONDS[job.task] / SECONDS_PER_STEP_AND_BIT
    training = _training(job)
    if training is None:
        return WITHOUT_TRAINING
    problem, recipe = training
    if stack_of(job):
        return 1e8 + float(recipe.steps * recipe.layers)
    cost = float(recipe.steps * problem.bits)
    solver = job.options.get("sampler", recipe.solver).partition(":")[0]
    for name in (job.task, solver, recipe.network, problem.name):
        cost *= FACTORS.get(name, 1)
    return cost


def _fills_gpu(job: Job) -> bool:
    """Return True for simulations that would slow down all other jobs on the GPU."""
    return _simulated_qubits(job) >= LARGE_STATE


def _simulated_qubits(job: Job) -> int:
    """Return the qubits of QGM's anneals; other simulations are small."""
    if job.task != "qgm":
        return 0
    k: int = job.options["k"]
    return (k - 1) ** 2 if job.options["variant"] == "inserted" else k**2


def _training(job: Job) -> tuple[Any, Any] | None:
    """Return what a job trains, or None, also for bad options."""
    from quant_reproduction.presets import recipe_for
    from qubolearn.problems import make_problem  # needs torch

    options = job.options
    if "problem" not in options or "protocol" not in options:
        return None
    try:
        problem = make_problem(**options["problem"])
        return problem, recipe_for(options["protocol"], problem, **options.get("overrides") or {})
    except (QubolearnError, TypeError):
        return None
