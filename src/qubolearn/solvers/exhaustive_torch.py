"""All states of a batch of QUBOs in plain torch, in blocks of bounded memory.

Bits are split into low bits y and high bits z: with U the upper triangular form of A,

    E(y, z) = yᵀU_yy y + zᵀU_zz z + yᵀU_yz z

is one matrix product per block. A state's *code* is the integer Σ_i x_i 2^i, or its number among
the given states (:class:`States`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from qubolearn.qubo import upper_triangular
from qubolearn.qubo.algebra import code_bits

#: Energies held at once, near the cache of a CPU.
BLOCK_STATES = {"cpu": 2**20, "cuda": 2**26}

#: Up to here the fewest kernels are the fastest on a GPU.
FEW = 10


class States(NamedTuple):
    """Every combination of a state of the first bits with one of the others."""

    low: Tensor  # [low, l]
    high: Callable[[Tensor], Tensor]  # by their numbers: [k] -> [k, h]
    high_count: int

    def of(self, codes: Tensor) -> Tensor:
        """Return the states ``[..., n]`` of codes ``[...]``."""
        high = self.high((codes // len(self.low)).flatten()).reshape(*codes.shape, -1)
        return torch.cat([self.low[codes % len(self.low)], high], -1)


class Block(NamedTuple):
    """Energies of all low states under some high states, for some instances."""

    instances: slice
    y: Tensor  # [low, l], the bits of the low states
    z: Tensor  # [high, h], the bits of the high states of this block
    first: int  # code of the state that is all zero in y, and z[0]
    energies: Tensor  # [instances, high, low]


def bit_states(A: Tensor) -> States:
    """Return all states of n bits, in order of code."""
    n = A.shape[2]
    low_bits = min(n, max(10, (n + 1) // 2))

    def states(bits: int, codes: Tensor) -> Tensor:
        return code_bits(codes, bits).to(A.dtype)

    low = states(low_bits, torch.arange(2**low_bits, device=A.device))
    return States(low, partial(states, n - low_bits), 2 ** (n - low_bits))


def energy_blocks(A: Tensor, states: States) -> Iterator[Block]:
    """Yield the energies of all states; blocks of an instance come in order of code."""
    y = states.low
    low_states, low_bits = y.shape
    limit = BLOCK_STATES.get(A.device.type, 2**22)
    high_states = min(states.high_count, max(1, limit // low_states))
    group = max(1, limit // (high_states * low_states))
    U = upper_triangular(A)
    for start in range(0, A.shape[0], group):
        instances = slice(start, min(start + group, A.shape[0]))
        U_g = U[instances]
        low = ((y @ U_g[:, :low_bits, :low_bits]) * y).sum(-1)  # [group, low]
        for first in range(0, states.high_count, high_states):
            z = states.high(torch.arange(first, min(first + high_states, states.high_count), device=A.device))
            high = ((z @ U_g[:, low_bits:, low_bits:]) * z).sum(-1)  # [group, high]
            rows = z @ U_g[:, :low_bits, low_bits:].mT  # [group, high, l]
            base = low[:, None] + high[..., None]
            energies = torch.baddbmm(base, rows, y.mT.expand(len(U_g), -1, -1))
            yield Block(instances, y, z, first * low_states, energies)


@lru_cache(maxsize=32)
def _products(n: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return xxᵀ of all states as columns ``[n * n, 2**n]``, in order of code."""
    x = code_bits(torch.arange(2**n, device=device), n).to(dtype)
    return (x[:, :, None] * x[:, None, :]).flatten(1).mT.contiguous()


def _at_once(A: Tensor) -> int:
    return max(1, BLOCK_STATES.get(A.device.type, 2**22) >> A.shape[2])


def _lowest_of_few(A: Tensor, count: int) -> Tensor:
    energies = A.flatten(1) @ _products(A.shape[2], A.device, A.dtype)
    return energies.topk(count, largest=False).indices


def _sum_of_few(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    products = _products(A.shape[2], A.device, A.dtype)
    log_weights = A.flatten(1) @ products * -beta
    # The largest is subtracted first, because log Z may be large and rounded.
    peak = log_weights.amax(1)
    weights = (log_weights - peak[:, None]).exp()
    total = weights.sum(1)
    return peak + total.log(), (weights @ products.mT / total[:, None]).view_as(A)


def lowest_codes(A: Tensor, count: int, states: States | None = None) -> Tensor:
    """Return codes ``[batch, count]`` of the lowest of these states (all), best first."""
    if states is None and A.shape[2] <= FEW:
        return torch.cat([_lowest_of_few(some, count) for some in torch.split(A, _at_once(A))])
    codes = torch.empty(A.shape[0], count, dtype=torch.int64, device=A.device)
    best = torch.full((A.shape[0], count), float("inf"), dtype=A.dtype, device=A.device)
    for block in energy_blocks(A, states or bit_states(A)):
        flat = block.energies.flatten(1)
        energy, index = flat.topk(min(count, flat.shape[1]), largest=False)
        energy = torch.cat([best[block.instances], energy], dim=1)
        index = torch.cat([codes[block.instances], index + block.first], dim=1)
        best[block.instances], order = energy.topk(count, largest=False)
        codes[block.instances] = index.gather(1, order)
    return codes


def log_partition_and_marginals(
    A: Tensor, beta: float, states: States | None = None
) -> tuple[Tensor, Tensor]:
    """Return log Z ``[batch]`` and E[x xᵀ] ``[batch, n, n]`` over these states (all).

    A running maximum of -βE, as in a streaming softmax, avoids overflow.
    """
    batch = A.shape[0]
    if states is None and A.shape[2] <= FEW:
        parts = [_sum_of_few(some, beta) for some in torch.split(A, _at_once(A))]
        return torch.cat([value for value, _ in parts]), torch.cat([marginals for _, marginals in parts])
    peak = A.new_full((batch,), -float("inf"))
    total = A.new_zeros(batch)
    moments = torch.zeros_like(A)
    for block in energy_blocks(A, states or bit_states(A)):
        chosen = block.instances
        exponent = -beta * block.energies
        new_peak = torch.maximum(peak[chosen], exponent.amax((1, 2)))
        weight = (exponent - new_peak[:, None, None]).exp_()  # [group, high, low]
        rescale = (peak[chosen] - new_peak).exp()
        peak[chosen] = new_peak
        total[chosen] = total[chosen] * rescale + weight.sum((1, 2))
        moments[chosen] = moments[chosen] * rescale[:, None, None] + _block_moments(weight, block)
    return peak + total.log(), moments / total[:, None, None]


def _block_moments(weight: Tensor, block: Block) -> Tensor:
    """Return Σ_x weight(x) x xᵀ ``[group, n, n]`` over one block."""
    y, z = block.y, block.z
    weight_y = weight @ y  # [group, high, l]
    low = (weight.sum(1)[:, None] * y.mT) @ y
    high = (weight.sum(2)[:, None] * z.mT) @ z
    cross = z.mT @ weight_y  # [group, h, l]
    return torch.cat([torch.cat([low, cross.mT], dim=2), torch.cat([cross, high], dim=2)], dim=1)


def group_states(sizes: list[int], singles: int, like: Tensor) -> States:
    """Return the states of consecutive groups followed by single bits, in the dtype of like.

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
    """Return states by number ``[k]``; units are sizes of groups, or 0 for a bit."""
    count = len(number)
    columns: list[Tensor] = []
    for size in reversed(units):
        digit, number = number % (size or 2), number // (size or 2)
        columns[:0] = [digit == option for option in range(size)] or [digit == 1]
    return torch.stack(columns, 1).to(like.dtype) if columns else like.new_zeros(count, 0)
