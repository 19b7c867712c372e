"""Simulated annealing of sparse QUBOs on an NVIDIA GPU: all bits of one color at once, in many reads at once.

Bits of one color have no couplings among them, so updating them at once is updating them one after the other. A
program holds some reads of one QUBO; it walks over tiles of bits of equal color, sums the fields over lists of
neighbors, all padded to the largest degree, and draws its random numbers by hashing (read, sweep, bit).
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.gpu.annealing import rounds

#: Bits and reads that a program updates at once; neighbors that are loaded together.
ROWS, READS, TOGETHER = 128, 8, 4


def anneal(
    linear: Tensor,
    quadratic: Tensor,
    edges: npt.NDArray[np.int64],
    schedules: Tensor,
    sweeps: int,
    state: Tensor,
    initial: Tensor | None = None,
) -> Tensor:
    """Return final states int8 ``[batch, reads, n]`` of linear ``[batch, n]`` and quadratic ``[batch, m]`` on edges.

    ``schedules [batch, 3]``, ``state [batch, reads]`` and ``initial [batch, reads, n]`` as in
    :mod:`~qubolearn.gpu.dense_annealing_triton`.
    """
    (batch, n), reads, device = linear.shape, state.shape[1], linear.device
    lanes, groups = READS, -(-reads // READS)
    place, size = _places(colors(edges, n))
    neighbors, slots = _neighbors(edges, place, n, size)
    at = torch.from_numpy(place).to(device)
    fields = torch.zeros(batch, size, device=device)
    fields[:, at] = linear.to(torch.float32)
    padded = torch.nn.functional.pad(quadratic.to(torch.float32), (0, 1))  # the last one is padding
    values = padded[:, torch.from_numpy(slots).to(device).flatten()].contiguous()  # [batch, degree * size]
    seeds = torch.nn.functional.pad(state, (0, groups * lanes - reads), value=1).to(torch.uint32)
    X = torch.zeros(batch * groups, size + 1, lanes, dtype=torch.int8, device=device)  # the last one is padding
    done = 0  # then reads start at random bits
    if initial is not None:
        given = torch.nn.functional.pad(initial.to(X), (0, 0, 0, groups * lanes - reads))
        X.view(batch, groups, size + 1, lanes)[:, :, at] = given.view(batch, groups, lanes, n).transpose(2, 3)
        done = 1
    for betas, some in rounds(schedules, sweeps, X.numel()):
        _anneal[(batch * groups,)](
            *(fields, values, torch.from_numpy(neighbors).to(device), betas, seeds, X),
            *(size // ROWS, neighbors.shape[0], groups, some, done),
            ROWS=ROWS,
            LANES=lanes,
            TOGETHER=TOGETHER,
            num_warps=4,
        )
        done += some
    bits = X.reshape(batch, groups, size + 1, lanes)[:, :, at]
    return bits.transpose(2, 3).reshape(batch, groups * lanes, n)[:, :reads].contiguous()


def colors(edges: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    """Return a color of each bit ``[n]``, from 0 on, such that no edge joins two of one color; greedy.

    >>> colors(np.array([[0, 1, 0], [1, 2, 2]]), 4).tolist()
    [0, 1, 2, 0]
    """
    near: list[list[int]] = [[] for _ in range(n)]
    for i, j in edges.T.tolist():
        near[max(i, j)].append(min(i, j))
    chosen: list[int] = []
    for lower in near:
        taken = {chosen[j] for j in lower}
        chosen.append(next(c for c in range(len(taken) + 1) if c not in taken))
    return np.array(chosen, np.int64)


def _places(color: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    """Return the place of each bit, color by color, each padded to whole tiles; and the end."""
    counts = np.bincount(color)
    ends = np.cumsum(-(-counts // ROWS) * ROWS)
    order = np.argsort(color, kind="stable")
    place = np.empty(color.size, np.int64)
    within = np.arange(color.size) - np.repeat(np.cumsum(counts) - counts, counts)
    place[order] = within + np.repeat(np.concatenate([[0], ends[:-1]]), counts)
    return place, int(ends[-1])


def _neighbors(
    edges: npt.NDArray[np.int64], place: npt.NDArray[np.int64], n: int, size: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the places of neighbors, and the edges to them, ``[degree, size]`` each; ``size`` and m are padding."""
    count = edges.shape[1]
    bits, others = edges.reshape(-1), edges[::-1].reshape(-1)
    order = np.argsort(bits, kind="stable")
    degrees = np.bincount(bits, minlength=n)
    degree = max(1, -(-int(degrees.max(initial=0)) // TOGETHER)) * TOGETHER
    rank = np.arange(bits.size) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    neighbors = np.full((degree, size), size, np.int32)
    slots = np.full((degree, size), count, np.int64)
    neighbors[rank, place[bits[order]]] = place[others[order]]
    slots[rank, place[bits[order]]] = order % max(1, count)
    return neighbors, slots


@triton.jit
def _anneal(
    linear,  # [batch, size]
    values,  # [batch, degree, size]
    neighbors,  # [degree, size]
    schedules,  # [batch, 3]: first β, growth, last β
    seeds,  # [slots, LANES]
    X,  # [slots, size + 1, LANES]: bits
    tiles,
    degree,
    groups,
    sweeps,
    done,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
    TOGETHER: tl.constexpr,
):
    slot = tl.program_id(0).to(tl.int64)
    instance = slot // groups
    size = tiles * ROWS
    row, lane = tl.arange(0, ROWS), tl.arange(0, LANES)
    X += slot * (size + 1) * LANES
    linear += instance * size
    values += instance * degree * size
    beta = tl.load(schedules + 3 * instance)
    growth = tl.load(schedules + 3 * instance + 1)
    last = tl.load(schedules + 3 * instance + 2)
    seed = tl.load(seeds + slot * LANES + lane)
    if done == 0:
        key = _mixed(seed)
        for tile in range(tiles):
            bit = tile * ROWS + row
            random = _mixed(_mixed(bit.to(tl.uint32))[:, None] ^ key[None, :])
            tl.store(X + bit[:, None] * LANES + lane[None, :], (random >> 31).to(tl.int8))
        tl.debug_barrier()
    for sweep in range(sweeps):
        key = _mixed(seed ^ _mixed(tl.zeros([LANES], dtype=tl.uint32) + (done + sweep + 1)))
        cold = beta.to(tl.float32)
        for tile in range(tiles):
            bit = tile * ROWS + row
            field = tl.load(linear + bit)[:, None] + tl.zeros([ROWS, LANES], dtype=tl.float32)
            for first in range(0, degree, TOGETHER):
                for k in tl.static_range(TOGETHER):
                    near = tl.load(neighbors + (first + k) * size + bit)
                    value = tl.load(values + (first + k) * size + bit)
                    field += value[:, None] * tl.load(X + near[:, None] * LANES + lane[None, :]).to(tl.float32)
            places = X + bit[:, None] * LANES + lane[None, :]
            old = tl.load(places)
            cost = tl.where(old == 1, -field, field)
            random = _mixed(_mixed(bit.to(tl.uint32))[:, None] ^ key[None, :])
            threshold = -tl.log((random.to(tl.float32) + 0.5) * (1.0 / 4294967296.0))
            tl.store(places, tl.where(cold * cost < threshold, 1 - old, old).to(tl.int8))
            tl.debug_barrier()  # the next tile may have another color, and reads bits that other threads wrote
        beta = tl.minimum(beta * growth, last)


@triton.jit
def _mixed(z):
    """Return a hash of 32 bits; every bit of z changes half of the bits of the result."""
    z ^= z >> 16
    z *= 0x7FEB352D
    z ^= z >> 15
    z *= 0x846CA68B
    z ^= z >> 16
    return z
