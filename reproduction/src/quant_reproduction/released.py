"""Protocol (r): the paper's problems as the released code runs them.

It differs from the text: correct matches leak into the input of point sets, which holds twice the
angle; their errors wrap at 30 degrees; angles of rotations are Euler angles of quaternions with
positive components; wrong matches displace nearly all points; the loss compares all pairs of a
batch; rotations are scored on binned labels in whole degrees; trained shapes are in the test set;
graphs are trained at a rate of 1e-5. Our data differ: clouds are 1,024 sampled points, not mesh
vertices, in random order or in a chain, which resembles the order in a mesh file; graphs are solved
exactly, not by neal.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.baselines import graphs
from quant_reproduction.datasets.modelnet import load_modelnet
from quant_reproduction.datasets.shapes2d import load_outlines
from quant_reproduction.datasets.willow import patch_features, read_willow
from quant_reproduction.grid.jobs import packed, record_digest
from quant_reproduction.grid.models import device, time_of
from quant_reproduction.presets import Method
from quant_reproduction.problems.clouds import bits_to_index, euler_matrix, rotation_2d, rotation_3d
from quant_reproduction.stacks import Instances, Kind, Net, Stack, Training, classes_of, train_together
from qubolearn.data.contract import Instances as Solved
from qubolearn.data.encodings import encode_permutation
from qubolearn.evaluation import evaluate_bits
from qubolearn.files import lock_folder
from qubolearn.problems.randgraph import RandGraph
from qubolearn.random import stream

#: Shapes by name: trained ones, and the test set with thirty of them.
PLANAR_TRAINED, PLANAR_TESTED = range(480), (*range(300, 330), *range(480, 512))
SPATIAL_TRAINED: Mapping[str, int] = {"quant": 499, "diag": 299, "pure": 299}
ANGLES, TESTED = 1000, {"2d": 200, "3d": 100}  # of each shape; the released 2d test has 1,000
#: Graphs for training and test; Willow has pairs of twenty pictures per class.
GRAPHS, WILLOW_TESTED, WILLOW_PICTURES = 5640, 846, 20
SEEDS: Mapping[Kind, int] = {"2d": 5, "3d": 5, "randgraph": 10, "five": 5, "willow": 10}


@cache
def planar_shapes() -> list[Tensor]:
    """Return outlines ``[n, 2]`` by name, centered, each axis of deviation 1."""
    found = load_outlines()
    by_name = sorted(zip(found.names, found.points, strict=True), key=lambda each: each[0])
    points = [torch.from_numpy(each).double() for _, each in by_name]
    return [(each - each.mean(0)) / each.std(0, correction=0) for each in points]


def planar_numbers(
    P: Tensor, angle: Tensor, neighbors: int, noise: float = 0.0, generator: Any = None
) -> Tensor:
    """Return the sums of |x|², |y|², x·y and x·My over pairs, ``[angles, 4]``, of a turned P ``[n, 2]``.

    Neighbors are found among the points of P, but the pair has the turned ones: x = P_i, y = H_j.
    """
    H = P @ rotation_2d(angle).mT  # [angles, n, 2]
    if noise:
        extent = (H.amax(1) - H.amin(1)).amax(1)[:, None, None]
        drawn = torch.rand(H.shape, generator=generator, dtype=H.dtype, device=H.device)
        H = H + noise * extent * (drawn - 0.5)
    near = torch.cdist(H, P.expand(len(H), -1, -1)).topk(neighbors, largest=False).indices
    y = H.gather(1, near.flatten(1)[..., None].expand(-1, -1, 2)).reshape(*near.shape, 2)
    x = P[None, :, None]
    crossed = torch.stack([-x[..., 0] * y[..., 1], x[..., 1] * y[..., 0]], -1)
    products = [x.square().expand_as(y), y.square(), x * y, crossed]
    return torch.stack([each.sum((1, 2, 3)) for each in products], 1)


def spatial_angles(count: int, generator: torch.Generator) -> Tensor:
    """Return Euler angles ``[count, 3]`` of quaternions with positive components."""
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
    """Return the moved cloud's order ``[count, n]``: a share at random, then others."""
    device, wrong = generator.device, int(share * n)
    if not wrong:
        return torch.arange(n, device=device).expand(count, n)
    drawn = torch.rand(count, n, generator=generator, device=device).topk(wrong).indices
    rank = torch.arange(n, device=device).expand(count, n).scatter(1, drawn, -1)
    others = rank.sort(1).values[:, wrong:]  # ascending
    return torch.cat([drawn, others], 1)


@cache
def spatial_shapes() -> Tensor:
    """Return clouds ``[shapes, n, 3]``, centered, each axis of deviation 1."""
    points = torch.from_numpy(load_modelnet().points).double()
    points = points - points.mean(1, keepdim=True)
    return (points / points.std(1, correction=0, keepdim=True)).float()


@cache
def chained(index: int) -> Tensor:
    """Return a cloud in which each point is followed by the nearest one left, as vertices of meshes often are."""
    P, order = spatial_shapes()[index], [0]
    distance = torch.cdist(P, P)
    for _ in range(len(P) - 1):
        distance[:, order[-1]] = math.inf
        order.append(int(distance[order[-1]].argmin()))
    return P[order]


def covariances(P: Tensor, share: float, count: int, generator: torch.Generator) -> Tensor:
    """Return HᵀP / n ``[count, 3, 3]`` for draws of wrong matches, before any rotation."""
    if not int(share * len(P)):
        return (P.T @ P / len(P)).expand(count, 3, 3)
    return P[shuffled(len(P), share, count, generator)].mT @ P / len(P)


@dataclass(frozen=True)
class Data:
    """Instances of one network; tests keep the angles."""

    inputs: Tensor  # [instances, 4] numbers of p, or [instances, 9] p
    labels: Tensor  # [instances]
    angles: Tensor  # [instances] or [instances, 3], radians
    trained: Tensor  # [instances] bool: the shape is in the training set


def planar_data(
    seed: int, split: str, neighbors: int, device: torch.device, noise: float = 0.0, few: int = 0
) -> Data:
    """Return point sets, whose inputs are the four sums that p holds."""
    generator, parts = stream(seed, "released", split, f"{noise:g}", device=device), []
    chosen = PLANAR_TRAINED if split == "train" else PLANAR_TESTED
    count = few or (ANGLES if split == "train" else TESTED["2d"])
    for index in chosen[: few or None]:
        angle = torch.rand(count, generator=generator, device=device) * (math.pi / 3)
        P = planar_shapes()[index].float().to(device)
        numbers = planar_numbers(P, angle, neighbors, noise, generator)
        parts.append((numbers, angle, torch.full_like(angle, index in PLANAR_TRAINED, dtype=torch.bool)))
    numbers, angles, known = (torch.cat(each) for each in zip(*parts, strict=True))
    return Data(numbers, (511 * angles / (math.pi / 3)).floor().long().clamp(max=510), angles, known)


def spatial_data(
    seed: int,
    split: str,
    shapes: int,
    stage: int,
    share: float,
    device: torch.device,
    few: int = 0,
    chain: bool = False,
) -> Data:
    """Return rotations; in stage 2 α is 0, in stage 3 α and β are."""
    generator = stream(seed, "released", split, stage if split == "train" else f"{share:g}", device=device)
    order = torch.randperm(len(spatial_shapes()), generator=stream(seed, "files", split, stage)).tolist()
    first = torch.randperm(len(spatial_shapes()), generator=stream(seed, "files", "train", 0)).tolist()
    known, parts = set(first[1 : 1 + shapes]), []
    chosen = order[1 : 1 + shapes] if split == "train" else order[301:331]
    count = few or (ANGLES if split == "train" else TESTED["3d"])
    for index in chosen[: few or None]:
        angles = spatial_angles(count, generator)
        angles[:, :stage] = 0.0
        cloud = chained(index) if chain else spatial_shapes()[index]
        C = covariances(cloud.to(device), share, count, generator)
        p = (euler_matrix(angles).float() @ C).flatten(1)
        parts.append((p, angles, torch.full((count,), index in known, device=device)))
    inputs, angles, trained = (torch.cat(each) for each in zip(*parts, strict=True))
    return Data(inputs, spatial_labels(angles)[:, stage], angles, trained)


def graph_data(kind: Kind, seed: int, split: str, device: torch.device, few: int = 0) -> Data:
    """Return graphs to match, with permutations for angles."""
    generator, count = stream(seed, "released", kind, split), few or GRAPHS
    if kind == "willow":
        p, P = willow_graphs(seed, split, generator, few)
    else:
        p, _, P = RandGraph(5 if kind == "five" else 4).sample(count, generator)[:3]
    labels, known = bits_to_index(encode_permutation(P)), torch.zeros(len(P), dtype=torch.bool)
    return Data(*(each.to(device) for each in (p.double(), labels, P, known)))


def willow_graphs(seed: int, split: str, generator: torch.Generator, few: int = 0) -> tuple[Tensor, Tensor]:
    """Return W ``[pairs, 256]`` and permutations of keypoints 0 to 3."""
    images, pairs = read_willow(), []
    features = torch.nn.functional.normalize(patch_features(4).double(), dim=-1)
    points = images.keypoints_squashed()[:, :4].double() / 256
    for name in sorted(set(images.classes)):
        members = torch.tensor([index for index, each in enumerate(images.classes) if each == name])
        members = members[torch.randperm(len(members), generator=stream(seed, "released", name))]
        members = members[WILLOW_PICTURES:] if split == "train" else members[:WILLOW_PICTURES]
        pairs.append(torch.combinations(members))
    every = torch.cat(pairs)
    count = few or (GRAPHS if split == "train" else WILLOW_TESTED)
    every = every[torch.randperm(len(every), generator=generator)[:count]]
    order = torch.rand(2, len(every), 4, generator=generator).argsort(-1)  # of both pictures' keypoints
    F, X = ([each[every[:, side, None], order[side]] for side in (0, 1)] for each in (features, points))
    # the partner of each point of the first picture
    P = (order[0][:, :, None] == order[1][:, None]).long().argmax(-1)
    edges = [each[:, None] - each[:, :, None] for each in X]  # [pairs, a, c, 2]
    d1, d2 = (each.norm(dim=-1) for each in edges)
    long, short = d1[:, :, None, :, None], d2[:, None, :, None]  # [pairs, a, b, c, d]
    apart = ~torch.eye(4, dtype=torch.bool)
    there = (apart[:, None, :, None] & apart[None, :, None]).double()
    length = (long - short) / (long + short).clamp_min(1e-12) * there
    turned = (edges[0][:, :, None, :, None] * edges[1][:, None, :, None]).sum(-1)
    angle = torch.arccos((turned / (long * short).clamp_min(1e-12)).clamp(-1, 1)) * there
    scales = [each.flatten(1).var(1, correction=0)[:, None, None, None, None] for each in (length, angle)]
    fit = [(-(each**2) / scale).exp() for each, scale in zip((length, angle), scales, strict=True)]
    eta, tau = 0.02, 0.82
    edge = (eta * (fit[0] - 1) + (1 - eta) * fit[1] - 1).reshape(-1, 16, 16)
    W = -(1 - eta) * tau * torch.diag_embed((F[0] @ F[1].mT).flatten(1)) - (1 - tau) * edge
    return W.flatten(1), P


def planar_scores(found: Tensor, labels: Tensor) -> Tensor:
    """Return degrees ``[instances]`` between bins: differences wrap at 256 of 511 bins."""
    return (found - labels).abs() % 256 * (60 / 511)


def spatial_scores(R: Tensor, angles: Tensor) -> Tensor:
    """Return whole degrees between R ``[instances, 3, 3]`` and the bins of angles ``[instances, 3]``."""
    true = euler_matrix(spatial_decoded(spatial_labels(angles))).to(R)
    trace = (true * R).sum((1, 2)).clamp(-1, 3)
    return torch.rad2deg(torch.arccos((trace - 1) / 2)).floor()


def spatial_answers(stack: Stack, p: Tensor) -> Tensor:
    """Return rotations ``[instances, 3, 3]``; each angle is undone before the next."""
    labels = []
    for stage, axis in enumerate((2, 1, 0)):
        labels.append(stack.only([stage]).answers(p.flatten(1)[None])[0])
        angle = spatial_decoded(torch.stack([labels[-1]] * 3, 1))[:, stage]
        if stage == 0 or stack.method != "pure":  # its last stage sees the second's input
            p = rotation_3d(angle, axis).mT.to(p) @ p
    return euler_matrix(spatial_decoded(torch.stack(labels, 1)))


def variants(kind: Kind, method: Method) -> list[tuple[int, bool]]:
    """Return (neighbors, whether all pairs count) of each variant, that of the released code first."""
    if kind not in ("2d", "3d"):
        return [(0, False)]
    losses = (True, False) if method == "quant" or (kind, method) == ("2d", "diag") else (True,)
    return [(neighbors, pairs) for pairs in losses for neighbors in ((10, 3) if kind == "2d" else (0,))]


def nets_of(
    kind: Kind,
    method: Method,
    layers: int,
    seeds: Sequence[int],
    sizes: Sequence[int],
    noisy: Sequence[bool],
    chain: bool = False,
) -> list[Net]:
    """Return the networks of a stack; only the smallest has noisy ones, and chains have one variant."""
    stages, made = range(3 if kind == "3d" else 1), []
    for each in noisy:
        ways = variants(kind, method)[: 1 if each or chain else None]
        widths = [hidden for hidden in sizes if not each or (kind, layers, hidden) == ("3d", 3, 32)]
        every = itertools.product(seeds, widths, ways, stages)
        made += [Net(s, h, k, stage, pairs, each) for s, h, (k, pairs), stage in every]
    return made


def training_runs(stacks: Sequence[Stack], folder: Path, few: int = 0, chain: bool = False) -> list[Training]:
    """Return the training runs of one kind, whose data are generated once."""
    made: dict[Any, Data] = {}
    kind, where = stacks[0].kind, stacks[0].device
    shapes = max(SPATIAL_TRAINED[stack.method] for stack in stacks)

    def key(stack: Stack, net: Net) -> tuple[int, int, int, float]:
        share = 0.1 if kind == "3d" and (net.noisy or (stack.layers, net.hidden) != (3, 32)) else 0.0
        return net.seed, net.neighbors, net.stage, share  # the loss changes no data

    for each in dict.fromkeys(key(stack, net) for stack in stacks for net in stack.nets):
        seed, neighbors, stage, share = each
        if kind == "2d":
            data = planar_data(seed, "train", neighbors, where, few=few)
            p = data.inputs @ classes_of("2d")[1].to(where)
            made[each] = Data(p, data.labels, data.angles, data.trained)
        elif kind == "3d":
            made[each] = spatial_data(seed, "train", shapes, stage, share, where, few, chain)
        else:
            made[each] = graph_data(kind, seed, "train", where, 4 * stacks[0].setting.batch if few else 0)
    inputs = torch.cat([each.inputs for each in made.values()])
    labels = torch.cat([each.labels for each in made.values()])
    count, found = len(inputs) // len(made), []
    for stack in stacks:
        starts = torch.tensor([[*made].index(key(stack, net)) * count for net in stack.nets], device=where)
        fewer = count if kind != "3d" or few else SPATIAL_TRAINED[stack.method] * ANGLES
        file = folder / f"{stack.method}-L{stack.layers}.safetensors"
        epochs = 1 if few else stack.setting.epochs
        found.append(Training(stack, Instances(inputs, labels, starts, fewer), file, epochs))
    return found


def cell(
    seed: int,
    kind: Kind,
    method: Method,
    layers: int,
    hidden: int,
    noisy: bool = False,
    few: int = 0,
    chain: bool = False,
) -> dict[str, Any]:
    """Train the networks of a cell and score them as the released code does.

    A GPU trains all cells of a kind together, and seconds are those of all.
    """
    where = device()
    together, alike = where.type == "cuda", kind in ("five", "willow")
    seeds = range(max(SEEDS[kind], seed + 1)) if together else (seed,)
    sizes = (32, 78) if together and not alike else (hidden,)
    methods: Sequence[Method] = ("quant", "diag", "pure") if together and kind != "five" else (method,)

    def stack_of(method: Method, layers: int) -> Stack:
        nets = nets_of(kind, method, layers, seeds, sizes, (False, True) if together else (noisy,), chain)
        return Stack(kind, method, layers, nets, where)

    parts = [kind, *seeds, *sizes, noisy and not together, few] + ["chain"] * chain
    parts += [] if together else [method, layers]
    name = "-".join(map(str, [*parts, record_digest()]))
    folder = Path(os.environ.get("QUBOLEARN_RELEASED", "runs/released")) / name
    folder.mkdir(parents=True, exist_ok=True)
    file, stack = folder / f"{method}-L{layers}.safetensors", stack_of(method, layers)
    with lock_folder(folder, wait=True):  # others wait for the first job's networks
        if not stack.restore(file, only_done=True)[1]:
            every = [stack_of(m, n) for m in methods for n in ((3, 5) if together else (layers,))]
            train_together(training_runs(every, folder, few, chain))
    seconds = stack.restore(file)[2]
    found: dict[str, Any] = {**time_of(round(seconds, 3)), "trained_together": len(stack.nets)}
    spatial: Any = partial(_spatial_tests, chain=chain)
    tests = {"2d": _planar_tests, "3d": spatial}.get(kind, _graph_tests)
    ways = variants(kind, method)[: 1 if noisy or chain else None]
    for k, pairs in ways:
        wanted = (seed, hidden, k, 0, pairs, noisy)
        mine = [i for i, net in enumerate(stack.nets) if net._replace(stage=0) == wanted]
        whole = (k, pairs) == ways[0]
        name = "" if whole else f"{f'{k} neighbors, ' if k else ''}{'all pairs' if pairs else 'per instance'}"
        for label, scores in itertools.islice(tests(stack.only(mine), few), None if whole else 1):
            found[name or label] = scores
    return found


def _summary(degrees: Tensor) -> dict[str, Any]:
    numbers = {"degrees": degrees.mean().item(), "degrees_median": degrees.median().item()}
    scores = packed(degrees[torch.randperm(len(degrees), generator=stream(0))])
    return {**numbers, "instances": len(degrees), "source": "exhaustive", "scores": scores}


def _planar_tests(stack: Stack, few: int) -> Iterator[tuple[str, dict[str, Any]]]:
    (net,), where = stack.nets, stack.device
    for noise in (0.0, 0.05, 0.1, 0.15, 0.2):
        data = planar_data(net.seed, "test", net.neighbors, where, noise, few)
        answers = stack.answers((data.inputs @ classes_of("2d")[1].to(where))[None])[0]
        degrees = planar_scores(answers, data.labels)
        yield f"noise {noise:.0%}" if noise else "exhaustive", _summary(degrees)
        if not noise:
            tens = (torch.rad2deg(data.angles) / 10).floor()
            parts = {f"interval {10 * low}-{10 * low + 10}": tens == low for low in range(6)}
            parts |= {"trained shapes": data.trained, "new shapes": ~data.trained}
            yield from ((label, _summary(degrees[some])) for label, some in parts.items() if bool(some.any()))


def _spatial_tests(stack: Stack, few: int, chain: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    for share in (0.0, 0.01, 0.05, 0.1, 0.15, 0.2):
        shapes = SPATIAL_TRAINED[stack.method]
        data = spatial_data(stack.nets[0].seed, "test", shapes, 0, share, stack.device, few, chain)
        degrees = spatial_scores(spatial_answers(stack, data.inputs.reshape(-1, 3, 3)), data.angles)
        yield f"noise {share:.0%}" if share else "exhaustive", _summary(degrees)
        if share == 0.01:
            parts = {"trained shapes": data.trained, "new shapes": ~data.trained}
            yield from ((label, _summary(degrees[some])) for label, some in parts.items() if bool(some.any()))


def _graph_tests(stack: Stack, few: int) -> Iterator[tuple[str, dict[str, Any]]]:
    data = graph_data(stack.kind, stack.nets[0].seed, "test", stack.device, few)
    x = stack.states[stack.answers(data.inputs[None])[0]].float().cpu()
    P = data.angles.cpu()
    solved = Solved(data.inputs.float().cpu(), encode_permutation(P), P)
    found = evaluate_bits(RandGraph(5 if stack.kind == "five" else 4), x, solved, {"source": "exhaustive"})
    yield "exhaustive", {**found.metrics, "instances": len(P), "scores": packed(found.scores["accuracy"])}


def direct(seed: int, few: int = 0) -> dict[str, Any]:
    """Score the permutations of least energy under Willow's W."""
    data = graph_data("willow", seed, "test", torch.device("cpu"), few)
    right = (graphs.direct(data.inputs.reshape(-1, 16, 16)) == data.angles).all(1).double()
    return {"exhaustive": {"accuracy": right.mean().item(), "instances": len(right), "scores": packed(right)}}


def levels(seed: int, few: int = 0) -> dict[str, Any]:
    """Score Procrustes, the best constant answer and random labels."""
    found, where = dict[str, Any](), torch.device("cpu")
    for share in (0.0, 0.01, 0.05, 0.1, 0.15, 0.2):
        label, answers = f"noise {share:.0%}" if share else "exhaustive", dict[str, Tensor]()
        for name, chain in {"procrustes, points in a chain": True, "procrustes": False}.items():
            data = spatial_data(seed, "test", SPATIAL_TRAINED["quant"], 0, share, where, few, chain)
            U, _, Vh = torch.linalg.svd(data.inputs.reshape(-1, 3, 3).double())
            answers[name] = U @ Vh  # reflections are not excluded
        labels = spatial_labels(data.angles)
        chance = labels[torch.randperm(len(labels), generator=stream(seed, "guess"))]
        answers["constant"] = euler_matrix(spatial_decoded(labels.median(0).values.expand_as(labels)))
        answers["random"] = euler_matrix(spatial_decoded(chance))
        for name, R in answers.items():
            found[f"{name}, {label}"] = _summary(spatial_scores(R, data.angles))
    flat = planar_data(seed, "test", 10, where, few=few)
    chance = flat.labels[torch.randperm(len(flat.labels), generator=stream(seed, "guess"))]
    for name, each in {"constant": torch.full_like(flat.labels, 127), "random": chance}.items():
        found[f"{name}, 2d"] = _summary(planar_scores(each, flat.labels))
    return found
