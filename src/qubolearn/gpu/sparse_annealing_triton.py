"""Simulated annealing of sparse QUBOs on an NVIDIA GPU: all bits of one color at once.

Bits of one color are not coupled, so they may be updated at once. A program holds some reads of one
QUBO and walks over tiles of bits of equal color and similar degree. Fields are sums of integers
over lists of neighbors. If couplings are small multiples of one number, an int32 holds a bit of two
or four reads; else couplings are rounded to 2**-28 of the largest sum. Random numbers are hashes of
(read, sweep, bit).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.gpu.annealing import rounds

#: Bits and words updated at once; warps of a program.
ROWS, WORDS, WARPS = 64, 4, 4
#: The digits of a field, and the dtype of a read's part of a word.
LANES = {8: torch.int8, 16: torch.int16, 32: torch.int32}
LOG2_E = tl.constexpr(1.4426950408889634)
#: Steps of Euclid's algorithm for a common unit.
EUCLID = 16
#: The field of padding, which stays 0.
NEVER = 1e30


@dataclass(frozen=True)
class SparseQubos:
    """QUBOs on one graph as the kernel takes them; ``size`` bits in ROWS by color.

    The k-th neighbors of tile t are line ``starts[t] + k`` of ``neighbors`` and ``values``. The
    field of a bit is ``lowest`` plus ``unit`` times a sum >= 0 that begins at ``first``; each of
    ``reads`` in a word has ``digits``.
    """

    place: Tensor  # [n]: where each bit is
    starts: Tensor  # [tiles + 1]
    neighbors: Tensor  # [lines, ROWS]; `size` is padding
    values: Tensor  # [batch, lines, ROWS]
    first: Tensor  # [batch, size]
    lowest: Tensor  # [batch, size], float32
    unit: Tensor  # [batch], float32
    digits: int
    together: int  # neighbors loaded at once

    @classmethod
    def make(cls, linear: Tensor, quadratic: Tensor, edges: npt.NDArray[np.int64]) -> SparseQubos:
        """Return the form of linear ``[batch, n]`` and quadratic ``[batch, m]``."""
        (batch, n), device = linear.shape, linear.device
        degree = 2 * edges.shape[1] / n
        together = 4 if degree <= 6 else 8 if degree <= 16 else 16
        arrays = _layout(edges, n, together)
        place, starts, neighbors, slots = (torch.from_numpy(array).to(device) for array in arrays)
        ends = torch.from_numpy(edges).to(device).flatten()
        unit, whole, digits = _in_units(quadratic, ends, n)
        low = whole.new_zeros(batch, n).index_add_(1, ends, whole.clamp(max=0).repeat(1, 2))
        size = (len(starts) - 1) * ROWS
        first, lowest = whole.new_zeros(batch, size), linear.new_full((batch, size), NEVER)
        first[:, place] = -low * sum(1 << k for k in range(0, 32, digits))
        lowest[:, place] = linear + unit[:, None] * low
        values = torch.nn.functional.pad(whole.int(), (0, 1))[:, slots]  # -1 is padding
        numbers = first.int(), lowest.float(), unit.float()
        return cls(place, starts, neighbors, values, *numbers, digits, together)

    def anneal(
        self, betas: Tensor, seeds: Tensor, reads: int, initial: Tensor | None = None, descent: int = 0
    ) -> Tensor:
        """Return final states as :meth:`.DenseQubos.anneal` does."""
        X = self.words(reads)
        if initial is not None:
            padded = torch.nn.functional.pad(initial.to(LANES[self.digits]), (0, 0, 0, -reads % self.reads))
            given = padded.reshape(len(seeds), -1, self.reads, len(self.place)).transpose(2, 3)
            self.lanes(X).view(len(seeds), -1, X.shape[1], self.reads)[:, :, self.place] = given
        done = self.sweep(X, betas, seeds, 0 if initial is None else 1)
        found = [self.bits(X)[:, :reads]]
        if descent:
            self.sweep(X, betas.new_full((len(betas), descent), torch.inf), seeds, done)
            found.append(self.bits(X)[:, :reads])
        return torch.cat(found, 1)

    @property
    def reads(self) -> int:
        return WORDS * 32 // self.digits

    def words(self, reads: int) -> Tensor:
        """Return zeros: int32 ``[batch * groups, size + 1, WORDS]``; the last is padding."""
        batch, size = self.first.shape
        return self.first.new_zeros(batch * -(-reads // self.reads), size + 1, WORDS)

    def lanes(self, X: Tensor) -> Tensor:
        """Return the same memory per read ``[batch * groups, size + 1, reads]``."""
        return X.view(LANES[self.digits])

    def bits(self, X: Tensor) -> Tensor:
        chosen = self.lanes(X)[:, self.place].to(torch.int8).transpose(1, 2)
        return chosen.reshape(len(self.first), -1, len(self.place))

    def sweep(self, X: Tensor, betas: Tensor, seeds: Tensor, done: int) -> int:
        """Update all bits of X at each of ``betas [batch, sweeps]``; return the next ``done``.

        ``done`` counts sweeps and selects random numbers; at 0 reads begin at random bits.
        """
        batch, size = self.first.shape
        for begin, colds in rounds(betas, len(X) * size * self.reads):
            _anneal[(len(X),)](
                *(self.first, self.lowest, self.unit, self.values, self.neighbors, self.starts),
                *(colds, seeds, X, size // ROWS, len(self.neighbors), len(X) // batch),
                *(colds.shape[1], done + begin),
                *(ROWS, WORDS, self.digits, self.together),
                num_warps=WARPS,
            )
        return done + betas.shape[1]


def colors(edges: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    """Return a greedy coloring ``[n]`` from 0 on: no edge joins two bits of one color.

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


def _layout(edges: npt.NDArray[np.int64], n: int, together: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Return places of bits, lines of tiles, neighbors, and edges."""
    (m, color), degrees = (edges.shape[1], colors(edges, n)), np.bincount(edges.reshape(-1), minlength=n)
    counts = np.bincount(color)
    ends = np.cumsum(-(-counts // ROWS) * ROWS)
    place = np.empty(n, np.int64)
    within = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    place[np.lexsort((-degrees, color))] = within + np.repeat(ends - -(-counts // ROWS) * ROWS, counts)
    widths = np.zeros(ends[-1] // ROWS, np.int64)
    np.maximum.at(widths, place // ROWS, -(-degrees // together) * together)
    starts = np.concatenate([[0], np.cumsum(widths)])
    bits, others = edges.reshape(-1), edges[::-1].reshape(-1)
    order = np.argsort(bits, kind="stable")
    rank = np.arange(2 * m) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    at = place[bits[order]]
    lines = starts[at // ROWS] + rank
    neighbors = np.full((starts[-1], ROWS), ends[-1], np.int32)
    slots = np.full((starts[-1], ROWS), m, np.int64)
    neighbors[lines, at % ROWS] = place[others[order]]
    slots[lines, at % ROWS] = order % max(1, m)
    return place, starts.astype(np.int32), neighbors, slots


def _in_units(quadratic: Tensor, ends: Tensor, n: int) -> tuple[Tensor, Tensor, int]:
    """Return a unit of each QUBO, the couplings in it, and digits of sums."""
    sizes = rest = quadratic.abs()
    if not sizes.numel():
        return quadratic.new_ones(len(quadratic)), sizes.long(), 8
    small = 1e-7 * sizes.amax(1, keepdim=True)
    unit = quadratic.new_ones(len(quadratic))
    for _ in range(EUCLID):
        least = torch.where(rest > small, rest, torch.inf).amin(1)
        unit = torch.where(least < torch.inf, least, unit)
        whole = (quadratic / unit[:, None]).round()
        rest = (quadratic - whole * unit[:, None]).abs()
        if bool((rest <= small).all()):
            sums = whole.new_zeros(len(whole), n).index_add(1, ends, whole.abs().repeat(1, 2))
            if (largest := float(sums.max())) < 2**16:
                return unit, whole.long(), 8 if largest < 2**8 else 16
            break
    unit = sizes.amax(1).clamp(min=1e-300) * ends.bincount(minlength=n).max() / 2**28
    return unit, (quadratic / unit[:, None]).round().long(), 32


@triton.jit(do_not_specialize=["tiles", "lines", "groups", "sweeps", "done"])
def _anneal(
    first,  # [batch, size]
    lowest,  # [batch, size]
    units,  # [batch]
    values,  # [batch, lines, ROWS]
    neighbors,  # [lines, ROWS]
    starts,  # [tiles + 1]
    betas,  # [batch, sweeps]
    seeds,  # [batch]
    X,  # [slots, size + 1, WORDS]: bits
    tiles,
    lines,
    groups,
    sweeps,
    done,
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
    DIGITS: tl.constexpr,
    TOGETHER: tl.constexpr,
):
    slot = tl.program_id(0).to(tl.int64)
    instance = slot // groups
    size = tiles * ROWS
    row, word = tl.arange(0, ROWS), tl.arange(0, WORDS)
    X += slot * (size + 1) * WORDS
    first += instance * size
    lowest += instance * size
    values += instance * lines * ROWS
    unit = tl.load(units + instance)
    seed = tl.load(seeds + instance).to(tl.uint32)
    read = mixed(mixed(((slot % groups) * WORDS + word + 1).to(tl.uint32)) ^ mixed(seed))
    if done == 0:
        for tile in range(tiles):
            bit = tile * ROWS + row
            random = mixed(mixed(bit.to(tl.uint32))[:, None] ^ read[None, :])
            bits = tl.zeros([ROWS, WORDS], dtype=tl.int32)
            for k in tl.static_range(0, 32, DIGITS):
                bits |= ((random >> (31 - k // DIGITS)) & 1).to(tl.int32) << k
            tl.store(X + bit[:, None] * WORDS + word[None, :], bits)
        tl.debug_barrier()
    for sweep in range(sweeps):
        key = mixed(read ^ mixed(tl.zeros([WORDS], dtype=tl.uint32) + (done + sweep + 1).to(tl.uint32)))
        cold = tl.load(betas + instance * sweeps + sweep) * LOG2_E
        for tile in range(tiles):
            bit = tile * ROWS + row
            total = tl.load(first + bit)[:, None] + tl.zeros([ROWS, WORDS], dtype=tl.int32)
            begin, end = tl.load(starts + tile), tl.load(starts + tile + 1)
            for line in range(begin, end, TOGETHER):
                for k in tl.static_range(TOGETHER):
                    near = tl.load(neighbors + (line + k) * ROWS + row)
                    value = tl.load(values + (line + k) * ROWS + row)
                    total += value[:, None] * tl.load(X + near[:, None] * WORDS + word[None, :])
            places = X + bit[:, None] * WORDS + word[None, :]
            old = tl.load(places)
            low = tl.load(lowest + bit)[:, None]
            random = mixed(mixed(bit.to(tl.uint32))[:, None] ^ key[None, :])
            flips = tl.zeros([ROWS, WORDS], dtype=tl.int32)
            for k in tl.static_range(0, 32, DIGITS):
                part = total if DIGITS == 32 else (total >> k) & ((1 << DIGITS) - 1)
                field = (low + unit * part.to(tl.float32)) * cold
                gain = tl.where((old >> k) & 1 != 0, field, -field)
                one = ((random >> 9) | 0x3F800000).to(tl.float32, bitcast=True)  # in 1 ... 2
                uniform = one - 0.99999994  # in 2**-24 ... 1
                flips |= (uniform < tl.exp2(gain)).to(tl.int32) << k
                random = random * 0x2C1B3C6D + 0x9E3779B9
                random ^= random >> 15
            tl.store(places, old ^ flips)
            tl.debug_barrier()  # the next tile reads bits that other threads wrote


@triton.jit
def mixed(z):
    """Return a hash of 32 bits."""
    z ^= z >> 16
    z *= 0x7FEB352D
    z ^= z >> 15
    z *= 0x846CA68B
    z ^= z >> 16
    return z
