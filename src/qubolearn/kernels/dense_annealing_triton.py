"""Simulated annealing of dense QUBOs on an NVIDIA GPU: one thread a read, four bits at a time.

The part of a field that comes from four bits has 16 values. A table holds these values for four fields side by side,
and what the 32 bits of a word add to the fields of four of them is eight lookups for each, which do not wait for one
another. Then these four bits are updated one after the other, and each flip corrects the fields of those that follow
it. So a sweep visits the bits in turn, exactly.

Where there are more than 32 bits, what the other words add to the fields of one is a matrix product of the reads with
its columns of couplings, on the tensor cores. Couplings are then two float16, c = high + low / 2048, of 22 digits
together; bits are exact in float16, sums are float32.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.kernels.gpu_rounds import rounds

__all__ = ["anneal"]

#: Bits of one word; the bits that a step of a matrix product sums over.
BITS, DEPTH = 32, 64
#: Reads of a program: few where all of it is waiting, many beyond this n, where they share the couplings.
FEW_READS, MANY_READS, MANY_FROM = 32, 64, 512
FOURS = tl.constexpr(8)  # of a word
SHIFT = tl.constexpr(2048.0)
LOG2_E = tl.constexpr(1.4426950408889634)


def anneal(S: Tensor, schedules: Tensor, sweeps: int, state: Tensor, initial: Tensor | None = None) -> Tensor:
    """The final states int8 ``[batch, reads, n]`` of all reads of S ``[batch, n, n]``, float32.

    S is symmetric, with A_ij + A_ji off its diagonal and A_ii on it. ``schedules [batch, 3]`` holds the first β, its
    growth from sweep to sweep, and the β that it stops at. ``state`` int64 ``[batch, reads]`` seeds the reads, which
    begin at random, or at ``initial [batch, reads, n]``.
    """
    batch, n, _ = S.shape
    lanes = MANY_READS if n >= MANY_FROM else FEW_READS
    reads, blocks, depth = state.shape[1], -(-n // BITS), -(-n // DEPTH) * DEPTH
    groups = -(-reads // lanes)
    high, low, own = _couplings(S, blocks, depth)
    tables, near = _tables(own)
    seeds = torch.nn.functional.pad(state, (0, groups * lanes - reads), value=1).reshape(batch * groups, lanes)
    X = torch.zeros(batch * groups, lanes, depth, dtype=torch.float16, device=S.device)
    X[:, :, :n] = _random_bits(seeds, n)
    if initial is not None:
        X.view(batch, groups * lanes, depth)[:, :reads, :n] = initial.to(X)
    words = _words(X[:, :, : blocks * BITS])
    fields = torch.empty(batch * groups, BITS, lanes, dtype=torch.float32, device=S.device)
    states = seeds.to(torch.uint32)
    for betas, some in rounds(schedules, sweeps, batch * groups * lanes * depth):
        _anneal[(batch * groups,)](
            *(high, low, tables, near, betas, states, X, words, fields, blocks, groups, depth, some),
            LANES=lanes,
            WIDTH=BITS,
            STEP=DEPTH,
            ALONE=blocks == 1,
            num_warps=lanes // 32,
            num_stages=3,
        )
    return _bits(words)[:, :, :n].reshape(batch, groups * lanes, n)[:, :reads].to(torch.int8)


def _couplings(S: Tensor, blocks: int, depth: int) -> tuple[Tensor, Tensor, Tensor]:
    """Couplings of each word's bits to those outside, high and low ``[batch, blocks, depth, 32]``, and inside."""
    batch, n, _ = S.shape
    whole = torch.nn.functional.pad(S, (0, blocks * BITS - n, 0, depth - n)).reshape(batch, depth, blocks, BITS)
    whole = whole.permute(0, 2, 1, 3).contiguous()
    block = torch.arange(blocks, device=S.device)
    rows = block[:, None] * BITS + torch.arange(BITS, device=S.device)  # [blocks, 32]
    own = whole[:, block[:, None], rows]  # [batch, blocks, 32, 32]
    whole[:, block[:, None], rows] = 0
    high = whole.to(torch.float16)
    return high, ((whole - high.to(whole.dtype)) * SHIFT.value).to(torch.float16), own


def _tables(own: Tensor) -> tuple[Tensor, Tensor]:
    """What four bits of value v add to four fields, ``[..., fours, fours, 4, 16]``, and couplings inside each four.

    The first table of each four fields has their linear terms, which always count, on the diagonal of ``own``.
    """
    fours = own.shape[-1] // 4
    linear = own.diagonal(dim1=-2, dim2=-1)
    values = torch.arange(16, device=own.device)
    bits = ((values[:, None] >> torch.arange(4, device=own.device)) & 1).to(own.dtype)  # [16, 4]
    parts = (own - torch.diag_embed(linear)).unflatten(-1, (fours, 4)).unflatten(-3, (fours, 4))  # [.., f, 4, f, 4]
    tables = torch.einsum("...fach,vh->...fcav", parts, bits)
    tables[..., 0, :, :] += linear.unflatten(-1, (fours, 4))[..., None]
    index = torch.arange(fours, device=own.device)
    return tables.contiguous(), parts[..., index, :, index, :].movedim(0, -3).contiguous()


def _random_bits(seeds: Tensor, n: int) -> Tensor:
    """Bits ``[slots, lanes, n]``, from the seeds ``[slots, lanes]`` alone."""
    z = seeds[:, :, None] + torch.arange(1, n + 1, device=seeds.device) * 0x9E3779B9
    for _ in range(2):
        z = ((z ^ (z >> 16)) & 0xFFFFFFFF) * 0x45D9F3B & 0xFFFFFFFF
    return (z >> 15) & 1


def _words(X: Tensor) -> Tensor:
    """Bits ``[slots, lanes, 32 blocks]`` -> words int32 ``[slots, blocks, lanes]``, the lowest bit first."""
    powers = 2 ** torch.arange(BITS, device=X.device)
    return (X.to(torch.int64).unflatten(2, (-1, BITS)) * powers).sum(-1).transpose(1, 2).to(torch.int32).contiguous()  # type: ignore[no-any-return]


def _bits(words: Tensor) -> Tensor:
    """Words ``[slots, blocks, lanes]`` -> bits ``[slots, lanes, 32 blocks]``."""
    bits = (words[..., None] >> torch.arange(BITS, device=words.device)) & 1
    return bits.transpose(1, 2).flatten(2)


@triton.jit
def _anneal(
    high,  # [batch, blocks, depth, WIDTH]
    low,
    tables,  # [batch, blocks, FOURS, FOURS, 4, 16]
    near,  # [batch, blocks, FOURS, 4, 4]
    schedules,  # [batch, 3]: first β, growth, last β
    states,  # [slots, LANES]: generators
    X,  # [slots, LANES, depth]: bits as float16, where there are several words
    words,  # [slots, blocks, LANES]: the same bits in words
    fields,  # [slots, WIDTH, LANES]: room
    blocks,
    groups,
    depth,
    sweeps,
    LANES: tl.constexpr,
    WIDTH: tl.constexpr,
    STEP: tl.constexpr,
    ALONE: tl.constexpr,
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
    tables += instance * blocks * (FOURS * FOURS * 64)
    near += instance * blocks * (FOURS * 16)
    beta = tl.load(schedules + 3 * instance)
    growth = tl.load(schedules + 3 * instance + 1)
    last = tl.load(schedules + 3 * instance + 2)
    state = tl.load(states + lane)
    if ALONE:
        word = tl.load(words + lane)
        for _ in range(sweeps):
            word, state = _updated(word, state, beta, tables, near, fields, lane, LANES, True)
            beta = tl.minimum(beta * growth, last)
        tl.store(words + lane, word)
    else:
        for _ in range(sweeps):
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
                table = tables + block * (FOURS * FOURS * 64)
                pairs = near + block * (FOURS * 16)
                word, state = _updated(word, state, beta, table, pairs, fields, lane, LANES, False)
                tl.store(words + block * LANES + lane, word)
                bits = ((word[:, None] >> column[None, :]) & 1).to(tl.float16)
                tl.store(X + lane[:, None] * depth + (block * WIDTH + column)[None, :], bits)
                tl.debug_barrier()  # the next product reads bits that other threads wrote
            beta = tl.minimum(beta * growth, last)
    tl.store(states + lane, state)


@triton.jit
def _updated(word, state, beta, tables, near, fields, lane, LANES: tl.constexpr, ALONE: tl.constexpr):
    """The word and the generators after one update of each bit of the word."""
    cold = beta.to(tl.float32) * LOG2_E
    for f in range(FOURS):
        table, pair = tables + f * (FOURS * 64), near + f * 16
        value = (word >> (4 * f)) & 15
        if ALONE:
            field0 = tl.zeros([LANES], dtype=tl.float32)
            field1, field2, field3 = field0, field0, field0
        else:
            place = fields + f * 4 * LANES + lane
            field0, field1 = tl.load(place), tl.load(place + LANES)
            field2, field3 = tl.load(place + 2 * LANES), tl.load(place + 3 * LANES)
        for c in tl.static_range(FOURS):
            at = table + c * 64 + ((word >> (4 * c)) & 15)
            field0 += tl.load(at)
            field1 += tl.load(at + 16)
            field2 += tl.load(at + 32)
            field3 += tl.load(at + 48)
        state, change0 = _change(state, value & 1, field0, cold)
        field1 += change0 * tl.load(pair + 1)
        state, change1 = _change(state, (value >> 1) & 1, field1, cold)
        field2 += change0 * tl.load(pair + 2) + change1 * tl.load(pair + 6)
        state, change2 = _change(state, (value >> 2) & 1, field2, cold)
        field3 += change0 * tl.load(pair + 3) + change1 * tl.load(pair + 7) + change2 * tl.load(pair + 11)
        state, change3 = _change(state, (value >> 3) & 1, field3, cold)
        turned = (change0 != 0).to(tl.int32) | ((change1 != 0).to(tl.int32) << 1)
        turned |= ((change2 != 0).to(tl.int32) << 2) | ((change3 != 0).to(tl.int32) << 3)
        word ^= turned << (4 * f)
    return word, state


@triton.jit
def _change(state, bit, field, cold):
    """The generators' next states, and by how much the bits change: -1, 0 or 1."""
    state ^= state << 13  # xorshift32
    state ^= state >> 17
    state ^= state << 5
    sign = (1 - 2 * bit).to(tl.float32)
    threshold = -tl.log2((state.to(tl.float32) + 0.5) * (1.0 / 4294967296.0))
    return state, tl.where(cold * sign * field < threshold, sign, 0.0)
