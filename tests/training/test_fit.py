"""The open loop: a user's own data, network, loss, optimizer, solver and callbacks, and what it says to bad ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from qubolearn import (
    Adam,
    Arrays,
    Cosine,
    ExhaustiveSearch,
    Gap,
    Hinge,
    Instances,
    Likelihood,
    QuboNetwork,
    RightAnswers,
    SimulatedAnnealing,
    Solution,
    Topology,
    energies,
    evaluate,
    fit,
    topology,
)
from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.problems.randgraph import RandGraph
from qubolearn.training.callbacks import Callback

M, N, COUNT = 6, 4, 600
PATTERN: Topology = topology("dense", N)
RNG = np.random.default_rng(0)
P = RNG.normal(size=(COUNT, M))
X = P @ RNG.normal(size=(M, N)) > 0


class Body(nn.Module):
    """Three layers of the user's own."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(M, 24), nn.Linear(24, 24), nn.Linear(24, PATTERN.size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, p: Tensor) -> Tensor:
        return self.last(torch.relu(self.second(self.dropout(torch.relu(self.first(p))))))


def own_network(seed: int = 0, **options: Any) -> QuboNetwork:
    torch.manual_seed(seed)
    return QuboNetwork(Body(**options), PATTERN)


def own_loss(A: Tensor, batch: Any) -> Tensor:
    x_star = batch.solver(A.detach(), 1).states[:, 0]
    return (0.3 + energies(A, batch.x_true) - energies(A, x_star)).clamp_min(0)


def weights(network: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach()


def adamw(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), 5e-3, weight_decay=1e-3)


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(P[index], dtype=torch.float32), torch.tensor(X[index])


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        index = 0
        while True:
            yield torch.tensor(P[index % COUNT], dtype=torch.float32), torch.tensor(X[index % COUNT])
            index += 1


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.tensor(P), torch.tensor(X)), batch_size=50, **options)


DATA: dict[str, Any] = {
    "arrays": lambda: (P, X),
    "tensors": lambda: (torch.tensor(P), torch.tensor(X).to(torch.uint8)),
    "Arrays": lambda: Arrays(P, X, validation=0.1),
    "Dataset": Items,
    "DataLoader": lambda: loader(shuffle=True),
    "lists of batches": lambda: DataLoader(Items(), batch_size=60, drop_last=True),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("loss", [Likelihood(), Hinge(), own_loss, Gap() + 0.1 * Likelihood()])
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
    """A graph as a mapping of node features and adjacency; the body passes messages."""

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
    network = QuboNetwork(GraphBody(), topology("diagonal", 5), method="diag")
    fit(network, Arrays(p, x), Likelihood(), optimizer=Adam(1e-2), epochs=40, batch_size=50)
    assert evaluate(network, Arrays(p, x)).metrics["accuracy"] > 0.5  # by chance 1/32


def test_a_network_need_not_be_ours() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(M, N)

        def forward(self, p: Tensor) -> Tensor:
            return torch.diag_embed(self.layer(p))

    network = Whole()
    fit(network, (P, X), Likelihood(), optimizer=Adam(1e-2), epochs=10)
    assert evaluate(network, (P, X)).metrics["accuracy"] > 0.4  # by chance 1/16


def test_several_right_answers_are_learned_and_counted() -> None:
    """x and its complement are both right, and the label is one of them at random: bits alone cannot say which."""
    flip = RNG.random(COUNT) < 0.5
    x = torch.tensor(np.where(flip[:, None], ~X, X)).float()
    right = RightAnswers(torch.stack([x, 1 - x], 1), torch.ones(COUNT, 2, dtype=torch.bool))
    data = Arrays(P, x, right=right, validation=0.2)
    network = own_network()
    fit(network, data, Likelihood(), optimizer=Adam(1e-2), epochs=25, batch_size=50)
    assert evaluate(network, data).metrics["accuracy"] > 0.7
    assert evaluate(network, (P, x)).metrics["accuracy"] < 0.6  # half of the labels are the other one


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


class StopAt(Callback):
    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def on_step(self, training: Any) -> None:
        if training.step in self.steps:
            training.stop(for_good=False)


@pytest.mark.parametrize("data", ["Arrays", "Dataset", "DataLoader"])
@pytest.mark.parametrize("kind", ["ours", "torch"])
def test_a_stopped_training_of_own_parts_resumes_to_the_same_bits(data: str, kind: str, tmp_path: Path) -> None:
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


def test_another_optimizer_does_not_take_over_a_folder(tmp_path: Path) -> None:
    fit(own_network(), (P, X), epochs=1, folder=tmp_path, callbacks=[StopAt(2)])
    network = own_network()
    with pytest.raises(QubolearnError, match="another optimizer"):
        fit(network, (P, X), epochs=1, folder=tmp_path, optimizer=adamw(network))


def test_stochastic_solvers_draw_anew_in_every_step() -> None:
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


class _Scalar(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        return p.sum()


class Forgetful:
    """A solver that draws random states, whatever its seed is."""

    def with_seed(self, seed: int) -> Forgetful:
        return self

    def __call__(self, A: Tensor, count: int = 2) -> Solution:
        states = torch.stack([torch.randint(0, 2, A.shape[:2]).to(A) for _ in range(count)], 1)
        return Solution(states, energies(A, states).double())


class Unseeded(ExhaustiveSearch):
    def with_seed(self, seed: int) -> None:  # type: ignore[override]
        return None


def three_bits() -> QuboNetwork:
    pattern = topology("dense", 3)
    return QuboNetwork(nn.Linear(M, pattern.size), pattern)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "labels of -1 and 1": ({"data": (P, np.where(X, 1, -1))}, r"x holds -1 .*\(x \+ 1\) / 2"),
    "labels of 0.5": ({"data": (P, X * 0.5)}, "x holds 0.5"),
    "lengths": ({"data": (P, X[:-1])}, "p has 600 instances, but x has 599"),
    "no data": ({"data": 7}, "data is a int; want a Problem"),
    "an array alone": ({"data": P}, "data is a ndarray"),
    "p of strings": ({"data": (["a"] * COUNT, X)}, "str where a tensor"),
    "x of one dimension": ({"data": (P, X[:, 0])}, r"bits \[N, n\]"),
    "a solver's name": ({"solver": "annealing"}, r"solver='annealing' is a name; .*make_solver"),
    "p of text": ({"data": (np.full((COUNT, M), "a"), X)}, "array of <U1 where"),
    "complex p": ({"data": (P + 1j, X)}, "array of complex128 where"),
    "a complex tensor": ({"data": (torch.tensor(P + 1j), X)}, "real and imaginary parts as columns"),
    "a temperature beyond float32, loss": ({"loss": Likelihood(1e39)}, "log Z overflows .* at step 0"),
    "no solver": ({"solver": 3}, "cannot be called"),
    "a solver's class": ({"solver": ExhaustiveSearch}, r"solver=ExhaustiveSearch is a class; .*ExhaustiveSearch\(\)"),
    "a solver that cannot be seeded": ({"solver": Unseeded()}, "returned None"),
    "a solver that ignores its seed": ({"solver": Forgetful(), "loss": Gap()}, "ignores its seed: with_seed"),
    "callbacks that are none": ({"callbacks": [3]}, "callback 3 has no on_start"),
    "a callback's class": ({"callbacks": [StopAt]}, "callback StopAt is a class"),
    "a callback alone": ({"callbacks": StopAt(1)}, "callbacks is a StopAt; want a list"),
    "a device": ({"device": "gpu"}, "device 'gpu' is not usable here"),
    "no instances": ({"instances": 0}, "instances=0"),
    "a step to score": ({"score_after": 3}, "score_after=3; want a list"),
    "p of objects": ({"data": (np.full((COUNT, M), "a", object), X)}, "array of object where"),
    "a network of doubles": ({"network": own_network().double()}, r"call network.float\(\)"),
    "validation of other bits": ({"validation": (P, X[:, :3])}, r"A \[2, 4, 4\] for 2 instances of 3 bits"),
    "validation data": ({"validation": (P, X[:-1])}, "p has 600 instances, but x has 599"),
    "a loss's name": ({"loss": "nll"}, "no loss"),
    "a scalar loss": ({"loss": lambda A, batch: A.sum()}, r"returned \[\]"),
    "a detached loss": ({"loss": lambda A, batch: A.detach().sum((1, 2))}, "does not depend on the network"),
    "a loss of NaN": ({"loss": lambda A, batch: A.sum((1, 2)) * float("nan")}, "the loss is nan at step 0"),
    "epochs": ({"epochs": 0}, "epochs=0"),
    "a seed too large": ({"seed": 2**63}, "seed=9223372036854775808"),
    "no optimizer": ({"optimizer": "adam"}, "optimizer='adam'"),
    "a schedule of ours": ({"schedule": Cosine()}, "schedule= is for optimizers of torch"),
    "other bits": ({"network": three_bits()}, r"A \[2, 3, 3\] for 2 instances of 4 bits"),
    "p of another width": ({"data": (P[:, :5], X)}, r"QuboNetwork fails on p of shape \[batch, \*\[5\]\]"),
    "no network": ({"network": lambda p: p}, "want a torch.nn.Module"),
    "nothing to train": ({"network": _Scalar()}, "no parameter"),
    "wrong entries": ({"network": QuboNetwork(nn.Linear(M, 3), PATTERN)}, r"want \[batch, 10\]"),
    "an endless loader": ({"data": DataLoader(Endless(), batch_size=10)}, "steps_per_epoch="),
    "an empty loader": ({"data": loader(sampler=[])}, "0 batches an epoch"),
    "a loader of single tensors": ({"data": DataLoader(TensorDataset(torch.tensor(P)))}, "want pairs|list|labels"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parts_are_named_in_one_line(name: str, tmp_path: Path) -> None:
    options, says = BAD[name]
    given = {"network": own_network(), "data": (P, X), "epochs": 1, **options}
    network, data = given.pop("network"), given.pop("data")
    folder = tmp_path / "run"
    with pytest.raises(QubolearnError, match=says) as caught:
        fit(network, data, folder=folder, **given)
    assert "\n" not in str(caught.value)
    assert not folder.exists() or "loss" in name  # which is known in the first step only


def test_a_solver_that_returns_something_else_is_named() -> None:
    def one(A: Tensor, count: int = 2) -> Solution:
        return ExhaustiveSearch()(A[:1], count)

    for solver, says in (
        (one, r"returned states \[1, 2, 4\]; want .*\[128, 2, 4\]"),
        (lambda A, count: A, "states none"),
    ):
        with pytest.raises(QubolearnError, match=says):
            fit(own_network(), (P, X), Gap(), solver=solver, epochs=1)
    for optimizer in (lambda: Adam(-1.0), lambda: Adam("1e-3"), lambda: Adam(1e-3, 0.5)):  # type: ignore[arg-type]
        with pytest.raises(QubolearnError, match=r"learning_rate=|schedule="):
            optimizer()
    with pytest.raises(QubolearnError, match="QUBOs have 3 bits, but the instances to score have 4"):
        evaluate(three_bits(), (P, X))


def test_a_stream_that_can_be_read_once_is_read_once() -> None:
    class Stream(IterableDataset[Any]):
        rest = iter([(torch.tensor(P[i], dtype=torch.float32), torch.tensor(X[i])) for i in range(100)])

        def __iter__(self) -> Any:
            return self.rest

    assert fit(own_network(), DataLoader(Stream(), batch_size=20), epochs=1, steps_per_epoch=5).step == 5


def test_a_large_dataset_is_not_loaded_to_look_at_its_shape() -> None:
    class Counted(Items):
        asked = 0

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            self.asked += 1
            return super().__getitem__(index)

    data = Counted()
    fit(own_network(), data, epochs=1, batch_size=20, callbacks=[StopAt(1)])
    assert data.asked == 2 * 20  # a batch to try the network on, and the first step


def test_a_loader_that_ends_early_says_so() -> None:
    with pytest.raises(QubolearnError, match="ended after 12 of 20 batches of epoch 0; pass steps_per_epoch=12"):
        fit(own_network(), loader(), epochs=1, steps_per_epoch=20)
    fit(own_network(), DataLoader(Endless(), batch_size=10), epochs=2, steps_per_epoch=5)


def test_an_optimizer_over_other_parameters_is_refused() -> None:
    with pytest.raises(QubolearnError, match="are not the network's"):
        fit(own_network(), (P, X), optimizer=adamw(own_network()))
    network = own_network()
    other = torch.optim.lr_scheduler.StepLR(adamw(own_network()), 3)
    with pytest.raises(QubolearnError, match="another optimizer"):
        fit(network, (P, X), optimizer=adamw(network), schedule=other)


def test_parameters_of_several_dtypes_are_refused() -> None:
    network = own_network()
    network.body.last.double()  # type: ignore[union-attr]
    with pytest.raises(QubolearnError, match="want one dtype"):
        fit(network, (P, X))


def test_nan_in_validation_data_is_named_and_kept(tmp_path: Path) -> None:
    broken = P[:20].copy()
    broken[3, 2] = np.nan
    with pytest.raises(NonFiniteError, match="step 0"):
        fit(own_network(), (P, X), epochs=1, validation=(broken, X[:20]), folder=tmp_path)
    assert (tmp_path / "fault" / "fault.json").is_file()


def test_evaluate_scores_exactly_what_it_is_given() -> None:
    network = own_network()
    assert evaluate(network, (P[:7], X[:7])).instances == 7
    assert evaluate(network, Arrays(P, X, validation=0.1, test=13)).instances == 13
    assert evaluate(network, Arrays(P, X, validation=0.1)).instances == 60
    assert evaluate(network, loader()).instances == COUNT
    assert evaluate(network, Items()).instances == COUNT
    whole = evaluate(network, (P, X)).metrics
    assert evaluate(network, loader()).metrics == pytest.approx(whole)
    with pytest.raises(QubolearnError, match="is a name"):
        evaluate(network, (P, X), "exhaustive")  # type: ignore[arg-type]
    for solver, says in ((3, "cannot be called"), (ExhaustiveSearch, r"is a class; .*ExhaustiveSearch\(\)")):
        with pytest.raises(QubolearnError, match=says):
            evaluate(network, (P, X), solver)  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="instances=0"):
        evaluate(three_bits(), RandGraph(k=3), instances=0)


def test_what_has_no_label_is_not_called_exact() -> None:
    def plain(A: Tensor, count: int = 2) -> Solution:
        return Solution(*ExhaustiveSearch()(A, count))

    assert evaluate(own_network(), (P, X), plain).info["source"] == "unknown"


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
