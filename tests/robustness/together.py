"""One training on several processes, without torchrun's start: forks them and lets them find each other by a file.

``python together.py FOLDER SIZE`` trains in FOLDER/whole and FOLDER/again, and in FOLDER/stopped with a stop after
every second step, and compares the gradients of a step with those of torch's own DistributedDataParallel.
``python together.py FOLDER SIZE poisoned`` trains in FOLDER/run on data of which one number is none.
``python together.py FOLDER SIZE alone`` lets one process fail in ways that the others do not see, one after another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from nursery import CONFIG, PROBLEM
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from qubolearn.data.contract import Instances, Split
from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.losses import Batch
from qubolearn.networks import QuboNetwork
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import derive_seed, stream
from qubolearn.recipes import make_loss, new_network, train
from qubolearn.runs import Run
from qubolearn.solvers import make_solver
from qubolearn.training.callbacks import Callback
from qubolearn.training.distributed import Peers
from qubolearn.training.fit import Training
from qubolearn.training.optimizers import FlatAdam

TOGETHER = replace(CONFIG, epochs=3, instances=57, batch_size=19, loss="gap", solver="exhaustive")  # 9 steps, uneven
DRAWING = replace(TOGETHER, loss="hinge", solver="annealing:reads=2,sweeps=2", topology="dense")


@dataclass(frozen=True)
class Poisoned(RandGraph):
    """One number of the second epoch is none: in the last batch, step 5."""

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        instances = super().sample(count, generator, split)
        if generator.initial_seed() == derive_seed(TOGETHER.seed, "train", 1):
            instances.p[40, 2] = float("nan")
        return instances


class Loss(nn.Module):
    """batch_loss as a module, which is the form that DistributedDataParallel takes."""

    def __init__(self, network: QuboNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: Instances, peers: Peers) -> Tensor:
        # DistributedDataParallel takes means over processes where we take sums
        return share_of_loss(self.network, batch, peers) * peers.size


def share_of_loss(network: QuboNetwork, batch: Instances, peers: Peers) -> Tensor:
    mine = peers.share(batch)
    A, features = network.couplings(mine.p)
    losses = make_loss(TOGETHER)(A, Batch(mine, make_solver(TOGETHER.solver), features=features))
    return losses.mean() * (len(mine.p) / len(batch.p))


def compare_with_ddp(peers: Peers) -> None:
    batch = PROBLEM.sample(19, stream(0, "train"))
    ours, theirs = new_network(PROBLEM, TOGETHER), new_network(PROBLEM, TOGETHER)
    gradient = FlatAdam(ours).gradient
    loss = share_of_loss(ours, batch, peers)
    loss.backward()
    gradient[0] = loss.detach()
    value = peers.reduce(gradient)[0].item()
    parallel = DistributedDataParallel(Loss(theirs))
    parallel(batch, peers).backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)
    torch.testing.assert_close(value, share_of_loss(ours, batch, Peers()).item())


def work(folder: Path, peers: Peers) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=peers.rank, world_size=peers.size)
    compare_with_ddp(peers)
    for name, config in (("exact", TOGETHER), ("drawn", DRAWING)):
        for again in ("whole", "again"):
            run = peers.first(lambda: Run.create(folder / name / again, PROBLEM, config))  # noqa: B023
            train(PROBLEM, config, run, peers=peers)
        run = peers.first(lambda: Run.create(folder / name / "stopped", PROBLEM, config))  # noqa: B023
        while not peers.largest(run.finished):
            asked = iter((False, True))
            # only the last process wants to stop: all of them must
            wish = (lambda: next(asked)) if peers.rank == peers.size - 1 else (lambda: False)  # noqa: B023
            train(PROBLEM, config, run, stop=wish, peers=peers)
    dist.destroy_process_group()


def work_poisoned(folder: Path, peers: Peers) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=peers.rank, world_size=peers.size)
    recipe = replace(TOGETHER, loss="pseudo")  # no solver that would look at A: NaN comes to all processes in the sum
    run = peers.first(lambda: Run.create(folder / "run", PROBLEM, recipe))
    try:
        train(Poisoned(k=3), recipe, run, peers=peers)
    except NonFiniteError:
        os._exit(0)
    raise AssertionError("the fault was not seen")


class Breaks(Callback):
    """Fails in one process and at one moment."""

    def __init__(self, moment: str) -> None:
        setattr(self, moment, self.fail)

    def fail(self, training: Training) -> None:
        raise ZeroDivisionError("one process fails")


def work_alone(folder: Path, peers: Peers) -> None:
    """FOLDER/RANK holds a line for each failure: what this process raised."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=peers.rank, world_size=peers.size)
    said = []
    for problem, moment in ((Poisoned(k=3), ""), (PROBLEM, "on_start"), (PROBLEM, "on_step"), (PROBLEM, "on_end")):
        callbacks = [Breaks(moment)] if moment and peers.rank == peers.size - 1 else []
        try:
            train(problem, TOGETHER, callbacks=callbacks, peers=peers)  # exhaustive search refuses an A that is NaN
        except QubolearnError as error:
            said.append(f"{error}\n")
        dist.destroy_process_group()
        again = f"file://{folder}/meet-{len(said)}"
        dist.init_process_group("gloo", init_method=again, rank=peers.rank, world_size=peers.size)
    try:
        peers.first(lambda: 1 // peers.rank)
    except (ZeroDivisionError, QubolearnError) as error:
        said.append(f"{type(error).__name__}\n")
    (folder / str(peers.rank)).write_text("".join(said))
    os._exit(0)


def main(folder: Path, size: int, work: Callable[[Path, Peers], None]) -> int:
    torch.set_num_threads(1)
    train(PROBLEM, replace(DRAWING, epochs=1))  # what is compiled on first use is compiled once
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            work(folder, Peers(rank, size))
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return int(any(codes))


if __name__ == "__main__":
    kinds = {"poisoned": work_poisoned, "alone": work_alone}
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), kinds[sys.argv[3]] if len(sys.argv) > 3 else work))
