"""The digest of a training run, one text per choice, compared on resuming.

It covers arrays by content, a Problem by type and options, a Dataset or
DataLoader by type, length and first batch (unshuffled if it has random access),
and a callable by its qualified name. It does not cover initial weights and the
code of functions.
"""

from __future__ import annotations

import hashlib
import re
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.utils.data import IterableDataset, default_collate

from qubolearn.data.arrays import Arrays, pair_of, tensors_of
from qubolearn.losses.contract import Loss, OwnLoss
from qubolearn.random import fork_seeded_rng, stream
from qubolearn.training.batches import Batches, Drawn

SAMPLED = 8  # instances of a Problem without options
FIRST = 128  # items of a Dataset without a DataLoader
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest_of(
    network: nn.Module, data: Any, batches: Batches, loss: Loss, optimizer: Any, schedule: Any, **options: Any
) -> dict[str, str]:
    """Return the choices that a resumed run must share with the stored one."""
    parts = [(weight, part.function if isinstance(part, OwnLoss) else part) for weight, part in loss.parts]
    return {
        "network": _network(network),
        "data": _data(data, batches),
        "loss": " + ".join(f"{weight:g} * {_text(part)}" for weight, part in parts),
        "optimizer": _text(optimizer),
        "schedule": _schedule(schedule),
        **{key: _text(value) for key, value in options.items() if key not in ("epochs", "steps_per_epoch")},
    }


def _text(value: Any) -> str:
    """Return a text without addresses: a function's qualified name, or the repr."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, torch.optim.Optimizer):
        rates = [group.get("initial_lr", group["lr"]) for group in value.param_groups if "lr" in group]
        return _cut(f"{type(value).__name__}({value.defaults}, learning rates {rates})")
    return _cut(_ADDRESS.sub("", repr(value)))


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:100]}... ({hashlib.sha256(text.encode()).hexdigest()[:16]})"


def _schedule(schedule: Any) -> str:
    """Return type and options of a torch scheduler, without its counters."""
    if schedule is None:
        return "None"
    names = {*signature(type(schedule)).parameters, "lr_lambdas"} - {"optimizer", "last_epoch"}
    options = [f"{name}={_text(value)}" for name, value in sorted(vars(schedule).items()) if name in names]
    return f"{type(schedule).__name__}({', '.join(options)})"


def _network(network: nn.Module) -> str:
    """Return type and size of a network, and a hash of its structure."""
    state, text = network.state_dict(), _ADDRESS.sub("", str(network))
    for name, tensor in state.items():
        text += f"{name} {tensor.dtype} {list(tensor.shape)}\n"
    digest = hashlib.sha256(text.replace("tandardize", "tandardise").encode())  # the layer's first name
    fixed = [buffer for name, buffer in network.named_buffers() if name not in state]
    weights = sum(parameter.numel() for parameter in network.parameters())
    return f"{type(network).__name__} of {weights} weights ({_hash(fixed, digest)})"


def _data(data: Any, batches: Batches) -> str:
    problem = batches.problem if isinstance(batches, Drawn) else None
    if isinstance(problem, Arrays):
        return f"{problem!r} ({_hash(problem.whole('train'))})"
    if problem is not None:
        found = problem.sample(SAMPLED, stream(0, "digest")) if _ADDRESS.search(repr(problem)) else []
        text = _ADDRESS.sub("", repr(problem))
        for old, name in problem.old_names.items():
            text = text.replace(f"{name}=", f"{old}=")
        return f"{_cut(text)} ({_hash(found)})"
    dataset, size = getattr(data, "dataset", data), getattr(data, "batch_size", FIRST)
    if isinstance(dataset, IterableDataset) or size is None:
        first, length = batches.batch(0), f"{batches.steps_per_epoch} batches"
    else:
        length = f"{len(dataset)} items"
        collate = getattr(data, "collate_fn", default_collate)
        with fork_seeded_rng(0):
            first = pair_of(collate([dataset[row] for row in range(min(size, len(dataset)))]))
    kind = " of ".join(dict.fromkeys(type(each).__qualname__ for each in (data, dataset)))
    return f"{kind}, {length} ({_hash(first)})"


def _hash(structure: Any, digest: Any = None) -> str:
    digest = digest or hashlib.sha256()
    for tensor in tensors_of(structure):
        digest.update(f"{tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return str(digest.hexdigest()[:16])
