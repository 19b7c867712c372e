"""Adam on one vector against torch.optim.Adam."""

import pytest
import torch
from torch import nn

from qubolearn.training import optimizers
from qubolearn.training.optimizers import Adam, FlatAdam


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3))


def loss(net: nn.Module, step: int) -> torch.Tensor:
    torch.manual_seed(100 + step)
    return (net(torch.randn(9, 7)) - torch.randn(9, 3)).square().mean()


@pytest.mark.parametrize("fused", [True, False])
def test_flat_adam_takes_the_steps_of_torch(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fused:
        monkeypatch.setattr(optimizers, "FUSED", None)
    ours, theirs = network(), network()
    mine = FlatAdam(ours, Adam(0.01, lambda step, steps: 1 / (1 + step)))
    right = torch.optim.Adam(theirs.parameters())
    for step in range(50):
        right.param_groups[0]["lr"] = 0.01 / (1 + step)
        mine.gradient.zero_()
        right.zero_grad()
        loss(ours, step).backward()
        loss(theirs, step).backward()
        mine.step(step + 1)
        right.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_flat_adam_resumes_bit_for_bit() -> None:
    whole, stopped = network(), network()
    one, two = FlatAdam(whole), FlatAdam(stopped)
    for step in range(6):
        if step == 3:
            fresh = network()
            fresh.load_state_dict(stopped.state_dict())
            again = FlatAdam(fresh)
            again.load({name: tensor.clone() for name, tensor in two.state()[0].items()})
            stopped, two = fresh, again
        for net, adam in ((whole, one), (stopped, two)):
            adam.gradient.zero_()
            loss(net, step).backward()
            adam.step(step + 1)
    assert torch.equal(one.values, two.values)
    assert torch.equal(nn.utils.parameters_to_vector(stopped.parameters()), two.values)
