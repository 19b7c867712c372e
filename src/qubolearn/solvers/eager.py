"""Calls that torch.compile leaves as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

__all__ = ["eager"]

P = ParamSpec("P")
T = TypeVar("T")


def eager(function: Callable[P, T]) -> Callable[P, T]:
    """Run as written even inside ``torch.compile``, which breaks its graph here: tracing numba's compiler fails.

    ``torch.compiler.disable`` does the same, but loads torch's compiler, which takes seconds, where it is applied.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            disabled: Callable[P, T] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return disabled(*args, **kwargs)
        return function(*args, **kwargs)

    return call
