"""Exact likelihood of random blocks of bits given the rest: between pseudo-likelihood and the whole likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.losses.contract import Batch, Loss
from qubolearn.losses.groups import refuse_broken
from qubolearn.qubo import Groups, Qubo, SparseQubo, energies, shared_qubo
from qubolearn.random import stream
from qubolearn.solvers.partition import log_partition

__all__ = ["BlockLikelihood"]

#: The largest block: a step sums over 2**24 states of every instance.
LARGEST = 24


@dataclass(frozen=True)
class BlockLikelihood(Loss):
    """Minus the log-likelihood of a random block B of bits given the others: -(n / |B|) log p(x̂_B | x̂_rest).

    Each instance draws a new block in every step, from the step's seed. A block of all bits is
    :class:`qubolearn.Likelihood`; the mean over all blocks of one bit is :class:`qubolearn.PseudoLikelihood`. In
    between, couplings within a block are learned from all of its 2^|B| states. Cost: 2^|B| states per instance, any n,
    no solver. Reference: composite likelihood, Lindsay, Contemporary Mathematics 1988.

    If instances have several right answers, x̂ is the one of lowest energy, and all right answers that agree with it
    outside of the block count as right.

    Args:
        bits: |B|, from 1 to 24; at most n bits are taken.
        beta: β, the inverse temperature.
        connected: grow blocks along the couplings of A, so that the bits of a block on a sparse graph are coupled.
        groups: one-hot groups, which the model is given. A block then holds whole groups, as many as have at most
            2^bits states, and only allowed states are summed; ``connected`` is not used.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(BlockLikelihood(bits=2, beta=1.0)(A, batch).item(), 3)  # as Likelihood(1.0)
    2.494
    """

    bits: int = 16
    beta: float = 6.0
    connected: bool = True
    groups: Groups | None = None
    draws, capturable = True, False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= LARGEST:
            raise QubolearnError(f"bits={self.bits}; expected 1 to {LARGEST}, all states of which are summed")

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        with torch.no_grad():
            x = batch.solution(A.detach()).to(A.dtype)
            block = self.block(A, batch)
        right = x[:, None] if batch.right is None else batch.right.states.to(A.dtype)
        outside = torch.ones_like(x).scatter(1, block.bits, 0.0)
        meant = ((right - x[:, None]).abs() * outside[:, None]).sum(-1) == 0
        if batch.right is not None:
            meant &= batch.right.valid
        if self.groups is not None:
            refuse_broken(self.groups, x)
            meant &= self.groups.allowed(right)
        small = _given_the_rest(A, x * outside, block.bits)
        inside = right.gather(2, block.bits[:, None].expand(-1, right.shape[1], -1))
        logits = (-self.beta * energies(small, inside)).masked_fill(~meant, -torch.inf)
        log_z = log_partition(small, self.beta, groups=block.groups)
        return block.scale * (log_z - logits.logsumexp(1))

    def block(self, A: Qubo, batch: Batch) -> _Block:
        """Draw the blocks of this step."""
        n, generator = A.shape[2], stream(batch.seed, "blocks")
        if self.groups is not None:
            bits, groups, share = _whole_groups(self.groups, n, len(batch), 2**self.bits, generator)
        else:
            grown = _grown(_neighbors(A), len(batch), min(self.bits, n), generator, self.connected)
            bits, groups, share = grown, None, n / grown.shape[1]
        return _Block(bits.to(A.device), groups, share)


class _Block(NamedTuple):
    bits: Tensor  # [batch, f]
    groups: Groups | None  # among these f bits
    scale: float  # n / f, so that every bit counts once on the average


def _neighbors(A: Qubo) -> Tensor:
    """Return which bits are coupled in any instance, bool ``[n, n]``, on the CPU."""
    if isinstance(A, SparseQubo):
        there = torch.zeros(A.n, A.n, dtype=torch.bool)
        there[A.edges[0].cpu(), A.edges[1].cpu()] = True
    else:
        shared = shared_qubo(A)
        there = (A if shared is None else shared).detach().ne(0).any(0).cpu()
    return there | there.T


def _grown(neighbors: Tensor, batch: int, size: int, generator: torch.Generator, connected: bool) -> Tensor:
    """Blocks ``[batch, size]``: bits in random order, but neighbors of those that are in already come first."""
    n = len(neighbors)
    uniforms = torch.rand(batch, n, generator=generator)
    if not connected or size == n or int(neighbors.sum()) >= n * (n - 1):
        return uniforms.topk(size, 1).indices
    rows, bits, near = torch.arange(batch), [], torch.zeros(batch, n)
    for _ in range(size):
        chosen = (uniforms + near).argmax(1)
        bits.append(chosen)
        near = torch.maximum(near, neighbors[chosen].to(near))  # above all random numbers
        uniforms[rows, chosen] = -2.0
    return torch.stack(bits, 1)


def _whole_groups(
    groups: Groups, n: int, batch: int, most: int, generator: torch.Generator
) -> tuple[Tensor, Groups, float]:
    """Random groups and bits outside of groups with at most so many states; of each size equally many per instance."""
    units = _units(groups, n)
    sizes = torch.tensor([len(some[0]) for some in units for _ in some])
    kinds = torch.tensor([kind for kind, some in enumerate(units) for _ in some])
    order = torch.randperm(len(sizes), generator=generator)
    states = torch.where(sizes > 1, sizes, 2)[order].double().cumprod(0)
    count = max(1, int((states <= most).sum()))
    bits, members, first = [], [], 0
    for kind, some in enumerate(units):
        wanted = int((kinds[order[:count]] == kind).sum())
        if not wanted:
            continue
        chosen = torch.rand(batch, len(some), generator=generator).topk(wanted, 1).indices
        bits.append(torch.tensor(some)[chosen].flatten(1))
        size = len(some[0])
        if size > 1:
            members += [range(first + k * size, first + (k + 1) * size) for k in range(wanted)]
        first += wanted * size
    return torch.cat(bits, 1), Groups(members), len(sizes) / count


@lru_cache(maxsize=8)
def _units(groups: Groups, n: int) -> list[list[tuple[int, ...]]]:
    """Return the independent units: groups of two and more bits, and single bits in no group, by size."""
    loose: list[tuple[int, ...]] = [(int(bit),) for bit in (groups.of_bits(n) < 0).nonzero()]
    by_size: dict[int, list[tuple[int, ...]]] = {1: loose} if loose else {}
    for group in groups.members:
        if len(group) > 1:  # the bit of a smaller one is 1 in every state
            by_size.setdefault(len(group), []).append(group)
    if not by_size:
        raise QubolearnError("every group has one bit and there are no others: nothing can be learned")
    return list(by_size.values())


def _given_the_rest(A: Qubo, rest: Tensor, bits: Tensor) -> Tensor:
    """Return the QUBO ``[batch, f, f]`` of the block's bits ``[batch, f]`` given the others' values ``[batch, n]``."""
    b, f = bits.shape
    if isinstance(A, SparseQubo):
        (i, j), couplings = A.edges, A.quadratic
        linear = A.linear.index_add(1, i, couplings * rest[:, j]).index_add(1, j, couplings * rest[:, i])
        place = torch.full((b, A.n), -1, device=A.device).scatter(
            1, bits, torch.arange(f, device=A.device).expand(b, f)
        )
        row, edge = ((place[:, i] >= 0) & (place[:, j] >= 0)).nonzero().unbind(1)
        spot = row, place[row, i[edge]], place[row, j[edge]]
        inner = A.linear.new_zeros(b, f, f).index_put(spot, couplings[row, edge])
        return inner + torch.diag_embed(linear.gather(1, bits))
    if (one := shared_qubo(A)) is not None:
        shared: Tensor = one[0]
        fields = rest @ (shared + shared.T)
        return shared[bits[:, :, None], bits[:, None]] + torch.diag_embed(fields.gather(1, bits))
    fields = (rest[:, None] @ (A + A.mT))[:, 0]
    rows = A.gather(1, bits[:, :, None].expand(b, f, A.shape[2]))
    inner = rows.gather(2, bits[:, None].expand(b, f, f))
    return inner + torch.diag_embed(fields.gather(1, bits))
