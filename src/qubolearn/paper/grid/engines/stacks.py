"""Trainings of many jobs as one on a GPU, beside jobs in processes.

Jobs whose networks have one shape are trained together by :func:`qubolearn.training.train.train_many`, which takes
hardly longer than one of them; what several jobs ask for, as figures and tables do, is trained once. Each is then
scored by itself, and its record says with how many others it was trained.
"""

from __future__ import annotations

import queue
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from threading import Thread

from qubolearn.paper.grid.engines.local import Device, LocalEngine, room_on_gpu
from qubolearn.paper.grid.engines.mps import shared_gpu
from qubolearn.paper.grid.jobs import Event, Events, Job, Outcome, Started, Work, run_job
from qubolearn.problems import Problem
from qubolearn.training.recipes import Recipe

__all__ = [
    "STACKS_PER_GPU",
    "StackEngine",
    "can_be_stacked",
    "places_for_stacks",
    "stacks_of",
    "train_stack",
    "trainings_of",
]

#: Stacks at a time on one GPU, at most, and the memory that must be free for each: five pools of clouds and a window.
STACKS_PER_GPU, BYTES_PER_STACK = 10, 12 * 2**30
#: Tasks that take networks which were trained for them.
TAKE_NETWORKS = ("train", "stages", "alignment", "errors", "failures", "pipeline")


def places_for_stacks() -> int:
    """Stacks that the GPU of this machine has room for now; 0 where there is none."""
    return room_on_gpu(STACKS_PER_GPU, BYTES_PER_STACK)


def can_be_stacked(job: Job) -> bool:
    """Whether a job wants networks that are trained on clouds, whose trainings are long and many."""
    name = job.options.get("problem", {}).get("name")
    return job.task in TAKE_NETWORKS and name in ("pointset", "rotation")


def trainings_of(job: Job) -> list[tuple[Problem, Recipe]]:
    """What a job that can be stacked wants to be trained."""
    from qubolearn.paper.grid.trained import trainings

    options = job.options
    asked = options["problem"], options["protocol"], options.get("overrides")
    return trainings(job.seed, *asked, in_stages=job.task != "train")


def stacks_of(jobs: Iterable[Job]) -> list[list[Job]]:
    """Jobs by the shape of their networks and the length of their training, the longest stack first."""
    stacks: dict[Hashable, list[Job]] = {}
    steps: dict[Hashable, int] = {}
    for job in jobs:
        problem, recipe = trainings_of(job)[0]
        size = (problem.input_size, problem.bits, recipe.layers, recipe.hidden, recipe.topology)
        key = (*size, recipe.method, recipe.loss, recipe.batch_size, recipe.steps)
        stacks.setdefault(key, []).append(job)
        steps[key] = recipe.steps
    return [stacks[key] for key in sorted(stacks, key=lambda key: (steps[key], len(stacks[key])), reverse=True)]


class StackEngine:
    """Stacks of trainings on the GPU, each in a process of its own, beside all other jobs in processes.

    A stack by itself leaves most of a GPU idle, so that several of them run side by side (:func:`shared_gpu`). They
    are in processes and not in threads, which would wait for one another to launch their kernels.
    """

    def __init__(self, beside: LocalEngine, at_once: int = STACKS_PER_GPU, device: Device = "cuda") -> None:
        self.beside, self._stacks = beside, LocalEngine(at_once, device)
        self.workers, self.on_gpu = beside.workers + at_once, beside.on_gpu + at_once

    def run(self, jobs: Sequence[Job], work: Work, stop: Callable[[], bool]) -> Events:
        stacks = stacks_of(job for job in jobs if can_be_stacked(job))
        whole = {_as_one(stack): stack for stack in stacks}
        others = [job for job in jobs if not can_be_stacked(job)]
        left = set(whole)
        self._leave_cores(len(left))
        given_up: list[bool] = []
        stopping = lambda: bool(given_up) or stop()  # noqa: E731
        with shared_gpu():
            sources = [self.beside.run(others, work, stopping), self._stacks.run(list(whole), train_stack, stopping)]
            with closing(_as_they_come(sources, lambda: given_up.append(True))) as events:
                for event in events:
                    if event.job not in whole:
                        yield event
                    elif isinstance(event, Started):
                        yield from (Started(job, event.note) for job in whole[event.job])
                    else:
                        left.discard(event.job)
                        self._leave_cores(len(left))
                        failed = [replace(event, job=job) for job in whole[event.job]]
                        yield from failed if event.record is None else event.record["outcomes"]

    def _leave_cores(self, stacks: int) -> None:
        """Other jobs leave two cores to five stacks that run: these wait for the GPU most of the time."""
        self.beside.busy_elsewhere = 2 * min(stacks, self._stacks.workers) // 5


def _as_they_come(sources: Sequence[Events], give_up: Callable[[], None]) -> Events:
    """The events of several sources, each in a thread; when nobody wants more, sources are told to give up."""
    events: queue.Queue[Event | BaseException | None] = queue.Queue()

    def forward(source: Events) -> None:
        try:
            for event in source:
                events.put(event)
        except BaseException as error:  # raised again where events are taken
            events.put(error)
        events.put(None)

    threads = [Thread(target=forward, args=(source,), daemon=True) for source in sources]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            event = events.get()
            if isinstance(event, BaseException):
                raise event
            if event is None:
                left -= 1
            else:
                yield event
    finally:
        give_up()
        for thread in threads:
            thread.join()


def _as_one(stack: Sequence[Job]) -> Job:
    """A stack as a job for the worker that trains it."""
    return Job("stack", stack[0].name, f"{len(stack)} jobs", 0, "stack", {"jobs": list(stack)})


def train_stack(whole: Job) -> Outcome:
    """Train all jobs of a stack; its record holds the outcomes of all of them."""
    return Outcome(whole, {"outcomes": _done(whole.options["jobs"])})


def _done(stack: Sequence[Job]) -> list[Outcome]:
    from qubolearn.paper.grid.trained import Trained, device
    from qubolearn.training.train import train_many

    asked = [trainings_of(job) for job in stack]
    once = list(dict.fromkeys(training for of_job in asked for training in of_job))
    began = time.perf_counter()
    try:
        done = dict(zip(once, train_many(once, device=device()), strict=True))
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return [Outcome(job, None, text, traceback.format_exc()) for job in stack]
    share = (time.perf_counter() - began) / len(once)
    outcomes = []
    for job, of_job in zip(stack, asked, strict=True):
        mine = [done[training] for training in of_job]
        failed = [str(training.error) for training in mine if training.error is not None]
        if failed:
            outcomes.append(Outcome(job, None, failed[0]))
        else:
            made = Trained([training.network for training in mine], round(share * len(mine), 3), len(once))
            outcomes.append(run_job(job, made=made))
    return outcomes
