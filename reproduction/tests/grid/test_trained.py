"""Networks that several jobs share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from quant_reproduction.grid import models as module
from quant_reproduction.grid.jobs import Job, Store, run_job
from quant_reproduction.grid.models import SHARED, trained, training_runs
from quant_reproduction.grid.runner import LocalPool, run_jobs
from qubolearn.errors import QubolearnError

OPTIONS: dict[str, Any] = {
    "problem": {"name": "randgraph", "k": 2},
    "protocol": "best",
    "overrides": {"epochs": 1, "instances": 64, "batch_size": 32, "validation": 8, "layers": 3, "hidden": 8},
}


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the seeds of all training runs so far."""
    seeds: list[int] = []

    def counted(problem: Any, recipe: Any, **more: Any) -> Any:
        seeds.append(recipe.seed)
        return train(problem, recipe, **more)

    train = module.train
    monkeypatch.setattr(module, "train", counted)
    monkeypatch.setenv(SHARED, str(tmp_path))
    return seeds


def test_one_trains_and_others_wait_for_the_same_network(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((problem, recipe),) = training_runs(3, **OPTIONS)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: trained(problem, recipe), range(4)))
    assert calls == [3]
    trained(*training_runs(4, **OPTIONS)[0])
    trained(
        problem, training_runs(3, **{**OPTIONS, "overrides": {**OPTIONS["overrides"], "beta": 3.0}})[0][1]
    )
    assert calls == [3, 4, 3]
    monkeypatch.delenv(SHARED)
    alone, _ = trained(problem, recipe)
    assert calls == [3, 4, 3, 3]
    assert len({seconds for _, seconds in found}) == 1
    for network, _ in found:
        assert not network.training
        for name, tensor in alone.state_dict().items():
            assert torch.equal(network.state_dict()[name], tensor)


def test_a_training_that_fails_is_left_to_the_next_job(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((problem, recipe),) = training_runs(5, **OPTIONS)

    def fails(*_: Any, **__: Any) -> Any:
        raise QubolearnError("no")

    with monkeypatch.context() as broken:
        broken.setattr(module, "train", fails)
        with pytest.raises(QubolearnError, match="no"):
            trained(problem, recipe)
    trained(problem, recipe)
    assert calls == [5]


def test_jobs_of_an_engine_share_networks_and_have_the_records_that_they_have_alone(tmp_path: Path) -> None:
    jobs = [Job("item", "row", column, 0, "train", {**OPTIONS, "instances": 20}) for column in ("a", "b")]
    with LocalPool(1) as pool:
        outcomes = run_jobs(jobs, Store(tmp_path), pool)
    metrics = [outcome.record["metrics"] for outcome in outcomes if outcome.record]
    alone = run_job(jobs[0]).record
    assert alone is not None
    assert len({each["training_seconds"] for each in metrics}) == 1
    assert [each["exhaustive"]["scores"] for each in metrics] == [
        alone["metrics"]["exhaustive"]["scores"]
    ] * 2
