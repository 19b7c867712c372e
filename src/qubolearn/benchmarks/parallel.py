"""Splits or seeds of a benchmark in processes of their own; each record is the same however many there are."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, TypeVar

__all__ = ["in_processes"]

Task = TypeVar("Task")
Record = dict[str, Any]


def in_processes(work: Callable[[Task], Iterable[Record]], tasks: Iterable[Task], jobs: int = 1) -> Iterator[Record]:
    """The records of all tasks, in their order, made by up to ``jobs`` processes of one thread each.

    ``work`` is a function of a module, or a partial of one. With one job it runs here, with as many threads as ever.

    >>> list(in_processes(lambda task: [{"task": task}], [1, 2]))
    [{'task': 1}, {'task': 2}]
    """
    if jobs == 1:
        for task in tasks:
            yield from work(task)
        return
    context = multiprocessing.get_context("spawn")  # threads of torch and numba do not survive a fork
    with ProcessPoolExecutor(jobs, context, initializer=_one_thread) as pool:
        for records in pool.map(partial(_all, work), tasks):
            yield from records


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)  # kernels take as many


def _all(work: Callable[[Task], Iterable[Record]], task: Task) -> list[Record]:
    return list(work(task))
