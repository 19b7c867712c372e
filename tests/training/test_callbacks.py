"""Callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from qubolearn import (
    Adam,
    Arrays,
    Callback,
    Checkpoint,
    EarlyStopping,
    Likelihood,
    QuboNetwork,
    evaluate,
    fit,
    topology,
)
from qubolearn.errors import QubolearnError
from qubolearn.training.callbacks import ClipGradients, ProgressBar, Training
from qubolearn.training.folder import Folder

RNG = np.random.default_rng(0)
P = RNG.normal(size=(300, 5))
DATA = Arrays(P, P @ RNG.normal(size=(5, 3)) > 0, validation=0.2)


def network() -> QuboNetwork:
    torch.manual_seed(0)
    pattern = topology("dense", 3)
    return QuboNetwork(nn.Linear(5, pattern.size), pattern)


def run(*callbacks: Any, epochs: int = 6, **options: Any) -> Training:
    return fit(network(), DATA, Likelihood(), epochs=epochs, batch_size=40, callbacks=callbacks, **options)


def training_with(**scores: float) -> Training:
    made = Training(network(), 10)
    made.scores = dict(scores)
    made.history.append({"step": 1, "loss": 0.0, **scores})
    return made


def test_moments_come_in_order() -> None:
    class Noting(Callback):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_start(self, training: Training) -> None:
            self.seen.append(f"start {training.step}/{training.steps}")

        def on_gradient(self, training: Training) -> None:
            self.seen.append("gradient")

        def on_step(self, training: Training) -> None:
            self.seen.append(f"step {training.step}" + (" scored" if training.scores else ""))

        def on_end(self, training: Training) -> None:
            self.seen.append(f"end {training.network.training}")

    noting = Noting()
    run(noting, epochs=1)
    middle = [
        word
        for step in range(1, 7)
        for word in ("gradient", f"step {step}" + (" scored" if step == 6 else ""))
    ]
    assert noting.seen == ["start 0/6", *middle, "end False"]


@pytest.mark.parametrize(
    ("metric", "values", "stops"), [("accuracy", [1, 2, 2, 1], 3), ("wrong_bits", [3, 2, 2, 4], 3)]
)
def test_early_stopping_counts_what_does_not_improve(metric: str, values: list[float], stops: int) -> None:
    callback = EarlyStopping(metric, patience=2)
    stopped = []
    for value in values:
        training = training_with(**{metric: value})
        callback.on_step(training)
        stopped.append(bool(training.stopping))
    assert stopped.index(True) == stops
    training = run(EarlyStopping("accuracy", patience=1), epochs=500)
    assert training.step < training.steps


def test_the_best_weights_are_kept_and_put_back(tmp_path: Path) -> None:
    path = tmp_path / "below" / "best.safetensors"
    callback = Checkpoint(path, "accuracy", restore=True)
    training = run(callback, epochs=20)
    best = max(record["accuracy"] for record in training.history)
    assert callback.best == best
    again = network()
    again.load_state_dict(load_file(path))
    assert evaluate(again, DATA).metrics["accuracy"] == pytest.approx(best)
    assert evaluate(training.network, DATA).metrics["accuracy"] == pytest.approx(best)


class StopOnce(Callback):
    """Stops after a step, until the same call resumes."""

    def __init__(self, step: int) -> None:
        self.at = step

    def on_step(self, training: Training) -> None:
        if training.step == self.at:
            training.stop(for_good=False)


def test_a_folder_holds_the_network_that_fit_returned_resumed_or_not(tmp_path: Path) -> None:
    def go(name: str, *more: Callback) -> Training:
        best = Checkpoint(tmp_path / name / "best.safetensors", "accuracy", restore=True)
        patient = EarlyStopping("accuracy", patience=2)
        return run(patient, best, *more, epochs=50, optimizer=Adam(0.3), folder=tmp_path / name)

    def lines(name: str) -> list[tuple[int, float]]:
        return [(row["step"], row["accuracy"]) for row in Folder(tmp_path / name).metrics() if row["step"]]

    whole = go("whole")
    assert whole.step < whole.steps
    for stop in (3, whole.step - 3, whole.step - 8):  # one after the best score
        go(f"{stop}", StopOnce(stop))
        resumed = go(f"{stop}")
        assert resumed.step == whole.step  # what had not improved before it was stopped counts
        assert lines(f"{stop}") == lines("whole")
    for name in ("whole", "3"):
        again = go(name)  # which was stopped for good
        assert (again.step, len(again.history)) == (whole.step, len(whole.history))
        kept = load_file(tmp_path / name / "model.safetensors")
        last = load_file(tmp_path / name / "checkpoint.safetensors")
        assert not torch.equal(kept["body.weight"], last["network.body.weight"])
        for training in (whole, again):
            assert torch.equal(training.network.state_dict()["body.weight"], kept["body.weight"])


def test_the_bar_shows_the_metric(capsys: pytest.CaptureFixture[str]) -> None:
    run(ProgressBar("mine", "accuracy"))
    assert "accuracy" in capsys.readouterr().out


def test_gradients_are_clipped_before_the_step() -> None:
    norms: list[float] = []

    class Looking(Callback):
        def on_gradient(self, training: Training) -> None:
            norms.append(float(torch.nn.utils.get_total_norm(p.grad for p in training.network.parameters())))

    run(Looking(), ClipGradients(1e-3), Looking(), epochs=2)
    before, after = norms[::2], norms[1::2]
    assert max(before) > 1e-3
    assert max(after) <= 1.001e-3
    with pytest.raises(QubolearnError, match="norm=0"):
        ClipGradients(0)


@pytest.mark.parametrize("moment", ["on_start", "on_gradient", "on_step", "on_end"])
def test_a_callback_that_raises_is_named(moment: str) -> None:
    def fail(self: Any, training: Training) -> None:
        raise ZeroDivisionError("by hand")

    broken = type("Broken", (Callback,), {moment: fail})()
    with pytest.raises(QubolearnError, match=rf"Broken\.{moment}.*ZeroDivisionError: by hand"):
        run(broken)


@pytest.mark.parametrize(("moment", "steps"), [("on_start", 0), ("on_step", 1), ("on_end", 36)])
def test_the_others_see_the_end_after_an_error(moment: str, steps: int) -> None:
    ended: list[tuple[str, int]] = []

    def fail(self: Any, training: Training) -> None:
        raise ValueError

    class Ending(Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_end(self, training: Training) -> None:
            ended.append((self.name, training.step))

    broken = type("Broken", (Callback,), {moment: fail})()
    with pytest.raises(QubolearnError, match="Broken"):
        run(Ending("first"), broken, Ending("last"))
    started = ["first"] if moment == "on_start" else ["first", "last"]
    assert ended == [(name, steps) for name in started]


def test_a_metric_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(QubolearnError, match=r"acuracy.*accuracy"):
        run(EarlyStopping("acuracy"))
