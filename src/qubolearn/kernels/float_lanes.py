"""Arithmetic on sixteen float32 at a time inside numba: ``+``, ``-``, ``*`` of vectors, comparisons, exp and uniforms.

numba vectorises plain loops over arrays, but keeps no vector in a register between two of them. Here a vector is one
LLVM value, so that a kernel that handles sixteen replicas at once reads like one that handles a single replica.

numba's cache does not see changes in this file: touch the kernels that import it when you make one.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model

__all__ = ["LANES", "at_most", "draw", "equal", "exp", "fill", "least", "load", "load_states", "save", "save_states"]

LANES = 16

_INT = ir.IntType(32)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTS = ir.VectorType(_INT, LANES)
_WORDS = ir.VectorType(ir.IntType(64), LANES)

#: Coefficients of 2**x on [-1/2, 1/2], lowest power first; the relative error is below 3e-7.
_EXP2 = (
    1.0,
    0.693147182464599609375,
    0.240226507186889648438,
    0.0555041003227233886719,
    0.00961834,
    0.00133389,
    0.000154,
)
_LOG2_E = 1.44269502162933349609375


class _Lanes(types.Type):
    """The numba type of 16 numbers."""

    def __init__(self, name: str, vector: Any) -> None:
        super().__init__(name=name)
        self.vector = vector


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: _Lanes) -> None:
        super().__init__(manager, lanes, lanes.vector)  # type: ignore[no-untyped-call]


_floats = _Lanes("Float32x16", _FLOATS)
_words = _Lanes("UInt64x16", _WORDS)


def _intrinsic(function: Any) -> Any:
    """numba's decorator, with the types that it lacks."""
    return intrinsic(function)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, vector: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _loader(lanes: _Lanes) -> Any:
    def load(typing: Any, array: Any, index: Any) -> Any:
        """16 elements of the array from the index on."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array, index = args
            return builder.load(_pointer(context, builder, signature.args[0], array, index, lanes.vector), align=4)

        return lanes(array, types.intp), generate

    return _intrinsic(load)


def _saver(lanes: _Lanes) -> Any:
    def save(typing: Any, array: Any, index: Any, value: Any) -> Any:
        """Write 16 numbers into the array from the index on."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array, index, value = args
            builder.store(value, _pointer(context, builder, signature.args[0], array, index, lanes.vector), align=4)
            return context.get_dummy_value()

        return types.void(array, types.intp, lanes), generate

    return _intrinsic(save)


load, save = _loader(_floats), _saver(_floats)
load_states, save_states = _loader(_words), _saver(_words)


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))


def _constant(value: float) -> Any:
    return ir.Constant(_FLOATS, [value] * LANES)


@_intrinsic
def fill(typing: Any, scalar: Any) -> Any:
    """The same number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, args[0], _FLOATS)

    return _floats(types.float32), generate


def _binary(operation: Any, build: Any) -> Any:
    """An intrinsic of two vectors, made the meaning of the operator where one is given."""

    def function(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return build(builder, *args)

        return _floats(_floats, _floats), generate

    made = _intrinsic(function)
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


@_intrinsic
def exp(typing: Any, x: Any) -> Any:
    """e**x for x <= 0, lane by lane, to 3e-7 of itself; below -87 it is about 1e-38 instead of less."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y = builder.fmul(args[0], _constant(_LOG2_E))
        y = builder.select(builder.fcmp_ordered(">", y, _constant(-126.0)), y, _constant(-126.0))
        whole = builder.fptosi(builder.fsub(y, _constant(0.5)), _INTS)  # rounds to nearest, since y <= 0
        part = builder.fsub(y, builder.sitofp(whole, _FLOATS))
        power = _constant(_EXP2[-1])
        for coefficient in reversed(_EXP2[:-1]):
            power = builder.fadd(builder.fmul(power, part, ("contract",)), _constant(coefficient), ("contract",))
        exponent = builder.shl(whole, ir.Constant(_INTS, [23] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(power, _INTS), exponent), _FLOATS)

    return _floats(_floats), generate


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
