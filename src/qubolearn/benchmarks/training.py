"""Trainings under the paper's protocol: an epoch, a step on each engine, and a whole one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from qubolearn.benchmarks import Record, seconds_of, timed
from qubolearn.problems import make_problem
from qubolearn.training.fast.captured import CapturedSteps
from qubolearn.training.fast.compiled import CompiledSteps
from qubolearn.training.recipes import recipe_for
from qubolearn.training.steps import Steps
from qubolearn.training.threads import one_thread
from qubolearn.training.train import task_of, train

__all__ = ["protocol", "protocol_on_gpu", "training", "training_on_gpu"]


def training(quick: bool) -> Iterator[Record]:
    """One epoch of the paper's protocol (40 steps of 141), against the same loop that calls neal per instance."""
    for k, topology in ((4, "chimera"),) if quick else ((4, "chimera"), (5, "pegasus")):
        problem = make_problem("randgraph", k=k)
        config = recipe_for("paper", problem, topology=topology, solver="exhaustive", epochs=1, validation=1)
        ours = seconds_of(partial(train, problem, config), 7)
        peer = replace(config, solver="neal", instances=141)  # one step of 40
        theirs = timed(partial(train, problem, peer))[0] * config.steps
        yield {"k": k, "n": problem.bits, "epoch_seconds": ours, "neal_epoch_seconds": theirs, "ratio": theirs / ours}


def training_on_gpu(quick: bool) -> Iterator[Record]:
    """One step on a GPU, kernel by kernel and as a CUDA graph, and on the CPU, where solvers take all cores."""
    for k, loss in ((4, "gap"),) if quick else ((4, "gap"), (4, "nll"), (5, "gap"), (5, "nll")):
        problem = make_problem("randgraph", k=k)
        topology = "chimera" if k == 4 else "pegasus"
        config = recipe_for("paper", problem, loss=loss, solver="exhaustive", topology=topology)
        taken = {}
        for name, device, kind in (
            ("cpu", "cpu", CompiledSteps),
            ("gpu", "cuda", Steps),
            ("graph", "cuda", CapturedSteps),
        ):
            steps = kind(task_of(problem, config, device=device))
            with one_thread(device):
                taken[name] = seconds_of(partial(steps.advance, 0, 400)) / 400
        record = {f"{name}_us": 1e6 * seconds for name, seconds in taken.items()}
        more = {"graph_over_gpu": taken["gpu"] / taken["graph"], "graph_over_cpu": taken["cpu"] / taken["graph"]}
        yield {"k": k, "n": problem.bits, "loss": loss, **record, **more}


def protocol(quick: bool, device: str = "cpu") -> Iterator[Record]:
    """One whole training under the paper's protocol: point sets, 312,500 steps of 32 instances."""
    problem = make_problem("pointset", **({"rotations": 10} if quick else {}))
    config = recipe_for("paper", problem, **({"epochs": 1, "instances": 3200} if quick else {}))
    seconds, _ = timed(partial(train, problem, config, device=device))
    pace = {"minutes": seconds / 60, "ms_per_step": 1e3 * seconds / config.steps}
    yield {"problem": problem.name, "steps": config.steps, **pace}


def protocol_on_gpu(quick: bool) -> Iterator[Record]:
    """:func:`protocol` on an NVIDIA GPU."""
    return protocol(quick, device="cuda")
