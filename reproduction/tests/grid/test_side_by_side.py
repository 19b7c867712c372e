"""Networks that train side by side end as each ends alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from quant_reproduction.grid import side_by_side as module
from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.models import SHARED, planned, training_runs, write_plan
from quant_reproduction.grid.runner import stack_of, suits_gpu
from quant_reproduction.grid.side_by_side import Run, Stack, joins, trained_together
from qubolearn.random import stream
from qubolearn.recipes import new_network, train

CPU = torch.device("cpu")
CHANGES: list[dict[str, Any]] = [{}, {"learning_rate": 1e-4}, {"weight_unique": 0.0}, {"weight_mlp": 0.0}]


def some_runs(name: str, method: str, **more: Any) -> list[Run]:
    """Return short runs of two seeds and all changes of loss and rate."""
    small = {"rotations": 2} if name == "pointset" else {"draws": 2}
    short = {"method": method, "layers": 5, "hidden": 8, "epochs": 2, "instances": 160, **more}
    made = []
    for seed in (0, 1):
        for change in CHANGES if method == "quant" else CHANGES[::3]:
            made += training_runs(
                seed, {"name": name, "split_seed": 1, **small}, "paper", {**short, **change}
            )
    return made


@pytest.mark.data("shapes2d")
@pytest.mark.data("modelnet10")
@pytest.mark.parametrize("method", ["quant", "diag", "pure"])
@pytest.mark.parametrize("name", ["pointset", "rotation"])
def test_networks_of_a_stack_are_those_that_fit_trains(name: str, method: str, tmp_path: Path) -> None:
    runs = some_runs(name, method)
    stack = Stack(runs, CPU, tmp_path)
    stack.train(tmp_path / "checkpoint")
    for run, network in zip(runs, stack.networks(), strict=True):
        p = run[0].sample(50, stream(0, "test")).p
        alone, before = train(*run)(p), new_network(*run)(p)
        moved = (alone - before).abs().max()
        assert (network(p) - alone).abs().max() < 1e-3 * moved


@pytest.mark.data("modelnet10")
def test_a_stack_trains_what_is_planned_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUBOLEARN_RELEASED", str(tmp_path))
    monkeypatch.setattr(module, "CHECKPOINT", 0.0)
    runs, others = some_runs("rotation", "quant"), some_runs("rotation", "quant", hidden=4)
    steps, taken = Stack._steps, list[int]()

    def stopped(stack: Stack) -> None:
        taken.append(stack.done)
        if taken == [0, 5]:
            raise KeyboardInterrupt
        steps(stack)

    monkeypatch.setattr(Stack, "_steps", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained_together(runs[0], lambda: [*runs, *others], CPU, tmp_path / "shared")
    found = [trained_together(run, lambda: runs, CPU, tmp_path / "shared")[0] for run in runs]
    assert taken == [0, 5, 5]  # one stack for all, from its checkpoint on
    for run, network in zip(runs, found, strict=True):
        p = run[0].sample(50, stream(0, "test")).p
        assert not network.training
        torch.testing.assert_close(network(p), train(*run)(p), atol=1e-4, rtol=0)


def test_the_plan_has_all_long_runs_of_the_papers_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(task: str, protocol: str = "paper", **overrides: Any) -> Job:
        problem = {"name": "rotation", "split_seed": 1}
        options = {"problem": problem, "protocol": protocol, "overrides": overrides}
        return Job("item", task, protocol, 0, task, options)

    jobs = [
        job("stages"),
        job("train"),
        job("stages", layers=3),
        job("stages", "best"),
        job("stages", epochs=1),
    ]
    write_plan(jobs, tmp_path)
    monkeypatch.setenv(SHARED, str(tmp_path))
    assert [problem.bits for problem, _ in planned()] == [5, 5, 5, 15, 5, 5, 5]
    assert all(joins(*run) for run in planned())
    names = [stack_of(each) for each in jobs]
    assert len({*names[:3]}) == 3
    assert names[3:] == ["", ""]
    assert [suits_gpu(each) for each in jobs] == [True] * 4 + [False]
