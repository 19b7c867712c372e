"""Long work on a GPU in launches of less than half a second, so that Ctrl-C is heard between them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["rounds"]

#: Updates of one launch. Kernels do 1e10 a second and more on a large GPU; small ones take a few times as long.
UPDATES = 2 * 10**9


def rounds(schedules: Tensor, sweeps: int, updates: int) -> Iterator[tuple[Tensor, int]]:
    """Cut a schedule ``[batch, 3]`` (first β, growth, last β) into launches: yields the schedule and sweeps of each.

    ``updates`` is the number of updates in a sweep. Waits for each launch before yielding the next one.

    >>> schedule = torch.tensor([[1.0, 2.0, 5.0]])
    >>> [(s[0, 0].item(), some) for s, some in rounds(schedule, 5, 10**9)]
    [(1.0, 2), (4.0, 2), (5.0, 1)]
    """
    first, growth, last = schedules.to(torch.float64).unbind(1)
    some = max(1, UPDATES // max(1, updates))
    for done in range(0, sweeps, some):
        beta = torch.minimum(first * growth**done, last)
        yield torch.stack([beta, growth, last], 1), min(some, sweeps - done)
        if schedules.is_cuda and sweeps > some:
            torch.cuda.synchronize(schedules.device)
