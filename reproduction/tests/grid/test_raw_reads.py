"""Raw reads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quant_reproduction.grid.tasks import RawReads
from qubolearn import SimulatedAnnealing
from qubolearn.qubo import energies


@dataclass(frozen=True)
class Fixed:
    """A sampler that always reads the same states."""

    reads: tuple[tuple[float, ...], ...]

    def sample(self, A: Tensor, beta: float | None = None) -> Tensor:
        return torch.tensor(self.reads).expand(len(A), -1, -1)

    def with_seed(self, seed: int | None) -> Fixed:
        return self


def test_only_reads_are_answers() -> None:
    A = torch.randn(20, 4, 4, generator=torch.Generator().manual_seed(0))
    reads = ((1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0), (1.0, 0.0, 0.0, 1.0))
    found = RawReads(Fixed(reads))(A, 2)
    ranked = energies(A.double(), torch.tensor(reads[:3]).double().expand(20, -1, -1)).sort(1).values
    torch.testing.assert_close(found.energies, ranked[:, :2])


def test_a_lone_state_has_a_neighbor_that_the_seed_chooses() -> None:
    A = torch.diag_embed(torch.full((200, 5), -1.0))
    lone = ((1.0,) * 5,) * 3
    states = [RawReads(Fixed(lone)).with_seed(seed)(A, 2).states for seed in (1, 1, 2)]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    assert bool((states[0][:, 0] == 1).all())
    assert bool(((states[0][:, 1] == 0).sum(1) == 1).all())


def test_raw_reads_miss_second_states_that_completion_finds() -> None:
    A = torch.randn(60, 8, 8, generator=torch.Generator().manual_seed(1))
    annealing = SimulatedAnnealing(reads=5, sweeps=200, seed=0)
    raw, complete = RawReads(annealing)(A, 2).energies[:, 1], annealing(A, 2).energies[:, 1]
    assert bool((complete <= raw + 1e-9).all())
    assert int((complete < raw - 1e-9).sum()) > 10
