"""The command train, and the progress bar that the demo shares."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli import options
from qubolearn.cli.options import Output, chosen, metric_rows, pick_device, problem_class
from qubolearn.files import write_json
from qubolearn.provenance import provenance
from qubolearn.recipes import Recipe, preset
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    import torch

    from qubolearn.evaluation import Evaluation
    from qubolearn.runs import Run


def add_train(parser: argparse.ArgumentParser, first: str | None) -> None:
    options.add_problem(parser, first)
    parser.add_argument("--out", metavar="DIR", help="run folder [runs/PROBLEM-HEAD-SEED]")
    options.add_count(parser, "--test", 2000, "unseen instances to score at the end")
    options.add_shared(parser, "--device")
    options.add_fields(parser, Recipe, "training (defaults are those of the preset best)", defaults=False)


def run_train(args: argparse.Namespace, output: Output) -> int:
    """Train a network that outputs the QUBO of an instance, and score it on unseen instances.

    The preset `best` of the problem sets every option. Repeat the command to resume a run that was stopped.

    examples:
      qubolearn train randgraph --k 4 --out runs/k4
      qubolearn train randgraph --k 4 --head direct --layers 3 --hidden 32 --out runs/direct
      qubolearn train randgraph --loss hinge --solver annealing:reads=20,sweeps=100 --out runs/annealed

    Ctrl-C or SIGTERM finishes the step, saves it and exits with 130 or 143.
    DIR gets config.json, metrics.jsonl, checkpoint.safetensors, model.safetensors and result.json.
    """
    kind = problem_class(args.problem)
    problem, recipe = preset("best", kind, **chosen(args, kind), **chosen(args, Recipe))
    make_solver(recipe.solver)  # fail before anything is written
    from qubolearn.recipes import new_network
    from qubolearn.runs import Run

    new_network(problem, recipe)
    folder = Path(args.out or f"runs/{problem.name.rpartition(':')[2]}-{recipe.head}-{recipe.seed}")
    device = pick_device(args.device)
    here = Run.create(folder, problem, recipe)
    with stop_on_signals() as caught:
        seconds = train_with_progress(here, device, output, caught)
    if caught:
        output.errors.print(f"stopped and saved; to resume, run the same command again (--out {folder})")
        return 128 + caught[0]
    found, result = score(here, device, args.test, seconds)
    write_json(folder / "result.json", result, checksum=True)
    size = "one A" if recipe.network == "shared" else f"L{recipe.layers} H{recipe.hidden}, {recipe.topology}"
    title = f"{problem}, {recipe.head}, {size}, seed {recipe.seed}"
    rows = [*metric_rows(found), ("training", f"{seconds:.1f} s")]
    output.table(title, [f"on {found.instances} unseen instances", ""], [*rows, ("run folder", folder)])
    output.result(**result, out=str(folder))
    return 0


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM to end after a step; a second Ctrl-C stops at once."""
    caught: list[int] = []

    def handle(number: int, _: object) -> None:
        if caught and number == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(number)

    before = {name: signal.signal(name, handle) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def train_with_progress(here: Run, device: torch.device, output: Output, caught: Sequence[int] = ()) -> float:
    from qubolearn.recipes import train
    from qubolearn.training.callbacks import ProgressBar, StopIf

    recipe, began = here.recipe, time.perf_counter()
    if here.finished:
        output.say(f"{here.folder} is already trained")
        stored = [record["seconds"] for record in here.metrics() if isinstance(record.get("seconds"), float)]
        return max(filter(math.isfinite, stored), default=0.0)
    title = f"{here.problem.name} {recipe.head} L{recipe.layers} H{recipe.hidden}"
    callbacks = [ProgressBar(title, here.problem.metric, output.errors), StopIf(lambda: bool(caught))]
    with redirect_stdout(sys.stderr):  # stdout is for the result
        train(here.problem, recipe, here, device, callbacks)
    return time.perf_counter() - began


def score(here: Run, device: torch.device, instances: int, seconds: float) -> tuple[Evaluation, Any]:
    """Score a trained run on test instances; return it and its record."""
    from qubolearn.evaluation import evaluate
    from qubolearn.recipes import make_loss

    problem, recipe = here.problem, here.recipe
    name = recipe.solver if make_loss(recipe, problem).solves else "auto"
    network = here.network().to(device)
    solver = None if name == "auto" else make_solver(name)
    found = evaluate(network, problem, solver, instances, recipe.seed, device=device)
    header = {"problem": problem.name, "head": recipe.head, "seed": recipe.seed, "solver": name}
    return found, {**header, **found.as_dict(), "seconds": round(seconds, 3), **provenance()}
