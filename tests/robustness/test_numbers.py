"""Promise 4: NaN and infinities."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from child_training import CONFIG
from quick_solvers import QUICK, WEAK

from qubolearn import Callback, fit
from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.files import read_tensors
from qubolearn.losses import Batch, PseudoLikelihood
from qubolearn.problems import Instances, Problem
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import derive_seed, stream
from qubolearn.recipes import Recipe, make_loss, new_network, train
from qubolearn.runs import Run
from qubolearn.solvers import SOLVERS, make_solver
from qubolearn.solvers.contract import seeded
from qubolearn.training.callbacks import StopIf, Training
from qubolearn.training.optimizers import FlatAdam

PROBLEM = RandGraph(k=3)
#: 40 steps of 20 instances, no solver that would look at A.
PLAIN = replace(CONFIG, loss="pseudo", standardize=False)


@dataclass(frozen=True)
class Poisoned(RandGraph):
    """Training instances of one epoch hold one NaN."""

    value: float = 0.0
    epoch: int = 2
    row: int = 31  # row 11 of the second batch: step 9
    column: int = 5

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        instances = super().sample(count, generator, split)
        if split == "train" and generator.initial_seed() == derive_seed(CONFIG.seed, "train", self.epoch):
            instances.p[self.row, self.column] = self.value
        return instances


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("loss", ["pseudo", "hinge", "nll"])
def test_a_poisoned_batch_stops_training_before_the_weights_are_harmed(
    value: float, loss: str, tmp_path: Path
) -> None:
    problem, config = Poisoned(k=3, value=value), replace(PLAIN, loss=loss)
    run = Run(tmp_path / "run", PROBLEM, config)
    with pytest.raises(NonFiniteError) as caught:
        train(problem, config, run)
    message = str(caught.value)
    seed = derive_seed(0, "train", 2)
    assert f"at step 9 (seed 0, epoch 2, batch seed {seed})" in message
    assert str(tmp_path / "run" / "fault") in message
    assert "\n" not in message

    asked = iter(range(9))
    healthy = train(PROBLEM, config, callbacks=[StopIf(lambda: next(asked) == 8)])  # the nine steps before
    weights, _ = read_tensors(tmp_path / "run" / "fault" / "weights.safetensors", healthy.state_dict())
    assert all(torch.equal(weights[name], tensor) for name, tensor in healthy.state_dict().items())


class Fault:
    """The files of a stored fault."""

    def __init__(self, folder: Path) -> None:
        notes, arrays = json.loads((folder / "fault.json").read_text()), np.load(folder / "batch.npz")
        self.step, self.batch_seed = notes["step"], notes["batch_seed"]
        self.p, self.x_true = torch.tensor(arrays["p"]), torch.tensor(arrays["x_true"]).float()
        self.folder = folder

    def losses(self, problem: Problem, recipe: Recipe, *steps: int) -> list[float]:
        """Return the losses of the batch with the stored weights."""
        network, loss = new_network(problem, recipe), make_loss(recipe, problem)
        weights, _ = read_tensors(self.folder / "weights.safetensors", network.state_dict(), finite=False)
        network.load_state_dict(weights)
        found = network.couplings(self.p)
        instances = Instances(self.p, self.x_true, problem.decode(self.x_true))
        seeds = [derive_seed(recipe.seed, "solver", step) for step in steps or (self.step,)]
        solvers = [seeded(make_solver(recipe.solver), seed) for seed in seeds]
        batches = [Batch(instances, solver, None, found.features) for solver in solvers]
        return [loss(found.A, batch).mean().item() for batch in batches]


def test_a_stored_fault_holds_its_batch_and_weights(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", PROBLEM, PLAIN)
    poisoned = Poisoned(k=3, value=float("nan"))
    with pytest.raises(NonFiniteError):
        train(poisoned, PLAIN, run)
    fault = Fault(tmp_path / "run" / "fault")
    assert (fault.step, fault.batch_seed) == (9, derive_seed(0, "train", 2))
    assert np.isnan(fault.losses(PROBLEM, PLAIN)[0])
    drawn = poisoned.sample(PLAIN.instances, stream(0, "train", 2))
    torch.testing.assert_close(fault.p, drawn.p[20:40], equal_nan=True, rtol=0, atol=0)
    assert torch.equal(fault.x_true, drawn.x_true[20:40])


class Dividing(torch.nn.Module):
    """Takes p of two tensors, and divides by the second one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, p: dict[str, torch.Tensor]) -> torch.Tensor:
        return (self.linear(p["values"]) / p["sizes"]).view(-1, 2, 2)


def test_a_fault_of_structured_inputs_is_stored(tmp_path: Path) -> None:
    p = {"values": torch.randn(40, 3), "sizes": torch.ones(40, 1, dtype=torch.bfloat16)}
    p["sizes"][7] = 0
    data = p, p["values"][:, :2] > 0
    with pytest.raises(NonFiniteError, match="at step 0 "):
        fit(Dividing(), data, PseudoLikelihood(), epochs=1, batch_size=40, folder=tmp_path)
    kept = np.load(tmp_path / "fault" / "batch.npz")
    assert (kept["p_1"] == 0).sum() == 1
    assert (len(kept["p_0"]), len(kept["x_true"])) == (40, 40)


def test_a_finite_loss_with_a_gradient_that_is_not_stops_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def steep(self: PseudoLikelihood, A: torch.Tensor, batch: Batch) -> torch.Tensor:
        return (A.abs().sum((1, 2)) * 0).sqrt()  # a slope of infinity times 0

    monkeypatch.setattr(PseudoLikelihood, "__call__", steep)
    run = Run.create(tmp_path, PROBLEM, PLAIN)
    with pytest.raises(NonFiniteError, match=r"gradient.*nan.*step 0"):
        train(PROBLEM, PLAIN, run)
    assert Fault(tmp_path / "fault").step == 0


def test_a_fault_without_a_folder_or_with_a_full_one_is_still_reported(tmp_path: Path) -> None:
    problem = Poisoned(k=3, value=float("nan"))
    with pytest.raises(NonFiniteError, match="folder="):
        train(problem, PLAIN)
    run = Run.create(tmp_path / "run", PROBLEM, PLAIN)
    (run.folder / "fault").write_text("in the way")
    with pytest.raises(NonFiniteError, match=r"step 9 .*stored"):
        train(problem, PLAIN, run)


def test_a_stored_fault_has_the_draw_of_its_step(tmp_path: Path) -> None:
    losses: list[float] = []

    class Watch(Callback):
        def on_step(self, training: Training) -> None:
            losses.append(training.loss)

    class Break(Callback):
        steps = 0

        def on_gradient(self, training: Training) -> None:
            self.steps += 1
            if self.steps == 8:
                raise NonFiniteError("planted")

    recipe = replace(CONFIG, loss="contrastive")  # of reads as they come
    train(PROBLEM, recipe, callbacks=[Watch()])
    with pytest.raises(NonFiniteError, match="planted at step 7"):
        train(PROBLEM, recipe, Run.create(tmp_path, PROBLEM, recipe), callbacks=[Break()])
    fault = Fault(tmp_path / "fault")
    assert fault.losses(PROBLEM, recipe)[0] == pytest.approx(losses[7], rel=1e-5)
    assert len(set(fault.losses(PROBLEM, recipe, *range(20)))) > 1, "the loss does not depend on the draw"


def test_weights_that_are_not_finite_never_replace_a_good_checkpoint(tmp_path: Path) -> None:
    run = Run.create(tmp_path, PROBLEM, PLAIN)
    network = new_network(PROBLEM, PLAIN)
    optimizer = FlatAdam(network)
    network.couplings(torch.ones(1, PROBLEM.input_size)).A.sum().backward()
    optimizer.step(1)
    run.checkpoint(network, optimizer, 3)
    next(network.parameters()).data[0] = float("inf")
    with pytest.raises(NonFiniteError, match="unchanged"):
        run.checkpoint(network, optimizer, 4)
    assert run.restore(network, optimizer, 9) == 3


def test_the_list_of_solvers_is_complete() -> None:
    assert set(QUICK) == set(SOLVERS) - {"dwave"}
    right = {"auto", "exhaustive", "tempering", "population"}  # in spite of the seed
    assert set(WEAK) == set(QUICK) - right


@pytest.mark.parametrize("name", QUICK)
def test_solvers_take_no_nan_and_return_true_energies(name: str) -> None:
    solver = make_solver(QUICK[name].format(seed=0))
    A = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
    for value in (float("nan"), float("inf"), float("-inf")):
        bad = A.clone()
        bad[1, 2, 3] = value
        with pytest.raises(NonFiniteError, match=r"A\[1, 2, 3\] is"):
            solver(bad)
    states, found = solver(A)
    wide = torch.einsum("bci,bij,bcj->bc", states.double(), A.double(), states.double())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, wide, rtol=1e-14, atol=1e-14)
    assert ((states == 0) | (states == 1)).all()


@pytest.mark.parametrize("count", [0, 1.5, "2"])
@pytest.mark.parametrize("name", QUICK)
def test_a_count_that_is_not_a_number_is_rejected(name: str, count: Any) -> None:
    with pytest.raises(QubolearnError, match=r"count="):
        make_solver(QUICK[name].format(seed=0))(torch.zeros(1, 3, 3), count)
