"""Resuming a folder of ``fit``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, StepLR
from torch.utils.data import DataLoader, TensorDataset
from user_parts import COUNT, Items, M, P, StopAt, X, own_loss, weights

from qubolearn import Adam, Arrays, Gap, Likelihood, QuboNetwork, SimulatedAnnealing, evaluate, fit, topology
from qubolearn.errors import QubolearnError
from qubolearn.problems import Instances, Problem
from qubolearn.training.callbacks import Callback, Checkpoint, EarlyStopping
from qubolearn.training.folder import Folder
from qubolearn.training.optimizers import Cosine


def network(
    hidden: int = 8, activation: Callable[[], nn.Module] = nn.ReLU, pattern: str = "dense"
) -> QuboNetwork:
    torch.manual_seed(0)
    graph = topology(pattern, X.shape[1])
    body = nn.Sequential(nn.Linear(M, hidden), activation(), nn.Linear(hidden, graph.size))
    return QuboNetwork(body, graph, M)


def arguments(folder: Path, **changed: Any) -> dict[str, Any]:
    given = {"network": network(), "data": (P, X), "loss": Likelihood(), "epochs": 1, "batch_size": 50}
    return {**given, "optimizer": Adam(1e-2), "folder": folder, **changed}


def sgd(rate: float = 1e-2, schedule: Callable[..., Any] | None = None) -> dict[str, Any]:
    trained = network()
    optimizer = torch.optim.SGD(trained.parameters(), rate)
    return {"network": trained, "optimizer": optimizer, "schedule": schedule and schedule(optimizer)}


def batches(x: Any = X, count: int = COUNT, **options: Any) -> dict[str, Any]:
    rows = TensorDataset(torch.tensor(P[:count]), torch.tensor(x[:count]))
    return {"data": DataLoader(rows, 50, **options)}


def annealing(reads: int) -> dict[str, Any]:
    return {"solver": SimulatedAnnealing(reads=reads, sweeps=2), "loss": Gap()}


def one(step: int) -> float:
    return 1.0


def falling(step: int) -> float:
    return 1 / (1 + step)


class Flipped(Items):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        p, x = super().__getitem__(index)
        return p, ~x


#: Case -> the choice that the error names, the first arguments, the second ones.
REFUSED: dict[str, tuple[str, Callable[[], dict[str, Any]], Callable[[], dict[str, Any]]]] = {
    "x": ("data", dict, lambda: {"data": (P, ~X)}),
    "dataset": ("data", lambda: {"data": Items()}, lambda: {"data": Flipped()}),
    "loader": ("data", partial(batches, shuffle=True), partial(batches, ~X, shuffle=True)),
    "loss": ("loss", dict, lambda: {"loss": Likelihood(5.0)}),
    "function": ("loss", lambda: {"loss": own_loss}, lambda: {"loss": lambda A, batch: own_loss(A, batch)}),
    "kind of optimizer": ("optimizer", dict, sgd),
    "torch optimizer": ("optimizer", sgd, partial(sgd, rate=2e-2)),
    "schedule": ("optimizer", dict, lambda: {"optimizer": Adam(1e-2, Cosine())}),
    "torch schedule": ("schedule", sgd, partial(sgd, schedule=partial(StepLR, step_size=3))),
    "function of a schedule": (
        "schedule",
        partial(sgd, schedule=partial(LambdaLR, lr_lambda=one)),
        partial(sgd, schedule=partial(LambdaLR, lr_lambda=falling)),
    ),
    "options of a solver": ("solver", partial(annealing, 2), partial(annealing, 3)),
    "network": ("network", dict, lambda: {"network": network(hidden=9)}),
    "activation": ("network", dict, lambda: {"network": network(activation=nn.Tanh)}),
    "topology": ("network", dict, lambda: {"network": network(pattern="diagonal")}),
    "seed": ("seed", dict, lambda: {"seed": 1}),
    "standardization": ("standardize", dict, lambda: {"standardize": False}),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "stopped"])
def test_a_folder_of_another_run_raises_and_names_what_differs(
    case: str, ended: bool, tmp_path: Path
) -> None:
    choice, first, second = REFUSED[case]
    fit(**arguments(tmp_path, **first(), callbacks=[] if ended else [StopAt(2)]))
    before = contents(tmp_path)
    with pytest.raises(QubolearnError) as error:
        fit(**arguments(tmp_path, **{**first(), **second()}))
    named = str(error.value).partition("holds another run: ")[2].split("; choose")[0]
    assert [part.split(" was ")[0] for part in named.split("; ")] == [choice]
    assert contents(tmp_path) == before


def test_overwrite_starts_over(tmp_path: Path) -> None:
    fit(**arguments(tmp_path / "a"))
    other = fit(**arguments(tmp_path / "a", data=(P, ~X), overwrite=True))
    assert other.step == len(other.history) * other.steps
    want = network()
    fit(**arguments(tmp_path / "b", data=(P, ~X), network=want))
    assert torch.equal(weights(other.network), weights(want))
    new, old = (evaluate(other.network, (P, x)).metrics["accuracy"] for x in (~X, X))
    assert new > old
    fit(**arguments(tmp_path / "a", data=(P, ~X)))  # the digest is the new one


class Meta(Callback):
    """Another callback."""


RESUMED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "epochs": {"epochs": 2},
    "device": {"device": torch.device("cpu", 0)},
    "callbacks": {"callbacks": [Meta()]},
    "score_after": {"score_after": [5]},
    "validation": {"validation": (P[:9], X[:9])},
    "weights": {"network": QuboNetwork(network().body, topology("dense", X.shape[1]), M)},
}


@pytest.mark.parametrize("change", RESUMED)
def test_other_changes_resume(change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(**arguments(tmp_path, callbacks=[StopAt(7)]))
    assert "resumed" not in capsys.readouterr().out
    done = fit(**arguments(tmp_path, **RESUMED[change]))
    assert done.step == done.steps == 12 * RESUMED[change].get("epochs", 1)
    assert capsys.readouterr().out == "resumed at step 7\n"
    whole = network()
    fit(**arguments(tmp_path / "whole", network=whole, epochs=RESUMED[change].get("epochs", 1)))
    assert torch.equal(weights(done.network), weights(whole))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_run_of_the_cpu_resumes_on_a_gpu(tmp_path: Path) -> None:
    fit(**arguments(tmp_path, callbacks=[StopAt(7)]))
    assert fit(**arguments(tmp_path, device="cuda")).step == 12


def test_the_same_objects_resume(tmp_path: Path) -> None:
    """Moving counters are not part of the digest."""
    parts = sgd(schedule=partial(StepLR, step_size=3))
    data = batches(shuffle=True, generator=torch.Generator().manual_seed(0))
    fit(**arguments(tmp_path, **parts, **data, callbacks=[StopAt(7)]))
    assert fit(**arguments(tmp_path, **parts, **data)).step == 12


@dataclass(frozen=True)
class Signs(Problem):
    """Bits are the signs of p, with some of them wrong."""

    noise: float = 0.0
    input_size = bits = 4

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        p = torch.randn(count, 4, generator=generator)
        x = (p + self.noise * torch.randn(count, 4, generator=generator) > 0).float()
        return Instances(p, x, x)


class Plain(Signs):
    """The same without options in its repr."""

    __repr__ = object.__repr__


@pytest.mark.parametrize("kind", [Signs, Plain])
def test_a_problem_is_compared_by_its_options(kind: type[Signs], tmp_path: Path) -> None:
    def again(noise: float) -> int:
        made, graph = nn.Linear(4, 10), topology("dense", 4)
        data = {"data": kind(noise), "instances": 200, "batch_size": 50}
        return fit(QuboNetwork(made, graph), folder=tmp_path, epochs=1, validation=None, **data).step

    assert again(0.0) == again(0.0) == 4
    with pytest.raises(QubolearnError, match="data was"):
        again(5.0)


def test_a_folder_without_a_digest_resumes_with_a_warning(tmp_path: Path) -> None:
    fit(**arguments(tmp_path, callbacks=[StopAt(7)]))
    (tmp_path / "digest.json").unlink()
    with pytest.warns(UserWarning, match="digest.json"):
        assert fit(**arguments(tmp_path)).step == 12


class Interrupted(Callback):
    """Ctrl-C during a step: a signal or an exception."""

    def __init__(self, step: int, raised: bool) -> None:
        self.step, self.raised = step, raised

    def on_step(self, training: Any) -> None:
        if training.step == self.step:
            if self.raised:
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("raised", [True, False])
def test_ctrl_c_saves_the_last_step(raised: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(**arguments(tmp_path, callbacks=[Interrupted(7, raised)]))
    assert Folder(tmp_path).step == 7
    assert str(tmp_path) in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is handler
    resumed, whole = network(), network()
    fit(**arguments(tmp_path, network=resumed))
    assert capsys.readouterr().out == "resumed at step 7\n"
    fit(**arguments(tmp_path / "whole", network=whole))
    assert torch.equal(weights(resumed), weights(whole))


def test_ctrl_c_inside_a_loss_saves_the_step_before(tmp_path: Path) -> None:
    calls = 0

    def loss(A: Any, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return own_loss(A, batch)

    with pytest.raises(KeyboardInterrupt):
        fit(**arguments(tmp_path, loss=loss))
    assert Folder(tmp_path).step == 5


@pytest.mark.parametrize(
    "callback", [EarlyStopping("accuracy"), Checkpoint("best.safetensors", "wrong_bits")]
)
def test_a_metric_without_validation_data_is_rejected_before_training(callback: Any, tmp_path: Path) -> None:
    with pytest.raises(QubolearnError, match=callback.metric):
        fit(**arguments(tmp_path / "run", callbacks=[callback]))
    assert not (tmp_path / "run").exists()
    assert fit(**arguments(tmp_path / "run", callbacks=[EarlyStopping("loss")])).step == 12


@pytest.mark.parametrize("standardize", [True, False])
def test_nan_in_p_is_named_and_not_blamed_on_the_learning_rate(standardize: bool, tmp_path: Path) -> None:
    p = P.copy()
    p[17, 3] = float("nan")
    with pytest.raises(QubolearnError, match=r"p\[\d+, 3\]") as error:
        fit(**arguments(tmp_path, data=(p, X), standardize=standardize))
    assert "learning rate" not in str(error.value)
    with pytest.raises(QubolearnError, match=r"p\[17, 3\]") as error:
        fit(**arguments(tmp_path / "validation", validation=(p, X)))
    assert "learning rate" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "split"), [({"test": 0.2}, "test"), ({}, "validation"), ({"validation": 0.0}, "train")]
)
def test_evaluate_names_the_split(options: dict[str, float], split: str) -> None:
    found = evaluate(network(), Arrays(P, X, **options))
    assert found.split == found.as_dict()["split"] == split
    assert evaluate(network(), Arrays(P, X, **options), split="train").split == "train"
    assert evaluate(network(), (P, X)).split is None
