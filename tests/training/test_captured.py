"""Steps as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from user_parts import Watching

from qubolearn.errors import NonFiniteError
from qubolearn.networks import QuboNetwork
from qubolearn.problems import Instances, Problem, SoftTargets, make_problem
from qubolearn.problems.randgraph import RandGraph
from qubolearn.qubo import sparse
from qubolearn.random import derive_seed
from qubolearn.recipes import Recipe, evaluation_steps, make_loss, make_optimizer, new_network, train
from qubolearn.runs import Run
from qubolearn.solvers import ExhaustiveSearch, contract, exhaustive, log_partition, make_solver, partition
from qubolearn.training import captured
from qubolearn.training.batches import Drawn
from qubolearn.training.callbacks import StopIf
from qubolearn.training.captured import CapturedSteps, can_capture
from qubolearn.training.optimizers import FlatAdam
from qubolearn.training.steps import Steps, Task


class Soft(RandGraph):
    """Soft targets with weights from the host."""

    def soft_targets(self, instances: Instances) -> SoftTargets:
        x_true = instances.x_true
        weights = torch.tensor([0.75, 0.25]).to(x_true.device)
        return SoftTargets(torch.stack([x_true, 1 - x_true], 1), weights.expand(len(x_true), 2))


GRAPHS = make_problem("randgraph", k=4)
PROBLEMS = {"soft": Soft(k=4), "soft, fresh": Soft(k=4)}
PLAIN = Recipe(
    hidden=16,
    layers=3,
    topology="dense",
    epochs=3,
    instances=230,
    batch_size=40,
    validation=20,
    schedule="cosine",
)
CONFIGS = {
    "nll": PLAIN,
    "fresh": replace(PLAIN, fresh=True),
    "gap": replace(PLAIN, loss="gap", weight_mlp=0.01, weight_unique=0.1),
    "hinge": replace(PLAIN, loss="hinge", layers=5),
    "hamming": replace(PLAIN, loss="hamming"),
    "pseudo": replace(PLAIN, loss="pseudo", network="matching", topology="pegasus"),
    "direct": replace(PLAIN, loss="l1", head="direct", topology="diagonal"),
    "few": replace(PLAIN, instances=17, batch_size=40),
    "soft": replace(PLAIN, loss="soft-nll"),
    "soft, fresh": replace(PLAIN, loss="soft-nll", fresh=True),
}


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def task_of(
    problem: Problem,
    recipe: Recipe,
    network: torch.nn.Module | None = None,
    device: torch.device | str = "cpu",
) -> Task:
    """Return the steps of a recipe without the loop."""
    network = (network or new_network(problem, recipe)).to(device)
    batches = Drawn(problem, recipe.fresh, recipe.instances, recipe.batch_size, recipe.seed, device)
    update = FlatAdam(network, make_optimizer(recipe), recipe.steps)
    loss, solver = make_loss(recipe, problem), make_solver(recipe.solver)
    return Task(network, update, batches, loss, solver, recipe.seed, problem)


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace capture on a CPU, without access to values either."""
    hidden: list[None] = []

    def called(work: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            hidden.append(None)
            work()
            hidden.clear()

        for _ in range(captured.WARM_UP):
            work()
        return replay

    monkeypatch.setattr(captured, "captured", called)
    monkeypatch.setattr("qubolearn.training.fit.can_capture", lambda task: True)
    for module in (sparse, contract, partition):
        monkeypatch.setattr(module, "can_read_values", lambda A: not hidden)


def made(
    kind: type[Steps], config: Recipe, problem: Problem = GRAPHS, device: str = "cpu"
) -> tuple[QuboNetwork, Steps]:
    task = task_of(problem, config, device=device)
    if config.standardize:
        task.network.standardize.fit(task.batches.first().p)
    return task.network, kind(task)


def weights(network: QuboNetwork) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(network.parameters()).detach().cpu()


def assert_same_steps(name: str, device: str = "cpu") -> None:
    config, problem = replace(CONFIGS[name], epochs=8 if name == "few" else 3), PROBLEMS.get(name, GRAPHS)
    (plain, one), (graph, many) = (made(kind, config, problem, device) for kind in (Steps, CapturedSteps))
    before = weights(plain)
    assert torch.equal(weights(graph), before), "the warm-up moved the network"
    for first, end in ((0, 4), (4, 5), (5, config.steps)):
        losses = [one.advance(step, step + 1) for step in range(first, end)]
        assert many.advance(first, end) == pytest.approx(losses[-1], rel=1e-3, abs=1e-4)
    assert (weights(plain) - before).abs().max() > 1e-3
    torch.testing.assert_close(weights(graph), weights(plain), rtol=1e-3, atol=2e-4)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", CONFIGS)
def test_takes_the_same_steps(name: str) -> None:
    assert_same_steps(name)


@gpu
@pytest.mark.parametrize("name", CONFIGS)
def test_takes_the_same_steps_as_a_graph(name: str) -> None:
    assert_same_steps(name, "cuda")


class NoHost(TorchDispatchMode):
    """Reject everything that brings numbers from the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [value for value in args if isinstance(value, torch.Tensor)]
        if isinstance(out, torch.Tensor) and out.is_meta:
            small = () if "_to_copy" in str(func) else (0,)  # numbers are arguments of kernels
            assert all(tensor.is_meta or tensor.ndim in small for tensor in given), (
                f"{func} needs a tensor of the host"
            )
        return out


@pytest.mark.parametrize("name", CONFIGS)
def test_a_step_needs_nothing_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on ``meta`` have no numbers that the host could read."""
    config, problem = CONFIGS[name], PROBLEMS.get(name, GRAPHS)
    monkeypatch.setattr(captured, "captured", lambda work: work)
    for module in (contract, partition, exhaustive):
        monkeypatch.setattr(module, "can_read_values", lambda A: False)
    monkeypatch.setattr(contract, "check_solvable", lambda A: None)  # rejects ``meta``
    monkeypatch.setattr(partition, "check_qubo", lambda A: None)
    monkeypatch.setattr(partition, "check_plain", lambda what, A: None)
    task = task_of(problem, config, new_network(problem, config).to("meta"), "meta")
    task.batches.device = "cpu"
    task.batches._kept = (0, task.batches.epoch(0).to("meta"))
    steps = CapturedSteps(task)
    steps._replay()  # makes the tables that are made once
    with NoHost():
        steps._replay()


@pytest.mark.usefixtures("without_gpu")
def test_the_loop_reports_in_spans_and_watches_the_same_steps() -> None:
    seen = Watching()
    config = replace(PLAIN, epochs=100)
    train(GRAPHS, config, callbacks=[seen])
    assert seen.scored == evaluation_steps(config)
    assert 10 < max(b - a for a, b in pairwise(seen.steps)) <= captured.MAX_STEPS
    assert seen.steps[-1] == config.steps


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("fresh", [True, False])
def test_a_run_that_was_stopped_resumes_with_the_same_steps(fresh: bool, tmp_path: Path) -> None:
    config = replace(PLAIN, fresh=fresh, epochs=40)
    whole = train(GRAPHS, config)
    run = Run.create(tmp_path, GRAPHS, config)
    for _ in range(2):
        asked = iter(range(config.steps))
        train(GRAPHS, config, run, callbacks=[StopIf(lambda: next(asked) == 5)])  # noqa: B023
    assert run.metrics()[-1]["step"] < config.steps
    assert torch.equal(weights(train(GRAPHS, config, run)), weights(whole))


@dataclass(frozen=True)
class Poisoned(RandGraph):
    """NaN in instance 95 of an epoch, which is in the third step of five."""

    epoch: int = 2

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        found = super().sample(count, generator, split)  # type: ignore[arg-type]
        if generator.initial_seed() == derive_seed(0, "train", self.epoch):
            found.p[95, 3] = float("nan")
        return found


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("epoch", [0, 2])  # 0 is also the warm-up
def test_a_step_along_nan_is_found_and_named(epoch: int, tmp_path: Path) -> None:
    problem, bad = Poisoned(k=4, epoch=epoch), 5 * epoch + 2
    # pseudo-likelihood: on a CPU sums over states see the NaN themselves
    config = replace(PLAIN, loss="pseudo", fresh=True, epochs=9, standardize=False)
    with pytest.raises(NonFiniteError, match=rf"step {bad} \(seed 0, epoch {epoch}"):
        train(problem, config, Run(tmp_path, problem, config))
    assert (tmp_path / "fault" / "batch.npz").is_file()
    # and the network is unchanged
    network, steps = made(CapturedSteps, config, problem)
    healthy, plain = made(Steps, config)
    plain.advance(0, bad)
    with pytest.raises(NonFiniteError):
        steps.advance(0, 40)
    torch.testing.assert_close(weights(network), weights(healthy), rtol=1e-3, atol=2e-4)


@gpu
def test_on_a_gpu_a_step_along_nan_is_kept_and_a_stopped_run_resumes(tmp_path: Path) -> None:
    config = replace(PLAIN, fresh=True, epochs=40)
    with pytest.raises(NonFiniteError, match=r"at step 12 \(seed 0, epoch 2"):
        train(Poisoned(k=4), config, Run(tmp_path, Poisoned(k=4), config), "cuda")
    assert (tmp_path / "fault" / "batch.npz").is_file()
    run = Run.create(tmp_path / "run", GRAPHS, config)
    seen = Watching()
    asked = iter(range(config.steps))
    train(GRAPHS, config, run, "cuda", [seen, StopIf(lambda: next(asked) == 5)])
    assert max(b - a for a, b in pairwise(seen.steps)) > 1
    assert not run.finished
    resumed, whole = train(GRAPHS, config, run, "cuda"), train(GRAPHS, config, device="cuda")
    torch.testing.assert_close(weights(resumed), weights(whole), rtol=1e-2, atol=2e-3)


def test_what_needs_the_host_or_much_memory_is_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    def can(problem: Problem = GRAPHS, gpu: bool = True, **changed: Any) -> bool:
        task = task_of(problem, replace(PLAIN, **changed))
        if gpu:
            monkeypatch.setattr(task.network, "parameters", lambda: iter([_OnGPU()]))
        return can_capture(task)

    assert not can(gpu=False)
    assert can()
    assert can(loss="gap")
    assert not can(loss="gap", solver="annealing")
    assert not can(loss="hamming", solver="annealing")
    assert can(loss="pseudo", solver="annealing")
    assert not can(loss="contrastive", solver="annealing")
    monkeypatch.setattr(captured, "MAX_BYTES", 4 * (2 * 8 + 2) * PLAIN.instances)
    assert can(Soft(k=4), loss="soft-nll")
    assert not can(Soft(k=4), loss="soft-nll", instances=PLAIN.instances + 1)


class _OnGPU(torch.Tensor):
    is_cuda = True  # type: ignore[assignment]


@gpu
@pytest.mark.parametrize("n", [5, 9, 12, 16])
def test_search_and_sums_can_be_captured_by_anyone(n: int) -> None:
    draws = torch.Generator("cuda").manual_seed(n)
    A = torch.zeros(7, n, n, device="cuda")
    found: list[torch.Tensor] = []
    replay = captured.captured(lambda: found.extend([*ExhaustiveSearch()(A), log_partition(A)]))
    A.copy_(torch.randn(7, n, n, generator=draws, device="cuda"))
    A.add_(A.mT.clone())
    replay()
    right = ExhaustiveSearch()(A.cpu())
    torch.testing.assert_close(found[-2].cpu(), right.energies)
    assert torch.equal(found[-3].cpu(), right.states)
    torch.testing.assert_close(found[-1].cpu(), log_partition(A.cpu()), rtol=1e-4, atol=1e-4)
