"""Check that tensors can be a QUBO: plain floating point tensors without NaN and infinities."""

from __future__ import annotations

import math
import os

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError

__all__ = ["check_dense", "check_finite", "check_memory", "check_plain", "not_capturing"]


def check_dense(A: Tensor, what: str = "A") -> None:
    """Raise unless A is ``[batch, n, n]``, dense, real floating point, n >= 1 and finite."""
    if not isinstance(A, Tensor):
        raise QubolearnError(f"{what} must be a torch.Tensor [batch, n, n] or a SparseQubo, got {type(A).__name__}")
    if A.ndim != 3 or A.shape[1] != A.shape[2] or A.shape[2] < 1:
        hint = f"; for one QUBO pass {what}[None]" if A.ndim == 2 else ""
        raise QubolearnError(f"{what} must have shape [batch, n, n] with n >= 1, got {list(A.shape)}{hint}")
    if not A.dtype.is_floating_point:
        raise QubolearnError(f"{what} must be a floating point tensor, got {A.dtype}; call {what}.float()")
    check_plain(what, A)
    check_finite(what, A)


def check_plain(what: str, tensor: Tensor) -> None:
    """Raise unless this is an ordinary tensor of real floating point numbers."""
    if not isinstance(tensor, Tensor):
        raise QubolearnError(f"{what} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.is_meta or tensor.layout != torch.strided:
        layout = f"a {tensor.layout} tensor on device {tensor.device}"
        raise QubolearnError(f"{what} is {layout}; want a dense one that holds numbers")
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 2:  # torch itself cannot add them
        raise QubolearnError(f"{what} is {tensor.dtype}, which nothing computes in; call {what}.float()")
    if tensor.is_complex():
        raise QubolearnError(f"{what} is {tensor.dtype}; want real numbers")
    if tensor.is_neg():
        raise QubolearnError(f"{what} is a view that torch negates when it is read; call {what}.resolve_neg()")


def check_finite(what: str, tensor: Tensor) -> None:
    """Raise if the tensor holds NaN or an infinity, and say where; passes while its numbers cannot be read."""
    # A finite sum has finite terms, and costs a fraction of asking every entry.
    if not_capturing(tensor) and not math.isfinite(_sum(tensor.detach())) and not bool(torch.isfinite(tensor).all()):
        place = (~torch.isfinite(tensor)).nonzero()[0].tolist()
        raise NonFiniteError(f"{what} must be finite, but {what}{place} is {tensor[tuple(place)].item()}")


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise where so many bytes are more than half of what the machine has."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory / 2:
        has = f"this machine has {memory / 2**30:.3g}"
        raise QubolearnError(f"{what} need {needed / 2**30:.3g} GiB, and {has}; {remedy}")


def not_capturing(A: Tensor) -> bool:
    """Whether the host can look at A's numbers: not while a CUDA graph is captured, when there are none yet."""
    return not (A.is_cuda and torch.cuda.is_current_stream_capturing())


def _sum(A: Tensor) -> float:
    """The sum of all entries; on a CPU without torch's threads, which would then wait on the cores of the solver."""
    if A.is_cpu and A.dtype in (torch.float32, torch.float64):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(A.numpy().sum())
    return float(A.sum())
