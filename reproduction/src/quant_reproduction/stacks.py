"""Networks of protocol (r) that train side by side: their summed losses have the gradients of each.

A stack has the networks of one method and depth, of all seeds, variants, stages and widths. Narrow
ones are filled up with units that stay 0. Inputs that are always equal have equal gradients, and
Adam moves their weights alike; so one weight, their mean, replaces all of them. On a GPU the steps
of several stacks are CUDA graphs that run at the same time.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from quant_reproduction.presets import Method
from quant_reproduction.problems.clouds import aqm_expansion, bits_to_index
from qubolearn.files import read_tensors, write_tensors
from qubolearn.qubo import all_states
from qubolearn.random import stream

Kind = Literal["2d", "3d", "randgraph", "five", "willow"]
#: Steps of a CUDA graph, graphs that wait, seconds between checkpoints.
CHUNK, AHEAD, CHECKPOINT = 50, 4, 20.0


class Setting(NamedTuple):
    """The choices of the released code for one kind of problem.

    It trains all graphs for 150 epochs; those of Willow and of five nodes have the 300 and 450 of the text.
    """

    inputs: int
    bits: int
    batch: int
    epochs: int
    rate: float  # of diag and pure
    quant_rate: float
    unique: float
    mlp: float
    wide: int  # the width of H78
    shuffled: bool
    dtype: torch.dtype


_FOUR = Setting(256, 8, 141, 150, 1e-5, 1e-5, 1e-2, 1e-3, 78, True, torch.float64)  # graphs of four nodes
SETTINGS: Mapping[Kind, Setting] = {
    "2d": Setting(441, 9, 32, 20, 1e-6, 1e-6, 1e-3, 1e-3, 79, True, torch.float32),
    "3d": Setting(9, 5, 32, 20, 1e-5, 1e-4, 1e-3, 1e-2, 79, False, torch.float32),
    "randgraph": _FOUR,
    "five": _FOUR._replace(inputs=625, bits=15, epochs=450),
    "willow": _FOUR._replace(epochs=300),
}


def classes_of(kind: Kind) -> tuple[Tensor, Tensor]:
    """Return each input's class, -1 if always 0, and the map ``[m, classes]``.

    The map is that of one input of a class, times their number.
    """
    if kind != "2d":
        size = SETTINGS[kind].inputs
        return torch.arange(size), torch.eye(size, dtype=SETTINGS[kind].dtype)
    P = aqm_expansion()
    there = P.any(0)
    columns, index, count = torch.unique(P[:, there], dim=1, return_inverse=True, return_counts=True)
    return torch.full((P.shape[1],), -1).masked_scatter(there, index), columns * count


def chip_mask(bits: int) -> Tensor:
    """Return which entries of A exist ``[bits, bits]``: those of Chimera."""
    a, b, c, d = (range(bits)[start : start + 4] for start in (0, 4, 8, 12))
    mask = torch.eye(bits, dtype=torch.float64)
    for i, j in (*product(a, b), *product(c, d), *zip(b, d, strict=False)):
        mask[i, j] = mask[j, i] = 1
    return mask


class Net(NamedTuple):
    """One network of a stack."""

    seed: int
    hidden: int  # 32 or 78, as the tables name it
    neighbors: int = 0  # of point sets
    stage: int = 0  # of rotations
    pairs: bool = False  # whether the loss compares all pairs of a batch
    noisy: bool = False  # trained with wrong matches, as the others are


@dataclass
class Stack:
    """Networks of one kind, method and depth, side by side."""

    kind: Kind
    method: Method
    layers: int
    nets: Sequence[Net]
    device: torch.device
    parameters: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        made, kind, method = SETTINGS[self.kind], self.kind, self.method
        self.setting, self.bits, self.on_chip = made, made.bits, made.dtype == torch.float64
        # the released "L5 H78" of Pure has a width of 32
        narrow = (kind, method, self.layers) == ("3d", "pure", 5)
        # Diag of clouds has its diagonal alone
        self.full = method == "quant" or (self.on_chip and method == "diag")
        self.outputs_of_last = made.bits**2 if self.full else made.bits
        self.widths = [32 if narrow or net.hidden == 32 else made.wide for net in self.nets]
        known = [self.parameters[1].shape[-1]] if self.parameters else self.widths
        self.width = max(known) if len(set(known)) == 1 else 8 * math.ceil(max(known) / 8)
        if not self.parameters:
            for place in range(self.layers):
                drawn = [self._drawn(*each, place) for each in zip(self.nets, self.widths, strict=True)]
                blocks = [torch.stack(each) for each in zip(*drawn, strict=True)]
                self.parameters += [block.to(self.device, made.dtype) for block in blocks]
        for each in self.parameters:
            each.requires_grad_()
        here: Any = {"device": self.device, "dtype": made.dtype}
        states = all_states(self.bits, **here)
        pairs = (states[:, :, None] * states[:, None]).flatten(1)
        self.products = pairs if self.full else states  # [states, entries]
        self.states = states
        mask = torch.eye(self.bits) if method == "diag" else chip_mask(self.bits)
        self.mask = mask.to(**here) if self.on_chip else None
        # Diag's stages 1 and 3 regularize another network, and one has no sine
        odd = (kind, method) == ("3d", "diag")
        size = (self.layers - 1) * self.width + self.outputs_of_last
        self.regular = torch.zeros(len(self.nets), 1, size, **here)
        for row, net, width in zip(self.regular, self.nets, self.widths, strict=True):
            weight = made.mlp / made.batch * (not odd or net.stage == 1)
            row[:] = weight / width
            of_last = 0.0 if self.on_chip else weight / self.outputs_of_last
            row[:, row.shape[1] - self.outputs_of_last :] = of_last
        plain = [odd and (self.layers, net.hidden, net.stage) == (5, 32, 0) for net in self.nets]
        self.plain = torch.tensor(plain, device=self.device)[:, None, None]
        repeats = [{32: 3}.get(width, 8) if kind == "3d" else 1 for width in self.widths]
        self.repeats = torch.tensor(repeats, **here)[:, None, None]
        batch = made.batch
        each, every = torch.eye(batch) / batch, torch.full((batch, batch), batch**-2.0)
        compared = torch.stack([every if net.pairs else each for net in self.nets]).to(**here)
        weights = torch.tensor([1.0, -made.unique], **here)
        self.compared = compared[..., None] * weights  # [networks, batch, batch, 2]

    def _drawn(self, net: Net, width: int, place: int) -> tuple[Tensor, Tensor]:
        """Return weights ``[in, out]`` and bias as PyTorch draws them, merged."""
        made, last, joined = self.setting, place == self.layers - 1, self.layers == 5 and place == 2
        repeats = 1 if self.kind != "3d" else 3 if width == 32 else 8
        fan_in = made.inputs if place == 0 else width + joined * repeats * made.inputs
        fan_out = self.outputs_of_last if last else width
        generator = stream(net.seed, "released", self.kind, self.method, place, *net[1:])
        weight = (2 * torch.rand(fan_in, fan_out, generator=generator) - 1) / math.sqrt(fan_in)
        bias = (2 * torch.rand(1, fan_out, generator=generator) - 1) / math.sqrt(fan_in)

        def merged(rows: Tensor) -> Tensor:
            classes, _ = classes_of(self.kind)
            index = classes.repeat_interleave(len(rows) // len(classes))
            rows, index = rows[index >= 0], index[index >= 0]
            sums = torch.zeros(int(index.max()) + 1, fan_out).index_add(0, index, rows)
            return sums / index.bincount()[:, None]

        def filled(rows: Tensor) -> Tensor:
            return torch.cat([rows, rows.new_zeros(self.width - width, fan_out)])

        if place == 0:
            weight = merged(weight)
        else:
            weight = torch.cat([filled(weight[:width]), merged(weight[width:])]) if joined else filled(weight)
        columns = 0 if last else self.width - width
        return torch.nn.functional.pad(weight, (0, columns)), torch.nn.functional.pad(bias, (0, columns))

    def only(self, nets: Sequence[int]) -> Stack:
        """Return a stack of some of the networks, for answers."""
        chosen = [each.detach()[list(nets)] for each in self.parameters]
        return replace(self, nets=[self.nets[i] for i in nets], parameters=chosen)

    def outputs(self, p: Tensor, skip: bool = False) -> tuple[Tensor, list[Tensor]]:
        """Return last layer and activations of ``[networks, batch, m]``."""
        hidden, h = [], p
        for place in range(self.layers - 1):
            if skip and place in (2, 3):
                continue
            if place == 2:
                h = torch.cat([h, p * self.repeats], -1)
            h = torch.relu(torch.baddbmm(self.parameters[2 * place + 1], h, self.parameters[2 * place]))
            hidden.append(h)
        return torch.baddbmm(self.parameters[-1], h, self.parameters[-2]), hidden

    def couplings(self, z: Tensor, sine: bool = True) -> Tensor:
        """Return A ``[networks, batch, entries]`` for the last layer."""
        if not self.full:
            return torch.where(self.plain, z, z.sin()) if sine else z
        Z = z.reshape(*z.shape[:2], self.bits, self.bits)
        sums = Z + Z.mT
        masked: Tensor = sums if self.mask is None else sums * self.mask
        return masked.sin().flatten(-2)

    def searched(self, A: Tensor) -> Tensor:
        """Return the two lowest states ``[networks, batch, 2]``."""
        energy = A @ self.products.T
        if not self.on_chip:
            return energy.topk(2, largest=False).indices
        low, best = energy.min(-1, keepdim=True)
        return torch.cat([best, energy.masked_fill(energy <= low, math.inf).argmin(-1, keepdim=True)], -1)

    def loss(self, p: Tensor, label: Tensor) -> Tensor:
        """Return the sum of all networks' losses."""
        z, hidden = self.outputs(p)
        last = torch.relu(z) if self.kind == "2d" and self.method != "pure" else z.abs()
        total = (torch.cat([*hidden, last], -1) * self.regular).sum()
        if self.method == "pure":
            if self.layers == 5 and not self.on_chip:
                z = torch.relu(z) if self.kind == "2d" else z.sin()
            return total + (z - self.states[label]).abs().mean((1, 2)).sum()
        A = self.couplings(z)
        with torch.no_grad():
            chosen = torch.cat([label[..., None], self.searched(A)], -1)
        energy = (A[:, :, None] * self.products[chosen]).sum(-1)  # [networks, batch, 3]
        apart = (energy[:, :, None, :1] - energy[:, None, :, 1:]).abs()  # [networks, batch, batch, 2]
        return total + (apart * self.compared).sum()

    @torch.no_grad()
    def answers(self, p: Tensor) -> Tensor:
        """Return states ``[networks, batch]``, as the released tests read them."""
        z, _ = self.outputs(p, skip=(self.kind, self.method, self.layers) == ("3d", "pure", 5))
        if self.method == "pure":
            z = torch.relu(z) if self.kind == "2d" and self.layers == 5 else z
            return bits_to_index(z.clamp(0, 1) if self.on_chip else z)
        sine = self.kind != "3d" or self.method == "quant"
        return (self.couplings(z, sine) @ self.products.T).argmin(-1)

    def restore(self, file: Path, only_done: bool = False) -> tuple[dict[str, Tensor], int, float]:
        """Load the networks of a file, if there is one; return its tensors, steps and seconds."""
        if not file.is_file():
            return {}, 0, 0.0
        like = {f"{i} parameter": each for i, each in enumerate(self.parameters)}
        found, notes = read_tensors(file, like, finite=False, others="adam")
        if only_done and notes["done"] != "1":
            return {}, 0, 0.0
        for name, each in like.items():
            each.data.copy_(found[name])
        return found, int(notes["step"]), float(notes["seconds"])


class Instances(NamedTuple):
    """Training instances of a stack, and where each network's begin."""

    inputs: Tensor  # [rows, m]
    labels: Tensor  # [rows]
    starts: Tensor  # [networks]
    number: int  # of each network


class Training:
    """The training run of one stack; a stopped run resumes from its file."""

    def __init__(self, stack: Stack, data: Instances, file: Path, epochs: int) -> None:
        self.stack, self.data, self.file = stack, data, file
        made, self.on_gpu = stack.setting, stack.device.type == "cuda"
        self.per_epoch = data.number // made.batch
        self.total, self.pending = epochs * self.per_epoch, deque[Any]()
        whole = self.per_epoch if made.shuffled else self.total
        self.chunk = max(size for size in range(1, CHUNK + 1) if whole % size == 0)
        self.stream: Any = torch.cuda.Stream() if self.on_gpu else None  # type: ignore[no-untyped-call]
        rate = made.quant_rate if stack.method == "quant" else made.rate
        self.adam = torch.optim.Adam(stack.parameters, rate, fused=self.on_gpu, capturable=self.on_gpu)
        shape = (self.chunk, len(stack.nets), made.batch)
        self.rows = torch.zeros(shape, dtype=torch.long, device=stack.device)
        seeds = sorted({net.seed for net in stack.nets})
        self.seeds, self.order = seeds, torch.arange(data.number, device=stack.device).expand(len(seeds), -1)
        self.owner = torch.tensor([seeds.index(net.seed) for net in stack.nets], device=stack.device)
        self.graph: Any = None
        found, self.step, self.spent = stack.restore(file)
        for i, each in enumerate(stack.parameters) if found else ():
            state = {name: found[f"adam {i} {name}"].to(each) for name in ("exp_avg", "exp_avg_sq")}
            count = torch.tensor(float(self.step), device=stack.device if self.on_gpu else "cpu")
            self.adam.state[each] = {"step": count, **state}
        self._shuffle()

    @property
    def done(self) -> bool:
        return self.step >= self.total

    @property
    def ready(self) -> bool:
        """True if few chunks wait for the GPU."""
        while self.pending and self.pending[0].query():
            self.pending.popleft()
        return len(self.pending) < AHEAD

    def save(self, seconds: float) -> None:
        """Write the networks and the state of Adam, after these seconds."""
        tensors = {f"{i} parameter": each for i, each in enumerate(self.stack.parameters)}
        for i, each in enumerate(self.stack.parameters):
            state = self.adam.state[each]
            tensors |= {f"adam {i} {name}": state[name] for name in ("exp_avg", "exp_avg_sq")}
        spent = f"{self.spent + seconds:.3f}"
        write_tensors(self.file, tensors, finite=False, step=self.step, done=int(self.done), seconds=spent)

    def _shuffle(self) -> None:
        if self.stack.setting.shuffled:
            n, device, epoch = self.data.number, self.stack.device, self.step // self.per_epoch
            draws = [stream(seed, "order", epoch, device=device) for seed in self.seeds]
            self.order = torch.stack([torch.randperm(n, generator=each, device=device) for each in draws])

    def _step(self, number: int) -> None:
        rows = self.rows[number].flatten()
        shape = self.rows.shape[1:]
        p, labels = (each.index_select(0, rows).reshape(*shape, *each.shape[1:]) for each in self.data[:2])
        self.stack.loss(p, labels).backward()  # type: ignore[no-untyped-call]
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def _capture(self) -> None:
        """Make a CUDA graph of one chunk, after a step that warms up."""
        before = [each.detach().clone() for each in self.stack.parameters]
        known = {each: {**self.adam.state[each]} for each in self.stack.parameters if each in self.adam.state}
        kept = {each: {name: value.clone() for name, value in state.items()} for each, state in known.items()}
        for number in range(min(3, self.chunk)):
            self._step(number)
        torch.cuda.synchronize()
        for each, old in zip(self.stack.parameters, before, strict=True):
            each.data.copy_(old)
            for name, value in self.adam.state[each].items():
                value.copy_(kept[each][name]) if each in kept else value.zero_()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            for number in range(self.chunk):
                self._step(number)
        torch.cuda.synchronize()

    def advance(self) -> None:
        """Train for one chunk of steps."""
        with torch.cuda.stream(self.stream):
            place, batch = self.step % self.per_epoch, self.stack.setting.batch
            if place == 0 and self.stack.setting.shuffled:
                self._shuffle()
            first = torch.arange(self.chunk, device=self.stack.device) + place
            rows = (first % self.per_epoch)[:, None] * batch + torch.arange(batch, device=self.stack.device)
            chosen = self.order[:, rows][self.owner].transpose(0, 1)
            self.rows.copy_(chosen + self.data.starts[:, None])
            if self.on_gpu and self.graph is None:
                self._capture()
            if self.graph is not None:
                self.graph.replay()
                self.pending.append(torch.cuda.Event())  # type: ignore[no-untyped-call]
                self.pending[-1].record()
            else:
                for number in range(self.chunk):
                    self._step(number)
        self.step += self.chunk


def train_together(runs: Sequence[Training], limit: float = math.inf) -> None:
    """Train stacks at the same time; stop after ``limit`` seconds."""
    began = saved = time.perf_counter()
    while left := [each for each in runs if not each.done]:
        ready = [each for each in left if each.ready]
        for each in ready:
            each.advance()
        if not ready:
            time.sleep(2e-4)
        now = time.perf_counter()
        ended = now - began > limit or all(each.done for each in left)
        if ended or now - saved > CHECKPOINT:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            saved = time.perf_counter()
            for each in runs:
                each.save(saved - began)
        if ended:
            break
