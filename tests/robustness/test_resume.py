"""Promise 1: resuming changes no bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from child_training import CONFIG, PROBLEM
from safetensors.torch import load_file

from qubolearn.recipes import Recipe, train
from qubolearn.runs import Run
from qubolearn.training.callbacks import StopIf

SHORT = replace(CONFIG, epochs=2)  # 8 steps
CONFIGS = {
    "solver that draws": SHORT,
    "kept instances, constant rate": replace(SHORT, fresh=False, schedule="constant", loss="nll"),
    "the paper's loss": replace(SHORT, loss="gap", fresh=False, standardize=False, weight_mlp=1e-3),
    "no solver": replace(SHORT, loss="pseudo", head="uncoupled", topology="diagonal"),
}


def bits(network: torch.nn.Module) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in network.state_dict().items()}


def saved(run: Run) -> dict[str, bytes]:
    tensors = load_file(run.folder / "checkpoint.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def stop_after(steps: int) -> Callable[[], bool]:
    left = iter(range(steps))
    return lambda: next(left, None) == steps - 1


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_stopped_at_any_step_the_bits_are_the_same(config: Recipe, tmp_path: Path) -> None:
    whole = Run.create(tmp_path / "whole", PROBLEM, config)
    want = bits(train(PROBLEM, config, whole))
    for step in range(1, config.steps):
        run = Run.create(tmp_path / str(step), PROBLEM, config)
        train(PROBLEM, config, run, callbacks=[StopIf(stop_after(step))])
        assert not run.finished
        assert bits(train(PROBLEM, config, run)) == want, f"stopped after step {step}"
        assert saved(run) == saved(whole), "moments and step of the optimizer"
        scores = [{**record, "seconds": 0} for record in run.metrics()]
        assert scores == [{**record, "seconds": 0} for record in whole.metrics()]


def test_stopped_after_every_step_the_bits_are_the_same(tmp_path: Path) -> None:
    run = Run.create(tmp_path, PROBLEM, SHORT)
    while not run.finished:
        network = train(PROBLEM, SHORT, run, callbacks=[StopIf(lambda: True)])
    assert bits(network) == bits(train(PROBLEM, SHORT))
