"""Parallel tempering on an NVIDIA GPU: one program a QUBO, its replicas side by side, units of one colour at once.

Units are what changes in one move: a one-hot group, or a bit by itself, whose options are the bit and "none". As in
the compiled kernels a move draws an option from its exact distribution given all others, here as
the least of β field + Gumbel noise. Units of one colour have no couplings among them: they are drawn at once. Clamped
bits stay options, but barred ones are never drawn. Replicas at neighbouring temperatures swap them after each sweep.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.gpu.sparse_annealing_triton import _mixed, colours

Ints = npt.NDArray[np.int64]

#: Options times replicas that a program holds at once; sums over neighbours of one launch, about a quarter second.
TILE, SUMS = 2048, 10**11
#: Sweeps of the first launch; each next launch has half as many more, so that solved instances stop early.
FIRST_SWEEPS = 32


class Tempered(NamedTuple):
    """The lowest state that each replica met, and what was done."""

    states: npt.NDArray[np.int8]  # [batch, replicas, n]
    exchanges: npt.NDArray[np.float64]  # [batch, replicas - 1]: shares of swaps
    swept: Ints  # [batch]
    final: Tensor  # [batch, replicas, n]: the last states, from hot to cold, on the GPU


def temper(
    form: Any,
    clamps: npt.NDArray[np.int8],
    seeds: npt.NDArray[np.uint32],
    ladders: npt.NDArray[np.float64],
    sweeps: int,
    targets: npt.NDArray[np.float64],
    device: torch.device,
) -> Tempered:
    """Temper QUBOs in a :class:`qubolearn.solvers.forms.SparseForm` at given ladders ``[batch, replicas]``."""
    replicas = _Replicas(form, clamps, seeds, ladders, device)
    rows, swept, some = np.arange(len(clamps)), np.zeros(len(clamps), np.int64), FIRST_SWEEPS
    given = np.isfinite(targets)
    margins = 1e-4 * (1 + np.abs(np.where(given, targets, 0.0)))  # energies are in float32
    aims = np.where(given, np.where(given, targets, 0.0) + margins, -np.inf)
    while len(rows) and replicas.done < sweeps:
        replicas.sweep(min(some, replicas.most_sweeps(len(rows)), sweeps - replicas.done), rows)
        swept[rows] = replicas.done
        some += some // 2
        lowest = replicas.best[torch.from_numpy(rows).to(device)].amin(1).double().cpu().numpy()  # waits for the launch
        rows = rows[lowest > aims[rows]]
    tried = np.maximum(1, swept[:, None] / 2)
    exchanges = np.minimum(1.0, replicas.swaps[:, :-1].double().cpu().numpy() / tried)
    best = replicas.best_X.transpose(1, 2).contiguous().cpu().numpy()
    return Tempered(best, exchanges, swept, replicas.states())


class _Replicas:
    """The replicas of a batch on the GPU, from hot to cold by ``ladders [batch, replicas]``, in random states."""

    def __init__(self, form: Any, clamps: Any, seeds: Any, ladders: Any, device: torch.device) -> None:
        linear, quadratic, graph, members = form.linear, form.quadratic, form.graph, form.units
        (batch, n), count = clamps.shape, ladders.shape[1]
        self.n, self.device = n, device
        self.tables = _tables(*_between_units(graph, members, n), members, n, count)
        one = quadratic[:1] if bool((quadratic == quadratic[:1]).all()) else quadratic  # equal ones are stored once
        padded = self._there(np.pad(one, ((0, 0), (0, 1))), torch.float32)
        self.values = padded[
            :, self._there(self.tables.edges, torch.int64).flatten()
        ].contiguous()  # [.., degree (n + 2)]
        self.h = self._there(np.pad(linear, ((0, 0), (0, 2))), torch.float32)
        self.barred = self._there(_barred(clamps, members, n), torch.float32)
        self.X = torch.zeros(batch, n + 2, count, dtype=torch.int8, device=device)
        self.best = torch.full((batch, count), torch.inf, device=device)
        self.best_X = torch.zeros(batch, n, count, dtype=torch.int8, device=device)
        self.ranks = torch.arange(count, dtype=torch.int32, device=device).repeat(batch, 1)
        self.swaps = torch.zeros(batch, count, device=device)
        self.order = self._there(self.tables.order, torch.int32)
        self.neighbours = self._there(self.tables.neighbours, torch.int32)
        self.keys = self._there(seeds.astype(np.int64), torch.uint32)
        self.betas = self._there(ladders, torch.float32)
        self.done = -1
        self.sweep(1, betas=torch.zeros_like(self.betas))  # β = 0: any option that is not barred
        self.swaps.zero_()

    def _there(self, array: Any, dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, dtype)

    def most_sweeps(self, rows: int) -> int:
        """The most sweeps of one launch on so many QUBOs."""
        return int(max(1, SUMS // (rows * self.tables.order.size * self.ranks.shape[1] * len(self.tables.neighbours))))

    def sweep(self, count: int, rows: Ints | None = None, betas: Tensor | None = None) -> None:
        """So many sweeps of some QUBOs, all by default."""
        rows = np.arange(len(self.X)) if rows is None else rows
        degree, tiles = len(self.tables.neighbours), len(self.tables.order) // self.tables.units
        step = 0 if len(self.values) == 1 else degree * (self.n + 2)
        _temper[(len(rows),)](
            *(self._there(rows, torch.int32), self.order, self.h, self.barred, self.neighbours, self.values),
            *(self.betas if betas is None else betas, self.keys),
            *(self.X, self.best, self.best_X, self.ranks, self.swaps),
            *(tiles, degree, self.n, step, count, self.done + 1),
            UNITS=self.tables.units,
            OPTIONS=self.tables.order.shape[1],
            REPLICAS=self.ranks.shape[1],
            num_warps=4,
        )
        self.done += count

    def states(self) -> Tensor:
        """All replicas' states ``[batch, replicas, n]``, from hot to cold."""
        places = self.ranks.argsort(1)[:, None].expand(-1, self.n, -1)
        return self.X[:, : self.n].gather(2, places).transpose(1, 2)


class _Tables(NamedTuple):
    order: Ints  # [tiles * units, options]: bits, unit by unit; n + 1 for "none", n for no option at all
    neighbours: Ints  # [degree, n + 2]
    edges: Ints  # [degree, n + 2]
    units: int  # of a tile


def _between_units(graph: Any, members: Any, n: int) -> tuple[Ints, Ints, Ints]:
    """Bits, their neighbours in other units, and the edges between them, ``[2m]`` each, sorted by bits."""
    first, to, edge = graph
    bits = np.repeat(np.arange(n), np.diff(first))
    unit = _unit_of(members, n)
    other = unit[bits] != unit[to]
    return bits[other], to[other].astype(np.int64), edge[other]


def _unit_of(members: Any, n: int) -> Ints:
    first, bits, _ = members
    unit = np.empty(n, np.int64)
    unit[bits] = np.repeat(np.arange(first.size - 1), np.diff(first))
    return unit


def _tables(bits: Ints, to: Ints, edge: Ints, members: Any, n: int, replicas: int) -> _Tables:
    first, member_bits, in_group = members
    sizes = np.diff(first) + ~in_group
    options, count = triton.next_power_of_2(int(sizes.max())), sizes.size
    table = np.full((count + 1, options), n)  # the last unit has no options
    owner = np.repeat(np.arange(count), np.diff(first))
    table[owner, np.arange(n) - first[owner]] = member_bits
    table[np.flatnonzero(~in_group), 1] = n + 1
    unit = _unit_of(members, n)
    pairs = np.unique(np.stack([unit[bits], unit[to]]), axis=1)
    colour = colours(pairs[:, pairs[0] < pairs[1]], count)
    largest = triton.next_power_of_2(int(np.bincount(colour).max()))
    units = max(1, min(largest, TILE // (options * replicas)))
    order: list[int] = []
    for c in range(int(colour.max()) + 1):
        order += np.flatnonzero(colour == c).tolist()
        order += [count] * (-len(order) % units)
    degrees = np.bincount(bits, minlength=n)
    rank = np.arange(bits.size) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    degree = max(1, int(degrees.max(initial=0)))
    neighbours, edges = np.full((degree, n + 2), n), np.full((degree, n + 2), -1)  # -1: the padded zero
    neighbours[rank, bits], edges[rank, bits] = to, edge
    return _Tables(table[order], neighbours, edges, units)


def _barred(clamps: npt.NDArray[np.int8], members: Any, n: int) -> npt.NDArray[np.float32]:
    """1e30 for what may not be drawn ``[batch, n + 2]``: options clamped to 0, and no option at all.

    The option "none" is shared by all units; a bit that is clamped to 1 gets -1e30, which beats it.
    """
    barred = np.zeros((len(clamps), n + 2), np.float32)
    barred[:, :n] = np.where(clamps == 0, 1e30, np.where(clamps == 1, -1e30, 0.0))
    barred[:, n] = 2e30
    return barred


@triton.jit
def _fields(
    h,
    values,
    neighbours,
    X,
    bit,
    lane,
    n,
    degree,
    UNITS: tl.constexpr,
    OPTIONS: tl.constexpr,
    REPLICAS: tl.constexpr,
):
    """The fields ``[UNITS, OPTIONS, REPLICAS]`` of options ``bit [UNITS, OPTIONS]``."""
    field = tl.load(h + bit)[:, :, None] + tl.zeros([UNITS, OPTIONS, REPLICAS], dtype=tl.float32)
    for d in range(degree):
        near = tl.load(neighbours + d * (n + 2) + bit)
        value = tl.load(values + d * (n + 2) + bit)
        chosen = tl.load(X + near[:, :, None] * REPLICAS + lane[None, None, :])
        field += value[:, :, None] * chosen.to(tl.float32)
    return field


@triton.jit
def _temper(
    rows,  # which QUBO each program has
    order,  # [tiles * UNITS, OPTIONS]
    h,  # [batch, n + 2]
    barred,  # [batch, n + 2]
    neighbours,  # [degree, n + 2]
    values,  # [batch, degree, n + 2], or one for all
    ladders,  # [batch, REPLICAS]: β from hot to cold
    seeds,  # [batch]
    X,  # [batch, n + 2, REPLICAS]
    best,  # [batch, REPLICAS]: the lowest energies
    best_X,  # [batch, n, REPLICAS]
    ranks,  # [batch, REPLICAS]: the place of each replica on the ladder
    swaps,  # [batch, REPLICAS]
    tiles,
    degree,
    n,
    values_step,
    sweeps,
    done,
    UNITS: tl.constexpr,
    OPTIONS: tl.constexpr,
    REPLICAS: tl.constexpr,
):
    instance = tl.load(rows + tl.program_id(0)).to(tl.int64)
    lane, option, unit = tl.arange(0, REPLICAS), tl.arange(0, OPTIONS), tl.arange(0, UNITS)
    h += instance * (n + 2)
    barred += instance * (n + 2)
    values += instance * values_step
    ladders += instance * REPLICAS
    X += instance * (n + 2) * REPLICAS
    best_X += instance * n * REPLICAS
    rank = tl.load(ranks + instance * REPLICAS + lane)
    lowest = tl.load(best + instance * REPLICAS + lane)
    swapped = tl.load(swaps + instance * REPLICAS + lane)
    seed = _mixed(tl.load(seeds + instance) + tl.zeros([REPLICAS], dtype=tl.uint32))
    energy = tl.zeros([REPLICAS], dtype=tl.float32)
    for tile in range(tiles):
        bit = tl.load(order + (tile * UNITS + unit)[:, None] * OPTIONS + option[None, :])
        field = _fields(h, values, neighbours, X, bit, lane, n, degree, UNITS, OPTIONS, REPLICAS)
        old = tl.load(X + bit[:, :, None] * REPLICAS + lane[None, None, :]).to(tl.float32)
        part = 0.5 * old * (field + tl.load(h + bit)[:, :, None])
        energy += tl.sum(tl.sum(part, axis=1), axis=0)
    for sweep in range(sweeps):
        now = _mixed(seed ^ (tl.zeros([REPLICAS], dtype=tl.uint32) + (done + sweep)))
        key = _mixed(now + lane.to(tl.uint32))
        beta = tl.load(ladders + rank)
        for tile in range(tiles):
            place = (tile * UNITS + unit)[:, None] * OPTIONS + option[None, :]
            bit = tl.load(order + place)
            field = _fields(h, values, neighbours, X, bit, lane, n, degree, UNITS, OPTIONS, REPLICAS)
            spots = X + bit[:, :, None] * REPLICAS + lane[None, None, :]
            old = tl.load(spots).to(tl.float32)
            random = _mixed(_mixed(place.to(tl.uint32))[:, :, None] ^ key[None, None, :])
            waiting = tl.maximum(-tl.log((random.to(tl.float32) + 0.5) * (1.0 / 4294967296.0)), 1e-9)
            score = beta[None, None, :] * field + tl.log(waiting) + tl.load(barred + bit)[:, :, None]
            new = option[None, :, None] == tl.argmin(score, axis=1)[:, None, :]
            change = tl.where(new, field, 0.0) - old * field
            energy += tl.sum(tl.sum(change, axis=1), axis=0)
            tl.debug_barrier()  # all have read what they replace
            tl.store(spots, new.to(tl.int8), mask=(bit < n)[:, :, None] & (lane >= 0)[None, None, :])
            tl.debug_barrier()  # the next tile reads what other threads wrote
        better = energy < lowest
        if tl.sum(better.to(tl.int32), axis=0) > 0:
            for start in range(0, n, 64):
                row = start + tl.arange(0, 64)
                known = (row < n)[:, None] & better[None, :]
                copied = tl.load(X + row[:, None] * REPLICAS + lane[None, :], mask=known, other=0)
                tl.store(best_X + row[:, None] * REPLICAS + lane[None, :], copied, mask=known)
        tl.debug_barrier()
        lowest = tl.minimum(lowest, energy)
        up = ((rank + done + sweep) % 2) == 0
        other = tl.where(up, rank + 1, rank - 1)
        other = tl.where((other < 0) | (other >= REPLICAS), rank, other)
        partner = other[:, None] == rank[None, :]
        theirs = tl.sum(tl.where(partner, energy[None, :], 0.0), axis=1)
        ratio = (tl.load(ladders + other) - beta) * (theirs - energy)
        coin = _mixed(now ^ _mixed(tl.minimum(rank, other).to(tl.uint32) + 77))  # one for both of a pair
        take = (coin.to(tl.float32) * (1.0 / 4294967296.0) < tl.exp(tl.minimum(ratio, 0.0))) & (other != rank)
        pairs = (rank[None, :] == lane[:, None]) & (take & (other > rank))[None, :]
        swapped += tl.sum(pairs.to(tl.float32), axis=1)
        rank = tl.where(take, other, rank)
    tl.store(ranks + instance * REPLICAS + lane, rank)
    tl.store(best + instance * REPLICAS + lane, lowest)
    tl.store(swaps + instance * REPLICAS + lane, swapped)
