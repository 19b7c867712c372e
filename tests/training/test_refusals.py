"""Bad parts raise one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from user_parts import (
    COUNT,
    PATTERN,
    Endless,
    M,
    P,
    StopAt,
    X,
    adamw,
    loader,
    own_loss,
    own_network,
    three_bits,
)

from qubolearn import Adam, ExhaustiveSearch, Gap, Likelihood, QuboNetwork, Solution, energies, evaluate, fit
from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.problems import Instances, Problem


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


class WithoutArgument(ExhaustiveSearch):
    def with_seed(self) -> WithoutArgument:  # type: ignore[override]
        return self


class Unseeded(ExhaustiveSearch):
    def with_seed(self, seed: int) -> None:  # type: ignore[override]
        return None


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "labels of -1 and 1": ({"data": (P, np.where(X, 1, -1))}, "x contains -1"),
    "lengths": ({"data": (P, X[:-1])}, "600.* 599"),
    "no data": ({"data": 7}, "data is a int"),
    "x of one dimension": ({"data": (P, X[:, 0])}, r"bits \[N, n\]"),
    "a solver's name": ({"solver": "annealing"}, "solver='annealing'"),
    "p of text": ({"data": (np.full((COUNT, M), "a"), X)}, "<U1"),
    "a temperature beyond float32, loss": ({"loss": Likelihood(1e39)}, "at step 0"),
    "a solver's class": ({"solver": ExhaustiveSearch}, "solver=ExhaustiveSearch"),
    "a solver that cannot be seeded": ({"solver": Unseeded()}, "None"),
    "a solver whose with_seed takes none": (
        {"solver": WithoutArgument()},
        "with_seed",
    ),
    "a solver that ignores its seed": ({"solver": Forgetful(), "loss": Gap()}, "Forgetful"),
    "callbacks that are none": ({"callbacks": [3]}, "callback 3"),
    "a callback's class": ({"callbacks": [StopAt]}, "StopAt"),
    "a device": ({"device": "gpu"}, "device 'gpu' is not usable here"),
    "a step to score": ({"score_after": 3}, "score_after=3"),
    "a network of doubles": ({"network": own_network().double()}, r"call network.float\(\)"),
    "validation of other bits": ({"validation": (P, X[:, :3])}, r"A \[2, 4, 4\].*\[2, 3, 3\]"),
    "a scalar loss": ({"loss": lambda A, batch: A.sum()}, r"returned \[\]"),
    "a detached loss": ({"loss": lambda A, batch: A.detach().sum((1, 2))}, "does not depend on the network"),
    "a loss of NaN": ({"loss": lambda A, batch: A.sum((1, 2)) * float("nan")}, "the loss is nan at step 0"),
    "a seed too large": ({"seed": 2**63}, "seed=9223372036854775808"),
    "no optimizer": ({"optimizer": "adam"}, "optimizer='adam'"),
    "other bits": ({"network": three_bits()}, r"A \[2, 3, 3\].*\[2, 4, 4\]"),
    "p of another width": ({"data": (P[:, :5], X)}, r"\[batch, 5\]"),
    "no network": ({"network": lambda p: p}, "network is a function"),
    "nothing to train": ({"network": _Scalar()}, "no parameter"),
    "wrong entries": ({"network": QuboNetwork(nn.Linear(M, 3), PATTERN)}, r"\[batch, 10\]"),
    "an endless loader": ({"data": DataLoader(Endless(), batch_size=10)}, "steps_per_epoch="),
    "a loader of single tensors": ({"data": DataLoader(TensorDataset(torch.tensor(P)))}, "list"),
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
        (one, r"\[1, 2, 4\].*\[32, 2, 4\]"),
        (lambda A, count: A, "none"),
    ):
        with pytest.raises(QubolearnError, match=says):
            fit(own_network(), (P, X), Gap(), solver=solver, epochs=1)
    for optimizer in (lambda: Adam(-1.0), lambda: Adam("1e-3"), lambda: Adam(1e-3, 0.5)):  # type: ignore[arg-type]
        with pytest.raises(QubolearnError, match=r"learning_rate=|schedule="):
            optimizer()
    with pytest.raises(QubolearnError, match=r"3 bits.* 4"):
        evaluate(three_bits(), (P, X))


def fails_at(call: int) -> Any:
    """Return a function that raises in this call, from 0."""
    calls = iter(range(1000))

    def count() -> None:
        if next(calls) == call:
            raise LookupError("of my own")

    return count


class OwnParts(Problem):
    """A problem with own parts, one of which fails."""

    name = "own"
    input_size, bits = M, 4

    def __init__(self, **fail: Any) -> None:
        self.fail = fail

    def called(self, part: str) -> None:
        self.fail.get(part, lambda: None)()

    def __repr__(self) -> str:
        return "OwnParts"

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        self.called("sample")
        p = torch.randn(count, M, generator=generator)
        return Instances(p, (p[:, :4] > 0).float(), (p[:, :4] > 0).float())

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        self.called("score")
        return super().score(answer, instances)

    def network(self) -> nn.Module:
        network = own_network()
        network.body.register_forward_hook(lambda *_: self.called("network"))
        return network

    def loss(self, A: Tensor, batch: Any) -> Tensor:
        self.called("loss")
        return own_loss(A, batch)

    def solver(self, A: Tensor, count: int = 2) -> Solution:
        self.called("solver")
        return ExhaustiveSearch()(A, count)


class Items(Dataset[Any]):
    """A Dataset that may fail, too."""

    def __init__(self, own: OwnParts) -> None:
        self.own = own

    def __repr__(self) -> str:
        return repr(self.own)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.own.called("item")
        return torch.zeros(M), torch.ones(4)


#: Part -> the call that fails, and what the note names.
FAILING = {
    "loss": (3, "loss", "[20, 4, 4]", "step 3"),
    "network": (3, "QuboNetwork", "[20, 6]", "step 1"),  # it was called for shapes, too
    "sample": (2, "OwnParts", "step 2"),
    "score": (1, "OwnParts", "[10, 4]", "step 4"),
    "item": (100, "OwnParts", "step 4"),
    "solver": (2, "solver", "Gap", "[20, 4, 4]", "step 2"),
}


@pytest.mark.parametrize("part", FAILING)
def test_an_error_of_a_user_defined_part_is_itself_with_a_note(part: str) -> None:
    call, *named = FAILING[part]
    own = OwnParts(**{part: fails_at(call)})
    network = own.network()
    data = Items(own) if part == "item" else own
    loss = Gap() if part == "solver" else own.loss
    options = {"epochs": 4, "batch_size": 20, "instances": 40, "validation": 10, "fresh": True}
    with pytest.raises(LookupError) as caught:
        fit(network, data, loss, solver=own.solver, **options)  # type: ignore[arg-type]
    (note,) = caught.value.__notes__
    assert all(text in note for text in named), note
    assert str(caught.value) == "of my own"
    assert caught.traceback[-1].name == "count"  # where it was raised


def test_a_loader_that_ends_early_is_named() -> None:
    with pytest.raises(QubolearnError, match="steps_per_epoch=12"):
        fit(own_network(), loader(), epochs=1, steps_per_epoch=20)
    fit(own_network(), DataLoader(Endless(), batch_size=10), epochs=2, steps_per_epoch=5)


def test_an_optimizer_over_other_parameters_is_rejected() -> None:
    with pytest.raises(QubolearnError, match="AdamW"):
        fit(own_network(), (P, X), optimizer=adamw(own_network()))
    network = own_network()
    other = torch.optim.lr_scheduler.StepLR(adamw(own_network()), 3)
    with pytest.raises(QubolearnError, match="StepLR"):
        fit(network, (P, X), optimizer=adamw(network), schedule=other)


def test_parameters_of_several_dtypes_are_rejected() -> None:
    network = own_network()
    network.body.last.double()  # type: ignore[union-attr]
    with pytest.raises(QubolearnError, match="float64"):
        fit(network, (P, X))


def test_nan_in_validation_data_is_named_and_kept(tmp_path: Path) -> None:
    broken = P[:20].copy()
    broken[3, 2] = np.nan
    with pytest.raises(NonFiniteError, match="step 0"):
        fit(own_network(), (P, X), epochs=1, validation=(broken, X[:20]), folder=tmp_path)
    assert (tmp_path / "fault" / "fault.json").is_file()
