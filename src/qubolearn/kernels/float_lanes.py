"""Arithmetic on sixteen float32 at a time inside numba: ``+``, ``-``, ``*`` of vectors, comparisons, exp and uniforms.

numba vectorises plain loops over arrays, but keeps no vector in a register between two of them. Here a vector is one
LLVM value, so that a kernel that handles sixteen replicas at once reads like one that handles a single replica.

numba's cache does not see changes in this file: touch the kernels that import it when you make one.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import overload

from qubolearn.kernels.lanes import _BITS as _INTS
from qubolearn.kernels.lanes import _FLOATS, LANES, _floats, _intrinsic, _lane_function, _Lanes, _loader, _storer
from qubolearn.kernels.lanes import _float_constant as _constant
from qubolearn.kernels.lanes import load_floats as load
from qubolearn.kernels.lanes import splat as fill
from qubolearn.kernels.lanes import store_floats as save

__all__ = ["LANES", "at_most", "draw", "equal", "exp", "fill", "least", "load", "load_states", "save", "save_states"]

_WORDS = ir.VectorType(ir.IntType(64), LANES)
_words = _Lanes("WordLanes", _WORDS)
load_states, save_states = _loader(_words), _storer(_words)

#: Taylor coefficients of 2**x, lowest power first: on [-1/2, 1/2] they are right to 2e-7.
_EXP2 = tuple(math.log(2) ** k / math.factorial(k) for k in range(7))
_LOG2_E = math.log2(math.e)


def _binary(operation: Any, build: Any) -> Any:
    """An intrinsic of two vectors, made the meaning of the operator where one is given."""

    made = _lane_function(_floats(_floats, _floats))(build)
    if operation is not None:

        def choose(a, b):  # type: ignore[no-untyped-def]  # numba compares its parameters with the lambda's
            return (lambda a, b: made(a, b)) if a is _floats and b is _floats else None

        overload(operation)(choose)
    return made


def _as_number(builder: Any, mask: Any) -> Any:
    return builder.select(mask, _constant(1.0), _constant(0.0))


_binary(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=("contract",)))
_binary(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=("contract",)))
_binary(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=("contract",)))
least = _binary(None, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))
at_most = _binary(None, lambda builder, a, b: _as_number(builder, builder.fcmp_ordered("<=", a, b)))
equal = _binary(None, lambda builder, a, b: _as_number(builder, builder.fcmp_ordered("==", a, b)))


@_lane_function(_floats(_floats))
def exp(builder: Any, x: Any) -> Any:
    """e**x for x <= 0, lane by lane, to 5e-6 of itself and 3e-7 near 0; below -87 it is 1e-38 instead of less."""
    y = builder.fmul(x, _constant(_LOG2_E))
    y = builder.select(builder.fcmp_ordered(">", y, _constant(-126.0)), y, _constant(-126.0))
    whole = builder.fptosi(builder.fsub(y, _constant(0.5)), _INTS)  # rounds to nearest, since y <= 0
    part = builder.fsub(y, builder.sitofp(whole, _FLOATS))
    power = _constant(_EXP2[-1])
    for coefficient in reversed(_EXP2[:-1]):
        power = builder.fadd(builder.fmul(power, part, ("contract",)), _constant(coefficient), ("contract",))
    exponent = builder.shl(whole, ir.Constant(_INTS, [23] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(power, _INTS), exponent), _FLOATS)


@_intrinsic
def draw(typing: Any, states: Any) -> Any:
    """Advance 16 generators (xorshift64*, states not 0): their new states and a uniform in [0, 1) of each."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def word(value: int) -> Any:
            return ir.Constant(_WORDS, [value] * LANES)

        (state,) = args
        state = builder.xor(state, builder.lshr(state, word(12)))
        state = builder.xor(state, builder.shl(state, word(25)))
        state = builder.xor(state, builder.lshr(state, word(27)))
        high = builder.trunc(builder.lshr(builder.mul(state, word(2685821657736338717)), word(40)), _INTS)
        uniform = builder.fmul(builder.sitofp(high, _FLOATS), _constant(2.0**-24))
        return context.make_tuple(builder, signature.return_type, [state, uniform])

    return types.Tuple((_words, _floats))(_words), generate  # type: ignore[no-untyped-call]
