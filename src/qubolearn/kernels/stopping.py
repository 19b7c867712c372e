"""How a kernel notices what other threads say: that its caller was interrupted, or when another search ended."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

__all__ = ["loaded", "stopped"]


def _stopped(typing: Any, flag: Any) -> Any:
    """Whether the flag ``[1]`` (uint8, see :func:`qubolearn.kernels.parallel.stop_flag`) is set by now.

    An atomic load: the compiler may not move it out of the loop that asks.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        value = builder.load_atomic(data, "monotonic", 1)
        return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))

    return types.boolean(flag), generate


def _loaded(typing: Any, number: Any) -> Any:
    """The number in an array ``[1]`` (int64) that other threads may have changed by now, as :func:`_stopped` reads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "monotonic", 8)

    return types.int64(number), generate


stopped: Any = intrinsic(_stopped)
loaded: Any = intrinsic(_loaded)
