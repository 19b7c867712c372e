"""All allowed states of QUBOs with one-hot groups: one bit of each group, numbered in mixed radix; in torch."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from qubolearn.kernels.exhaustive_torch import States

__all__ = ["group_states"]


def group_states(sizes: list[int], singles: int, like: Tensor) -> States:
    """The allowed states of consecutive groups of these sizes followed by bits in no group; dtype and device of like.

    >>> states = group_states([2], 1, torch.zeros(1))
    >>> sorted(states.of(torch.arange(4)).tolist())
    [[0.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    """
    units = [*sizes, *[0] * singles]
    total = math.prod(size or 2 for size in units)
    cut, low = 0, 1
    while cut < len(units) and low < math.isqrt(total) and low * (units[cut] or 2) <= 2**14:
        low *= units[cut] or 2
        cut += 1
    made = partial(_states, like=like)
    numbers = torch.arange(low, device=like.device)
    return States(made(units[:cut], numbers), partial(made, units[cut:]), total // low)


def _states(units: list[int], number: Tensor, like: Tensor) -> Tensor:
    """States of units by their numbers ``[k]``, each the size of a group or 0 for a bit; the last turns fastest."""
    count = len(number)
    columns: list[Tensor] = []
    for size in reversed(units):
        digit, number = number % (size or 2), number // (size or 2)
        columns[:0] = [digit == option for option in range(size)] or [digit == 1]
    return torch.stack(columns, 1).to(like.dtype) if columns else like.new_zeros(count, 0)
