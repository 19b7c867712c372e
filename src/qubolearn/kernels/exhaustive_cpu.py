"""All states of a batch of QUBOs on the CPU: the compiled kernels, run over instances and parts on all threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.kernels.exhaustive_torch import log_partition_and_marginals as _log_partition_in_torch
from qubolearn.kernels.parallel import progress, run_tasks, stop_flag

__all__ = ["FEW", "OVERFLOW", "log_partition_and_marginals", "lowest_codes", "lowest_of_few"]

Array: TypeAlias = npt.NDArray[Any]
Advance: TypeAlias = Callable[[int], None]

#: Rough costs on one thread, from which the number of threads and the progress bar are decided.
SECONDS_PER_STATE = {4: 4e-11, 8: 8e-11}  # by the bytes of a number
SECONDS_PER_INSTANCE = 1.5e-6
PARTITION_FACTOR = 4

#: Up to this many bits the kernels for few bits are faster.
FEW = 8
FEW_SECONDS_PER_STATE = 3e-9

#: A part has 2^18 states, or more where there would be over 2^12 parts.
PART_BITS, MAX_PART_BITS = 18, 12

#: Bytes of partial results held at once; larger batches are worked off in groups of instances.
HELD = 2**26

#: Energies may overflow where Σ|A_ij| is larger than this.
OVERFLOW = {"float32": 1e37, "float64": 1e306}


def lowest_codes(A: Tensor, count: int) -> Tensor:
    """Codes ``[batch, count]`` of the lowest states of A ``[batch, n, n]``, float32 or float64, in no order; n > 3."""
    from qubolearn.kernels.exhaustive_numba import LANES

    batch, n = A.shape[0], A.shape[2]
    values, parts = A.contiguous().numpy(), _split(n)[1]
    with progress(f"exhaustive search, n={n}", batch * parts, batch * _seconds(values)) as advance:
        groups = _groups(values, parts * LANES * values.itemsize)
        return torch.from_numpy(np.concatenate([_search(group, count, advance) for group in groups]))


def _search(values: Array, count: int, advance: Advance) -> Array:
    from qubolearn.kernels import exhaustive_numba as kernels

    batch, n = values.shape[:2]
    outer, parts = _split(n)
    cells = np.empty((batch, parts * kernels.LANES), values.dtype)
    energies, codes = np.empty((batch, count)), np.zeros((batch, count), np.int64)
    sizes, settled, stop = np.empty(batch), np.empty(batch, np.bool_), stop_flag()

    def scan(start: int, end: int) -> None:
        kernels.scan(values, outer, start, end, cells)

    def pick(start: int, end: int) -> None:
        kernels.pick(values, outer, cells, start, end, energies, codes, sizes, settled, stop)

    def scan_and_pick(start: int, end: int) -> None:
        scan(start, end)
        pick(start, end)

    if parts == 1:
        run_tasks(scan_and_pick, batch, batch * _seconds(values), advance, stop=stop)
    else:
        run_tasks(scan, batch * parts, batch * _seconds(values), advance)
        run_tasks(pick, batch, batch * count * (2**outer * 1e-8 + 1e-6), stop=stop)
    if values.dtype == np.float32:
        unclear = ~settled | (sizes > OVERFLOW["float32"])
        if unclear.any():
            codes[unclear] = _search(values[unclear].astype(np.float64), count, lambda done: None)
    else:
        _check_overflow(sizes)
    return codes


def lowest_of_few(A: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The lowest states ``[batch, count, n]`` of A ``[batch, n <= 8, n]`` and their energies, float64, ascending."""
    from qubolearn.kernels.few_bits_numba import lowest_states

    values = A.contiguous().numpy()
    batch, n = values.shape[:2]
    states, energies = np.empty((batch, count, n), values.dtype), np.empty((batch, count))
    codes = np.zeros((batch, count), np.int64)
    if values.dtype == np.float64:
        with np.errstate(over="ignore"):
            _check_overflow(np.abs(values).sum((1, 2)))

    def work(start: int, stop: int) -> None:
        lowest_states(values, start, stop, codes, states, energies)

    run_tasks(work, batch, batch * 2**n * FEW_SECONDS_PER_STATE)
    return torch.from_numpy(states), torch.from_numpy(energies)


def _check_overflow(sizes: Array) -> None:
    """sizes ``[batch]``: Σ|A_ij|, in float64."""
    if sizes.max() > OVERFLOW["float64"]:
        raise QubolearnError(f"energies of A overflow: |A_ij| add up to {sizes.max():.1e}; divide A by 1e10")


def log_partition_and_marginals(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """log Σ_x exp(-β xᵀAx) ``[batch]`` and E[x xᵀ] ``[batch, n, n]``, float64, for A in float32 or float64."""
    batch, n = A.shape[0], A.shape[2]
    values, parts = A.contiguous().numpy(), _split(n)[1]
    if n <= FEW:
        few = _partition_few(values, beta)
        return torch.from_numpy(few[0]), torch.from_numpy(few[1])
    seconds = batch * _seconds(values) * PARTITION_FACTOR
    with progress(f"partition function, n={n}", batch * parts, seconds) as advance:
        groups = _groups(values, parts * n * n * 8)
        results = [_partition(group, beta, advance) for group in groups]
    value, marginals = (torch.from_numpy(np.concatenate(found)) for found in zip(*results, strict=True))
    steep = value.isnan()  # instances whose exponents leave the range of the kernel
    if steep.any():
        again = log_partition_and_marginals if A.dtype == torch.float32 else _log_partition_in_torch
        value[steep], marginals[steep] = again(A[steep].double(), beta)
    return value, marginals


def _partition(values: Array, beta: float, advance: Advance) -> tuple[Array, Array]:
    from qubolearn.kernels import partition_numba as kernels

    batch, n = values.shape[:2]
    outer, parts = _split(n)
    peaks, totals = np.empty((batch, parts)), np.empty((batch, parts))
    moments = np.empty((batch, parts, n, n))
    scale = -beta / math.log(2)

    def work(start: int, stop: int) -> None:
        kernels.partition(
            values, scale, outer, start, stop, peaks.reshape(-1), totals.reshape(-1), moments.reshape(-1, n, n)
        )

    run_tasks(work, batch * parts, batch * _seconds(values) * PARTITION_FACTOR, advance)
    peak = peaks.max(1)
    weights = np.exp2(peaks - peak[:, None])
    total = (weights * totals).sum(1)
    weights /= total[:, None]
    marginals = np.einsum("bp,bpij->bij", weights, moments)
    return np.log(total) + peak * math.log(2), marginals


def _partition_few(values: Array, beta: float) -> tuple[Array, Array]:
    from qubolearn.kernels import few_bits_numba as kernels

    batch, n = values.shape[:2]
    log_z, marginals = np.empty(batch), np.empty((batch, n, n))

    def work(start: int, stop: int) -> None:
        kernels.partition(values, beta, start, stop, log_z, marginals)

    run_tasks(work, batch, batch * 2**n * FEW_SECONDS_PER_STATE * PARTITION_FACTOR)
    return log_z, marginals


def _split(n: int) -> tuple[int, int]:
    """How many outer bits the kernels get for n bits, and how many parts that makes."""
    part_bits = min(max(0, n - PART_BITS), MAX_PART_BITS)
    return max(0, n - 11 - part_bits), 2**part_bits


def _groups(values: Array, size: int) -> list[Array]:
    """Cut a batch into groups whose partial results, ``size`` bytes an instance, may be held at once."""
    step = max(1, HELD // size)
    return [values[start : start + step] for start in range(0, len(values), step)]


def _seconds(values: Array) -> float:
    """About how long one instance takes on one thread."""
    return float(2 ** values.shape[1] * SECONDS_PER_STATE[values.itemsize]) + SECONDS_PER_INSTANCE
