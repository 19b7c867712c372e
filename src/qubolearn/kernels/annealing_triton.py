"""Simulated annealing on an NVIDIA GPU: one thread a read, the read's bits in one word.

Fields are sums of table lookups, as in the compiled kernel of the CPU: the part of field_i that comes from 4 bits has
16 values, which lie in one cache line that all reads of a QUBO share.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["anneal", "field_tables"]

READS_PER_PROGRAM = 128


def anneal(S: Tensor, schedules: Tensor, sweeps: int, state: Tensor) -> Tensor:
    """As :func:`qubolearn.kernels.annealing_torch.anneal`; state int64 ``[batch, reads]`` seeds the reads."""
    batch, n, _ = S.shape
    reads = state.shape[1]
    words = torch.empty(batch, reads, dtype=torch.int64, device=S.device)
    state = state.to(torch.uint32)
    grid = (batch, triton.cdiv(reads, READS_PER_PROGRAM))
    _anneal[grid](
        field_tables(S),
        schedules.to(torch.float64).contiguous(),
        state,
        words,
        reads,
        sweeps,
        n=n,
        chunks=(n + 3) // 4,
        word=tl.int32 if n <= 32 else tl.int64,
        block=READS_PER_PROGRAM,
    )
    return ((words[:, :, None] >> torch.arange(n, device=S.device)) & 1).to(torch.int8)


def field_tables(S: Tensor) -> Tensor:
    """``[batch, n, chunks, 16]``: the part of field_i that the bits 4c ... 4c + 3 give when they hold v.

    S ``[batch, n, n]`` has A_ij + A_ji off its diagonal and A_ii, which counts always, on it.
    """
    batch, n, _ = S.shape
    chunks = (n + 3) // 4
    linear = S.diagonal(dim1=1, dim2=2)
    couplings = torch.nn.functional.pad(S - torch.diag_embed(linear), (0, 4 * chunks - n))
    values = torch.arange(16, device=S.device)
    bits = ((values >> torch.arange(4, device=S.device)[:, None]) & 1).to(S.dtype)  # [4, 16]
    tables = (couplings.reshape(batch, n, chunks, 4, 1) * bits).sum(3)
    tables[:, :, 0] += linear[:, :, None]
    return tables.contiguous()


@triton.jit
def _anneal(
    tables,  # [batch, n, chunks, 16]
    schedules,  # [batch, 3]: first β, growth, last β
    states,  # [batch, reads], seeds of the generators
    words,  # [batch, reads], the result
    reads,
    sweeps,
    n: tl.constexpr,
    chunks: tl.constexpr,
    word: tl.constexpr,
    block: tl.constexpr,
):
    instance = tl.program_id(0).to(tl.int64)
    read = tl.program_id(1) * block + tl.arange(0, block)
    state = tl.load(states + instance * reads + read, mask=read < reads, other=1)
    tables += instance * (n * chunks * 16)
    x = tl.zeros([block], dtype=word)
    for i in range(n):
        state = _next(state)
        x |= (state >> 31).to(word) << i
    beta = tl.load(schedules + 3 * instance)
    growth = tl.load(schedules + 3 * instance + 1)
    last = tl.load(schedules + 3 * instance + 2)
    for _ in range(sweeps):
        for i in range(n):
            field = tl.zeros([block], dtype=tl.float32)
            for chunk in tl.static_range(chunks):
                nibble = ((x >> (4 * chunk)) & 15).to(tl.int32)
                field += tl.load(tables + (i * chunks + chunk) * 16 + nibble)
            bit = (x >> i) & 1
            cost = tl.where(bit == 1, -field, field)
            state = _next(state)
            threshold = -tl.log((state.to(tl.float32) + 0.5) * (1.0 / 4294967296.0))
            accepted = beta.to(tl.float32) * cost < threshold
            x ^= accepted.to(word) << i
        beta = tl.minimum(beta * growth, last)
    tl.store(words + instance * reads + read, x.to(tl.int64), mask=read < reads)


@triton.jit
def _next(state):
    """xorshift32."""
    state ^= state << 13
    state ^= state >> 17
    state ^= state << 5
    return state
