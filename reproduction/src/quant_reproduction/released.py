"""Protocol (r): point sets and rotations as the authors' released code runs them, written from a description of it.

It differs from the text: correct matches leak into the input of point sets, which holds twice the angle; their errors
wrap at 30 degrees; angles of rotations are Euler angles of quaternions with positive components; wrong matches
displace nearly all points; the loss compares all pairs of a batch; rotations are scored on binned labels in whole
degrees; trained shapes are in the test set. Our clouds differ: they are 1,024 sampled points, not mesh vertices.

A stack trains several networks of one shape side by side: the sum of their losses has the gradients of each, and Adam
works entry by entry. So all seeds, stages and variants of a cell cost as many steps as one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from quant_reproduction.datasets.modelnet import load_modelnet
from quant_reproduction.datasets.shapes2d import load_outlines
from quant_reproduction.grid.jobs import packed, record_digest
from quant_reproduction.grid.models import device, time_of
from quant_reproduction.presets import Method
from quant_reproduction.problems.clouds import euler_matrix, index_to_bits, rotation_2d, rotation_3d
from qubolearn.files import lock_folder
from qubolearn.qubo import all_states
from qubolearn.random import stream

Kind = Literal["2d", "3d"]
WEIGHTS = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.05])
#: Shapes in the order of their names: those that are trained, and the test set, of which the first thirty are trained.
PLANAR_TRAINED, PLANAR_TESTED = range(480), (*range(300, 330), *range(480, 512))
SPATIAL_TRAINED: Mapping[str, int] = {"quant": 499, "diag": 299, "pure": 299}
ANGLES, TESTED = 1000, {"2d": 200, "3d": 100}  # of each shape; the released test of point sets has 1,000
BATCH, EPOCHS, SEEDS = 32, 20, 5
RATES: Mapping[str, Mapping[str, float]] = {
    "2d": {"quant": 1e-6, "diag": 1e-6, "pure": 1e-6},
    "3d": {"quant": 1e-4, "diag": 1e-5, "pure": 1e-5},
}
WEIGHT_UNIQUE, WEIGHT_MLP = 1e-3, {"2d": 1e-3, "3d": 1e-2}
DEGREES_PER_BIN = 60 / 511
#: Seconds between two checkpoints, from which a stopped run resumes.
CHECKPOINT = 20.0


@cache
def planar_shapes() -> list[Tensor]:
    """Return outlines ``[n, 2]`` by name, centered, each axis divided by its own standard deviation."""
    found = load_outlines()
    by_name = sorted(zip(found.names, found.points, strict=True), key=lambda each: each[0])
    points = [torch.from_numpy(each).double() for _, each in by_name]
    return [(each - each.mean(0)) / each.std(0, correction=0) for each in points]


def planar_numbers(P: Tensor, angle: Tensor, neighbors: int, noise: float = 0.0, generator: Any = None) -> Tensor:
    """Return the sums of |x|², |y|², x·y and x·My over pairs, ``[angles, 4]``, of a shape P ``[n, 2]`` that is turned.

    The neighbors of a turned point are found among the points of P, but the pair has the turned ones: x = P_i, y = H_j.
    """
    H = P @ rotation_2d(angle).mT  # [angles, n, 2]
    if noise:
        extent = (H.amax(1) - H.amin(1)).amax(1)[:, None, None]
        H = H + noise * extent * (torch.rand(H.shape, generator=generator, dtype=H.dtype, device=H.device) - 0.5)
    near = torch.cdist(H, P.expand(len(H), -1, -1)).topk(neighbors, largest=False).indices
    y = H.gather(1, near.flatten(1)[..., None].expand(-1, -1, 2)).reshape(*near.shape, 2)
    x = P[None, :, None]
    products = [
        x.square().expand_as(y),
        y.square(),
        x * y,
        torch.stack([-x[..., 0] * y[..., 1], x[..., 1] * y[..., 0]], -1),
    ]
    return torch.stack([each.sum((1, 2, 3)) for each in products], 1)


@cache
def planar_expansion() -> Tensor:
    """Return the linear map ``[4, 441]`` from these sums to entries of p: five weights each for I, M, -I, -M."""
    signs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]).repeat_interleave(5, 0)  # of c and d
    basis = WEIGHTS.repeat(4)[:, None] * signs
    P = torch.zeros(4, 21, 21)
    P[0, 0, 0] = 1
    P[1, 1:, 1:] = basis @ basis.T
    P[2, 0, 1:] = P[2, 1:, 0] = -basis[:, 0]
    P[3, 0, 1:] = P[3, 1:, 0] = -basis[:, 1]
    return P.flatten(1)


def spatial_angles(count: int, generator: torch.Generator) -> Tensor:
    """Return α, β, γ ``[count, 3]`` in radians: Euler angles of quaternions with positive components, scaled."""
    q = torch.rand(count, 4, generator=generator, device=generator.device, dtype=torch.float64)
    x, y, z, w = (q / q.norm(dim=1, keepdim=True)).unbind(1)
    roll = torch.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = torch.asin(2 * (w * y - z * x))
    yaw = torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return torch.deg2rad(torch.stack([20 * roll, 10 * pitch, 20 * yaw], 1) / (2 * math.pi))


LOW, SPAN = torch.tensor([-10.0, -5.0, -10.0]), torch.tensor([20.0, 10.0, 20.0])


def spatial_labels(angles: Tensor) -> Tensor:
    """Return the bins 0 ... 31 of α, β, γ ``[count, 3]``."""
    degrees = torch.rad2deg(angles).float()
    return (32 * (degrees - LOW.to(angles.device)) / SPAN.to(angles.device)).floor().long()


def spatial_decoded(labels: Tensor) -> Tensor:
    """Return the lower edges of bins, in radians."""
    return torch.deg2rad(LOW.to(labels.device) + labels * SPAN.to(labels.device) / 32)


def shuffled(n: int, share: float, count: int, generator: torch.Generator) -> Tensor:
    """Return the order of the moved cloud's rows ``[count, n]``: a share of the points at random, then the others."""
    device, wrong = generator.device, int(share * n)
    if not wrong:
        return torch.arange(n, device=device).expand(count, n)
    drawn = torch.rand(count, n, generator=generator, device=device).topk(wrong).indices
    rank = torch.arange(n, device=device).expand(count, n).scatter(1, drawn, -1)
    others = rank.sort(1).values[:, wrong:]  # ascending
    return torch.cat([drawn, others], 1)


@cache
def spatial_shapes() -> Tensor:
    """Return clouds ``[shapes, n, 3]``, centered, each axis divided by its own standard deviation."""
    points = torch.from_numpy(load_modelnet().points).double()
    points = points - points.mean(1, keepdim=True)
    return (points / points.std(1, correction=0, keepdim=True)).float()


def covariances(P: Tensor, share: float, count: int, generator: torch.Generator) -> Tensor:
    """Return HᵀP / n of a cloud P ``[n, 3]`` that is not turned, for draws of wrong matches: ``[count, 3, 3]``."""
    if not int(share * len(P)):
        return (P.T @ P / len(P)).expand(count, 3, 3)
    return P[shuffled(len(P), share, count, generator)].mT @ P / len(P)


@dataclass(frozen=True)
class Data:
    """Instances of one network: inputs in short form, bins and the shape of each; tests keep the angles."""

    inputs: Tensor  # [instances, 4] numbers of p, or [instances, 9] p
    labels: Tensor  # [instances]
    angles: Tensor  # [instances] or [instances, 3], radians
    trained: Tensor  # [instances] bool: the shape is in the training set


def planar_data(seed: int, split: str, neighbors: int, device: torch.device, noise: float = 0.0, few: int = 0) -> Data:
    """Return instances of a split of point sets."""
    generator, parts = stream(seed, "released", split, f"{noise:g}", device=device), []
    chosen = PLANAR_TRAINED if split == "train" else PLANAR_TESTED
    count = few or (ANGLES if split == "train" else TESTED["2d"])
    for index in chosen[: few or None]:
        angle = torch.rand(count, generator=generator, device=device) * (math.pi / 3)
        numbers = planar_numbers(planar_shapes()[index].float().to(device), angle, neighbors, noise, generator)
        parts.append((numbers, angle, torch.full_like(angle, index in PLANAR_TRAINED, dtype=torch.bool)))
    numbers, angles, known = (torch.cat(each) for each in zip(*parts, strict=True))
    return Data(numbers, (511 * angles / (math.pi / 3)).floor().long().clamp(max=510), angles, known)


def spatial_data(
    seed: int, split: str, method: str, stage: int, share: float, device: torch.device, few: int = 0
) -> Data:
    """Return instances of rotations; in stage 2 α is 0, in stage 3 α and β are. The test has whole rotations."""
    generator = stream(seed, "released", split, stage if split == "train" else f"{share:g}", device=device)
    order = torch.randperm(len(spatial_shapes()), generator=stream(seed, "files", split, stage)).tolist()
    first = torch.randperm(len(spatial_shapes()), generator=stream(seed, "files", "train", 0)).tolist()
    known, parts = set(first[1 : 1 + SPATIAL_TRAINED[method]]), []
    chosen = order[1 : 1 + SPATIAL_TRAINED[method]] if split == "train" else order[301:331]
    count = few or (ANGLES if split == "train" else TESTED["3d"])
    for index in chosen[: few or None]:
        angles = spatial_angles(count, generator)
        angles[:, :stage] = 0.0
        C = covariances(spatial_shapes()[index].to(device), share, count, generator)
        p = (euler_matrix(angles).float() @ C).flatten(1)
        parts.append((p, angles, torch.full((count,), index in known, device=device)))
    inputs, angles, trained = (torch.cat(each) for each in zip(*parts, strict=True))
    return Data(inputs, spatial_labels(angles)[:, stage], angles, trained)


class Net(NamedTuple):
    """One network of a stack."""

    seed: int
    neighbors: int  # of point sets
    stage: int  # of rotations
    pairs: bool  # whether the loss compares all pairs of a batch


class Stack:
    """Networks of one kind, method and size, side by side."""

    def __init__(
        self, kind: Kind, method: Method, layers: int, hidden: int, nets: Sequence[Net], device: torch.device
    ) -> None:
        self.kind, self.method, self.layers, self.nets = kind, method, layers, nets
        self.pairs = torch.tensor([net.pairs for net in nets], device=device)
        # in stages 1 and 3 of Diag the regularization is that of another network, and one of its stages has no sine
        odd = (kind, method) == ("3d", "diag")
        regular = [WEIGHT_MLP[kind] * (not odd or net.stage == 1) for net in nets]
        self.weight = torch.tensor(regular, device=device)
        plain = [odd and (layers, hidden, net.stage) == (5, 32, 0) for net in nets]
        self.plain = torch.tensor(plain, device=device)[:, None, None]
        self.width = 32 if (kind, method, layers, hidden) == ("3d", "pure", 5, 78) else {32: 32, 78: 79}[hidden]
        self.bits = 9 if kind == "2d" else 5
        self.repeats = 1 if kind == "2d" else 3 if self.width == 32 else 8
        inputs = 441 if kind == "2d" else 9
        outputs = self.bits**2 if method == "quant" else self.bits
        sizes = [(inputs, self.width), (self.width, self.width)]
        if layers == 5:
            sizes += [(self.width + self.repeats * inputs, self.width), (self.width, self.width)]
        self.parameters: list[Tensor] = []
        for place, (fan_in, fan_out) in enumerate([*sizes, (self.width, outputs)]):
            for shape in ((fan_in, fan_out), (1, fan_out)):  # PyTorch's own: uniform within 1/√fan_in
                names = [(net.seed, "released", place, shape[0], *net[1:]) for net in nets]
                drawn = torch.stack([torch.rand(shape, generator=stream(*name)) for name in names])
                made = ((2 * drawn - 1) / math.sqrt(fan_in)).to(device)
                self.parameters.append(made.requires_grad_())
        self.states = all_states(self.bits).to(device)
        self.outer = (self.states[:, :, None] * self.states[:, None]).flatten(1).T  # [n², states]

    def outputs(self, p: Tensor, skip: bool = False) -> tuple[Tensor, list[Tensor]]:
        """Return the last layer and hidden activations of p ``[networks, batch, m]``; ``skip`` omits layers 3 and 4."""
        hidden, h, last = [], p, len(self.parameters) // 2 - 1
        for place in range(last):
            if skip and place in (2, 3):
                continue
            if place == 2:
                h = torch.cat([h, p.repeat_interleave(self.repeats, -1)], -1)
            h = torch.relu(torch.baddbmm(self.parameters[2 * place + 1], h, self.parameters[2 * place]))
            hidden.append(h)
        return torch.baddbmm(self.parameters[-1], h, self.parameters[-2]), hidden

    def couplings(self, z: Tensor, sine: bool = True) -> Tensor:
        """Return A ``[networks, batch, n²]`` of the last layer ``[networks, batch, outputs]``."""
        if self.method == "diag":
            return torch.diag_embed(torch.where(self.plain, z, z.sin()) if sine else z).flatten(-2)
        Z = z.reshape(*z.shape[:2], self.bits, self.bits)
        return (Z + Z.mT).sin().flatten(-2)

    def loss(self, p: Tensor, label: Tensor) -> Tensor:
        """Return the sum of all networks' losses, for p ``[networks, batch, m]`` and bins ``[networks, batch]``."""
        z, hidden = self.outputs(p)
        flat = self.kind == "2d" and self.method != "pure"
        last = torch.relu(z) if flat else z.abs()
        mlp = self.weight * torch.stack([each.abs().mean((1, 2)) for each in (*hidden, last)]).sum(0)
        if self.method == "pure":
            if self.layers == 5:
                z = torch.relu(z) if self.kind == "2d" else z.sin()
            return ((z - index_to_bits(label, self.bits)).abs().mean((1, 2)) + mlp).sum()
        energy = self.couplings(z) @ self.outer  # [networks, batch, states]
        true = energy.gather(2, label[..., None])[..., 0]
        two = energy.topk(2, largest=False).values

        def apart(other: Tensor) -> Tensor:
            every = (true[:, :, None] - other[:, None, :]).abs().mean((1, 2))
            return torch.where(self.pairs, every, (true - other).abs().mean(1))

        return (apart(two[..., 0]) - WEIGHT_UNIQUE * apart(two[..., 1]) + mlp).sum()

    @torch.no_grad()
    def answers(self, p: Tensor) -> Tensor:
        """Return bins ``[networks, batch]`` for p ``[networks, batch, m]``, as the released tests read them."""
        z, _ = self.outputs(p, skip=(self.kind, self.method, self.layers) == ("3d", "pure", 5))
        if self.method == "pure":
            z = torch.relu(z) if self.kind == "2d" and self.layers == 5 else z
            return (z.round() * 2.0 ** torch.arange(self.bits - 1, -1, -1, device=z.device)).sum(-1).long()
        return (self.couplings(z, sine=self.kind == "2d" or self.method == "quant") @ self.outer).argmin(-1)


def trained(stack: Stack, inputs: Tensor, labels: Tensor, file: Path, epochs: int = EPOCHS) -> float:
    """Train on inputs ``[networks, instances, m]`` and bins ``[networks, instances]``; return the seconds.

    A stopped run resumes from the checkpoints in ``file``. On a GPU each step is one CUDA graph.
    """
    count, device, began = inputs.shape[1], inputs.device, time.perf_counter()
    on_gpu, per_epoch = device.type == "cuda", count // BATCH
    optimizer = torch.optim.Adam(stack.parameters, lr=RATES[stack.kind][stack.method], capturable=on_gpu)
    rows = torch.zeros(len(stack.nets), BATCH, dtype=torch.long, device=device)
    expansion = planar_expansion().to(device)
    state: dict[str, Any] = {"step": 0, "seconds": 0.0}
    if file.is_file():
        state = torch.load(file, map_location=device, weights_only=True)
        optimizer.load_state_dict(state["optimizer"])
        for mine, kept in zip(stack.parameters, state["parameters"], strict=True):
            mine.data.copy_(kept)

    def step() -> None:
        p = inputs.gather(1, rows[..., None].expand(-1, -1, inputs.shape[2]))
        stack.loss(p @ expansion if stack.kind == "2d" else p, labels.gather(1, rows)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    graph, order, saved, first = None, rows, began, state["step"]
    for number in range(first, epochs * per_epoch):
        epoch, place = divmod(number, per_epoch)
        if place == 0 or number == first:
            order = torch.arange(count, device=device).expand(
                len(stack.nets), count
            )  # batches of rotations are in order
            if stack.kind == "2d":
                draws = [stream(net.seed, "order", epoch, device=device) for net in stack.nets]
                order = torch.stack([torch.randperm(count, generator=each, device=device) for each in draws])
        rows.copy_(order[:, BATCH * place : BATCH * (place + 1)])
        if on_gpu and number == first + 3:  # after steps that warm it up
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
        graph.replay() if graph else step()
        if time.perf_counter() - saved > CHECKPOINT or number + 1 == epochs * per_epoch:
            saved = time.perf_counter()
            kept = {
                "step": number + 1,
                "seconds": state["seconds"] + saved - began,
                "optimizer": optimizer.state_dict(),
            }
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.save({**kept, "parameters": [each.data for each in stack.parameters]}, file.with_suffix(".new"))
            os.replace(file.with_suffix(".new"), file)
    return float(state["seconds"]) + time.perf_counter() - began


def planar_scores(found: Tensor, data: Data) -> Tensor:
    """Return degrees ``[instances]`` between bins: differences wrap at 256 of 511 bins."""
    return (found - data.labels).abs() % 256 * DEGREES_PER_BIN


def spatial_scores(R: Tensor, data: Data) -> Tensor:
    """Return whole degrees ``[instances]`` between rotations R ``[instances, 3, 3]`` and those of the binned labels."""
    true = euler_matrix(spatial_decoded(spatial_labels(data.angles))).to(R)
    trace = (true * R).sum((1, 2)).clamp(-1, 3)
    return torch.rad2deg(torch.arccos((trace - 1) / 2)).floor()


def spatial_answers(stack: Stack, nets: Sequence[int], p: Tensor) -> Tensor:
    """Return rotations ``[instances, 3, 3]`` by the three networks of a stack; each angle is undone before the next."""
    labels = []
    for stage, (net, axis) in enumerate(zip(nets, (2, 1, 0), strict=True)):
        every = stack.answers(p.flatten(1).expand(len(stack.nets), -1, -1))
        labels.append(every[net])
        angle = spatial_decoded(torch.stack([labels[-1]] * 3, 1))[:, stage]
        if stage == 0 or stack.method != "pure":  # Pure's last stage sees the second one's input
            p = rotation_3d(angle, axis).mT.to(p) @ p
    return euler_matrix(spatial_decoded(torch.stack(labels, 1)))


def variants(kind: Kind, method: Method) -> list[tuple[int, bool]]:
    """Return numbers of neighbors and whether the loss compares all pairs, the released ones first."""
    losses = (True, False) if method == "quant" or (kind, method) == ("2d", "diag") else (True,)
    return [(neighbors, pairs) for pairs in losses for neighbors in ((10, 3) if kind == "2d" else (0,))]


def cell(seed: int, kind: Kind, method: Method, layers: int, hidden: int, few: int = 0) -> dict[str, Any]:
    """Train the networks of one seed (on a GPU those of all seeds at once) and score them as the released code does."""
    where, seeds = device(), range(SEEDS) if device().type == "cuda" else (seed,)
    ways, stages = variants(kind, method), 1 if kind == "2d" else 3
    nets = [Net(s, k, stage, pairs) for s in seeds for k, pairs in ways for stage in range(stages)]
    stack = Stack(kind, method, layers, hidden, nets, where)
    share = 0.0 if (layers, hidden) == (3, 32) else 0.1

    def data(net: Net) -> Data:
        if kind == "2d":
            return planar_data(net.seed, "train", net.neighbors, where, few=few)
        return spatial_data(net.seed, "train", method, net.stage, share, where, few)

    name = f"{kind}-{method}-L{layers}-H{hidden}-{'-'.join(map(str, seeds))}-{few}-{record_digest()}"
    folder = Path(os.environ.get("QUBOLEARN_RELEASED", "runs/released")) / name
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder, wait=True):  # other seeds of the same stack wait for it
        made = {key: data(nets[i]) for i, key in enumerate(map(_data_key, nets))}
        inputs, labels = (
            torch.stack([getattr(made[_data_key(net)], part) for net in nets]) for part in ("inputs", "labels")
        )
        seconds = trained(stack, inputs, labels, folder / "stack.pt", 1 if few else EPOCHS)
    found: dict[str, Any] = time_of(round(seconds, 3))
    for k, pairs in ways:
        mine = [i for i, net in enumerate(nets) if (net.seed, net.neighbors, net.pairs) == (seed, k, pairs)]
        whole = (k, pairs) == ways[0]
        name = "" if whole else f"{f'{k} neighbors, ' if k else ''}{'all pairs' if pairs else 'per instance'}"
        tests = _planar_tests(stack, mine[0], few) if kind == "2d" else _spatial_tests(stack, mine, few)
        for label, degrees in tests:
            if whole or label == "exhaustive":
                found[name or label] = _summary(degrees)
    return found


def _data_key(net: Net) -> tuple[int, int, int]:
    return net.seed, net.neighbors, net.stage  # the loss changes no data


def _summary(degrees: Tensor) -> dict[str, Any]:
    numbers = {"degrees": degrees.mean().item(), "degrees_median": degrees.median().item(), "instances": len(degrees)}
    return {
        **numbers,
        "source": "exhaustive",
        "scores": packed(degrees[torch.randperm(len(degrees), generator=stream(0))]),
    }


def _planar_tests(stack: Stack, net: int, few: int) -> Iterator[tuple[str, Tensor]]:
    seed, k, *_ = stack.nets[net]
    for noise in (0.0, 0.05, 0.1, 0.15, 0.2):
        data = planar_data(seed, "test", k, stack.pairs.device, noise, few)
        p = (data.inputs @ planar_expansion().to(data.inputs)).expand(len(stack.nets), -1, -1)
        degrees = planar_scores(stack.answers(p)[net], data)
        yield f"noise {noise:.0%}" if noise else "exhaustive", degrees
        if not noise:
            tens = (torch.rad2deg(data.angles) / 10).floor()
            parts = {f"interval {10 * low}-{10 * low + 10}": tens == low for low in range(6)}
            parts |= {"trained shapes": data.trained, "new shapes": ~data.trained}
            yield from ((label, degrees[some]) for label, some in parts.items() if bool(some.any()))


def _spatial_tests(stack: Stack, nets: Sequence[int], few: int) -> Iterator[tuple[str, Tensor]]:
    seed = stack.nets[nets[0]].seed
    for share in (0.0, 0.01, 0.05, 0.1, 0.15, 0.2):
        data = spatial_data(seed, "test", stack.method, 0, share, stack.pairs.device, few)
        degrees = spatial_scores(spatial_answers(stack, nets, data.inputs.reshape(-1, 3, 3)), data)
        yield f"noise {share:.0%}" if share else "exhaustive", degrees
        if not share:
            parts = {"trained shapes": data.trained, "new shapes": ~data.trained}
            yield from ((label, degrees[some]) for label, some in parts.items() if bool(some.any()))


def levels(seed: int, few: int = 0) -> dict[str, Any]:
    """Score Procrustes, the best constant answer and random labels under the released distribution."""
    found: dict[str, Any] = {}
    for share in (0.0, 0.01, 0.05, 0.1, 0.15, 0.2):
        data = spatial_data(seed, "test", "quant", 0, share, torch.device("cpu"), few)
        U, _, Vh = torch.linalg.svd(data.inputs.reshape(-1, 3, 3).double())
        label = f"noise {share:.0%}" if share else "exhaustive"
        found[f"procrustes, {label}"] = _summary(spatial_scores(U @ Vh, data))  # reflections are not excluded
        labels = spatial_labels(data.angles)
        constant = labels.median(0).values.expand_as(labels)
        chance = labels[torch.randperm(len(labels), generator=stream(seed, "guess"))]
        for name, each in {"constant": constant, "random": chance}.items():
            found[f"{name}, {label}"] = _summary(spatial_scores(euler_matrix(spatial_decoded(each)), data))
    flat = planar_data(seed, "test", 10, torch.device("cpu"), few=few)
    chance = flat.labels[torch.randperm(len(flat.labels), generator=stream(seed, "guess"))]
    for name, each in {"constant": torch.full_like(flat.labels, 255), "random": chance}.items():
        found[f"{name}, 2d"] = _summary(planar_scores(each, flat))
    return found
