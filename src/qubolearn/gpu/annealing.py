"""Simulated annealing on an NVIDIA GPU: kernels and their launches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock

import torch
from torch import Tensor

#: Up to this n, sparse QUBOs are annealed as dense ones.
WORD_BITS = 62
#: Up to this mean share of neighbors, QUBOs are annealed by lists.
LISTED_SHARE = 1 / 8
#: The first Triton with tuples of tensors.
TRITON = (3, 3)
#: Updates of one launch: less than half a second.
UPDATES = 2 * 10**9
#: CUDA graphs that are kept, and the most updates, padding included, of one.
GRAPHS, GRAPH_UPDATES = 4, 6 * 10**8


def available(device: torch.device) -> bool:
    """Return True if there are kernels for this device."""
    return device.type == "cuda" and _triton() >= TRITON


@cache
def _triton() -> tuple[int, ...]:
    """Return Triton's version, (0,) without it."""
    try:
        return tuple(int(part) for part in version("triton").split(".")[:2])
    except PackageNotFoundError:
        return (0,)


def takes_lists(linear: Tensor, edges: Tensor) -> bool:
    """Return True if lists of neighbors suit QUBOs of this shape."""
    n = linear.shape[1]
    return n > WORD_BITS and 2 * edges.shape[1] <= n * n * LISTED_SHARE


def rounds(betas: Tensor, updates: int) -> Iterator[tuple[int, Tensor]]:
    """Split betas ``[batch, sweeps]`` into launches; yield first sweeps and betas.

    Ctrl-C works between launches; ``updates`` are those of one sweep.

    >>> [(first, some.tolist()) for first, some in rounds(torch.tensor([[1.0, 2.0, 4.0]]), 10**9)]
    [(0, [[1.0, 2.0]]), (2, [[4.0]])]
    """
    some = max(1, UPDATES // max(1, updates))
    for first in range(0, betas.shape[1], some):
        yield first, betas[:, first : first + some].to(torch.float32).contiguous()
        if betas.is_cuda and betas.shape[1] > some:
            torch.cuda.synchronize(betas.device)


_graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], tuple[Tensor, ...]] | None] = {}
_lock = Lock()


def replayed(work: Callable[..., tuple[Tensor, ...]], key: Hashable, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return ``work(*inputs)``; later calls replay its CUDA graph."""
    if not inputs[0].is_cuda or torch.cuda.is_current_stream_capturing():
        return work(*inputs)
    key = (key, torch.cuda.current_stream(inputs[0].device))
    with _lock, torch.cuda.device(inputs[0].device):
        if key not in _graphs:
            while len(_graphs) >= GRAPHS:
                del _graphs[next(iter(_graphs))]
            _graphs[key] = None
            return work(*inputs)
        known = _graphs[key]
        if known is None:
            given = tuple(tensor.clone() for tensor in inputs)
            work(*given)  # compiles for these addresses
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # threads may allocate
                made = work(*given)
            known = _graphs[key] = graph, given, made
        graph, given, made = known
        for old, new in zip(given, inputs, strict=True):
            old.copy_(new)
        graph.replay()
        return tuple(tensor.clone() for tensor in made)
