"""``fit`` with user-defined parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from user_parts import (
    COUNT,
    DATA,
    Items,
    P,
    StopAt,
    X,
    adamw,
    loader,
    own_loss,
    own_network,
    three_bits,
    weights,
)

from qubolearn import (
    Adam,
    Arrays,
    ExhaustiveSearch,
    Gap,
    Hinge,
    Instances,
    Likelihood,
    QuboNetwork,
    RightAnswers,
    SimulatedAnnealing,
    Solution,
    evaluate,
    fit,
    topology,
)
from qubolearn.errors import QubolearnError
from qubolearn.problems.randgraph import RandGraph
from qubolearn.training.optimizers import Cosine


@pytest.mark.parametrize(
    ("data", "loss"),
    [
        *((data, own_loss) for data in DATA),
        *(("arrays", loss) for loss in (Likelihood(), Hinge(), Gap() + Hinge())),
    ],
)
def test_any_data_with_any_loss_learns(data: str, loss: Any) -> None:
    network = own_network()
    training = fit(network, DATA[data](), loss, optimizer=adamw(network), epochs=12, batch_size=50)
    assert training.step == training.steps == 12 * training.steps // 12
    assert not network.training
    found = evaluate(network, (P, X), ExhaustiveSearch())
    assert found.instances == COUNT
    assert found.metrics["accuracy"] > 0.6  # by chance 1/16


@pytest.mark.parametrize("optimizer", [None, Adam(5e-3), Adam(5e-3, Cosine()), "sgd", "scheduled"])
def test_any_optimizer_and_schedule(optimizer: Any) -> None:
    network, schedule = own_network(), None
    if isinstance(optimizer, str):
        made = torch.optim.SGD(network.parameters(), 0.02, momentum=0.9)
        schedule = torch.optim.lr_scheduler.OneCycleLR(made, 0.05, 240) if optimizer == "scheduled" else None
        optimizer = made
    fit(network, (P, X), Likelihood(3.0), optimizer=optimizer, schedule=schedule, epochs=20, batch_size=50)
    assert evaluate(network, (P, X)).metrics["accuracy"] > 0.6
    if schedule is not None:
        assert schedule.last_epoch == 240


def test_p_may_be_a_structure_that_the_network_takes() -> None:
    """A mapping of node features and adjacency."""

    class GraphBody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.message, self.update, self.last = nn.Linear(3, 16), nn.Linear(16, 16), nn.Linear(16, 1)

        def forward(self, p: dict[str, Any]) -> Tensor:
            nodes, (adjacency,) = p["nodes"], p["edges"]
            h = torch.relu(self.message(nodes))
            h = torch.relu(self.update(adjacency @ h) + h)
            return self.last(h)[..., 0]

    rng = np.random.default_rng(1)
    nodes, adjacency = rng.normal(size=(500, 5, 3)), rng.random((500, 5, 5)) < 0.4
    x = (adjacency.astype(float) @ nodes[:, :, :1])[..., 0] > 0
    p = {"nodes": nodes, "edges": [adjacency.astype(np.float32)]}
    network = QuboNetwork(GraphBody(), topology("diagonal", 5))
    fit(network, Arrays(p, x), Likelihood(), optimizer=Adam(1e-2), epochs=40, batch_size=50)
    assert evaluate(network, Arrays(p, x)).metrics["accuracy"] > 0.5  # by chance 1/32


def test_several_right_answers_are_learned_and_counted() -> None:
    """The label is one of both at random."""
    flip = np.random.default_rng(1).random(COUNT) < 0.5
    x = torch.tensor(np.where(flip[:, None], ~X, X)).float()
    right = RightAnswers(torch.stack([x, 1 - x], 1), torch.ones(COUNT, 2, dtype=torch.bool))
    data = Arrays(P, x, right=right, validation=0.2)
    network = own_network()
    fit(network, data, Likelihood(), optimizer=Adam(1e-2), epochs=25, batch_size=50)
    assert evaluate(network, data).metrics["accuracy"] > 0.7
    assert evaluate(network, (P, x)).metrics["accuracy"] < 0.6  # half are the other one


def test_same_seed_same_bits_with_dropout_and_a_shuffling_loader() -> None:
    def trained(seed: int) -> Tensor:
        network = own_network(dropout=0.3)
        fit(network, loader(shuffle=True), Hinge(), epochs=2, seed=seed, optimizer=adamw(network))
        return weights(network)

    torch.manual_seed(99)
    first = trained(0)
    torch.manual_seed(12)
    assert torch.equal(first, trained(0))
    assert not torch.equal(first, trained(1))


@pytest.mark.parametrize("data", ["Arrays", "Dataset", "DataLoader"])
@pytest.mark.parametrize("kind", ["ours", "torch"])
def test_a_stopped_training_of_user_parts_resumes_to_the_same_bits(
    data: str, kind: str, tmp_path: Path
) -> None:
    def run(folder: Path, *stops: int) -> Tensor:
        network = own_network(dropout=0.2)
        optimizer: Any = Adam(1e-2, Cosine())
        schedule = None
        if kind == "torch":
            optimizer = torch.optim.AdamW(network.parameters(), 1e-2)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 36)
        options = {"epochs": 3, "batch_size": 50, "folder": folder, "callbacks": [StopAt(*stops)]}
        fit(network, DATA[data](), own_loss, optimizer=optimizer, schedule=schedule, **options)
        return weights(network)

    whole = run(tmp_path / "whole")
    run(tmp_path / "stopped", 7)
    run(tmp_path / "stopped", 20)
    assert not (tmp_path / "stopped" / "model.safetensors").exists()
    assert torch.equal(run(tmp_path / "stopped"), whole)
    assert (tmp_path / "stopped" / "model.safetensors").is_file()


def test_stochastic_solvers_draw_again_in_every_step() -> None:
    seeds = []

    class Seeded:
        def __call__(self, A: Tensor, count: int = 2) -> Solution:
            return ExhaustiveSearch()(A, count)

        def with_seed(self, seed: int) -> Seeded:
            seeds.append(seed)
            return Seeded()

    fit(own_network(), (P, X), Gap(), epochs=1, batch_size=100, solver=Seeded())
    assert len(set(seeds[1:])) == 6  # the first one asks whether seeds matter
    fit(own_network(), (P, X), Gap(), epochs=1, solver=SimulatedAnnealing(reads=2, sweeps=2))


def test_a_stream_that_can_be_read_once_is_read_once() -> None:
    class Stream(IterableDataset[Any]):
        rest = iter([(torch.tensor(P[i], dtype=torch.float32), torch.tensor(X[i])) for i in range(100)])

        def __iter__(self) -> Any:
            return self.rest

    assert fit(own_network(), DataLoader(Stream(), batch_size=20), epochs=1, steps_per_epoch=5).step == 5


def test_evaluate_scores_exactly_what_it_is_given() -> None:
    network = own_network()
    assert evaluate(network, (P[:7], X[:7])).instances == 7
    assert evaluate(network, Arrays(P, X, validation=0.1, test=13)).instances == 13
    assert evaluate(network, Arrays(P, X, validation=0.1)).instances == 60
    assert evaluate(network, loader()).instances == COUNT
    assert evaluate(network, Items()).instances == COUNT
    whole = evaluate(network, (P, X)).metrics
    assert evaluate(network, loader()).metrics == pytest.approx(whole)
    with pytest.raises(QubolearnError, match="exhaustive"):
        evaluate(network, (P, X), "exhaustive")  # type: ignore[arg-type]
    for solver, says in ((3, "got 3"), (ExhaustiveSearch, r"is a class; .*ExhaustiveSearch\(\)")):
        with pytest.raises(QubolearnError, match=says):
            evaluate(network, (P, X), solver)  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="instances=0"):
        evaluate(three_bits(), RandGraph(k=3), instances=0)


def test_splits_of_arrays_share_nothing_and_cover_all() -> None:
    p = np.arange(100, dtype=np.float64)[:, None]
    data = Arrays(p, np.zeros((100, 2)), validation=0.2, test=10, seed=3)
    parts = [set(data.whole(split).p[:, 0].tolist()) for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [70, 20, 10]
    assert len(set.union(*parts)) == 100
    for wrong in ({"validation": 0.6, "test": 0.5}, {"validation": -1}, {"test": 1.5}):
        with pytest.raises(QubolearnError):
            Arrays(p, np.zeros((100, 2)), **wrong)


def test_right_answers_are_checked() -> None:
    x = torch.tensor(X).float()
    states = torch.stack([x, 1 - x], 1)
    for states_, valid in (
        (states, torch.zeros(COUNT, 2)),
        (states[:, :, :3], torch.ones(COUNT, 2)),
        (states * 2, torch.ones(COUNT, 2)),
        (states, torch.ones(COUNT, 3)),
    ):
        with pytest.raises(QubolearnError, match="right"):
            Arrays(P, X, right=RightAnswers(states_, valid))
    assert isinstance(Arrays(P, X).whole("train"), Instances)
