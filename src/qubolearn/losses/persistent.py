"""Persistent contrastive divergence: chains that continue between steps."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from qubolearn.data.arrays import tensors_of
from qubolearn.errors import QubolearnError, check_counts
from qubolearn.losses.contract import Batch, Loss
from qubolearn.losses.local import refuse_broken
from qubolearn.qubo import Groups, Qubo, energies, shared_qubo
from qubolearn.random import derive_seed, stream
from qubolearn.solvers.contract import instance_seeds
from qubolearn.solvers.tempering import move_chains

#: Bytes of chains that are kept; further instances start with new chains in each step.
ROOM = 2**28


@dataclass(frozen=True)
class PersistentContrastive(Loss):
    """β(E(x̂) - mean_r E(x_r)), x_r from Markov chains at β that continue between steps.

    It estimates the gradient of :class:`qubolearn.Likelihood` at any n; its value is
    not a likelihood. Since A changes slowly, a few sweeps keep the chains near
    equilibrium. Instances with one A (``SharedQubo``) share chains; others keep their
    own, by their p. Every run starts new chains, even a resumed one. Reference:
    Tieleman, ICML 2008; with tempering, Desjardins et al., AISTATS 2010.

    Args:
        beta: β, the inverse temperature of likelihood and chains.
        chains: states of each instance, or of the shared A. Half of them begin at x̂, half at random.
        sweeps: sweeps of the persistent chains per step.
        rungs: temperatures of the persistent chains, from β / rungs to β. Chains at adjacent ones swap states once per
            step, so that hot chains carry cold ones out of a valley; only those at β count.
        groups: one-hot groups, which chains never break.

    >>> # A and batch are those of the example of Likelihood
    >>> loss = PersistentContrastive(beta=2.0, chains=100, sweeps=100)
    >>> value = loss(A, batch)  # the exact β(E(10) - mean E) is 3.64
    >>> bool(3.2 < value < 4.0)
    True
    """

    beta: float = 6.0
    chains: int = 16
    sweeps: int = 5
    rungs: int = 1
    groups: Groups | None = None
    draws, capturable = True, False
    _kept: dict[bytes, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(chains=self.chains, sweeps=self.sweeps, rungs=self.rungs)

    def begin(self) -> Loss:
        return replace(self)

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        if self.groups is not None:
            refuse_broken(self.groups, batch.x_true)
        one = shared_qubo(A)
        own = A if one is None else one
        reads = self.move(own.detach(), batch, one is not None).to(A.device, A.dtype)
        up = energies(own, reads).mean(1)
        if batch.right is not None:
            E = energies(A, batch.right.states.to(A.dtype)).masked_fill(~batch.right.valid, torch.inf)
            return -(-self.beta * E).logsumexp(1) - self.beta * up
        x = batch.x_true.to(A.dtype)
        return self.beta * ((energies(A, x) if one is None else energies(one, x[None])[0]) - up)

    @torch.no_grad()
    def move(self, A: Qubo, batch: Batch, shared: bool = False) -> Tensor:
        """Advance the chains; return those at β, ``[batch or 1, chains, n]``."""
        names = [b"shared"] if shared else _names(batch)
        fresh = self._new(batch)
        kept = torch.stack([self._kept.get(name, fresh[row]) for row, name in enumerate(names)])
        kept = kept.clone()  # [batch, rungs · chains, n], the hottest rung first
        betas = [self.beta * (k + 1) / self.rungs for k in range(self.rungs) for _ in range(self.chains)]
        seeds = instance_seeds(derive_seed(batch.seed, "chains"), len(names))
        move_chains(A, kept, betas, self.sweeps, seeds, groups=self.groups)
        if self.rungs > 1:
            self._swap(A, kept, batch.seed)
        for name, states in zip(names, kept, strict=True):
            if name in self._kept or (len(self._kept) + 1) * states.numel() <= ROOM:
                self._kept[name] = states
        return kept[:, -self.chains :]

    def _new(self, batch: Batch) -> Tensor:
        """Return first states: x̂ and random ones in turn."""
        x = batch.x_true.to("cpu", torch.int8)[:, None].repeat(1, self.rungs * self.chains, 1)
        random = stream(batch.seed, "begin")
        x[:, 1::2] = torch.randint(0, 2, x[:, 1::2].shape, generator=random, dtype=torch.int8)
        return x

    def _swap(self, A: Qubo, states: Tensor, seed: int) -> None:
        """Swap neighboring rungs with probability min(1, exp(ΔβΔE))."""
        E = energies(A, states.to(A.device, A.dtype)).cpu().view(-1, self.rungs, self.chains)
        rungs = states.view(-1, self.rungs, self.chains, states.shape[2])
        uniforms = torch.rand(E.shape, generator=stream(seed, "swaps")).log()
        for k in [*range(0, self.rungs - 1, 2), *range(1, self.rungs - 1, 2)]:
            swap = uniforms[:, k] < self.beta / self.rungs * (E[:, k + 1] - E[:, k])
            for pair in (E, rungs):
                hot, cold = pair[:, k].clone(), pair[:, k + 1].clone()
                mine = swap if pair is E else swap[..., None]
                pair[:, k], pair[:, k + 1] = torch.where(mine, cold, hot), torch.where(mine, hot, cold)


def _names(batch: Batch) -> list[bytes]:
    """Return a key per instance: a digest of p, numbered if it repeats."""
    tensors = [tensor.detach().cpu().contiguous() for tensor in tensors_of(batch.p)]
    if not tensors:
        raise QubolearnError("PersistentContrastive identifies instances by p, which has no tensors here")
    rows = torch.cat([tensor.flatten(1).view(torch.uint8) for tensor in tensors], 1).numpy()
    seen = Counter[bytes]()
    names = []
    for row in rows:
        name = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
        seen[name] += 1
        names.append(name + seen[name].to_bytes(4, "little"))
    return names
