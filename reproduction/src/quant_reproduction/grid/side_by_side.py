"""Networks of the paper's protocol that train side by side.

One small network leaves a GPU nearly idle, and even a core spends most of a step on calls. A stack has
all planned networks of one shape, of every seed, loss and rate; their gradients are written out and do
not mix. Inputs of point sets that are always equal share one weight, as in
:mod:`quant_reproduction.stacks`. On a GPU steps run in CUDA graphs.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from quant_reproduction.grid.jobs import record_digest
from quant_reproduction.problems.pointset import PointSet
from quant_reproduction.stacks import classes_of
from qubolearn.data.contract import Problem
from qubolearn.files import lock_folder, read_tensors, write_tensors
from qubolearn.qubo import all_states
from qubolearn.random import stream
from qubolearn.recipes import Recipe, new_network

Run = tuple[Problem, Recipe]
#: Steps from which a training run joins a stack, and the most bits.
LONG, MAX_BITS = 50_000, 15
#: Steps of a CUDA graph, graphs that wait, seconds between checkpoints.
CHUNK, AHEAD, CHECKPOINT = 50, 2, 20.0
BETAS, EPSILON = (0.9, 0.999), 1e-8


def joins(problem: Problem, recipe: Recipe) -> bool:
    """Return True for long runs of the paper's protocol."""
    known = recipe.loss in ("gap", "l1") and recipe.network == "mlp" and recipe.solver == "exhaustive"
    more = recipe.fresh or recipe.standardize or recipe.dropout or recipe.schedule != "constant"
    return known and not more and problem.bits <= MAX_BITS and recipe.steps >= LONG


def shape_of(problem: Problem, recipe: Recipe) -> str:
    """Return a name of what the networks of a stack have in common."""
    of_recipe = (recipe.layers, recipe.hidden, recipe.batch_size, recipe.instances, recipe.epochs)
    return "-".join(map(str, (recipe.head, problem.input_size, problem.bits, *of_recipe)))


def trained_together(
    run: Run, planned: Callable[[], Sequence[Run]], device: torch.device, shared: Path
) -> tuple[nn.Module, float]:
    """Return a trained network and its share of the seconds; its stack trains all planned ones."""
    root = Path(os.environ.get("QUBOLEARN_RELEASED", "runs/released"))
    place = root / f"text-{device.type}-{record_digest()}" / shape_of(*run)
    place.mkdir(parents=True, exist_ok=True)

    def file_of(run: Run) -> Path:
        return place / f"{_digest(run)}.safetensors"

    with lock_folder(place, wait=True):  # others wait for the first job's networks
        if not file_of(run).is_file():
            alike = [each for each in planned() if shape_of(*each) == place.name]
            missing = [each for each in dict.fromkeys([run, *alike]) if not file_of(each).is_file()]
            missing.sort(key=_digest)  # a resumed run finds its checkpoint
            stack = Stack(missing, device, shared)
            seconds = stack.train(place / f"checkpoint-{_digest(missing)}.safetensors") / len(missing)
            for each, network in zip(missing, stack.networks(), strict=True):
                write_tensors(file_of(each), network.state_dict(), finite=False, seconds=f"{seconds:.3f}")
    network = new_network(*run)
    tensors, notes = read_tensors(file_of(run), network.state_dict(), finite=False)
    network.load_state_dict(tensors)
    return network.eval().to(device), float(notes["seconds"])


def _digest(what: Any) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def drawn_once(run: Run, device: torch.device, folder: Path) -> tuple[Tensor, Tensor]:
    """Return p ``[instances, classes]`` and labels; the first process that needs them draws them."""
    problem, recipe = run
    index = classes_of("2d" if isinstance(problem, PointSet) else "3d")[0]
    count = index[index >= 0].bincount()
    shape = recipe.instances, len(count)
    like = {"p": torch.empty(shape), "labels": torch.empty(shape[0], dtype=torch.long)}
    place = folder / _digest((problem, recipe.seed, recipe.instances))
    place.mkdir(parents=True, exist_ok=True)
    with lock_folder(place, wait=True):
        if not (place / "pool.safetensors").is_file():
            drawn = problem.sample(recipe.instances, stream(recipe.seed, "train", 0, device=device))
            first = [index.tolist().index(each) for each in range(len(count))]
            weight = 2 ** torch.arange(problem.bits - 1, -1, -1)
            labels = (drawn.x_true.cpu().long() * weight).sum(1)
            p = drawn.p[:, first].cpu() * count  # equal inputs are one, times their number
            write_tensors(place / "pool.safetensors", {"p": p, "labels": labels})
    found, _ = read_tensors(place / "pool.safetensors", like)
    return found["p"].to(device), found["labels"].to(device)


class Stack:
    """Networks of one shape with their data, gradients and Adam, in flat vectors."""

    def __init__(self, runs: Sequence[Run], device: torch.device, shared: Path) -> None:
        self.runs, self.device, recipe = runs, device, runs[0][1]
        self.batch, self.instances, self.steps = recipe.batch_size, recipe.instances, recipe.steps
        self.per_epoch, self.done, self.epoch = recipe.steps_per_epoch, 0, -1
        self.fresh: list[Any] = [new_network(*run) for run in runs]
        one = self.fresh[0]
        self.skips, self.last, self.direct = one.body.skips, recipe.layers - 1, recipe.head == "direct"
        index = classes_of("2d" if isinstance(runs[0][0], PointSet) else "3d")[0]
        self.classes, self.count = index, index[index >= 0].bincount()
        seeds = sorted({recipe.seed for _, recipe in runs})
        pools = {(problem, recipe.seed): (problem, recipe) for problem, recipe in runs}
        keys = sorted(pools, key=lambda key: _digest((key, shape_of(*runs[0]))))  # processes share the work
        data = {key: drawn_once(pools[key], device, shared) for key in keys}
        self.p, self.labels = (torch.cat([data[key][part] for key in pools]) for part in (0, 1))
        del data
        numbers: Any = {"device": device, "dtype": torch.long}
        starts = [[*pools].index((problem, recipe.seed)) * self.instances for problem, recipe in runs]
        self.starts = torch.tensor(starts, **numbers)
        self.owner = torch.tensor([seeds.index(recipe.seed) for _, recipe in runs], **numbers)
        self.seeds, self.order = seeds, torch.empty(len(seeds), self.instances, **numbers)
        # x_i and 2 x_i x_j: what an entry of A adds to the energy
        self.states = all_states(one.n, device)
        i, j = one.edges.to(device)
        self.products = torch.cat([self.states, 2 * self.states[:, i] * self.states[:, j]], 1)
        self.slopes_of_energy = self.products / self.batch

        def of_each(name: str, scale: float = 1.0) -> Tensor:
            values = [scale * getattr(recipe, name) for _, recipe in runs]
            return torch.tensor(values, device=device)[:, None, None]

        self.unique = of_each("weight_unique")
        self.sparse = of_each("weight_mlp", 1 / self.batch / recipe.hidden)
        blocks = self._blocks()
        self.shapes = [block.shape for block in blocks]
        self.values = torch.cat([block.flatten() for block in blocks])
        self.slope, self.first, self.second = (torch.zeros_like(self.values) for _ in range(3))
        self.rates = torch.cat([of_each("learning_rate").expand_as(block).flatten() for block in blocks])
        self.weights, self.slopes = self._views(self.values), self._views(self.slope)
        self.chunk = max(size for size in range(1, CHUNK + 1) if self.per_epoch % size == 0)
        self.rows = torch.zeros(self.chunk, len(runs), self.batch, **numbers)
        first, second = (1 - beta ** torch.arange(1, self.steps + 1).double() for beta in BETAS)
        table = torch.stack([second.sqrt() / first, EPSILON * second.sqrt()], 1)  # step size and ε of Adam
        self.all_sizes = table.float().to(device)
        self.sizes = self.all_sizes[: self.chunk].clone()

    def _blocks(self) -> list[Tensor]:
        """Return the untrained weights and biases of all networks, by layer."""
        drawn = [self._merged(network) for network in self.fresh]
        return [torch.stack(each).to(self.device) for each in zip(*drawn, strict=True)]

    def _views(self, flat: Tensor) -> list[Tensor]:
        pieces = torch.split(flat, [math.prod(shape) for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def _merged(self, network: Any) -> list[Tensor]:
        """Return weights ``[in, out]`` and biases ``[1, out]``, with one row per class of inputs."""
        found = []
        for linear, place in zip(network.body.linears, range(len(self.skips)), strict=True):
            rows, inside = linear.weight.detach().T, self.classes >= 0
            own = rows[: len(rows) - len(self.classes)] if place else rows[:0]
            if place == 0 or self.skips[place]:
                sums = rows.new_zeros(len(self.count), rows.shape[1])
                sums.index_add_(0, self.classes[inside], rows[len(own) :][inside])
                rows = torch.cat([own, sums / self.count[:, None]])
            found += [rows, linear.bias.detach()[None]]
        return found

    def networks(self) -> list[nn.Module]:
        """Return the trained networks; equal inputs have moved by the same step."""
        inside = self.classes >= 0
        for number, network in enumerate(self.fresh):
            before = self._merged(network)
            for place, linear in enumerate(network.body.linears):
                layer = 2 * place, 2 * place + 1
                moved, bias = (self.weights[each][number].cpu() - before[each] for each in layer)
                if place == 0 or self.skips[place]:
                    own = len(moved) - len(self.count)
                    inputs = moved.new_zeros(len(self.classes), moved.shape[1])
                    inputs[inside] = moved[own:][self.classes[inside]]
                    moved = torch.cat([moved[:own], inputs])
                linear.weight.data += moved.T
                linear.bias.data += bias[0]
        return self.fresh

    def _slope_of_outputs(self, z: Tensor, label: Tensor) -> Tensor:
        """Return the loss's gradient for outputs ``[networks, batch, entries]``."""
        if self.direct:  # the mean of |score - (2x - 1)|
            wrong: Tensor = z + 1 - 2 * self.states[label]
            return torch.sign(wrong).div_(self.batch * z.shape[2])
        energy, label = z.sin() @ self.products.T, label[..., None]
        right, best = energy.gather(2, label), energy.argmin(2, keepdim=True)
        second = energy.scatter_(2, best, math.inf).argmin(2, keepdim=True)
        side = (right - energy.gather(2, second)).sign_().mul_(self.unique)
        x, lowest, other = (self.slopes_of_energy[each[..., 0]] for each in (label, best, second))
        slope: Tensor = (x - lowest).addcmul_(side, other - x)
        return slope.mul_(z.cos())

    def _step(self, number: int) -> None:
        rows = self.rows[number].flatten()
        p = self.p.index_select(0, rows).view(len(self.runs), self.batch, -1)
        inputs, h = list[Tensor](), p
        for place in range(self.last + 1):
            h = torch.cat([h, p], 2) if self.skips[place] else h
            inputs.append(h)
            h = torch.baddbmm(self.weights[2 * place + 1], h, self.weights[2 * place])
            h = h.relu_() if place < self.last else h
        d = self._slope_of_outputs(h, self.labels.index_select(0, rows).view(p.shape[:2]))
        for place in range(self.last, -1, -1):
            torch.bmm(inputs[place].mT, d, out=self.slopes[2 * place])
            torch.sum(d, 1, keepdim=True, out=self.slopes[2 * place + 1])
            if place:
                width = self.shapes[2 * place - 2][2]
                d = torch.baddbmm(self.sparse, d, self.weights[2 * place][:, :width].mT)
                d = torch.where(inputs[place][..., :width] > 0, d, 0.0)
        self.first.lerp_(self.slope, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(self.slope, self.slope, value=1 - BETAS[1])
        scale, (size, epsilon) = self.second.sqrt(), self.sizes[number]
        torch.div(self.first, scale.add_(epsilon), out=scale)
        self.values.addcmul_(scale.mul_(size), self.rates, value=-1)

    def _prepare(self) -> None:
        """Choose the rows and step sizes of the next chunk."""
        epoch, place = divmod(self.done, self.per_epoch)
        if epoch != self.epoch:
            self.epoch = epoch
            for row, seed in zip(self.order, self.seeds, strict=True):
                torch.randperm(len(row), generator=stream(seed, "order", epoch, device=self.device), out=row)
        rows = self.order[:, place * self.batch : (place + self.chunk) * self.batch]
        chosen = rows.view(-1, self.chunk, self.batch)[self.owner] + self.starts[:, None, None]
        self.rows.copy_(chosen.transpose(0, 1))
        self.sizes.copy_(self.all_sizes[self.done : self.done + self.chunk])

    def _steps(self) -> None:
        for number in range(self.chunk):
            self._step(number)

    def _captured(self) -> Callable[[], None]:
        """Return the steps of a chunk as a CUDA graph, after some that set up libraries."""
        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._steps()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._steps()
        return graph.replay

    def train(self, checkpoint: Path) -> float:
        """Take all steps, from a checkpoint if there is one; return the seconds of all sessions."""
        state, spent = {"values": self.values, "first": self.first, "second": self.second}, 0.0
        work, waiting = self._steps, deque[Any]()
        if self.device.type == "cuda":
            self._prepare()
            work = self._captured()
            torch.cat([block.flatten() for block in self._blocks()], out=self.values)
            self.first.zero_()
            self.second.zero_()
        if checkpoint.is_file():
            found, notes = read_tensors(checkpoint, state, finite=False)
            self.done, spent = int(notes["step"]), float(notes["seconds"])
            for name, tensor in state.items():
                tensor.copy_(found[name])
        began = saved = time.perf_counter()
        while self.done < self.steps:
            self._prepare()
            work()
            self.done += self.chunk
            if self.device.type == "cuda":  # wait without a busy core
                waiting.append(torch.cuda.Event(blocking=True))  # type: ignore[no-untyped-call]
                waiting[-1].record()
                if len(waiting) > AHEAD:
                    waiting.popleft().synchronize()
            if (now := time.perf_counter()) - saved > CHECKPOINT:
                saved, seconds = now, f"{spent + now - began:.3f}"
                write_tensors(checkpoint, state, finite=False, step=self.done, seconds=seconds)
        checkpoint.unlink(missing_ok=True)
        return spent + time.perf_counter() - began
