"""Many trainings as one: each must come out as if it had been alone, whatever happens to the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qubolearn import Adam, EarlyStopping, Gap, Likelihood, QubolearnError, QuboNetwork, fit, fit_many, topology
from qubolearn.problems import Instances, Problem, RightAnswers, SoftTargets
from qubolearn.problems.arrays import Arrays
from qubolearn.problems.randgraph import RandGraph
from qubolearn.qubo import checks
from qubolearn.randomness import derive_seed
from qubolearn.solvers import contract, partition
from qubolearn.training import many
from qubolearn.training.callbacks import Callback
from qubolearn.training.fast import captured, stacked, window
from qubolearn.training.fit import Training
from qubolearn.training.recipes import Recipe
from qubolearn.training.runs import Run
from qubolearn.training.train import train, train_many

GRAPHS = RandGraph(k=4)
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


class Soft(RandGraph):
    """Two states count as nearly right."""

    def soft_targets(self, instances: Instances) -> SoftTargets:
        x_true = instances.x_true
        return SoftTargets(torch.stack([x_true, 1 - x_true], 1), x_true.new_tensor([0.75, 0.25]).expand(len(x_true), 2))


@dataclass(frozen=True)
class Poisoned(RandGraph):
    """NaN in instance 95 of an epoch of one seed, which is in the third step of five."""

    epoch: int = 2
    bad_seed: int = 1

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        found = super().sample(count, generator, split)  # type: ignore[arg-type]
        if generator.initial_seed() == derive_seed(self.bad_seed, "train", self.epoch):
            found.p[95, 3] = float("nan")
        return found


PLAIN = Recipe(hidden=16, layers=3, topology="dense", epochs=3, instances=230, batch_size=40, validation=20)
GAP = replace(PLAIN, loss="gap", weight_mlp=0.01, weight_unique=0.1)
#: what differs between the runs of one stack
STACKS: dict[str, list[tuple[Problem, Recipe]]] = {
    "seeds": [(GRAPHS, replace(PLAIN, seed=seed)) for seed in range(3)],
    "rates": [
        (GRAPHS, replace(PLAIN, learning_rate=rate, schedule=schedule))
        for rate, schedule in ((1e-3, "constant"), (3e-3, "cosine"))
    ],
    "weights": [
        (GRAPHS, replace(GAP, weight_unique=unique, weight_mlp=mlp, seed=5))
        for unique, mlp in ((0.1, 0.01), (0.1, 0.1), (0.0, 0.01), (0.3, 0.0))
    ],
    "losses": [(GRAPHS, replace(GAP, loss=loss)) for loss in ("gap", "nll", "hinge", "hamming", "pseudo")],
    "lengths": [(GRAPHS, replace(PLAIN, epochs=epochs, instances=few)) for epochs, few in ((1, 230), (4, 100))],
    "fresh": [(GRAPHS, replace(GAP, fresh=True, seed=seed)) for seed in (0, 1)],
    "pure": [(GRAPHS, replace(PLAIN, loss="l1", method="pure", topology="diagonal", seed=s)) for s in (0, 1)],
    "diag": [(GRAPHS, replace(GAP, method="diag", topology="diagonal", seed=s)) for s in (0, 1)],
    "soft": [(Soft(k=4), replace(PLAIN, loss="soft-nll", seed=s, fresh=bool(s))) for s in (0, 1)],
    "matching": [(GRAPHS, replace(PLAIN, network="matching", seed=s)) for s in (0, 1)],
}


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Also take steps together on a CPU, where ``fit_many`` does not; the sizes of the stacks that were made."""
    sizes: list[int] = []

    class Noted(stacked.StackedSteps):
        def __init__(self, tasks: Any) -> None:
            super().__init__(tasks)
            sizes.append(len(self.tasks))

    monkeypatch.setattr(many, "StackedSteps", Noted)
    monkeypatch.setattr(many, "_seen_from_outside", lambda run, number: 0)
    return sizes


def weights(network: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach().cpu()


def assert_as_alone(name: str, device: str = "cpu") -> None:
    together = train_many(STACKS[name], device=device)
    for (problem, recipe), training in zip(STACKS[name], together, strict=True):
        own: list[Training] = []
        alone = train(problem, recipe, device=device, callbacks=[Keep(own)])
        torch.testing.assert_close(weights(training.network), weights(alone), rtol=1e-3, atol=2e-4)
        assert [record["step"] for record in training.history] == [record["step"] for record in own[0].history]
        assert training.loss == pytest.approx(own[0].loss, rel=1e-3, abs=1e-4)
        assert not training.network.training


class Keep(Callback):
    def __init__(self, kept: list[Training]) -> None:
        self._kept = kept

    def on_end(self, training: Training) -> None:
        self._kept.append(training)


@pytest.mark.parametrize("name", STACKS)
def test_each_training_is_as_it_is_alone(name: str, stacks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    hide_numbers(monkeypatch)
    monkeypatch.setattr(stacked, "Steps", None)  # no step is taken again
    assert_as_alone(name)
    assert stacks == [len(STACKS[name])]


@gpu
@pytest.mark.parametrize("name", STACKS)
def test_each_training_is_as_it_is_alone_on_a_gpu(name: str) -> None:
    assert_as_alone(name, "cuda")


def test_on_a_cpu_trainings_are_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "StackedSteps", None)
    for (problem, recipe), training in zip(STACKS["weights"], train_many(STACKS["weights"]), strict=True):
        assert torch.equal(weights(training.network), weights(train(problem, recipe)))


def test_shapes_that_differ_are_stacks_of_their_own(stacks: list[int]) -> None:
    mixed = [*STACKS["seeds"], *STACKS["diag"], (GRAPHS, replace(PLAIN, solver="annealing:reads=5", loss="gap"))]
    together = train_many(mixed)
    assert sorted(stacks) == [2, 3]
    for (problem, recipe), training in zip(mixed, together, strict=True):
        torch.testing.assert_close(weights(training.network), weights(train(problem, recipe)), rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize(("epoch", "graph"), [(0, True), (2, False)])  # in a graph nobody can look at numbers
def test_a_run_that_meets_nan_does_not_touch_the_others(
    epoch: int, graph: bool, stacks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if graph:
        hide_numbers(monkeypatch)
    problem = Poisoned(k=4, epoch=epoch)
    recipes = [replace(PLAIN, fresh=True, epochs=4, standardise=False, seed=seed) for seed in range(3)]
    runs = [Run.create(tmp_path / str(recipe.seed), problem, recipe) for recipe in recipes]
    good, bad, other = train_many([(problem, recipe) for recipe in recipes], runs)
    assert stacks == [3]
    assert good.error is None
    assert other.error is None
    assert f"at step {5 * epoch + 2} (seed 1, epoch {epoch}" in str(bad.error)
    assert (tmp_path / "1" / "fault" / "batch.npz").is_file()
    assert [run.finished for run in runs] == [True, False, True]
    for recipe, training in zip(recipes[::2], (good, other), strict=True):
        torch.testing.assert_close(weights(training.network), weights(train(GRAPHS, recipe)), rtol=1e-3, atol=2e-4)
    healthy = train(GRAPHS, recipes[1], callbacks=[StopAfter(5 * epoch + 2)])  # and the network is that of before
    torch.testing.assert_close(weights(bad.network), weights(healthy), rtol=1e-3, atol=2e-4)


class StopAfter(Callback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_step(self, training: Training) -> None:
        if training.step >= self._step:
            training.stop()


def hide_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: some steps to warm up, and then steps in which nobody can look at numbers."""
    hidden: list[bool] = []

    def ready(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
        def replay() -> None:
            hidden.append(True)
            work()
            hidden.pop()

        for _ in range(captured.WARM_UP):
            work()
        return replay

    monkeypatch.setattr(stacked, "_ready", ready)
    for module in (checks, contract, partition):
        monkeypatch.setattr(module, "not_capturing", lambda A: not hidden)


def test_runs_in_folders_go_on_from_where_each_was_stopped(stacks: list[int], tmp_path: Path) -> None:
    recipes = [replace(PLAIN, seed=seed, epochs=4) for seed in range(3)]
    runs = [Run.create(tmp_path / str(recipe.seed), GRAPHS, recipe) for recipe in recipes]
    train(GRAPHS, recipes[1], runs[1], stop=lambda: True)  # one of them is a step ahead
    asked = iter(range(100))
    stopped = train_many([(GRAPHS, recipe) for recipe in recipes], runs, stop=lambda: next(asked) > 6)
    assert all(0 < training.step < training.steps for training in stopped)
    train_many([(GRAPHS, recipe) for recipe in recipes], runs)
    for run, recipe in zip(runs, recipes, strict=True):
        assert run.finished
        assert run.metrics()[-1]["step"] == recipe.steps
        torch.testing.assert_close(weights(run.network()), weights(train(GRAPHS, recipe)), rtol=1e-3, atol=2e-4)


class Own(nn.Module):
    """A network that nobody knows, with a number that cannot be seen from outside."""

    def __init__(self, size: int, times: float = 1.0) -> None:
        super().__init__()
        self.last, self.times = nn.Linear(6, size), times

    def forward(self, p: Any) -> Tensor:
        return self.last(p["left"] + self.times * p["right"])


class Moves(Own):
    """Changes a buffer in every step."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, p: Any) -> Tensor:
        self.seen.add_(1)
        return super().forward(p)


class Drops(Own):
    def forward(self, p: Any) -> Tensor:
        return nn.functional.dropout(super().forward(p), 0.5, self.training)


def own_runs(make: Any, count: int = 2) -> list[dict[str, Any]]:
    pattern = topology("dense", 4)
    torch.manual_seed(0)
    return [{"network": QuboNetwork(make(pattern.size, *more), pattern), "seed": n} for n, more in enumerate(count)]


def own_data() -> Arrays:
    generator = torch.Generator().manual_seed(0)
    p = {"left": torch.randn(300, 6, generator=generator), "right": torch.randn(300, 6, generator=generator)}
    x = (p["left"][:, :4] > 0).float()
    right = RightAnswers(torch.stack([x, 1 - x], 1), torch.ones(300, 2, dtype=torch.bool))
    return Arrays(p, x, right=right, validation=0.2)


def own_loss(A: Tensor, batch: Any) -> Tensor:
    x_star = batch.solver(A.detach(), 1).states[:, 0]
    gap = torch.einsum("bi,bij,bj->b", batch.x_true, A, batch.x_true) - torch.einsum("bi,bij,bj->b", x_star, A, x_star)
    return gap + 0.1 * A.square().mean((1, 2))


@pytest.mark.parametrize(
    ("make", "more", "stacked_runs"),
    [(Own, [(), ()], [2]), (Own, [(), (3.0,)], []), (Moves, [(), ()], []), (Drops, [(), ()], [])],
)
@pytest.mark.parametrize("loss", [Gap(0.1), Likelihood(2.0), own_loss], ids=["gap", "likelihood", "own"])
def test_own_networks_and_losses_train_together_where_that_is_the_same(
    make: Any, more: Any, stacked_runs: list[int], loss: Any, stacks: list[int]
) -> None:
    options = {"data": own_data(), "loss": loss, "epochs": 2, "batch_size": 50, "optimizer": Adam(0.01)}
    together, alone = own_runs(make, more), own_runs(make, more)
    fit_many(together, **options)
    assert stacks == stacked_runs
    for mine, own in zip(together, alone, strict=True):
        fit(**own, **options)
        torch.testing.assert_close(weights(mine["network"]), weights(own["network"]), rtol=1e-3, atol=2e-4)


def test_one_run_may_stop_early(stacks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "Steps", None)  # the others go on together
    together = own_runs(Own, [(), ()])
    together[0]["callbacks"] = [StopAfter(3)]
    together[1]["callbacks"] = [EarlyStopping("accuracy", patience=100)]
    first, second = fit_many(together, data=own_data(), epochs=3, batch_size=50)
    assert 3 <= first.step < second.step == second.steps  # steps are taken in spans
    alone = own_runs(Own, [(), ()])[0]
    fit(**alone, data=own_data(), epochs=3, batch_size=50, callbacks=[StopAfter(first.step)])
    torch.testing.assert_close(weights(first.network), weights(alone["network"]), rtol=1e-3, atol=2e-4)


def test_what_has_ended_in_its_folder_is_not_trained_again(stacks: list[int], tmp_path: Path) -> None:
    """Neither what took all of its steps nor what was stopped for good, while others of its shape go on."""

    def runs(count: int) -> list[dict[str, Any]]:
        made = own_runs(Own, [()] * count)
        made[1]["callbacks"] = [StopAfter(3)]
        return [{**run, "folder": tmp_path / str(run["seed"])} for run in made]

    options = {"data": own_data(), "epochs": 2, "batch_size": 50}
    first, again = fit_many(runs(2), **options), fit_many(runs(4), **options)
    assert stacks == [2, 2]  # the two that are new
    assert [training.step for training in again] == [8, first[1].step, 8, 8]
    assert first[1].step < 8
    for before, after in zip(first, again[:2], strict=True):
        assert torch.equal(weights(before.network), weights(after.network))


class Fails(Callback):
    """Fails at one moment of a training."""

    def __init__(self, moment: str) -> None:
        setattr(self, moment, self._fail)

    def _fail(self, training: Training) -> None:
        raise OSError("the disk of the plots is full")


@pytest.mark.parametrize("moment", ["on_step", "on_end"])
@pytest.mark.parametrize("together", [True, False])
def test_a_callback_that_fails_ends_its_own_run_only(
    together: bool, moment: str, request: pytest.FixtureRequest
) -> None:
    sizes = request.getfixturevalue("stacks") if together else []
    runs = own_runs(Own, [(), (), ()])
    runs[1]["callbacks"] = [Fails(moment)]
    first, second, third = fit_many(runs, data=own_data(), epochs=2, batch_size=50, optimizer=Adam(0.01))
    assert sizes == ([3] if together else [])
    assert (first.error, third.error) == (None, None)
    assert first.step == third.step == first.steps
    assert str(second.error).startswith(f"callback Fails.{moment} failed at step")
    assert isinstance(second.error.__cause__, OSError)  # type: ignore[union-attr]
    assert not any(training.network.training for training in (first, second, third))


def test_what_does_not_fit_together_is_refused() -> None:
    one = own_runs(Own, [()])
    with pytest.raises(QubolearnError, match="another run's network"):
        fit_many([*one, *one], data=own_data())
    with pytest.raises(QubolearnError, match="want one device"):
        fit_many([{**one[0], "device": "cuda"}, {"network": nn.Linear(1, 1)}], data=own_data())
    assert fit_many([]) == []


def test_a_graph_finds_the_batches_of_its_window(stacks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MOST_BYTES", 1)  # windows of few steps, which epochs do not divide
    assert_as_alone("seeds")
    assert captured.WARM_UP + 1 == 4
    assert stacks == [3]


def test_stacks_in_several_threads_do_not_disturb_each_other(stacks: list[int]) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(train_many, [STACKS[name] for name in ("seeds", "diag", "pure")]))
    for name, together in zip(("seeds", "diag", "pure"), found, strict=True):
        for (problem, recipe), training in zip(STACKS[name], together, strict=True):
            torch.testing.assert_close(weights(training.network), weights(train(problem, recipe)), rtol=1e-3, atol=2e-4)
    assert sorted(stacks) == [2, 2, 3]
