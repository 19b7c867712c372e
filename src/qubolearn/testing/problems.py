"""The contract of problems as a check."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from qubolearn.data.arrays import tensors_of
from qubolearn.data.contract import Instances, Problem
from qubolearn.testing.solvers import require as _require

__all__ = ["check_problem"]


def check_problem(problem: Problem, *, count: int = 16, grid_error: float = 0.0) -> None:
    """Raise AssertionError unless the problem keeps the contract of :class:`qubolearn.data.contract.Problem`.

    ``count`` instances are drawn a few times, and once on a GPU where there is one. ``grid_error`` is how much the
    metric of the true bits may fall short of a perfect answer, where the bits round a number.
    """
    _check_configuration(problem)
    instances = _draw(problem, count, seed=0)
    _check_instances(problem, instances, count)
    _check_draws(problem, instances, count)
    _check_devices(problem, count)
    _check_scores(problem, instances, grid_error)
    _check_projection(problem, instances)
    _check_soft_targets(problem, instances)


def _draw(problem: Problem, count: int, seed: int, split: Any = "train") -> Instances:
    return problem.sample(count, Generator().manual_seed(seed), split)


def _check_configuration(problem: Problem) -> None:
    what = type(problem).__name__
    _require(isinstance(getattr(problem, "name", None), str), f"{what}.name is not a string")
    _require(is_dataclass(problem), f"{what} is not a dataclass")
    options = asdict(problem)  # type: ignore[call-overload]
    plain = all(value is None or isinstance(value, (bool, int, float, str)) for value in options.values())
    _require(plain, f"fields of {what} must be numbers, strings and booleans, got {options}")
    again = type(problem)(**json.loads(json.dumps(options)))
    _require(again == problem, f"{what} changes on the way through JSON: {options}")
    try:
        hash(problem)
    except TypeError as error:
        raise AssertionError(f"{what} is not frozen: @dataclass(frozen=True)") from error
    for size in ("input_size", "bits"):
        value = getattr(problem, size)
        _require(isinstance(value, int) and value >= 1, f"{what}.{size} is {value!r}, want an int >= 1")


def _check_instances(problem: Problem, instances: Instances, count: int) -> None:
    p, x_true, answer, _ = instances
    m, n = problem.input_size, problem.bits
    _require(list(p.shape) == [count, m], f"p is {list(p.shape)}, want [count, input_size] = [{count}, {m}]")
    _require(list(x_true.shape) == [count, n], f"x_true is {list(x_true.shape)}, want [count, bits] = [{count}, {n}]")
    _require(len(answer) == count, f"answer holds {len(answer)} instances, want {count}")
    _require(p.dtype == torch.float32, f"p is {p.dtype}, want float32")
    _require(x_true.dtype == torch.float32, f"x_true is {x_true.dtype}, want float32")
    _require(bool(torch.isfinite(p).all()), "p holds values that are not finite")
    _require_bits(x_true, "x_true")


def _check_draws(problem: Problem, instances: Instances, count: int) -> None:
    state = torch.get_rng_state()
    again, other = _draw(problem, count, seed=0), _draw(problem, count, seed=1)
    _require(torch.equal(torch.get_rng_state(), state), "sample draws from torch's global generator")
    same = all(torch.equal(a, b) for a, b in zip(tensors_of(instances), tensors_of(again), strict=True))
    _require(same, "the same state of the generator gives other instances")
    _require(not torch.equal(instances.p, other.p), "another seed of the generator gives the same instances")
    _require(len(_draw(problem, 1, seed=0).p) == 1, "sample(1) does not return one instance")
    for split in ("validation", "test"):
        held_out = _draw(problem, count, seed=2, split=split)
        _check_instances(problem, held_out, count)
        common = (instances.p[:, None] == held_out.p[None]).all(-1).any()
        _require(not bool(common), f"train and {split} share instances")


class _Watched(Generator):
    """A generator that knows whether it was asked for its device."""

    asked = False

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        self.asked = True
        return super().device


def _check_devices(problem: Problem, count: int) -> None:
    """Instances lie where the generator is; without a GPU to see that, sample must at least ask for the device."""
    watched = _Watched()
    problem.sample(count, watched.manual_seed(0), "train")
    _require(watched.asked, "sample never asks for generator.device; make its tensors with device=generator.device")
    if torch.cuda.is_available():
        try:
            drawn = problem.sample(count, Generator("cuda").manual_seed(0), "train")
        except RuntimeError as error:
            raise AssertionError(f"sample fails with a generator on a GPU: {error}") from error
        on = {tensor.device.type for tensor in tensors_of(drawn)}
        _require(on == {"cuda"}, f"instances of a generator on a GPU lie on {sorted(on)}, want all on the GPU")


def _check_scores(problem: Problem, instances: Instances, grid_error: float) -> None:
    x_true = instances.x_true
    perfect = _metric(problem, instances.answer, instances)
    found = _metric(problem, problem.decode(x_true), instances)
    sign = 1.0 if problem.higher_is_better else -1.0
    loss = sign * (perfect - found)
    _require(bool((loss >= -1e-6).all()), f"{problem.metric} of the right answer itself is not the best")
    worst = float(loss.max())
    _require(worst <= grid_error + 1e-6, f"{problem.metric} of x_true misses perfection by {worst} > {grid_error}")
    flipped = _metric(problem, problem.decode(1 - x_true), instances)
    better = float((sign * (flipped - found)).mean()) <= 1e-6
    _require(better, f"{problem.metric} is better for the opposite of x_true; is higher_is_better right?")


def _metric(problem: Problem, answer: Tensor, instances: Instances) -> Tensor:
    scores = problem.score(answer, instances)
    _require(problem.metric in scores, f"score returns {sorted(scores)}, not the metric {problem.metric!r}")
    for name, values in scores.items():
        want = [len(instances.x_true)]
        _require(list(values.shape) == want, f"score {name!r} is {list(values.shape)}, want one per instance {want}")
    return scores[problem.metric].to(torch.float64)


def _check_projection(problem: Problem, instances: Instances) -> None:
    x_true = instances.x_true
    noise = torch.rand(x_true.shape, generator=Generator().manual_seed(0)) < 0.3
    noisy = torch.where(noise, 1 - x_true, x_true)
    projected = problem.project(noisy, instances.p)
    _require(projected.shape == x_true.shape, f"project returns {list(projected.shape)}, want {list(x_true.shape)}")
    _require_bits(projected, "project(x)")
    _require(torch.equal(problem.project(projected, instances.p), projected), "project is not idempotent")
    kept = torch.equal(problem.project(x_true, instances.p), x_true)
    _require(kept, "project changes x_true, which says a valid answer")


def _check_soft_targets(problem: Problem, instances: Instances) -> None:
    targets = problem.soft_targets(instances)
    if targets is None:
        return
    states, weights = targets
    batch, n = instances.x_true.shape
    want = [batch, states.shape[1], n]
    _require(list(states.shape) == want, f"soft targets are {list(states.shape)}, want [batch, t, n] = {want}")
    _require(weights.shape == states.shape[:2], f"weights are {list(weights.shape)}, want {want[:2]}")
    _require_bits(states, "soft targets")
    total = weights.sum(1)
    _require(bool((weights >= 0).all()) and torch.allclose(total, torch.ones_like(total)), "weights do not sum to 1")


def _require_bits(x: Tensor, what: str) -> None:
    _require(bool(((x == 0) | (x == 1)).all()), f"{what} holds values other than 0 and 1")
