"""Simulated annealing of dense QUBOs of any n on an NVIDIA GPU: 32 bits at a time, one thread a read.

A program holds some reads of one QUBO. What all other bits add to the fields of the next 32 is one matrix product of
the reads with 32 columns of couplings, on the tensor cores. Then these 32 bits are updated one after the other, as in
:mod:`~qubolearn.kernels.annealing_triton`: fields among them are sums of table lookups. So a sweep visits the bits in
turn, exactly, and an update costs a share of a matrix product and not a row of couplings from memory.

Couplings are two float16, c = high + low / 2048, of 22 digits together; bits are exact in float16, sums are float32.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.kernels.annealing_triton import _next, field_tables
from qubolearn.kernels.gpu_rounds import rounds

__all__ = ["anneal"]

#: Bits of one word; the bits that a step of a matrix product sums over; the most reads of a program.
BITS, DEPTH, READS_PER_PROGRAM = 32, 64, 64
CHUNKS = tl.constexpr(8)  # of four bits each
SHIFT = tl.constexpr(2048.0)


def anneal(S: Tensor, schedules: Tensor, sweeps: int, state: Tensor) -> Tensor:
    """As :func:`qubolearn.kernels.annealing_torch.anneal`; state int64 ``[batch, reads]`` seeds the reads."""
    batch, n, _ = S.shape
    reads, blocks, depth = state.shape[1], -(-n // BITS), -(-n // DEPTH) * DEPTH
    lanes = min(READS_PER_PROGRAM, max(16, triton.next_power_of_2(reads)))  # a matrix product has 16 rows or more
    groups = -(-reads // lanes)
    high, low, tables = _couplings(S, blocks, depth)
    seeds = torch.nn.functional.pad(state, (0, groups * lanes - reads), value=1).reshape(batch * groups, lanes)
    words = _random_words(seeds, blocks)  # [slots, blocks, lanes]
    X = torch.zeros(batch * groups, lanes, depth, dtype=torch.float16, device=S.device)
    X[:, :, : blocks * BITS] = _bits(words)
    fields = torch.empty(batch * groups, BITS, lanes, dtype=torch.float32, device=S.device)
    states = seeds.to(torch.uint32)
    words = words.to(torch.int32)
    for betas, some in rounds(schedules, sweeps, batch * groups * lanes * depth):
        _anneal[(batch * groups,)](
            *(high, low, tables, betas, states, X, words, fields, n, blocks, groups, depth, some),
            LANES=lanes,
            WIDTH=BITS,
            STEP=DEPTH,
            num_warps=max(1, lanes // 32),
            num_stages=3,
        )
    return X.reshape(batch, groups * lanes, depth)[:, :reads, :n].to(torch.int8)


def _couplings(S: Tensor, blocks: int, depth: int) -> tuple[Tensor, Tensor, Tensor]:
    """Couplings of each block's bits to all bits outside, high and low ``[batch, blocks, depth, 32]``, and tables."""
    batch, n, _ = S.shape
    whole = torch.nn.functional.pad(S, (0, blocks * BITS - n, 0, depth - n)).reshape(batch, depth, blocks, BITS)
    whole = whole.permute(0, 2, 1, 3).contiguous()
    block = torch.arange(blocks, device=S.device)
    rows = block[:, None] * BITS + torch.arange(BITS, device=S.device)  # [blocks, 32]
    own = whole[:, block[:, None], rows]  # [batch, blocks, 32, 32]
    whole[:, block[:, None], rows] = 0
    high = whole.to(torch.float16)
    low = ((whole - high.to(whole.dtype)) * SHIFT.value).to(torch.float16)
    return high, low, field_tables(own.reshape(batch * blocks, BITS, BITS))


def _random_words(seeds: Tensor, blocks: int) -> Tensor:
    """Signed 32-bit words as int64 ``[slots, blocks, lanes]``, from the seeds ``[slots, lanes]`` alone."""
    z = seeds[:, None] + torch.arange(1, blocks + 1, device=seeds.device)[:, None] * 0x9E3779B9
    for _ in range(2):
        z = ((z ^ (z >> 16)) & 0xFFFFFFFF) * 0x45D9F3B & 0xFFFFFFFF
    return (z ^ (z >> 16)) - 2**31


def _bits(words: Tensor) -> Tensor:
    """Words ``[slots, blocks, lanes]`` -> bits ``[slots, lanes, 32 blocks]``."""
    bits = (words[..., None] >> torch.arange(BITS, device=words.device)) & 1
    return bits.transpose(1, 2).flatten(2).to(torch.float16)


@triton.jit
def _anneal(
    high,  # [batch, blocks, depth, WIDTH]
    low,
    tables,  # [batch, blocks, WIDTH, CHUNKS, 16]
    schedules,  # [batch, 3]: first β, growth, last β
    states,  # [slots, LANES]: generators
    X,  # [slots, LANES, depth]: bits as float16
    words,  # [slots, blocks, LANES]: the same bits, 32 a word
    fields,  # [slots, WIDTH, LANES]: room
    n,
    blocks,
    groups,
    depth,
    sweeps,
    LANES: tl.constexpr,
    WIDTH: tl.constexpr,
    STEP: tl.constexpr,
):
    slot = tl.program_id(0).to(tl.int64)
    instance = slot // groups
    lane, column, step = tl.arange(0, LANES), tl.arange(0, WIDTH), tl.arange(0, STEP)
    states += slot * LANES
    X += slot * LANES * depth
    words += slot * blocks * LANES
    fields += slot * WIDTH * LANES
    high += instance * blocks * depth * WIDTH
    low += instance * blocks * depth * WIDTH
    tables += instance * blocks * (WIDTH * CHUNKS * 16)
    beta = tl.load(schedules + 3 * instance)
    growth = tl.load(schedules + 3 * instance + 1)
    last = tl.load(schedules + 3 * instance + 2)
    state = tl.load(states + lane)
    for _ in range(sweeps):
        cold = beta.to(tl.float32)
        for block in range(blocks):
            upper = tl.zeros([LANES, WIDTH], dtype=tl.float32)
            lower = tl.zeros([LANES, WIDTH], dtype=tl.float32)
            for k in range(0, depth, STEP):
                x = tl.load(X + lane[:, None] * depth + (k + step)[None, :])
                place = (block * depth + k + step)[:, None] * WIDTH + column[None, :]
                upper = tl.dot(x, tl.load(high + place), upper)
                lower = tl.dot(x, tl.load(low + place), lower)
            tl.store(fields + column[None, :] * LANES + lane[:, None], upper + lower / SHIFT)
            tl.debug_barrier()
            word = tl.load(words + block * LANES + lane)
            for i in range(tl.minimum(WIDTH, n - block * WIDTH)):
                field = tl.load(fields + i * LANES + lane)
                table = tables + (block * WIDTH + i) * (CHUNKS * 16)
                for chunk in tl.static_range(CHUNKS):
                    field += tl.load(table + chunk * 16 + ((word >> (4 * chunk)) & 15))
                cost = tl.where(((word >> i) & 1) == 1, -field, field)
                state = _next(state)
                threshold = -tl.log((state.to(tl.float32) + 0.5) * (1.0 / 4294967296.0))
                word ^= (cold * cost < threshold).to(tl.int32) << i
            tl.store(words + block * LANES + lane, word)
            bits = ((word[:, None] >> column[None, :]) & 1).to(tl.float16)
            tl.store(X + lane[:, None] * depth + (block * WIDTH + column)[None, :], bits)
            tl.debug_barrier()  # the next product reads bits that other threads wrote
        beta = tl.minimum(beta * growth, last)
    tl.store(states + lane, state)
