"""Clamps and groups of own problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Generator, Tensor

from qubolearn import ExhaustiveSearch, Gap, Groups, Instances, Problem, SharedQubo, evaluate, fit
from qubolearn.losses import Contrastive
from qubolearn.problems import Split
from qubolearn.solvers.tempering import ParallelTempering

PAIRS = Groups.consecutive(3, 3)


@dataclass(frozen=True)
class Follow(Problem):
    """Three letters, each after the one before; p shows one."""

    name: ClassVar[str] = "follow"
    input_size: ClassVar[int] = 3  # type: ignore[assignment]
    bits: ClassVar[int] = 9  # type: ignore[assignment]
    groups: ClassVar[Groups] = PAIRS  # type: ignore[assignment]

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        first = torch.randint(3, (count, 1), generator=generator, device=generator.device)
        letters = (first + torch.arange(3, device=generator.device)) % 3
        shown = torch.randint(3, (count, 1), generator=generator, device=generator.device)
        given = letters.gather(1, shown).float() + 1
        p = torch.zeros(count, 3, device=generator.device).scatter(1, shown, given)
        return Instances(p, torch.nn.functional.one_hot(letters, 3).flatten(1).float(), letters)

    def clamp(self, p: Tensor) -> Tensor:
        bits = p.long()[:, :, None] == torch.arange(1, 4)
        return torch.where((p > 0)[:, :, None], bits.long(), -1).flatten(1)


@pytest.mark.parametrize(
    ("loss", "solver"),
    [(Gap(), ExhaustiveSearch()), (Contrastive(beta=1.0), ParallelTempering(sweeps=200, reads=50, seed=0))],
)
def test_a_law_is_learned_from_clamped_instances(loss: Any, solver: Any) -> None:
    problem, network = Follow(), SharedQubo(9)
    fit(network, problem, loss, solver=solver, epochs=5, instances=300, batch_size=30, validation=20)
    found = evaluate(network, problem, instances=60)
    assert found.metrics["accuracy"] == 1.0  # only the clamps depend on p


def test_losses_see_allowed_states_only() -> None:
    problem, network, seen = Follow(), SharedQubo(9), []

    def loss(A: Any, batch: Any) -> Tensor:
        seen.append((batch.solver(A.detach(), 2).states, problem.clamp(batch.p)))
        return A.sum((1, 2))

    fit(network, problem, loss, epochs=1, instances=20, batch_size=20, validation=0)
    for states, clamp in seen:
        assert PAIRS.allowed(states).all()
        held = (clamp >= 0)[:, None].expand_as(states)
        assert torch.equal(states[held], clamp[:, None].expand_as(states)[held].float())
