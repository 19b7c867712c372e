"""Steps of engines, by brute force."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import topology
from qubolearn.losses import Gap, Hinge, Likelihood, Loss, PseudoLikelihood
from qubolearn.networks import MLP, QuboNetwork
from qubolearn.problems.randgraph import RandGraph
from qubolearn.solvers import ExhaustiveSearch
from qubolearn.training import captured
from qubolearn.training.batches import Drawn
from qubolearn.training.captured import CapturedSteps
from qubolearn.training.optimizers import FlatAdam
from qubolearn.training.steps import Steps, Task

PROBLEM = RandGraph(k=3)
BITS = PROBLEM.bits
STATES = torch.tensor(
    [[(code >> i) & 1 for i in range(BITS)] for code in range(2**BITS)], dtype=torch.float64
)


def all_energies(A: Tensor) -> Tensor:
    return torch.einsum("si,bij,sj->bs", STATES, A, STATES)


def index_of(x: Tensor) -> Tensor:
    """Return the number of each state among all."""
    return (x.double() * 2.0 ** torch.arange(BITS)).sum(1).long()


def likelihood(A: Tensor, x: Tensor) -> Tensor:
    E = all_energies(A)
    return 3.0 * E.gather(1, index_of(x)[:, None])[:, 0] + torch.exp(-3.0 * E).sum(1).log()


def gap(A: Tensor, x: Tensor) -> Tensor:
    E = all_energies(A)
    own, lowest = E.gather(1, index_of(x)[:, None])[:, 0], E.sort(1).values
    return own - lowest[:, 0] - 0.2 * (own - lowest[:, 1]).abs()


def hinge(A: Tensor, x: Tensor) -> Tensor:
    E = all_energies(A)
    own = E.gather(1, index_of(x)[:, None])
    others = E.scatter(1, index_of(x)[:, None], torch.inf).amin(1)
    return torch.relu(0.4 + own[:, 0] - others)


def pseudo(A: Tensor, x: Tensor) -> Tensor:
    E, own = all_energies(A), index_of(x)
    flipped = torch.stack([E.gather(1, (own ^ (1 << i))[:, None])[:, 0] for i in range(BITS)], 1)
    return torch.log1p(torch.exp(-2.0 * (flipped - E.gather(1, own[:, None])))).sum(1)


CASES: dict[str, tuple[Loss, Callable[[Tensor, Tensor], Tensor]]] = {
    "likelihood": (Likelihood(3.0), likelihood),
    "gap": (Gap(weight_unique=0.2), gap),
    "hinge": (Hinge(0.4), hinge),
    "pseudo": (PseudoLikelihood(2.0), pseudo),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", [Steps, CapturedSteps])
def test_a_step_of_every_engine_equals_sums_over_all_states(
    engine: type[Steps], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured, "captured", lambda work: work)  # calls the work of a graph as it is
    loss, naive = CASES[name]
    torch.manual_seed(0)
    pattern = topology("dense", BITS)
    network = QuboNetwork(MLP(PROBLEM.input_size, pattern.size, 3, 10), pattern)
    batches = Drawn(PROBLEM, True, 30, 30, 5, "cpu")
    instances = batches.batch(0)

    wide = QuboNetwork(MLP(PROBLEM.input_size, pattern.size, 3, 10), pattern).double()
    wide.load_state_dict({key: value.double() for key, value in network.state_dict().items()})
    want = naive(wide(instances.p.double()), instances.x_true).mean()
    want.backward()
    slope = torch.cat([each.grad.flatten() for each in wide.parameters() if each.grad is not None])

    task = Task(network, FlatAdam(network, steps=4), batches, loss, ExhaustiveSearch(), 0, PROBLEM)
    value = engine(task).advance(0, 1)
    assert value == pytest.approx(want.item(), rel=1e-4)
    torch.testing.assert_close(task.optimizer.gradient.double(), slope, rtol=2e-3, atol=2e-5)
    moved, before = (nn.utils.parameters_to_vector(each.parameters()) for each in (network, wide))
    assert not torch.equal(moved.double(), before)
