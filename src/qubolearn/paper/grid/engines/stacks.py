"""Trainings of many jobs as one on a GPU, beside jobs in processes.

Jobs whose networks have one shape are trained together by :func:`qubolearn.training.train.train_many`, which takes
hardly longer than one of them. Each is then scored by itself, and its record says with how many others it was trained.
"""

from __future__ import annotations

import queue
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from threading import Thread
from typing import Any

from qubolearn.paper.grid.engines.local import LocalEngine
from qubolearn.paper.grid.jobs import Events, Job, Outcome, Started, Work, run_job

__all__ = ["StackEngine", "can_be_stacked", "stacks_of"]

#: The order of stacks: what is compared with the paper's own method first, what takes longest last.
ORDER = [(protocol, "quant") for protocol in ("paper", "best")]
ORDER += [(protocol, method) for protocol in ("best", "paper") for method in ("diag", "pure")]

#: Stacks at a time on one GPU.
AT_ONCE = 4


def can_be_stacked(job: Job) -> bool:
    """Whether a job trains networks of its own on clouds, whose trainings are long and many."""
    name = job.options.get("problem", {}).get("name")
    return job.task in ("train", "stages") and name in ("pointset", "rotation")


def stacks_of(jobs: Iterable[Job]) -> list[list[Job]]:
    """Jobs by the shape of their networks and the length of their training, the most important stack first."""
    from qubolearn.paper.grid.tasks import trainings

    stacks: dict[Hashable, list[Job]] = {}
    rank: dict[Hashable, int] = {}
    for job in jobs:
        options = {name: job.options.get(name) for name in ("problem", "protocol", "overrides")}
        problem, recipe = trainings(job.seed, job.task, **options)[0]  # type: ignore[arg-type]
        size = (problem.input_size, problem.bits, recipe.layers, recipe.hidden, recipe.topology)
        key = (*size, recipe.method, recipe.loss, recipe.batch_size, recipe.steps)
        stacks.setdefault(key, []).append(job)
        rank[key] = ORDER.index((job.options["protocol"], recipe.method))
    return [stacks[key] for key in sorted(stacks, key=lambda key: rank[key])]


class StackEngine:
    """Stacks of trainings on the GPU of this process, a few at a time, beside all other jobs in processes.

    Stacks are in threads and not in processes: kernels of one process overlap, and a stack by itself leaves most of a
    GPU idle.
    """

    def __init__(self, beside: LocalEngine, at_once: int = AT_ONCE) -> None:
        self.beside, self._at_once = beside, at_once
        self.workers, self.on_gpu = beside.workers + at_once, at_once

    def run(self, jobs: Sequence[Job], work: Work, stop: Callable[[], bool]) -> Events:
        stacked = [job for job in jobs if can_be_stacked(job)]
        others = [job for job in jobs if not can_be_stacked(job)]
        events: queue.Queue[Any] = queue.Queue()
        ended = object()
        given_up: list[bool] = []
        stopping = lambda: bool(given_up) or stop()  # noqa: E731

        def forward(source: Callable[[], Iterable[Any]]) -> None:
            try:
                for event in source():
                    events.put(event)
            except BaseException as error:  # raised again where events are taken
                events.put(error)
            events.put(ended)

        waiting = deque(stacks_of(stacked))
        sources: list[Callable[[], Iterable[Any]]] = [lambda: self.beside.run(others, work, stopping)]
        sources += [lambda: self._stacks(waiting, stopping)] * max(1, min(self._at_once, len(waiting)))
        threads = [Thread(target=forward, args=(source,), daemon=True) for source in sources]
        for thread in threads:
            thread.start()
        left = len(threads)
        try:
            while left:
                event = events.get()
                if event is ended:
                    left -= 1
                elif isinstance(event, BaseException):
                    raise event
                else:
                    yield event
        finally:
            given_up.append(True)
            for thread in threads:
                thread.join()

    def _stacks(self, waiting: deque[list[Job]], stop: Callable[[], bool]) -> Iterable[Started | Outcome]:
        """One stack after the other, until other threads and this one have taken all of them."""
        while not stop():
            try:
                stack = waiting.popleft()
            except IndexError:
                return
            yield from (Started(job) for job in stack)
            outcomes = _done(stack, stop)
            if stop():  # networks that were stopped are not scored
                return
            yield from outcomes


def _done(stack: Sequence[Job], stop: Callable[[], bool]) -> list[Outcome]:
    from qubolearn.paper.grid.tasks import trainings
    from qubolearn.paper.grid.trained import device
    from qubolearn.training.train import train_many

    options = [{name: job.options.get(name) for name in ("problem", "protocol", "overrides")} for job in stack]
    asked = [trainings(job.seed, job.task, **each) for job, each in zip(stack, options, strict=True)]  # type: ignore[arg-type]
    flat = [training for of_job in asked for training in of_job]
    began = time.perf_counter()
    try:
        done = iter(train_many(flat, device=device(), stop=stop))
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return [Outcome(job, None, text, traceback.format_exc()) for job in stack]
    share = (time.perf_counter() - began) / len(flat)
    outcomes = []
    for job, of_job in zip(stack, asked, strict=True):
        mine = [next(done) for _ in of_job]
        failed = [str(training.error) for training in mine if training.error is not None]
        if failed:
            outcomes.append(Outcome(job, None, failed[0]))
        elif not stop():
            networks = [training.network for training in mine]
            outcomes.append(run_job(job, made=(networks, round(share * len(mine), 3), len(flat))))
    return outcomes
