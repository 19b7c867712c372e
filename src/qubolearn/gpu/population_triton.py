"""Population annealing of sparse QUBOs on an NVIDIA GPU.

As population.cpp without its scouts: a GPU has thousands of reads instead.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.gpu import sparse_annealing_triton as kernel
from qubolearn.qubo import SparseQubo, energies, flip_costs

#: As in population.cpp, where they are explained.
HOT, COLD, COOLING = 0.08, 0.0005, 0.93
FIRST, MIN_REHEAT, MAX_REHEAT, GENERATION, DESCENT = 0.3, 0.2, 0.6, 30, 3
#: Generations between crossings with the next read, and of how many reads one is.
BETWEEN, MATING = 8, 6
#: Binary digits of costs after the point.
POINT = tl.constexpr(16)
#: Reads whose energies are computed at once.
CHUNK = 512


class Population:
    """Reads of sparse QUBOs A, float64: thousands keep a GPU busy."""

    def __init__(self, A: SparseQubo, seeds: Tensor, reads: int) -> None:
        self.A, self.seeds, self.sweeps = A, seeds, 0
        self.qubos = kernel.SparseQubos.make(A.linear, A.quadratic, A.edges.cpu().numpy())
        sums = torch.zeros_like(A.linear).index_add(1, A.edges.flatten(), A.quadratic.repeat(1, 2))
        sizes = A.linear.abs().index_add(1, A.edges.flatten(), A.quadratic.abs().repeat(1, 2))
        self.mirrors = ((A.linear + sums / 2).abs() <= 1e-6 * sizes).all(1).int()  # symmetric
        self.fields = torch.zeros_like(self.qubos.first, dtype=torch.int64)  # doubled, POINT digits
        digits = 2.0 ** (POINT.value + 1) / self.qubos.unit.double()
        self.fields[:, self.qubos.place] = (A.linear * digits[:, None]).round().long()
        self.X = self.qubos.words(reads)
        shape = self.qubos.lanes(self.X).shape
        self.labels = torch.full(shape, shape[1], dtype=torch.int32, device=A.device)
        self.costs = torch.empty(shape, dtype=torch.int64, device=A.device)
        self.hot, self.cold = self._temperatures(sizes.amax(1))
        self.parents, self.sweeps = self.X.clone(), 0  # QUBOs stay independent

    def _temperatures(self, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Cool down quickly; return the first and last temperatures of anneals."""
        hot, cold, floor = temperature, temperature, 1e-9 * temperature
        warm = cool = temperature <= 0
        while bool((~cool & (temperature > floor)).any()):
            self._sweep((1 / temperature)[:, None].expand(-1, 2))
            some = self.qubos.bits(self.X[:: len(self.X) // len(self.A)])
            costs = flip_costs(self.A, some.double())
            uphill = torch.where(costs > 0, (-costs / temperature[:, None, None]).exp(), 0.0).mean((1, 2))
            hot, cold = torch.where(warm, hot, temperature), torch.where(cool, cold, temperature)
            warm, cool = warm | (uphill < HOT), cool | (uphill < COLD)
            temperature = temperature * COOLING
        return hot, cold

    def _sweep(self, betas: Tensor) -> None:
        self.sweeps = self.qubos.sweep(self.X, betas, self.seeds, self.sweeps)

    def _anneal(self, start: Tensor, sweeps: int) -> None:
        steps = torch.arange(sweeps + DESCENT, device=start.device).double() / max(1, sweeps)
        betas = 1 / torch.lerp(start[:, None], self.cold[:, None], steps[None])
        self._sweep(torch.where(steps < 1, betas, torch.inf))

    def search(self, sweeps: int, targets: Tensor | None) -> None:
        """Improve the reads for some sweeps, or until all QUBOs reach their targets."""
        self._anneal(self.hot, max(0, int(FIRST * (sweeps - self.sweeps))))
        self.parents.copy_(self.X)
        generation = 0
        while (some := min(GENERATION, sweeps - self.sweeps)) > 0:
            if generation % BETWEEN == 0 and targets is not None and self._reached(targets):
                return
            self.X.copy_(self.parents)
            share = (0.618 * generation + self.seeds / 2**32) % 1
            reheat = MIN_REHEAT + (MAX_REHEAT - MIN_REHEAT) * share
            self._anneal(self.cold + reheat * (self.hot - self.cold), some)
            self._cross(ties=True)
            generation += 1
            if generation % BETWEEN == 0:
                self._offer_neighbors(generation // BETWEEN)
                self._cross(ties=False)

    def _offer_neighbors(self, turn: int) -> None:
        """Replace some reads by neighbors on the ring, others by parents."""
        lanes = self.qubos.lanes(self.parents)
        groups = (len(self.A), len(lanes) // len(self.A))
        rows = lanes.unflatten(0, groups).transpose(2, 3).flatten(1, 2)  # [batch, reads, size + 1]
        chosen = (torch.arange(rows.shape[1], device=rows.device) + turn) % MATING == 0
        rows = torch.where(chosen[:, None], rows.roll(-1, 1), rows)
        self.qubos.lanes(self.X).copy_(rows.unflatten(1, (groups[1], -1)).transpose(2, 3).flatten(0, 1))

    def _cross(self, ties: bool) -> None:
        """Flip in each parent the differences from X that are not uphill."""
        qubos, size = self.qubos, self.fields.shape[1]
        parents, X = qubos.lanes(self.parents), qubos.lanes(self.X)
        _cross[(len(X),)](
            *(self.fields, qubos.values, qubos.neighbors, qubos.starts, self.mirrors, parents, X),
            *(self.labels, self.costs, size // kernel.ROWS, len(qubos.neighbors), len(X) // len(self.A)),
            *(self.A.n, 0 if ties else -1, kernel.ROWS, qubos.reads, qubos.together),
            num_warps=kernel.WARPS,
        )

    def _reached(self, targets: Tensor) -> bool:
        return bool((self.energies().amin(1) <= targets).all())

    def energies(self) -> Tensor:
        return torch.cat([energies(self.A, some) for some in self.states().split(CHUNK, 1)], 1)

    def states(self) -> Tensor:
        return self.qubos.bits(self.parents)


@triton.jit(do_not_specialize=["tiles", "lines", "groups", "n", "limit"])
def _cross(
    fields,  # [batch, size]
    values,  # [batch, lines, ROWS]
    neighbors,  # [lines, ROWS]
    starts,  # [tiles + 1]
    mirrors,  # [batch]
    parents,  # [slots, size + 1, LANES]: bits, of which some flip
    X,  # the same of the others
    labels,  # the component, else size + 1 and the parent's bit
    costs,  # the same: of components, in halves of a unit
    tiles,
    lines,
    groups,
    n,
    limit,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
    TOGETHER: tl.constexpr,
):
    slot = tl.program_id(0).to(tl.int64)
    instance, size = slot // groups, tiles * ROWS
    row, lane = tl.arange(0, ROWS), tl.arange(0, LANES)[None, :]
    parents += slot * (size + 1) * LANES + lane
    X += slot * (size + 1) * LANES + lane
    labels += slot * (size + 1) * LANES + lane
    costs += slot * (size + 1) * LANES + lane
    fields += instance * size
    values += instance * lines * ROWS
    count = tl.zeros([LANES], dtype=tl.int32)
    for tile in range(tiles):
        at = (tile * ROWS + row)[:, None] * LANES
        count += tl.sum((tl.load(parents + at) != tl.load(X + at)).to(tl.int32), 0)
    # take the mirror image if it is nearer
    mirrored = (2 * count > n).to(tl.int32)[None, :] * tl.load(mirrors + instance)
    for tile in range(tiles):
        bit = (tile * ROWS + row)[:, None]
        parent = tl.load(parents + bit * LANES).to(tl.int32)
        differs = (parent ^ tl.load(X + bit * LANES).to(tl.int32)) != mirrored
        tl.store(labels + bit * LANES, tl.where(differs, bit, size + 1 + parent))
        tl.store(costs + bit * LANES, tl.zeros([ROWS, LANES], dtype=tl.int64))
    tl.debug_barrier()
    moved = 1
    while moved > 0:  # labels fall to the lowest bit of their component
        changed = tl.zeros([ROWS, LANES], dtype=tl.int32)
        for tile in range(tiles):
            at = (tile * ROWS + row)[:, None] * LANES
            label = tl.load(labels + at)
            differs, lowest = label < size, label
            for line in range(tl.load(starts + tile), tl.load(starts + tile + 1), TOGETHER):
                for k in tl.static_range(TOGETHER):
                    near = tl.load(neighbors + (line + k) * ROWS + row)[:, None]
                    lowest = tl.minimum(lowest, tl.load(labels + near * LANES, differs, size))
            lower = differs & (lowest < label)  # all with this label follow
            tl.atomic_min(labels + label * LANES, lowest, lower, sem="relaxed")
            lowest = tl.minimum(lowest, tl.load(labels + lowest * LANES, differs, size))
            lowest = tl.where(differs, lowest, label)
            changed |= (lowest != label).to(tl.int32)
            tl.store(labels + at, lowest)
        tl.debug_barrier()
        moved = tl.max(tl.max(changed, 1), 0)
    for tile in range(tiles):
        bit = tile * ROWS + row
        label = tl.load(labels + bit[:, None] * LANES)
        differs, halves = label < size, tl.zeros([ROWS, LANES], dtype=tl.int32)
        for line in range(tl.load(starts + tile), tl.load(starts + tile + 1), TOGETHER):
            for k in tl.static_range(TOGETHER):
                near = tl.load(neighbors + (line + k) * ROWS + row)[:, None]
                other = tl.load(labels + near * LANES, differs, size + 1)
                value = tl.load(values + (line + k) * ROWS + row)[:, None]
                halves += value * tl.where(other < size, 1, 2 * (other - size - 1))
        cost = tl.load(fields + bit)[:, None] + (halves.to(tl.int64) << POINT)
        cost = tl.where(tl.load(parents + bit[:, None] * LANES) != 0, -cost, cost)
        tl.atomic_add(costs + label * LANES, cost, differs, sem="relaxed")
    tl.debug_barrier()
    for tile in range(tiles):
        at = (tile * ROWS + row)[:, None] * LANES
        label = tl.load(labels + at)
        differs = label < size
        taken = differs & (tl.load(costs + label * LANES, differs, 1) <= limit)
        parent = tl.load(parents + at)
        tl.store(parents + at, tl.where(taken, 1 - parent, parent))
