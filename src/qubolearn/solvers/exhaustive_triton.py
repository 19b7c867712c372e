"""All states of a batch of QUBOs on an NVIDIA GPU: Triton kernels, streaming, so that memory does not grow with 2ⁿ.

As on the CPU (:mod:`~qubolearn.solvers.exhaustive_numba`) the low bits of a state's code are *lanes*, here held in the
registers of one program, and the top bits, its *part*, tell programs apart. Between them,

    the search  eliminates 4 inner bits in closed form and walks the others in Gray order, keeping one minimum a lane;
    the sum     does so with 3 and 4 bits, keeping one sum a lane for each bit that may be set.

``python -m qubolearn.solvers.exhaustive_triton`` checks both against plain torch on a GPU, and measures them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from qubolearn.solvers.exhaustive_torch import code_bits

__all__ = ["SearchPlan", "SumPlan", "log_partition_and_marginals", "lowest_codes"]

#: Bits between lanes and part: the search eliminates INNER, the sum has MIDDLE of them.
INNER, MIDDLE = 4, 7

#: Parts and cells searched again beyond ``count``, so that rounding in the scan does not hide one of the lowest.
SPARE = 8

#: Energies listed and partial sums held at once; a larger batch is worked off in groups of instances.
LISTED, HELD = 2**25, 2**28


@dataclass(frozen=True)
class SearchPlan:
    """How a search is cut: lanes of a program, Gray codes of ``outer`` and ``inner`` bits within it."""

    lane_bits: int = 10
    outer_gray: int = 4
    inner_gray: int = 4
    warps: int = 4

    @property
    def free_bits(self) -> int:
        """Bits that differ between the states of a cell."""
        return INNER + self.outer_gray + self.inner_gray

    def fit(self, n: int) -> SearchPlan:
        """The same with fewer bits, where n has not enough for them; n must be over ``INNER + lane_bits``."""
        lanes = min(self.lane_bits, n - INNER)
        outer = min(self.outer_gray, n - INNER - lanes)
        inner = min(self.inner_gray, n - INNER - lanes - outer)
        return SearchPlan(lanes, outer, inner, self.warps)


@dataclass(frozen=True)
class SumPlan:
    """How a sum is cut: lanes of a program; 7 middle bits are fixed in the kernel."""

    lane_bits: int = 9
    warps: int = 4

    def fit(self, n: int) -> SumPlan:
        """The same with fewer lanes, where n has not enough bits for them."""
        return SumPlan(min(self.lane_bits, n - MIDDLE), self.warps)


@lru_cache(maxsize=32)
def _bits(bits: int, device: torch.device) -> Tensor:
    """All states ``[2^bits, bits]`` in float64, in order of code."""
    return code_bits(torch.arange(2**bits, device=device), bits).double()


@lru_cache(maxsize=32)
def _gray_bits(bits: int, device: torch.device) -> Tensor:
    """All states ``[2^bits, bits]`` in float64, in Gray order."""
    index = torch.arange(2**bits, device=device)
    return code_bits(index ^ (index >> 1), bits).double()


@lru_cache(maxsize=32)
def _gray_flips(bits: int, device: torch.device) -> Tensor:
    """For each state but the last in Gray order: 2j + (whether bit j turns on) for the flip that follows."""
    flips = []
    for step in range(1, 2**bits):
        j = (step & -step).bit_length() - 1
        flips.append(2 * j + ((step ^ (step >> 1)) >> j & 1))
    return torch.tensor([*flips, 0], dtype=torch.int32, device=device)


def _couplings(A: Tensor, scale: float) -> Tensor:
    """S in float64, symmetric: scale · (A_ij + A_ji), and scale · A_ii on the diagonal."""
    wide = scale * A.double()
    S = wide + wide.mT
    S.diagonal(dim1=1, dim2=2).copy_(wide.diagonal(dim1=1, dim2=2))
    return S


def _energies(S: Tensor, x: Tensor) -> Tensor:
    """``[batch, states]``: energies of states x ``[states, bits]`` under S ``[batch, bits, bits]``."""
    return ((x @ S.triu()) * x).sum(-1)


class Tables(NamedTuple):
    """What programs read, in A's precision."""

    rows: Tensor  # [batch, n - lane_bits, lanes]: what each other bit, set, adds to the lanes
    base: Tensor  # [batch, lanes]: energies of the lanes alone
    parts: Tensor  # [batch, 2^part_bits, 1 + middle]: energy of the part's bits, what they add to the middle bits


def _tables(S: Tensor, lane_bits: int, middle_bits: int, dtype: torch.dtype) -> Tables:
    n, device = S.shape[2], S.device
    low, middle = slice(0, lane_bits), slice(lane_bits, lane_bits + middle_bits)
    high = slice(lane_bits + middle_bits, n)
    y, z = _bits(lane_bits, device), _bits(n - lane_bits - middle_bits, device)
    rows = S[:, lane_bits:, low] @ y.mT
    parts = torch.cat([_energies(S[:, high, high], z)[..., None], z @ S[:, high, middle]], dim=2)
    return Tables(*(t.to(dtype).contiguous() for t in (rows, _energies(S[:, low, low], y), parts)))


def _walked_tables(S: Tensor, lane_bits: int, inner: int, order: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """For states ``order [states, bits]`` of the walked bits: their energy and the fields of the inner bits
    ``[batch, states, 1 + inner]``; and the couplings of the inner bits with each other, (a, b), (a, c), ...
    """
    first, second = lane_bits + inner, lane_bits + inner + order.shape[1]
    among, walked = slice(lane_bits, first), slice(first, second)
    fields = S[:, among, among].diagonal(dim1=1, dim2=2)[:, None] + order @ S[:, walked, among]
    table = torch.cat([_energies(S[:, walked, walked], order)[..., None], fields], dim=2)
    above = torch.triu_indices(inner, inner, 1, device=S.device)
    return table.to(dtype).contiguous(), S[:, among, among][:, above[0], above[1]].to(dtype).contiguous()


class Scan:
    """The tables of a batch, and the kernel over all of its parts or over some."""

    def __init__(self, A: Tensor, plan: SearchPlan) -> None:
        self.plan = plan = plan.fit(A.shape[2])
        self.part_bits = A.shape[2] - plan.lane_bits - plan.free_bits
        self.S = S = _couplings(A, 1.0)
        self.tables = _tables(S, plan.lane_bits, plan.free_bits, A.dtype)
        order = _walk(plan.outer_gray, plan.inner_gray, A.device)
        self.gray, self.inner = _walked_tables(S, plan.lane_bits, INNER, order, A.dtype)

    def __call__(self, chosen: Tensor | None = None) -> Tensor:
        """The lowest energy of each part ``[batch, parts]``, or of each lane of parts ``chosen [batch, c]``."""
        from qubolearn.solvers.exhaustive_triton_kernels import scan_parts

        plan, batch, device = self.plan, len(self.S), self.S.device
        count = 2**self.part_bits if chosen is None else chosen.shape[1]
        shape = (batch, count) if chosen is None else (batch, count, 2**plan.lane_bits)
        out = torch.empty(shape, dtype=self.gray.dtype, device=device)
        scan_parts[(batch * count,)](
            *self.tables,
            self.gray,
            self.inner,
            _gray_flips(plan.outer_gray, device),
            _gray_flips(plan.inner_gray, device),
            out if chosen is None else chosen.contiguous(),
            out,
            self.S.shape[2] - plan.lane_bits,
            count,
            LANES=2**plan.lane_bits,
            OUTER=plan.outer_gray,
            INNER_GRAY=plan.inner_gray,
            PART_BITS=self.part_bits,
            CHOSEN=chosen is not None,
            num_warps=plan.warps,
        )
        return out


@lru_cache(maxsize=32)
def _walk(outer: int, inner: int, device: torch.device) -> Tensor:
    """The states of the walked bits ``[2^(outer + inner), inner + outer]`` in the kernel's order: Gray within Gray."""
    first, second = _gray_bits(inner, device), _gray_bits(outer, device)
    return torch.cat([first.repeat(len(second), 1), second.repeat_interleave(len(first), 0)], dim=1)


def lowest_codes(A: Tensor, count: int, plan: SearchPlan | None = None) -> Tensor:
    """Codes ``[batch, count]`` of the lowest states of A ``[batch, n, n]``, float32 or float64, on a GPU.

    The ``count`` lowest states lie in the ``count`` parts of lowest minimum, and in these in the ``count`` cells (a
    lane of a part) of lowest minimum, whose states are then listed in float64.
    """
    plan = (plan or SearchPlan()).fit(A.shape[2])
    step = max(1, LISTED // ((count + SPARE) << plan.free_bits))
    return torch.cat([_search_group(A[i : i + step], count, plan) for i in range(0, len(A), step)])


def _search_group(A: Tensor, count: int, plan: SearchPlan) -> Tensor:
    scan = Scan(A, plan)
    lanes = 2**plan.lane_bits
    chosen = scan().topk(min(count + SPARE, 2**scan.part_bits), largest=False).indices
    cells = scan(chosen).flatten(1)
    cell = cells.topk(min(count + SPARE, cells.shape[1]), largest=False).indices
    part, lane = chosen.gather(1, cell // lanes), cell % lanes
    return _lowest_of_cells(scan.S, plan.lane_bits, plan.free_bits, part, lane, count)


def _lowest_of_cells(S: Tensor, lane_bits: int, free: int, part: Tensor, lane: Tensor, count: int) -> Tensor:
    """Codes ``[batch, count]`` of the lowest states in cells (part, lane), each ``[batch, cells]``; enumerates them."""
    n = S.shape[2]
    code = lane | part << (lane_bits + free)
    fixed = code_bits(code, n).double()  # [batch, cells, n], 0 in the free bits
    inside = slice(lane_bits, lane_bits + free)
    x = _bits(free, S.device)
    alone = ((fixed @ S.triu()) * fixed).sum(-1)
    within = _energies(S[:, inside, inside], x)  # [batch, states]
    energy = alone[..., None] + within[:, None] + (fixed @ S[:, :, inside]) @ x.mT
    best = energy.flatten(1).topk(count, largest=False).indices
    inner: Tensor = (best & (2**free - 1)) << lane_bits
    return code.gather(1, best >> free) | inner


def log_partition_and_marginals(A: Tensor, beta: float, plan: SumPlan | None = None) -> tuple[Tensor, Tensor]:
    """log Σ_x exp(-β xᵀAx) ``[batch]`` and E[x xᵀ] ``[batch, n, n]``, float64, for float32 A on a GPU."""
    plan = (plan or SumPlan()).fit(A.shape[2])
    step = max(1, HELD >> (A.shape[2] - MIDDLE + 3))
    groups = [_sum_group(A[i : i + step], beta, plan) for i in range(0, len(A), step)]
    return torch.cat([value for value, _ in groups]), torch.cat([marginals for _, marginals in groups])


def _sum_group(A: Tensor, beta: float, plan: SumPlan) -> tuple[Tensor, Tensor]:
    from qubolearn.solvers.exhaustive_triton_kernels import sum_parts

    batch, n, device = len(A), A.shape[2], A.device
    low = plan.lane_bits
    part_bits = n - low - MIDDLE
    S = _couplings(A, -beta / math.log(2))
    gray, inner = _walked_tables(S, low, 3, _gray_bits(4, device), torch.float32)
    peaks = torch.empty(batch, 2**part_bits, device=device)
    lanes = torch.empty(batch, 2**part_bits, MIDDLE + 1, 2**low, device=device)
    totals = torch.empty(batch, 2**part_bits, 21, device=device)
    sum_parts[(peaks.numel(),)](
        *_tables(S, low, MIDDLE, torch.float32),
        gray,
        inner,
        _gray_flips(4, device),
        peaks,
        lanes,
        totals,
        n - low,
        LANES=2**low,
        PART_BITS=part_bits,
        num_warps=plan.warps,
    )
    peak = peaks.amax(1)
    weight = (peaks - peak[:, None]).exp2()  # of each part
    lanes *= weight[..., None, None]
    totals *= weight[..., None]
    moments = _moments(lanes, totals, n)
    total = lanes[:, :, MIDDLE].sum((1, 2)).double()
    return peak * math.log(2) + total.log(), moments / total[:, None, None]


def _moments(lanes: Tensor, totals: Tensor, n: int) -> Tensor:
    """Σ_x w(x) x xᵀ ``[batch, n, n]``, float64, from what the parts leave.

    lanes ``[batch, parts, 8, lanes]`` are weights with each middle bit set, and all; totals ``[batch, parts, 21]``
    those with each pair of middle bits set. Products are in float64: in float32 a GPU may round them to TF32.
    """
    batch, parts, _, size = lanes.shape
    y, z = _bits(size.bit_length() - 1, lanes.device), _bits(parts.bit_length() - 1, lanes.device)
    low, middle, high = slice(0, y.shape[1]), slice(y.shape[1], y.shape[1] + MIDDLE), slice(n - z.shape[1], n)
    M = torch.empty(batch, n, n, dtype=torch.float64, device=lanes.device)
    over_parts, over_lanes = lanes.sum(1).double(), lanes.sum(3).double()  # [batch, 8, lanes], [batch, parts, 8]
    M[:, low, low] = _second_moments(over_parts[:, MIDDLE], y)
    M[:, middle, low] = over_parts[:, :MIDDLE] @ y
    pairs = torch.triu_indices(MIDDLE, MIDDLE, 1, device=lanes.device) + y.shape[1]
    M[:, pairs[1], pairs[0]] = totals.sum(1).double()
    M[:, middle, middle].diagonal(dim1=1, dim2=2).copy_(over_lanes[:, :, :MIDDLE].sum(1))
    M[:, high, low] = z.mT @ (lanes[:, :, MIDDLE].double() @ y)
    M[:, high, middle] = z.mT @ over_lanes[:, :, :MIDDLE]
    M[:, high, high] = _second_moments(over_lanes[:, :, MIDDLE], z)
    return M.tril() + M.tril(-1).mT


def _second_moments(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_s weight[s] x_s x_sᵀ: weight ``[batch, states]``, x ``[states, bits]`` -> ``[batch, bits, bits]``."""
    return (weight[:, None] * x.mT) @ x


if __name__ == "__main__":
    from qubolearn.solvers.exhaustive_triton_check import main

    main()
