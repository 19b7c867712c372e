"""All states of a batch of QUBOs on an NVIDIA GPU, streaming: memory does not grow with 2ⁿ.

As on the CPU (``src/kernels/exhaustive.cpp``) the low bits of a state's code are *lanes*, in the
registers of one program, and the top bits, its *part*, select the program. Between them,

    the search  eliminates 4 bits in closed form, walks the others in Gray order, keeps minima;
    the sum     does so with 3 and 4 bits, and keeps sums per lane for each bit.

``tools/triton_check.py`` checks both against plain torch, and measures them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from qubolearn.qubo.algebra import code_bits

#: Bits between lanes and part, of the search and of the sum. Warps of a program.
INNER, MIDDLE, WARPS = 4, 7, 4

#: Parts and cells searched again beyond ``count``, in case of rounding.
SPARE = 8

#: Energies listed and partial sums held at once.
LISTED, HELD = 2**25, 2**28


@dataclass(frozen=True)
class SearchPlan:
    """The layout of a search: lanes, Gray codes of ``outer`` and ``inner`` bits."""

    lane_bits: int = 10
    outer_gray: int = 3
    inner_gray: int = 4

    @property
    def free_bits(self) -> int:
        return INNER + self.outer_gray + self.inner_gray

    def fit(self, n: int) -> SearchPlan:
        """Return the plan for n bits; at least one bit is walked."""
        lanes = min(self.lane_bits, n - INNER - 1)
        outer = min(self.outer_gray, n - INNER - lanes)
        inner = min(self.inner_gray, n - INNER - lanes - outer)
        return SearchPlan(lanes, outer, inner)


@lru_cache(maxsize=32)
def _codes(bits: int, device: torch.device) -> Tensor:
    return torch.arange(2**bits, device=device)


@lru_cache(maxsize=32)
def _bits(bits: int, device: torch.device) -> Tensor:
    """Return all states ``[2^bits, bits]`` in float64, in order of code."""
    return code_bits(_codes(bits, device), bits).double()


@lru_cache(maxsize=32)
def _walk(outer: int, inner: int, device: torch.device) -> Tensor:
    """Return codes of the walked bits: inner Gray codes for each outer one."""
    first, second = (index ^ (index >> 1) for index in (_codes(inner, device), _codes(outer, device)))
    return (first[None, :] | second[:, None] << inner).flatten()


@lru_cache(maxsize=32)
def _gray_flips(bits: int, device: torch.device) -> Tensor:
    """Return 2j + (1 if bit j turns on) for each flip in Gray order."""
    flips = []
    for step in range(1, 2**bits):
        j = (step & -step).bit_length() - 1
        flips.append(2 * j + ((step ^ (step >> 1)) >> j & 1))
    return torch.tensor([*flips, 0], dtype=torch.int32, device=device)


def _subset_table(
    A: Tensor,
    codes: Tensor,
    bits: range,
    targets: range,
    dtype: torch.dtype,
    diagonal: bool = False,
    rows: bool = False,
) -> Tensor:
    """Return energies of states of some bits, and what these add to target fields.

    Codes are ``[states]`` or ``[batch, states]``; the result is ``[batch, states, 1 + targets]``,
    with ``rows`` its mT.
    """
    from qubolearn.gpu.exhaustive_triton_kernels import subset_table

    batch, n, states, columns, block = A.shape[0], A.shape[2], codes.shape[-1], 1 + len(targets), 128
    shape = (batch, columns, states) if rows else (batch, states, columns)
    out = torch.empty(shape, dtype=dtype, device=A.device)
    subset_table[(batch * -(-states // block), columns)](
        *(A, codes, out, n, bits.start, targets.start, states, states if codes.ndim == 2 else 0),
        *(1 if rows else columns, states if rows else 1, states * columns, len(bits), diagonal, block),
    )
    return out


def _tables(A: Tensor, lane_bits: int, inner: int, walk: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Return rows, parts and gray; the bits above ``inner`` take the codes ``walk``."""
    n, device = A.shape[2], A.device
    first = lane_bits + inner
    top = first + len(walk).bit_length() - 1
    low, among, walked, part = range(lane_bits), range(lane_bits, first), range(first, top), range(top, n)
    return (
        _subset_table(A, _codes(lane_bits, device), low, range(lane_bits, n), dtype, rows=True),
        _subset_table(A, _codes(len(part), device), part, range(lane_bits, top), dtype),
        _subset_table(A, walk, walked, among, dtype, diagonal=True),
    )


class Scan:
    """The tables of a batch, and the kernel over its parts."""

    def __init__(self, A: Tensor, plan: SearchPlan) -> None:
        self.A, self.plan = A.contiguous(), plan.fit(A.shape[2])
        self.part_bits = A.shape[2] - self.plan.lane_bits - self.plan.free_bits
        walk = _walk(self.plan.outer_gray, self.plan.inner_gray, A.device)
        self.tables = _tables(self.A, self.plan.lane_bits, INNER, walk, A.dtype)

    def __call__(self, chosen: Tensor | None = None) -> Tensor:
        """Return the lowest energy of each part, or of each lane of ``chosen`` parts."""
        from qubolearn.gpu.exhaustive_triton_kernels import scan_parts

        A, plan = self.A, self.plan
        count = 2**self.part_bits if chosen is None else chosen.shape[1]
        shape = (len(A), count) if chosen is None else (len(A), count, 2**plan.lane_bits)
        out = torch.empty(shape, dtype=A.dtype, device=A.device)
        flips = [_gray_flips(bits, A.device) for bits in (plan.outer_gray, plan.inner_gray)]
        scan_parts[(len(A) * count,)](
            *(A, *self.tables, *flips),
            *(out if chosen is None else chosen.contiguous(), out, A.shape[2], count, 2**plan.lane_bits),
            *(plan.outer_gray, plan.inner_gray, self.part_bits, chosen is not None),
            num_warps=WARPS,
        )
        return out


def lowest_codes(A: Tensor, count: int, plan: SearchPlan | None = None) -> Tensor:
    """Return codes ``[batch, count]`` of the lowest states of A on a GPU.

    They are in the ``count`` parts of lowest minimum, and there in the ``count`` cells (a lane of a
    part) of lowest minimum, whose states are listed in float64.
    """
    plan = (plan or SearchPlan()).fit(A.shape[2])
    step = max(1, LISTED // ((count + SPARE) << plan.free_bits))
    return torch.cat([_search_group(A[i : i + step], count, plan) for i in range(0, len(A), step)])


def _search_group(A: Tensor, count: int, plan: SearchPlan) -> Tensor:
    scan = Scan(A, plan)
    lane_bits, free = plan.lane_bits, plan.free_bits
    chosen = scan().topk(min(count + SPARE, 2**scan.part_bits), largest=False).indices
    cells = scan(chosen).flatten(1)
    cell = cells.topk(min(count + SPARE, cells.shape[1]), largest=False).indices
    code: Tensor = (cell & (2**lane_bits - 1)) | chosen.gather(1, cell >> lane_bits) << (lane_bits + free)
    codes = (code[..., None] | _codes(free, A.device) << lane_bits).flatten(1)
    energy = _subset_table(scan.A, codes, range(A.shape[2]), range(0), torch.float64)
    return codes.gather(1, energy[..., 0].topk(count, largest=False).indices)


def log_partition_and_marginals(A: Tensor, beta: float, lane_bits: int = 8) -> tuple[Tensor, Tensor]:
    """Return log Σ_x exp(-β xᵀAx) ``[batch]`` and E[x xᵀ], float64, for float32 A."""
    step, low = max(1, HELD >> (A.shape[2] - MIDDLE + 3)), min(lane_bits, A.shape[2] - MIDDLE)
    sums = zip(*(_sum_group(A[i : i + step], beta, low) for i in range(0, len(A), step)), strict=True)
    value, marginals = map(torch.cat, sums)
    return value, marginals


def _sum_group(A: Tensor, beta: float, low: int) -> tuple[Tensor, Tensor]:
    from qubolearn.gpu.exhaustive_triton_kernels import sum_parts

    batch, n, device = len(A), A.shape[2], A.device
    part_bits = n - low - MIDDLE
    scaled = (-beta / math.log(2) * A.double()).contiguous()
    tables = _tables(scaled, low, 3, _walk(0, 4, device), torch.float32)
    peaks = torch.empty(batch, 2**part_bits, device=device)
    lanes = torch.empty(batch, 2**part_bits, MIDDLE + 1, 2**low, device=device)
    totals = torch.empty(batch, 2**part_bits, 21, device=device)
    sum_parts[(peaks.numel(),)](
        *(scaled, *tables, _gray_flips(4, device), peaks, lanes, totals, n, 2**low, part_bits),
        num_warps=WARPS,
    )
    peak = peaks.amax(1)
    weight = (peaks - peak[:, None]).exp2()  # of each part
    lanes *= weight[..., None, None]
    totals *= weight[..., None]
    moments = _moments(lanes, totals, n)
    total = lanes[:, :, MIDDLE].sum((1, 2)).double()
    return peak * math.log(2) + total.log(), moments / total[:, None, None]


def _moments(lanes: Tensor, totals: Tensor, n: int) -> Tensor:
    """Return Σ_x w(x) x xᵀ ``[batch, n, n]``, float64, from the sums of the parts.

    lanes ``[batch, parts, 8, lanes]`` are weights with each middle bit set, and all; totals
    ``[batch, parts, 21]`` those with each pair set. In float32 a GPU may round products to TF32.
    """
    batch, parts, _, size = lanes.shape
    y, z = _bits(size.bit_length() - 1, lanes.device), _bits(parts.bit_length() - 1, lanes.device)
    low, middle, high = slice(0, y.shape[1]), slice(y.shape[1], y.shape[1] + MIDDLE), slice(n - z.shape[1], n)
    M = torch.empty(batch, n, n, dtype=torch.float64, device=lanes.device)
    over_parts, over_lanes = lanes.sum(1).double(), lanes.sum(3).double()
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
    """Return Σ_s weight[s] x_s x_sᵀ of x ``[states, bits]``."""
    return (weight[:, None] * x.mT) @ x
