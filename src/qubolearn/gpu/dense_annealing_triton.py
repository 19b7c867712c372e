"""Simulated annealing of dense QUBOs on an NVIDIA GPU: one thread per read, 32 bits at a time.

The contributions of all bits to the fields of 32 bits are a matrix product of the reads with 32 columns of A, on the
tensor cores. Couplings are then two float16, c = high + low / 2048, of 22 digits together; bits are exact in float16,
sums are float32. Then these 32 bits are updated one after the other, with their fields in registers, and each flip
corrects the fields of those that follow it. So a sweep visits the bits in turn, exactly.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment, misc"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.gpu.annealing import rounds

#: Bits of one word; the bits that a step of a matrix product sums over, at most.
BITS, DEPTH = 32, 64
#: Reads of a program: few if latency dominates, many from this n on, so that they share the couplings.
FEW_READS, MANY_READS, MANY_FROM = 32, 64, 512
SHIFT = tl.constexpr(2048.0)
LOG2_E = tl.constexpr(1.4426950408889634)
ONE, HALF_ONE = tl.constexpr(0x3F800000), tl.constexpr(0x3C00)  # the digits of 1.0 in float32 and in float16
SIGN = tl.constexpr(-(2**31))  # the digit of a float32's sign


def anneal(S: Tensor, schedules: Tensor, sweeps: int, state: Tensor, initial: Tensor | None = None) -> Tensor:
    """Return the final states int8 ``[batch, reads, n]`` of all reads of S ``[batch, n, n]``, float32.

    S is symmetric, with A_ij + A_ji off its diagonal and A_ii on it. ``schedules [batch, 3]`` holds the first β, its
    growth from sweep to sweep, and the β that it stops at. ``state`` int64 ``[batch, reads]`` seeds the reads, which
    begin at random, or at ``initial [batch, reads, n]``.
    """
    batch, n, _ = S.shape
    lanes = MANY_READS if n >= MANY_FROM else FEW_READS
    reads, blocks, step = state.shape[1], -(-n // BITS), DEPTH if n > BITS else BITS
    groups, depth = -(-reads // lanes), -(-n // step) * step
    high, low, pairs, linear = _couplings(S, blocks, depth)
    states = torch.nn.functional.pad(state, (0, groups * lanes - reads), value=1).to(torch.uint32)
    X = torch.zeros(batch * groups, lanes, depth, dtype=torch.float16, device=S.device)
    words = torch.empty(batch * groups, blocks, lanes, dtype=torch.int32, device=S.device)
    if initial is not None:
        X.view(batch, groups * lanes, depth)[:, :reads, :n] = initial.to(X)
        words = _words(X[:, :, : blocks * BITS])
    fields = torch.empty(batch * groups, BITS, lanes, dtype=torch.float32, device=S.device)
    start = initial is None
    for betas, some in rounds(schedules, sweeps, batch * groups * lanes * depth):
        _anneal[(batch * groups,)](
            *(high, low, pairs, linear, betas, states, X, words, fields, blocks, groups, depth, some, start),
            LANES=lanes,
            WIDTH=BITS,
            STEP=step,
            num_warps=lanes // 32,
            num_stages=min(3, depth // step),
        )
        start = False
    return _bits(words)[:, :, :n].reshape(batch, groups * lanes, n)[:, :reads].to(torch.int8)


def _couplings(S: Tensor, blocks: int, depth: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return couplings of each word to all bits, high and low ``[batch, blocks, depth, BITS]``, within it, and biases.

    Those within are pairs ``[batch, blocks, BITS, BITS / 2]``. Bit i's are two float32 in an int64: of bits i + 1 and
    i + 2 of its word, of i + 3 and i + 4, and so on. One load brings both. Biases are ``[batch, blocks, BITS]``.
    """
    batch, n, _ = S.shape
    whole = torch.nn.functional.pad(S, (0, blocks * BITS - n, 0, depth - n))
    linear = whole.diagonal(dim1=1, dim2=2).reshape(batch, blocks, BITS).clone()
    whole.diagonal(dim1=1, dim2=2).zero_()
    whole = whole.reshape(batch, depth, blocks, BITS).transpose(1, 2).contiguous()
    block, bit = torch.arange(blocks, device=S.device)[:, None, None], torch.arange(BITS, device=S.device)
    other = bit[:, None] + 1 + bit
    pairs = torch.where(other < BITS, whole[:, block, block * BITS + bit[:, None], other % BITS], 0.0)
    high = whole.to(torch.float16)
    low = ((whole - high) * SHIFT.value).to(torch.float16)
    return high, low, pairs.view(torch.int64), linear


def _words(X: Tensor) -> Tensor:
    """Return bits ``[slots, lanes, BITS blocks]`` as words int32 ``[slots, blocks, lanes]``, the lowest bit first."""
    powers = 2 ** torch.arange(BITS, device=X.device)
    return (X.to(torch.int64).unflatten(2, (-1, BITS)) * powers).sum(-1).transpose(1, 2).to(torch.int32).contiguous()  # type: ignore[no-any-return]


def _bits(words: Tensor) -> Tensor:
    """Return words ``[slots, blocks, lanes]`` as bits ``[slots, lanes, BITS blocks]``."""
    bits = (words[..., None] >> torch.arange(BITS, device=words.device)) & 1
    return bits.transpose(1, 2).flatten(2)


# "fields" without its alignment: vectors of four reads would take a read's fields to several threads
@triton.jit(do_not_specialize=["blocks", "groups", "sweeps", "start"], do_not_specialize_on_alignment=["fields"])
def _anneal(
    high,  # [batch, blocks, depth, WIDTH]
    low,
    pairs,  # [batch, blocks, WIDTH, WIDTH / 2]
    linear,  # [batch, blocks, WIDTH]
    schedules,  # [batch, 3]: first β, growth, last β
    states,  # [slots, LANES]: generators
    X,  # [slots, LANES, depth]: bits as float16
    words,  # [slots, blocks, LANES]: the same bits in words
    fields,  # [slots, WIDTH, LANES]: scratch memory, used with more than 32 LANES
    blocks,
    groups,
    depth,
    sweeps,
    start,  # True if reads start at random bits
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
    pairs += instance * blocks * (WIDTH * WIDTH // 2)
    linear += instance * blocks * WIDTH
    beta = tl.load(schedules + 3 * instance)
    growth = tl.load(schedules + 3 * instance + 1)
    last = tl.load(schedules + 3 * instance + 2)
    state = tl.load(states + lane)
    if start:
        for block in range(blocks):
            state = _next(state)
            word = state.to(tl.int32, bitcast=True)
            tl.store(words + block * LANES + lane, word)
            tl.store(X + lane[:, None] * depth + (block * WIDTH + column)[None, :], _float16(word, column))
        tl.debug_barrier()
    for _ in range(sweeps):
        cold = (beta * LOG2_E).to(tl.float32)
        for block in range(blocks):
            upper = tl.zeros([LANES, WIDTH], dtype=tl.float32) + tl.load(linear + block * WIDTH + column)[None, :]
            lower = tl.zeros([LANES, WIDTH], dtype=tl.float32)
            for k in range(0, depth, STEP):
                x = tl.load(X + lane[:, None] * depth + (k + step)[None, :])
                place = (block * depth + k + step)[:, None] * WIDTH + column[None, :]
                upper = tl.dot(x, tl.load(high + place), upper)
                lower = tl.dot(x, tl.load(low + place), lower)
            tile = _by_reads(upper + lower / SHIFT, fields, lane, column, LANES, WIDTH)
            word = tl.load(words + block * LANES + lane)
            inside = pairs + block * (WIDTH * WIDTH // 2)
            word, state = _updated(word, state, cold, inside, tile, column, WIDTH)
            tl.store(words + block * LANES + lane, word)
            tl.store(X + lane[:, None] * depth + (block * WIDTH + column)[None, :], _float16(word, column))
            tl.debug_barrier()  # the next product reads bits that other threads wrote
        beta = tl.minimum(beta * growth, last)
    tl.store(states + lane, state)


@triton.jit
def _by_reads(product, fields, lane, column, LANES: tl.constexpr, WIDTH: tl.constexpr):
    """Return the same fields [LANES, WIDTH], but all fields of a read in one thread; a product scatters them.

    Triton has no operation for that. It lays reads along the threads of a warp when they are gathered, here each from
    itself; the fields of more reads than a warp has threads pass through memory.
    """
    if LANES == 32:
        return tl.gather(product, tl.broadcast_to(lane[:, None], [LANES, WIDTH]), 0)
    place = fields + column[None, :] * LANES + lane[:, None]
    tl.store(place, product)
    tl.debug_barrier()
    return tl.load(place)


@triton.jit
def _updated(word, state, cold, pairs, tile, column, WIDTH: tl.constexpr):
    """Return the word and the generators after one update of each bit of the word."""
    digits = tile.to(tl.int32, bitcast=True)
    ahead = ()
    for i in tl.static_range(WIDTH):  # one column; sums of integers and zeros within a thread are compiled away
        ahead += (tl.sum(tl.where(column[None, :] == i, digits, 0), 1).to(tl.float32, bitcast=True),)
    for i in tl.static_range(WIDTH):
        state = _next(state)
        uniform = ((state >> 9) | ONE).to(tl.float32, bitcast=True) - 0.99999994  # in 2**-24 ... 1
        sign = (((word << (31 - i)) & SIGN) | ONE).to(tl.float32, bitcast=True)  # -1 where the bit is 1
        flips = uniform < tl.exp2(-cold * sign * ahead[0])
        word ^= flips.to(tl.int32) << i
        ahead = _corrected(ahead, tl.where(flips, sign, 0.0), pairs + i * (WIDTH // 2), WIDTH - i)
    return word, state


@triton.jit
def _corrected(ahead, change, pairs, COUNT: tl.constexpr):
    """Return the fields of the bits that follow the first, after its change."""
    behind = ()
    for p in tl.static_range(COUNT // 2):
        pair = tl.load(pairs + p)
        behind += (ahead[2 * p + 1] + change * pair.to(tl.int32).to(tl.float32, bitcast=True),)
        if 2 * p + 2 < COUNT:
            behind += (ahead[2 * p + 2] + change * (pair >> 32).to(tl.int32).to(tl.float32, bitcast=True),)
    return behind


@triton.jit
def _next(state):
    state ^= state << 13  # xorshift32
    state ^= state >> 17
    return state ^ (state << 5)


@triton.jit
def _float16(word, column):
    """Return the bits of words, 0.0 and 1.0."""
    return (((word[:, None] >> column[None, :]) & 1) * HALF_ONE).to(tl.int16).to(tl.float16, bitcast=True)
