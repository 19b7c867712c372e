"""The choices of ``fit(network, data)``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from qubolearn import Adam, Arrays, Callback, Likelihood, QuboNetwork, evaluate, fit, log_partition, topology
from qubolearn.errors import QubolearnError
from qubolearn.qubo import energies
from qubolearn.training.defaults import SCALES, default_optimizer
from qubolearn.training.optimizers import FlatAdam

N = 4
PATTERN = topology("dense", N)


def signs(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    p = torch.randn(count, N, generator=torch.Generator().manual_seed(seed))
    return p, (p > 0).float()


def network(**options: Any) -> QuboNetwork:
    torch.manual_seed(0)
    return QuboNetwork(nn.Linear(N, PATTERN.size), PATTERN, **options)


class Until(Callback):
    """Stops a run to be resumed, or keeps the weights of each scoring."""

    def __init__(self, step: int = 0) -> None:
        self.step, self.weights = step, dict[int, torch.Tensor]()

    def on_step(self, training: Any) -> None:
        if training.step == self.step:
            training.stop(for_good=False)
        if training.scores is not None:
            self.weights[training.step] = training.network.body.weight.detach().clone()


@pytest.mark.parametrize("data", [signs(400), TensorDataset(*signs(400)), Arrays(*signs(400))])
def test_a_small_problem_is_learned_with_nothing_else(data: Any) -> None:
    made = network()
    training = fit(made, data)
    assert training.steps >= 2000
    assert evaluate(made, signs(2000, 1)).metrics["accuracy"] > 0.88  # 0.9 to 0.95 over seeds; by chance 1/16


def test_the_weights_are_the_last_ones_near_the_lowest_validation_loss() -> None:
    p, x = signs(60)
    x[::3] = 1 - x[::3]  # noise, which 2,000 steps overfit
    made, seen = network(), Until()
    training = fit(made, (p, x), callbacks=[seen])
    losses = {record["step"]: record["validation_loss"] for record in training.history}
    errors = {record["step"]: record["validation_loss_error"] for record in training.history}
    kept = next(step for step, weight in seen.weights.items() if torch.equal(weight, made.body.weight))
    lowest = min(losses.values())
    assert losses[kept] <= lowest + errors[kept]
    later = [step for step in losses if step > kept]
    assert all(losses[step] > min(losses[s] for s in losses if s <= step) + errors[step] for step in later)


def test_the_validation_loss_is_the_likelihood_at_the_best_scale() -> None:
    made, data = network(), Arrays(*signs(100), validation=0.2)
    training = fit(made, data, score_after=[], callbacks=[])
    held = data.whole("validation")
    with torch.no_grad():
        A = made(held.p)
    scales = [float((s * energies(A, held.x_true) + log_partition(s * A, 1.0)).mean()) for s in SCALES]
    (record,) = training.history
    assert record["validation_loss"] == pytest.approx(min(scales), rel=1e-4)
    assert min(scales) < scales[SCALES.index(1.0)]


def test_epochs_train_on_everything_and_keep_the_last_weights() -> None:
    training = fit(network(), signs(400), epochs=3, batch_size=100)
    assert training.steps == 12
    assert all("validation_loss" not in record for record in training.history)


def test_a_resumed_run_ends_in_the_same_weights(tmp_path: Path) -> None:
    whole, parts = network(), network()
    fit(whole, signs(100))
    stopped = fit(parts, signs(100), folder=tmp_path, callbacks=[Until(900)])
    assert stopped.step == 900
    again = network()
    fit(again, signs(100), folder=tmp_path)
    assert torch.equal(again.body.weight, whole.body.weight)


def test_adamw_equals_torch() -> None:
    ours, theirs = network(), network()
    update = FlatAdam(ours, Adam(0.1, weight_decay=0.3), 5)
    torch_update = torch.optim.AdamW(theirs.parameters(), 0.1, weight_decay=0.3)
    p, _ = signs(8)
    for step in range(5):
        for made in (ours, theirs):
            made.zero_grad(set_to_none=False)
            made(p).square().sum().backward()
        rates = torch.tensor(update.rates(step + 1), dtype=torch.float32)
        update.move(*rates) if step % 2 else update.step(step + 1)
        torch_update.step()
    torch.testing.assert_close(ours.body.weight, theirs.body.weight, rtol=1e-4, atol=1e-5)


def test_a_wide_layer_gets_a_small_rate() -> None:
    assert default_optimizer(nn.Linear(1, 3)).learning_rate == 1.0
    assert default_optimizer(nn.Linear(4, 3)).learning_rate == 0.5
    assert default_optimizer(nn.Conv2d(20, 8, 5)).learning_rate == 1 / 500
    assert default_optimizer(nn.Linear(10**5, 1)).learning_rate == 1e-4


def test_centered_couplings_equal_the_expansion() -> None:
    made, (p, x) = network(centered=True), signs(50)
    x[:, 0] = 1.0
    fit(made, (p, x), Likelihood(1.0), epochs=1)
    assert made.center is not None
    torch.testing.assert_close(made.center, x.mean(0))
    outputs = made.body(p).detach()
    states = torch.tensor((np.arange(16)[:, None] >> np.arange(N)) & 1).float()
    shifted = states - made.center
    i, j = made.edges
    expected = outputs[:, :N] @ states.T + 2 * outputs[:, N:] @ (shifted[:, i] * shifted[:, j]).T
    found = energies(made(p).detach(), states.expand(50, -1, -1))
    torch.testing.assert_close(found - found[:, :1], expected - expected[:, :1], rtol=1e-4, atol=1e-4)


def test_wrong_options_are_named() -> None:
    with pytest.raises(QubolearnError, match="yes"):
        fit(network(), signs(50), progress="yes")  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="-1"):
        Adam(weight_decay=-1)
