"""Jobs on a Ray cluster: one task each. Records travel back to the driver, since nodes may not share a disk.

A task is never retried by Ray itself: where a node or worker dies, the driver gives its jobs out anew and forgets the
old tasks, so that every job has one outcome whatever a lost node still does.
"""

from __future__ import annotations

import os
import platform
import signal
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from qubolearn.errors import QubolearnError, missing_extra
from qubolearn.paper.grid.engines.local import Device, prepare
from qubolearn.paper.grid.jobs import Events, Job, Outcome, Started, Work
from qubolearn.provenance import provenance, source_digest

__all__ = ["RayEngine"]

#: How often a job is given to a node or worker that does not live to its end; nodes of cheap clusters come and go.
TRIES = 4
#: Seconds after which ``stop`` is asked again, and the cluster how large it is.
TICK = 0.5
SECONDS_TO_CONNECT = 10.0


class RayEngine:
    """As many jobs at a time as the cluster has cores, or GPUs where jobs run on these; at most ``workers``.

    ``address`` is that of a running cluster of which this machine is a node ("auto", "host:6379"), by default
    RAY_ADDRESS; without any, a cluster of this machine alone is started, and ended with the grid.
    """

    on_gpu = 0

    def __init__(self, address: str | None = None, workers: int | None = None, device: Device = "cpu") -> None:
        self.address = address or os.environ.get("RAY_ADDRESS") or "local"
        self.device = device
        self._most = workers
        self.workers = workers or 1

    def run(self, jobs: Sequence[Job], work: Work, stop: Callable[[], bool]) -> Events:
        if not jobs:
            return
        with self._connected() as ray:
            waiting, tries = deque(jobs), Counter[Job]()
            running: dict[Any, Job] = {}  # by the reference of their task
            on_gpus = self._on_gpus(ray)
            task = self._task(ray, work, int(on_gpus))
            while waiting or running:
                stopping = stop()
                self.workers = self._slots(ray, "GPU" if on_gpus else "CPU")
                while waiting and len(running) < self.workers and not stopping:
                    job = waiting.popleft()
                    tries[job] += 1
                    running[task(job)] = job
                    yield Started(job, "again, since its node or worker died" if tries[job] > 1 else "")
                ready, _ = ray.wait(list(running), timeout=0 if stopping else TICK) if running else ([], [])
                for reference in ready:
                    job = running.pop(reference)
                    outcome = self._outcome(ray, reference)
                    if isinstance(outcome, Outcome):
                        yield outcome
                    elif tries[job] < TRIES:
                        waiting.append(job)
                    else:
                        yield Outcome(job, None, f"its node or worker died {TRIES} times", outcome)
                if stopping:
                    return

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            import ray
        except ImportError as error:
            raise missing_extra("--engine ray", "ray") from error
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing here reports home
        options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self.address == "local":
            options |= {"num_cpus": self._most, "include_dashboard": False}
        _check_listening(self.address)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            ray.init(self.address, **options)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())[:200]
            raise QubolearnError(f"cannot use the Ray cluster at {self.address}: {reason}") from error
        try:
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():  # Ray has put its own in their place
                    signal.signal(number, handler)
            with redirect_stdout(sys.stderr):  # Ray prints news of nodes, and stdout may be a program's
                yield ray
        finally:
            ray.shutdown()  # which ends what still runs

    def _on_gpus(self, ray: Any) -> bool:
        wanted = self.device == "cuda"
        if wanted and ray.cluster_resources().get("GPU", 0) < 1:
            raise QubolearnError(f"--device cuda, but the Ray cluster at {self.address} has no GPU; use cpu")
        return wanted

    def _slots(self, ray: Any, kind: str) -> int:
        """Jobs that the cluster can run at a time. Nodes come and go; where none is there, one job asks for it."""
        there = max(1, int(ray.cluster_resources().get(kind, 0)))
        return min(there, self._most or there)

    def _task(self, ray: Any, work: Work, gpus: int) -> Callable[[Job], Any]:
        remote = ray.remote(on_node).options(num_cpus=1, num_gpus=gpus, max_retries=0)
        shared = ray.put((work, code_version(), "cuda" if gpus else "cpu", os.environ.get("QUBOLEARN_DATA")))
        return lambda job: remote.remote(shared, job)

    def _outcome(self, ray: Any, reference: Any) -> Outcome | str:
        """What came of a task, or how its node or worker died."""
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            # run_job returns the errors of jobs, so that this is one of the node
            raise QubolearnError(f"a node of the Ray cluster cannot run jobs: {_last_line(error)}") from error
        except ray.exceptions.RayError as error:
            return str(error)
        if isinstance(answer, Outcome):
            return answer
        raise QubolearnError(
            f"node {answer['node']} has other code, so that its results would be others: "
            f"{answer['differences']}; install the same on all nodes"
        )


def _check_listening(address: str) -> None:
    """Ray itself takes minutes to find out that nobody is there."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not port.isdigit():  # "local", "auto"
        return
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise QubolearnError(f"no Ray cluster at {address} ({error}); start one: ray start --head") from error


def on_node(shared: tuple[Work, Mapping[str, str], Device, str | None], job: Job) -> Outcome | dict[str, str]:
    """Runs on a node: the job, unless the code there is not the driver's."""
    work, here, device, data = shared
    wrong = differences(code_version(), here)
    if wrong:
        return {"node": platform.node(), "differences": wrong}
    if data:
        os.environ.setdefault("QUBOLEARN_DATA", data)  # a node may have its own place for data
    prepare(1, device)
    return work(job)


def code_version() -> dict[str, str]:
    """Versions of all that computes, and a digest of qubolearn's own source, which changes between versions too."""
    return {**provenance()["versions"], "qubolearn's source": source_digest()}


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs, in words.

    >>> differences({"torch": "2.4.0", "numpy": "2.0"}, {"torch": "2.5.1", "numpy": "2.0"})
    'torch 2.4.0 there, 2.5.1 here'
    """
    names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    return "; ".join(f"{name} {there.get(name, 'missing')} there, {here.get(name, 'missing')} here" for name in names)


def _last_line(error: Exception) -> str:
    return [line for line in str(error).splitlines() if line.strip()][-1].strip()
