"""Simulated annealing of dense QUBOs on an NVIDIA GPU: a thread per read, 32 bits at a time.

Fields of 32 bits are a matrix product of the reads with 32 columns of A, on the tensor cores.
Couplings are two float16, c = high + low / 2048, of 22 digits together; sums are float32. Then
these bits are updated in turn in registers, and each flip corrects the fields of the next.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment, misc"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from qubolearn.gpu.annealing import rounds
from qubolearn.gpu.sparse_annealing_triton import LOG2_E, mixed

#: Bits of one word; the most bits of one step of a product.
BITS, DEPTH = 32, 64
#: Reads of a program: few, or many from this n on.
FEW_READS, MANY_READS, MANY_FROM = 32, 64, 512
SHIFT = tl.constexpr(2048.0)
ONE, HALF_ONE = tl.constexpr(0x3F800000), tl.constexpr(0x3C00)  # 1.0
SIGN = tl.constexpr(-(2**31))  # the digit of a float32's sign
CONTINUE, GIVEN, RANDOM, FLIPPED = (tl.constexpr(k) for k in range(4))  # where reads start


@dataclass(frozen=True)
class DenseQubos:
    """QUBOs ``[batch, n, n]`` as the kernel takes them: A + Aᵀ, scaled.

    ``high`` and ``low [batch, blocks, depth, BITS]`` are the couplings of each word to all bits,
    ``pairs [batch, blocks, BITS, BITS / 2]`` those within it: two float32 in an int64, of bit i to
    bits i + 1 and i + 2, to i + 3 and i + 4, and so on.
    """

    n: int
    high: Tensor
    low: Tensor
    pairs: Tensor
    linear: Tensor  # [batch, blocks, BITS]
    scale: Tensor  # [batch], float64
    beta_ranges: Tensor  # [batch, 2], float64, of the scaled QUBOs

    @classmethod
    def make(cls, A: Tensor) -> DenseQubos:
        (batch, n, _), A = A.shape, A.contiguous()
        blocks, step = -(-n // BITS), DEPTH if n > BITS else BITS
        depth, grid = -(-n // step) * step, (batch, blocks)
        scale = torch.linalg.vector_norm(A, torch.inf, (1, 2)).double().clamp(min=1e-300)
        inverse = 1 / scale
        biases, strengths = A.new_empty(2, batch, blocks * BITS, dtype=torch.float64)
        _strengths[grid](A, inverse, biases, strengths, n, WIDTH=BITS, STEP=step)
        largest = strengths.amax(1)
        half = A.new_empty(2, batch, blocks, depth, BITS, dtype=torch.float16)
        pairs = A.new_empty(batch, blocks, BITS, BITS, dtype=torch.float32)
        linear = A.new_empty(batch, blocks, BITS, dtype=torch.float32)
        written = (half[0], half[1], pairs, linear, strengths)
        _split[grid](A, inverse, largest, biases, *written, n, depth, WIDTH=BITS, STEP=step)
        ranges = A.new_empty(batch, 2, dtype=torch.float64)
        _ranges[(batch,)](largest, strengths, ranges, blocks, WIDTH=BITS)
        return cls(n, half[0], half[1], pairs.view(torch.int64), linear, scale, ranges)

    def anneal(
        self,
        betas: Tensor,
        seeds: Tensor,
        reads: int,
        initial: Tensor | None = None,
        descent: int = 0,
        flipped: Tensor | None = None,
    ) -> Tensor:
        """Return the final states int8 ``[batch, reads, n]``, then with ``descent`` those after it.

        Sweep k is at ``betas[:, k]``; ``seeds [batch]`` fix the random numbers. Reads begin at
        random bits, or at ``initial [batch, reads, n]``, or read i at ``flipped``, int8 ``[batch,
        n]``, with bit i flipped, which it never flips back.
        """
        batch, blocks, depth, _ = self.high.shape
        lanes = MANY_READS if self.n >= MANY_FROM else FEW_READS
        groups, step = -(-reads // lanes), min(DEPTH, depth)
        X = self.high.new_zeros(batch * groups, lanes, depth)
        words = torch.empty(batch * groups, blocks, lanes, dtype=torch.int32, device=X.device)
        start = RANDOM.value if flipped is None else FLIPPED.value
        if initial is not None:
            X.view(batch, groups * lanes, depth)[:, :reads, : self.n] = initial.to(X)
            words, start = _words(X[:, :, : blocks * BITS]), GIVEN.value
        states = torch.empty(batch * groups, lanes, dtype=torch.uint32, device=X.device)
        fields = torch.empty(batch * groups, BITS, lanes, dtype=torch.float32, device=X.device)
        found: list[Tensor] = []
        for some in (betas, betas.new_full((batch, descent), torch.inf, dtype=torch.float32)):
            for _, colds in rounds(some, batch * groups * lanes * depth):
                _anneal[(batch * groups,)](
                    *(self.high, self.low, self.pairs, self.linear, colds, seeds, states, X, words, fields),
                    *(words if flipped is None else flipped, self.n, blocks, groups, depth),
                    *(colds.shape[1], start, flipped is not None, lanes, BITS, step),
                    num_warps=lanes // 32,
                    num_stages=min(3, depth // step),
                )
                start = CONTINUE.value
            found.append(words.clone() if descent and not found else words)
        bits = _bits(torch.stack(found[: 2 if descent else 1]))[..., : self.n]
        return bits.unflatten(1, (batch, groups)).flatten(2, 3)[:, :, :reads].transpose(0, 1).flatten(1, 2)  # type: ignore[no-any-return]


def _words(X: Tensor) -> Tensor:
    """Return bits ``[slots, lanes, BITS blocks]`` as int32 ``[slots, blocks, lanes]``."""
    powers = 2 ** torch.arange(BITS, device=X.device)
    words: Tensor = (X.to(torch.int64).unflatten(2, (-1, BITS)) * powers).sum(-1)
    return words.transpose(1, 2).to(torch.int32).contiguous()


def _bits(words: Tensor) -> Tensor:
    """Return words ``[..., blocks, lanes]`` as bits int8 ``[..., lanes, BITS blocks]``."""
    bits = (words.mT[..., None] >> torch.arange(BITS, dtype=torch.int32, device=words.device)) & 1
    return bits.to(torch.int8).flatten(-2)


@triton.jit
def _coupling(A, inverse, i, j, n):
    """Return A_ij + A_ji, scaled, in float64; 0 beyond n bits and if i = j."""
    inside = (i < n) & (j < n) & (i != j)
    one = tl.load(A + i * n + j, inside, 0.0).to(tl.float64)
    return (one + tl.load(A + j * n + i, inside, 0.0).to(tl.float64)) * inverse


@triton.jit(do_not_specialize=["n"])
def _strengths(A, inverses, biases, strengths, n, WIDTH: tl.constexpr, STEP: tl.constexpr):
    """Write |b_i| and |b_i| + Σ_j |J_ij| of the spins of a word."""
    instance, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    own, step = block * WIDTH + tl.arange(0, WIDTH), tl.arange(0, STEP)
    A += instance * n * n
    inverse = tl.load(inverses + instance)
    fields = tl.load(A + own * n + own, own < n, 0.0).to(tl.float64) * (2 * inverse)
    sizes = tl.zeros([WIDTH], tl.float64)
    for k in range(0, n, STEP):
        couplings = _coupling(A, inverse, (k + step)[:, None], own[None, :], n)
        fields += tl.sum(couplings, 0)
        sizes += tl.sum(tl.abs(couplings), 0)
    place = instance * tl.num_programs(1) * WIDTH + own
    tl.store(biases + place, tl.abs(fields) / 4)
    tl.store(strengths + place, (tl.abs(fields) + sizes) / 4)


@triton.jit(do_not_specialize=["n", "depth"])
def _split(
    A,
    inverses,
    largest,
    biases,
    high,
    low,
    pairs,
    linear,
    smallest,  # [batch, blocks, WIDTH]: smallest coefficients
    n,
    depth,
    WIDTH: tl.constexpr,
    STEP: tl.constexpr,
):
    """Write the couplings of a word, as :class:`DenseQubos` holds them."""
    instance, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column, step = tl.arange(0, WIDTH), tl.arange(0, STEP)
    own, word = block * WIDTH + column, instance * tl.num_programs(1) + block
    A += instance * n * n
    inverse, limit = tl.load(inverses + instance), 1e-12 * tl.load(largest + instance)
    bias = tl.load(biases + word * WIDTH + column)
    least = tl.where((bias > limit) & (own < n), bias, float("inf"))
    for k in range(0, depth, STEP):
        couplings = _coupling(A, inverse, (k + step)[:, None], own[None, :], n)
        sizes = tl.abs(couplings) / 4
        least = tl.minimum(least, tl.min(tl.where(sizes > limit, sizes, float("inf")), 0))
        place = (word * depth + k + step)[:, None] * WIDTH + column[None, :]
        upper = couplings.to(tl.float32).to(tl.float16)
        tl.store(high + place, upper)
        tl.store(low + place, ((couplings - upper.to(tl.float64)) * SHIFT).to(tl.float32).to(tl.float16))
    tl.store(smallest + word * WIDTH + column, least)
    diagonal = tl.load(A + own * n + own, own < n, 0.0).to(tl.float64) * inverse
    tl.store(linear + word * WIDTH + column, diagonal.to(tl.float32))
    other = column[:, None] + 1 + column[None, :]
    inside = _coupling(A, inverse, own[:, None], tl.where(other < WIDTH, block * WIDTH + other, n), n)
    tl.store(pairs + (word * WIDTH + column)[:, None] * WIDTH + column[None, :], inside.to(tl.float32))


@triton.jit(do_not_specialize=["blocks"])
def _ranges(largest, smallest, ranges, blocks, WIDTH: tl.constexpr):
    """Write neal's first and last β of a QUBO."""
    instance, column = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    smallest += instance * blocks * WIDTH + column
    least, spins = tl.full([WIDTH], float("inf"), tl.float64), tl.zeros([WIDTH], tl.float64)
    for block in range(blocks):
        least = tl.minimum(least, tl.load(smallest + block * WIDTH))
    lowest = tl.min(least, 0)
    for block in range(blocks):
        spins += (tl.load(smallest + block * WIDTH) <= lowest * (1 + 1e-9)).to(tl.float64)
    most = tl.load(largest + instance)
    some = most > 0  # else all energies are equal
    tl.store(ranges + 2 * instance, tl.where(some, 0.34657359027997264 / tl.where(some, most, 1.0), 1.0))
    last = tl.log(100 * tl.sum(spins, 0)) / (2 * tl.where(some, lowest, 1.0))
    tl.store(ranges + 2 * instance + 1, tl.where(some, last, 1.0))


# alignment would spread the fields of a read over several threads
@triton.jit(
    do_not_specialize=["n", "blocks", "groups", "sweeps", "start"], do_not_specialize_on_alignment=["fields"]
)
def _anneal(
    high,  # [batch, blocks, depth, WIDTH]
    low,
    pairs,  # [batch, blocks, WIDTH, WIDTH / 2]
    linear,  # [batch, blocks, WIDTH]
    betas,  # [batch, sweeps]
    seeds,  # [batch]
    states,  # [slots, LANES]: generators
    X,  # [slots, LANES, depth]: bits as float16
    words,  # [slots, blocks, LANES]: the same bits in words
    fields,  # [slots, WIDTH, LANES]: scratch for LANES > 32
    flipped,  # [batch, n]: starts of reads with a HELD bit
    n,
    blocks,
    groups,
    depth,
    sweeps,
    start,  # CONTINUE, GIVEN, RANDOM or FLIPPED
    HELD: tl.constexpr,
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
    state = tl.load(states + lane)
    read = ((slot % groups) * LANES + lane).to(tl.int32)
    if start != CONTINUE:
        seed = tl.zeros([LANES], tl.uint32) + tl.load(seeds + instance).to(tl.uint32)
        state = tl.maximum(mixed(mixed(seed) ^ mixed((read + 1).to(tl.uint32))), 1)  # 0 stays 0
    if HELD:
        for block in range(blocks):
            bit = block * WIDTH + column
            value = tl.load(flipped + instance * n + bit, bit < n, 0).to(tl.int32)
            flips = (bit[None, :] == read[:, None]).to(tl.int32)
            word = tl.sum((value[None, :] ^ flips) << column[None, :], 1)
            tl.store(words + block * LANES + lane, word)
            tl.store(X + lane[:, None] * depth + bit[None, :], _float16(word, column))
        tl.debug_barrier()
    if start == RANDOM:
        for block in range(blocks):
            state = _next(state)
            word = state.to(tl.int32, bitcast=True)
            tl.store(words + block * LANES + lane, word)
            tl.store(X + lane[:, None] * depth + (block * WIDTH + column)[None, :], _float16(word, column))
        tl.debug_barrier()
    for sweep in range(sweeps):
        cold = tl.load(betas + instance * sweeps + sweep) * LOG2_E
        for block in range(blocks):
            lower = tl.zeros([LANES, WIDTH], dtype=tl.float32)
            upper = lower + tl.load(linear + block * WIDTH + column)[None, :]
            for k in range(0, depth, STEP):
                x = tl.load(X + lane[:, None] * depth + (k + step)[None, :])
                place = (block * depth + k + step)[:, None] * WIDTH + column[None, :]
                upper = tl.dot(x, tl.load(high + place), upper)
                lower = tl.dot(x, tl.load(low + place), lower)
            tile = _by_reads(upper + lower / SHIFT, fields, lane, column, LANES, WIDTH)
            if HELD:  # no comparison with NaN is true
                tile = tl.where((block * WIDTH + column)[None, :] == read[:, None], float("nan"), tile)
            word = tl.load(words + block * LANES + lane)
            inside = pairs + block * (WIDTH * WIDTH // 2)
            word, state = _updated(word, state, cold, inside, tile, column, WIDTH)
            tl.store(words + block * LANES + lane, word)
            tl.store(X + lane[:, None] * depth + (block * WIDTH + column)[None, :], _float16(word, column))
            tl.debug_barrier()  # the next product reads bits that other threads wrote
    tl.store(states + lane, state)


@triton.jit
def _by_reads(product, fields, lane, column, LANES: tl.constexpr, WIDTH: tl.constexpr):
    """Return the same fields [LANES, WIDTH], but all fields of a read in one thread.

    Triton does so when reads are gathered, here each from itself; more reads than a warp has
    threads pass through memory.
    """
    if LANES == 32:
        return tl.gather(product, tl.broadcast_to(lane[:, None], [LANES, WIDTH]), 0)
    place = fields + column[None, :] * LANES + lane[:, None]
    tl.store(place, product)
    tl.debug_barrier()
    return tl.load(place)


@triton.jit
def _updated(word, state, cold, pairs, tile, column, WIDTH: tl.constexpr):
    digits = tile.to(tl.int32, bitcast=True)
    ahead = ()
    for i in tl.static_range(WIDTH):  # one column; sums are compiled away
        ahead += (tl.sum(tl.where(column[None, :] == i, digits, 0), 1).to(tl.float32, bitcast=True),)
    for i in tl.static_range(WIDTH):
        state = _next(state)
        uniform = ((state >> 9) | ONE).to(tl.float32, bitcast=True) - 0.99999994  # in 2**-24 ... 1
        sign = (((word << (31 - i)) & SIGN) | ONE).to(tl.float32, bitcast=True)  # -1 if the bit is 1
        flips = uniform < tl.exp2(-cold * sign * ahead[0])
        word ^= flips.to(tl.int32) << i
        ahead = _corrected(ahead, tl.where(flips, sign, 0.0), pairs + i * (WIDTH // 2), WIDTH - i)
    return word, state


@triton.jit
def _corrected(ahead, change, pairs, COUNT: tl.constexpr):
    """Return the fields of the bits after the first, after its change."""
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
    return (((word[:, None] >> column[None, :]) & 1) * HALF_ONE).to(tl.int16).to(tl.float16, bitcast=True)
