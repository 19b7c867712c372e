"""Engines: the same results wherever jobs run, and one outcome for every job whatever dies."""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from grids import accident, forever, job, visible, wait_until

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.engines import LocalEngine, RayEngine, local
from qubolearn.paper.grid.engines.local import prepare
from qubolearn.paper.grid.engines.ray import _check_listening, code_version, on_node
from qubolearn.paper.grid.jobs import Event, InThisProcess, Job, Outcome, Started, Store, run_jobs
from qubolearn.paper.grid.schedule import suits_gpu


def alive(process: int) -> bool:
    """Whether a process is there and more than a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_that_die_lose_no_job_and_take_no_other_with_them(tmp_path: Path) -> None:
    jobs = [job(seed, notes=str(tmp_path / "notes")) for seed in range(8)]
    events: list[Event] = []
    store = Store(tmp_path / "out")
    outcomes = run_jobs(jobs, store, LocalEngine(2), events.append, work=accident)
    assert [outcome.job for outcome in outcomes] == jobs
    killed = "its worker process was killed 2 times; where memory ran out, try fewer --processes"
    assert {outcome.job.seed: outcome.error for outcome in outcomes if outcome.error} == {1: killed}
    assert Counter((tmp_path / "notes").read_text().split()) == Counter("0112234567")
    assert "last words" in store.log(jobs[1]).read_text()
    again = {event.job.seed for event in events if isinstance(event, Started) and event.note}
    assert again == {1, 2}
    run_jobs(jobs[1:2], store, InThisProcess(), work=lambda job: Outcome(job, {"key": job.key, "seconds": 1.0}))
    assert not store.log(jobs[1]).exists()


def test_a_stopped_grid_keeps_what_has_ended_and_ends_the_rest(tmp_path: Path) -> None:
    ended: list[Outcome] = []

    def watch(event: Event) -> None:
        if isinstance(event, Outcome):
            ended.append(event)

    jobs = [job(seed) for seed in range(4)]
    outcomes = run_jobs(jobs, Store(tmp_path), LocalEngine(2), watch, stop=lambda: bool(ended), work=forever)
    assert [outcome.job.seed for outcome in outcomes] == [0]
    assert outcomes[0].record is not None
    assert Store(tmp_path).get(jobs[0]) is not None
    assert not alive(outcomes[0].record["metrics"]["pid"])
    assert multiprocessing.active_children() == []


ENDLESS = """
import sys
from grids import forever, job
from qubolearn.paper.grid.engines import LocalEngine
from qubolearn.paper.grid.jobs import Outcome
for event in LocalEngine(1).run([job(0), job(1)], forever, lambda: False):
    print(event.record["metrics"]["pid"] if isinstance(event, Outcome) else "started", flush=True)
"""


def test_a_worker_ends_with_its_parent_even_within_a_job() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "started\n"
        worker = int(parent.stdout.readline())
        assert parent.stdout.readline() == "started\n"
        assert alive(worker)
        parent.kill()
        parent.wait()
        wait_until(lambda: not alive(worker), seconds=10.0)


def test_an_error_of_the_grid_ends_its_workers(tmp_path: Path) -> None:
    (tmp_path / "item").write_text("in the way")
    with pytest.raises(QubolearnError, match="cannot use the folder"):
        run_jobs([job(0), job(1)], Store(tmp_path), LocalEngine(2), work=forever)
    assert multiprocessing.active_children() == []


def test_jobs_on_cores_see_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    prepare(1, "cuda")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    prepare(1, "cpu")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_exit_codes_are_said_in_words() -> None:
    assert local._end(5) == "ended 2 times, with exit code 5"
    assert local._end(-11) == "died 2 times, of SIGSEGV"


def test_ray_is_an_extra_and_a_cluster_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "ray", None)
        with pytest.raises(QubolearnError, match=r"--engine ray needs: pip install 'qubolearn\[ray\]'"):
            run_jobs([job(0)], Store(Path("nowhere")), RayEngine())
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # which nobody listens at
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for form in (address, f"ray://{address}"):
            with pytest.raises(QubolearnError, match=r"no Ray cluster at .*; start one: ray start"):
                _check_listening(form)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert RayEngine().address == "10.0.0.1:6379"
    assert RayEngine("auto").address == "auto"


def test_code_that_differs_is_not_run() -> None:
    shared: Any = (forever, dict(code_version()), "cuda", None)
    assert on_node(shared, job(0)) == forever(job(0))
    other: Any = (forever, {**code_version(), "torch": "0.1", "qubolearn's source": "?"}, "cuda", None)
    answer = on_node(other, job(0))
    assert isinstance(answer, dict)
    assert re.fullmatch(
        r"torch 2\.\S+ there, 0\.1 here; qubolearn's source \w{12} there, \? here", answer["differences"]
    )


class ClusterThatAnswers:
    """Stands for the module ray where an answer is fetched."""

    class exceptions:
        class RayError(Exception):
            pass

        class RayTaskError(RayError):
            pass

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def get(self, reference: object) -> object:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_answers_of_nodes_are_outcomes_deaths_or_the_end_of_the_grid() -> None:
    outcome, kinds = forever(job(0)), ClusterThatAnswers.exceptions
    assert RayEngine()._outcome(ClusterThatAnswers(outcome), None) == outcome
    assert RayEngine()._outcome(ClusterThatAnswers(kinds.RayError("gone")), None) == "gone"
    with pytest.raises(QubolearnError, match=r"cannot run jobs: No module named 'qubolearn'"):
        RayEngine()._outcome(ClusterThatAnswers(kinds.RayTaskError("Trace:\nNo module named 'qubolearn'\n")), None)
    with pytest.raises(QubolearnError, match=r"node far has other code, .*: torch 1 there, 2 here; install the same"):
        RayEngine()._outcome(ClusterThatAnswers({"node": "far", "differences": "torch 1 there, 2 here"}), None)


def graph_matching(variant: str, k: int) -> Job:
    return Job("item", "r", variant, 0, "qgm", {"variant": variant, "k": k, "solver": "quantum", "instances": 4})


def clouds(protocol: str, **overrides: Any) -> Job:
    options = {"problem": {"name": "rotation"}, "protocol": protocol, "overrides": overrides}
    return Job("item", "r", f"{protocol} {overrides}", 0, "stages", options)


def matching(solver: str) -> Job:
    options = {"problem": {"name": "randgraph", "k": 5}, "protocol": "paper", "overrides": {"network": "matching"}}
    options["overrides"]["solver"] = solver
    return Job("item", "r", solver, 0, "train", options)


def test_large_states_batches_and_networks_suit_a_gpu() -> None:
    there = [
        graph_matching("baseline", 5),
        graph_matching("row-wise", 5),
        clouds("best"),
        matching("exhaustive"),
        matching("exhaustive:max_bits=30"),
    ]
    not_there = [
        graph_matching("inserted", 5),
        graph_matching("baseline", 4),
        clouds("paper"),
        clouds("paper", batch_size=512, solver="annealing"),
        matching("quantum"),
        matching("annealing"),
        clouds("unheard of"),
        job(0),
    ]
    assert [suits_gpu(each) for each in (*there, *not_there)] == [True] * 5 + [False] * 8


def test_beside_a_gpu_each_job_runs_where_it_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    large = [replace(graph_matching("baseline", 5), seed=seed) for seed in range(5)]
    small = [replace(graph_matching("inserted", 5), seed=seed) for seed in range(5)]
    running: set[Job] = set()
    together: set[tuple[int, int]] = set()  # on the GPU, on cores

    def watch(event: Event) -> None:
        running.add(event.job) if isinstance(event, Started) else running.discard(event.job)
        there = sum(map(suits_gpu, running))
        together.add((there, len(running) - there))

    outcomes = run_jobs([*large, *small], Store(tmp_path), LocalEngine(3, on_gpu=2), watch, work=visible)
    records = [outcome.record for outcome in outcomes]
    assert [record["gpus"] for record in records if record] == ["7"] * 5 + [""] * 5
    assert len({record["at"] for record in records[:5] if record}) == 2
    assert max(there for there, _ in together) == 2
    assert (2, 1) in together
    assert max(map(sum, together)) == 3


def test_a_gpu_takes_as_many_jobs_as_its_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    for gibibytes, places in ((140, 4), (12, 2), (8, 1), (4, 0)):
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr("torch.cuda.mem_get_info", lambda free=gibibytes: (free * 2**30, 200 * 2**30))
        assert local.room_on_gpu() == places
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert local.room_on_gpu() == 0
