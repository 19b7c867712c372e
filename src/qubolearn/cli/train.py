"""Train a network that outputs the QUBO of an instance, and score it on unseen ones.

A preset gives every choice a value: `best` is the best that we know, `paper` the QuAnt paper's protocol to the
letter. Options override it. Running the same command again resumes a run that was stopped.
"""

from __future__ import annotations

import argparse
import math
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import add_fields, add_problem, chosen, count, problem_class
from qubolearn.cli.output import Output, metric_rows
from qubolearn.errors import QubolearnError
from qubolearn.files import write_json
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver
from qubolearn.training.recipes import PRESETS, Recipe, preset

if TYPE_CHECKING:
    import torch

    from qubolearn.evaluation import Evaluation
    from qubolearn.training.distributed import Peers
    from qubolearn.training.fit import Training
    from qubolearn.training.runs import Run

EPILOG = """examples:
  qubolearn train randgraph --k 4 --out runs/k4
  qubolearn train randgraph --k 4 --method pure --layers 3 --hidden 32 --out runs/pure
  qubolearn train randgraph --k 5 --topology pegasus --out runs/k5
  qubolearn train randgraph --preset paper --seed 1 --out runs/paper
  qubolearn train randgraph --loss hinge --solver annealing:reads=20,sweeps=100 --out runs/annealed
  torchrun --nproc-per-node 2 -m qubolearn train randgraph --out runs/two   on two processes

Ctrl-C or SIGTERM ends the step, saves it and exits with 130 or 143.
DIR gets config.json, metrics.jsonl, checkpoint.safetensors, model.safetensors and result.json."""

#: torchrun forwards a Ctrl-C to processes that already got it; only one after these seconds is the user's second.
SECONDS_BETWEEN_INTERRUPTS = 2.0


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("--out", metavar="DIR", help="run folder [runs/PROBLEM-METHOD-SEED]")
    parser.add_argument("--preset", default="best", metavar="NAME", help=f"{', '.join(PRESETS)} [best]")
    parser.add_argument(
        "--test", type=count, default=2000, metavar="N", help="unseen instances to score at the end [2000]"
    )
    parser.add_argument("--device", default=None, metavar="NAME", help="cpu or cuda [cuda where there is one]")
    parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events into DIR")
    add_fields(parser, Recipe, "training (defaults come from the preset)", defaults=False)
    add_problem(parser, argv)


def run(args: argparse.Namespace, output: Output) -> int:
    kind = problem_class(args.problem)
    problem, recipe = preset(args.preset, kind, **chosen(args, kind), **chosen(args, Recipe))
    make_solver(recipe.solver)  # so that wrong names and sizes are reported before anything is written
    from qubolearn.training.build import new_network
    from qubolearn.training.distributed import process_group
    from qubolearn.training.runs import Run

    new_network(problem, recipe)
    folder = Path(args.out or f"runs/{problem.name.rpartition(':')[2]}-{recipe.method}-{recipe.seed}")
    with process_group() as peers:
        if peers.rank > 0:  # only the first process prints
            output.json, output.console.quiet, output.errors.quiet = False, True, True
        device = pick_device(args.device)
        here = peers.first(lambda: Run.create(folder, problem, recipe))
        with stop_on_signals() as caught:
            seconds = train_with_progress(here, device, output, args.tensorboard, caught, peers)
            number = peers.largest(caught[0] if caught else 0)
    if number:
        output.errors.print(f"stopped and saved; to go on, run the same command again (--out {folder})")
        return 128 + number
    if peers.rank > 0:
        return 0
    found, result = score(here, device, args.test, seconds)
    write_json(folder / "result.json", result, checksum=True)
    show(output, here, found, result)
    output.say(f"run folder: {folder}")
    output.result(**result, out=str(folder))
    return 0


def pick_device(name: str | None) -> torch.device:
    """The device with this name, or the best one available."""
    import torch

    from qubolearn.training.threads import usable_device

    return usable_device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying, so that the step in progress is finished and saved.

    A second Ctrl-C, where a step takes too long to wait for, stops at once and loses what came after the checkpoint.
    """
    caught: list[int] = []
    first = 0.0

    def handle(number: int, _: object) -> None:
        nonlocal first
        if not caught:
            first = time.monotonic()
        elif number == signal.SIGINT and time.monotonic() - first > SECONDS_BETWEEN_INTERRUPTS:
            raise KeyboardInterrupt
        caught.append(number)

    before = {name: signal.signal(name, handle) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def train_with_progress(
    here: Run,
    device: torch.device,
    output: Output,
    tensorboard: bool = False,
    caught: Sequence[int] = (),
    peers: Peers | None = None,
) -> float:
    """Train the run to its end under a progress bar; the seconds that it took."""
    from qubolearn.training.callbacks import TensorBoard
    from qubolearn.training.distributed import ALONE
    from qubolearn.training.train import train

    recipe, began = here.recipe, time.perf_counter()
    if here.finished:
        output.say(f"{here.folder} is trained already")
        told = [record.get("seconds") for record in here.metrics()]
        known = [value for value in told if isinstance(value, float) and math.isfinite(value)]
        return known[-1] if known else 0.0
    peers = peers or ALONE
    title = f"{here.problem.name} {recipe.method} L{recipe.layers} H{recipe.hidden}"
    with output.progress(title, recipe.steps) as bar:
        callbacks: list[Any] = [_Bar(bar, here.problem.metric)]
        if tensorboard and peers.rank == 0:
            if (here.folder / "tensorboard").is_symlink():  # it may point outside the run's folder
                raise QubolearnError(f"{here.folder / 'tensorboard'} is a link; remove it, or choose another --out")
            callbacks.append(TensorBoard(here.folder / "tensorboard"))
        train(here.problem, recipe, here, device, callbacks, stop=lambda: bool(caught), peers=peers)
    return time.perf_counter() - began


class _Bar:
    """Moves the bar of the command line."""

    def __init__(self, bar: Any, metric: str) -> None:
        self._bar, self._metric, self._latest, self._shown = bar, metric, "", 0

    def on_step(self, training: Training) -> None:
        if training.scores:
            self._latest = f"  {self._metric} {training.scores[self._metric]:.4g}"
        if training.scores or training.step >= self._shown + 10:
            self._shown = training.step
            note = f"loss {training.loss:.4f}{self._latest}"
            self._bar.update(self._bar.task_ids[0], completed=training.step, note=note)


def score(here: Run, device: torch.device, instances: int, seconds: float) -> tuple[Evaluation, dict[str, Any]]:
    """Score a trained run on unseen test instances; returns the evaluation, and a record of it with its provenance."""
    from qubolearn.evaluation import evaluate

    problem, recipe = here.problem, here.recipe
    solver = recipe.solver if recipe.loss in ("gap", "hinge", "hamming", "contrastive") else "auto"
    asked = None if solver == "auto" else make_solver(solver)
    network = here.network().to(device)
    found = evaluate(network, problem, asked, instances, recipe.seed, device=device)
    header = {"problem": problem.name, "method": recipe.method, "seed": recipe.seed, "solver": solver}
    return found, {**header, **found.as_dict(), **rounding(network), "seconds": round(seconds, 3), **provenance()}


def rounding(network: torch.nn.Module) -> dict[str, Any]:
    """What a network whose couplings were rounded kept and cut."""
    from qubolearn.networks import SharedQubo

    hard = network.hardened() if isinstance(network, SharedQubo) else None
    if hard is None:
        return {}
    cut = hard.counts[hard.levels.index(0.0)]
    kept = sum(hard.counts) - cut
    return {"couplings_kept": kept, "couplings_cut": cut, "widest_gaps": hard.gaps, "linear_cut": hard.largest_linear}


def show(output: Output, here: Run, found: Evaluation, result: Mapping[str, Any]) -> None:
    """Print the result as a table."""
    recipe = here.recipe
    size = f"L{recipe.layers} H{recipe.hidden}, {recipe.topology}"
    title = f"{here.problem}, {recipe.method}, {'one A' if recipe.network == 'shared' else size}, seed {recipe.seed}"
    rows = [*metric_rows(found), ("training", f"{result['seconds']:.1f} s")]
    if "widest_gaps" in result:
        low, high = result["widest_gaps"][0]
        rows += [("couplings kept", str(result["couplings_kept"])), ("couplings cut", str(result["couplings_cut"]))]
        rows += [
            ("told apart between", f"{low:.2f} and {high:.2f}"),
            ("linear terms cut, up to", f"{result['linear_cut']:.2f}"),
        ]
    output.table(title, [f"on {found.instances} unseen instances", ""], rows)
