"""The runner."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Barrier, Event, Lock
from typing import Any

import pytest
from grids import accident, done, forever, job, visible, wait_until

from quant_reproduction.cli import reproduce
from quant_reproduction.grid import runner
from quant_reproduction.grid.jobs import Job, Outcome, Store
from quant_reproduction.grid.runner import LocalPool, run_jobs, suits_gpu


def alive(process: int) -> bool:
    """Return True if a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_that_die_lose_no_job_and_take_no_other_with_them(tmp_path: Path) -> None:
    jobs = [job(seed, notes=str(tmp_path / "notes")) for seed in range(8)]
    store = Store(tmp_path / "out")
    with LocalPool(2, work=accident) as pool:
        outcomes = run_jobs(jobs, store, pool)
    assert [outcome.job for outcome in outcomes] == jobs
    assert [outcome.job.seed for outcome in outcomes if outcome.error] == [1]
    runs = Counter((tmp_path / "notes").read_text().split())
    assert runs["1"] >= 2
    assert max(runs.values()) <= 2
    assert "last words" in store.log(jobs[1]).read_text()
    store.put(Outcome(jobs[1], {"key": jobs[1].key, "job": asdict(jobs[1])}))
    assert not store.log(jobs[1]).exists()


def test_a_stopped_grid_stores_what_has_ended_and_ends_the_rest(tmp_path: Path) -> None:
    ended: list[Outcome] = []
    jobs = [job(seed) for seed in range(4)]
    with LocalPool(2, work=forever) as pool:
        outcomes = run_jobs(jobs, Store(tmp_path), pool, ended.append, stop=lambda: bool(ended))
    assert [outcome.job.seed for outcome in outcomes] == [0]
    record = Store(tmp_path).get(jobs[0])
    assert record is not None
    assert not alive(record["metrics"]["pid"])
    assert multiprocessing.active_children() == []


ENDLESS = """
from pathlib import Path
import sys
from grids import forever, job
from quant_reproduction.grid.jobs import Store
from quant_reproduction.grid.runner import LocalPool, run_jobs
if __name__ == "__main__":
    with LocalPool(1, work=forever) as pool:
        show = lambda outcome: print(outcome.record["metrics"]["pid"], flush=True)
        run_jobs([job(0), job(1)], Store(Path(sys.argv[1])), pool, show)
"""


def test_a_worker_ends_with_its_parent_even_within_a_job(tmp_path: Path) -> None:
    words = [sys.executable, "-c", ENDLESS, str(tmp_path)]
    with subprocess.Popen(words, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        worker = int(parent.stdout.readline())
        assert alive(worker)
        parent.kill()
        parent.wait()
        wait_until(lambda: not alive(worker), seconds=10.0)


def test_an_error_of_the_grid_ends_its_workers(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), LocalPool(2, work=forever) as pool:
        run_jobs([job(0), job(1)], Store(tmp_path), pool, lambda outcome: 1 // 0)  # type: ignore[arg-type,return-value]
    assert multiprocessing.active_children() == []


def test_a_daemon_that_does_not_quit_costs_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = tmp_path / "nvidia-cuda-mps-control"
    daemon.write_text('#!/bin/sh\n[ "$1" = -d ] || exec sleep 60\n')
    daemon.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(runner, "MPS_SECONDS", 0.5)
    with runner._shared_gpu(True):
        assert "CUDA_MPS_PIPE_DIRECTORY" in os.environ
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def graph_matching(variant: str, k: int, seed: int = 0) -> Job:
    options = {"variant": variant, "k": k, "solver": "quantum", "instances": 4}
    return Job("item", "r", variant, seed, "qgm", options)


def clouds(protocol: str, **overrides: Any) -> Job:
    options = {"problem": {"name": "rotation"}, "protocol": protocol, "overrides": overrides}
    return Job("item", "r", f"{protocol} {overrides}", 0, "stages", options)


def matching(solver: str, task: str = "train", **overrides: Any) -> Job:
    choice = {"network": "matching", "solver": solver, **overrides}
    options = {"problem": {"name": "randgraph", "k": 5}, "protocol": "paper", "overrides": choice}
    return Job("item", "r", f"{solver} {overrides}", 0, task, options)


def test_large_states_batches_and_networks_suit_a_gpu() -> None:
    there = [*map(matching, ("exhaustive", "exhaustive:max_bits=30"))]
    there += [graph_matching("baseline", 5), clouds("best")]
    small = [graph_matching("inserted", 5), graph_matching("baseline", 4), clouds("paper", epochs=1)]
    small += [clouds("paper", batch_size=512, solver="annealing"), clouds("unheard of")]
    small += [matching("quantum"), job(0)]
    assert [suits_gpu(each) for each in there] == [True] * 4
    assert [suits_gpu(each) for each in small] == [False] * 7


def test_jobs_wait_for_networks_that_others_train_and_for_room_on_the_gpu() -> None:
    first, other = matching("exhaustive"), matching("exhaustive", "second-best")
    assert not runner._has_room(other, "cpu", [first], {""}, 2)
    assert runner._has_room(other, "cpu", [first], {"", runner.network_of(first)}, 2)
    assert runner._has_room(matching("exhaustive", hidden=8), "cpu", [first], {""}, 2)
    large, stack = graph_matching("baseline", 5), clouds("paper")
    assert not runner._has_room(large, "cuda", [first], {""}, 2)
    assert runner._has_room(stack, "cuda", [large, large], {""}, 2)
    assert runner._has_room(first, "cuda", [large, stack], {""}, 2)
    assert not runner._has_room(first, "cuda", [large, large], {""}, 2)


class Threads(LocalPool):
    """A pool whose workers are threads, so that a test sees which jobs run at once."""

    def _executor(self, device: str) -> Any:
        self._executors.append(made := ThreadPoolExecutor(1))  # type: ignore[arg-type]
        return made


@pytest.mark.parametrize("busy_cores", [False, True])
def test_idle_cores_let_more_jobs_use_the_gpu(busy_cores: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BUSY_PER_GPU", 1)
    most = 1 if busy_cores else 3
    here, ended, lock, together, counts = [0], Event(), Lock(), Barrier(most), list[int]()

    def work(job: Job) -> Outcome:
        if not suits_gpu(job):
            assert ended.wait(30)
            return done(job)
        with lock:
            here[0] += 1
            counts.append(here[0])
        together.wait(30)
        with lock:
            here[0] -= 1
            ended.set() if len(counts) == 6 else None
        return done(job)

    monkeypatch.setattr(runner, "_logged", lambda work, job, log: work(job))
    jobs = [matching("exhaustive", hidden=size) for size in range(8, 14)]
    jobs += [job(seed) for seed in range(2 * busy_cores)]
    with Threads(2, on_gpu=6, work=work) as pool:
        assert len(list(pool.outcomes(jobs, lambda: False))) == len(jobs)
    assert max(counts) == most


@pytest.mark.parametrize(("cores", "on_cores"), [(16, 16 - runner.BUSY_PER_GPU), (2, 1)])
def test_jobs_of_a_gpu_have_cores(cores: int, on_cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "cores", lambda: cores)
    monkeypatch.setattr(runner, "room_on_gpu", lambda: runner.JOBS_PER_GPU)
    pool = reproduce.pool_of(Namespace(device="auto", processes=None), 1000)
    assert pool._sizes == {"cpu": on_cores, "cuda": runner.JOBS_PER_GPU}


def test_with_a_gpu_each_job_runs_where_it_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    jobs = [graph_matching(variant, 5, seed) for variant in ("baseline", "inserted") for seed in range(3)]
    with LocalPool(2, on_gpu=1, work=visible) as pool:
        outcomes = run_jobs(jobs, Store(tmp_path), pool)
    records = [outcome.record or {} for outcome in outcomes]
    assert [record["gpus"] for record in records] == ["7"] * 3 + [""] * 3
    assert len({record["at"] for record in records[:3]}) == 1
