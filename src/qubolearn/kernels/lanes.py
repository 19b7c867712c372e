"""Sixteen reads at a time inside numba: vectors of 16 floats or 16 words of bits, as one LLVM value each.

numba vectorises plain loops, but not a lookup in a table of 16 floats, which AVX-512 does in one instruction.
These intrinsics are what the annealing kernels need. Results are the same on every processor: AVX2 does the lookup in
six instructions, any other processor looks up one float after the other.

numba's cache does not see changes in this file: touch the kernels that import it when you make one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, models, register_model

__all__ = [
    "LANES",
    "add_scaled",
    "add_where",
    "below",
    "exponentials",
    "first_of",
    "flip",
    "flip_mask",
    "load_bits",
    "load_floats",
    "lookup",
    "lowest_flip",
    "negate_where",
    "rotate_pairs",
    "scaled_product",
    "splat",
    "store_bits",
    "store_floats",
    "zeros",
]

LANES = 16

_WORD = ir.IntType(32)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_BITS = ir.VectorType(_WORD, LANES)


class _Lanes(types.Type):
    """The numba type of 16 float32 or 16 int32."""

    def __init__(self, name: str, vector: Any) -> None:
        super().__init__(name=name)
        self.vector = vector


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: _Lanes) -> None:
        super().__init__(manager, lanes, lanes.vector)  # type: ignore[no-untyped-call]


_floats = _Lanes("FloatLanes", _FLOATS)
_bits = _Lanes("BitLanes", _BITS)


def _intrinsic(function: Any) -> Any:
    """numba's decorator with type annotations."""
    return intrinsic(function)


def _lane_function(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of this signature from a function that builds its LLVM value: ``build(builder, *values)``."""

    def decorate(build: Callable[..., Any]) -> Any:
        def typed(typing: Any, *arguments: Any) -> Any:
            return signature, lambda context, builder, signature, values: build(builder, *values)

        return _intrinsic(wraps(build)(typed))

    return decorate


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, vector: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _constant(values: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(_WORD, len(values)), list(values))


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, undefined, _constant([0] * LANES))


def _loader(lanes: _Lanes) -> Any:
    def load(typing: Any, array: Any, index: Any) -> Any:
        """16 elements of the array from the index on."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array, index = args
            return builder.load(_pointer(context, builder, signature.args[0], array, index, lanes.vector), align=4)

        return lanes(array, types.intp), generate

    return _intrinsic(load)


load_bits = _loader(_bits)
load_floats = _loader(_floats)


def _storer(lanes: _Lanes) -> Any:
    def store(typing: Any, array: Any, index: Any, values: Any) -> Any:
        """Write 16 elements into the array from the index on."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array, index, values = args
            pointer = _pointer(context, builder, signature.args[0], array, index, lanes.vector)
            builder.store(values, pointer, align=4)
            return context.get_dummy_value()

        return types.void(array, types.intp, lanes), generate

    return _intrinsic(store)


store_bits = _storer(_bits)
store_floats = _storer(_floats)


@_lane_function(_floats())
def zeros(builder: Any) -> Any:
    """16 times 0."""
    return ir.Constant(_FLOATS, [0.0] * LANES)


@_lane_function(_floats(_floats, types.float32, _floats))
def add_scaled(builder: Any, total: Any, scale: Any, term: Any) -> Any:
    """total + scale · term, lane by lane."""
    function = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    multiply_add = builder.module.declare_intrinsic("llvm.fmuladd.v16f32", (), function)
    return builder.call(multiply_add, [term, _splat(builder, scale, _FLOATS), total])


@_lane_function(_floats(_floats, types.float32))
def rotate_pairs(builder: Any, values: Any, slope: Any) -> Any:
    """For each of the four bits of a lane's number, one after the other: (a, b) -> (a - slope b, b + slope a).

    a and b are the values of two lanes that differ in this bit, which is 0 for a.
    """
    function = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    multiply_add = builder.module.declare_intrinsic("llvm.fmuladd.v16f32", (), function)
    slopes = _splat(builder, slope, _FLOATS)
    for bit in (1, 2, 4, 8):
        signs = ir.Constant(_FLOATS, [1.0 if lane & bit else -1.0 for lane in range(LANES)])
        others = builder.shuffle_vector(values, values, _constant([lane ^ bit for lane in range(LANES)]))
        values = builder.call(multiply_add, [others, builder.fmul(slopes, signs), values])
    return values


@_intrinsic
def lookup(typing: Any, table: Any, bits: Any) -> Any:
    """table[bits & 15], lane by lane: table holds 16 floats."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        features = context.codegen().magic_tuple()[2]
        if "+avx512f" in features:
            return _permute(builder, "llvm.x86.avx512.permvar.sf.512", *args)
        if "+avx2" in features:
            return _lookup_avx2(builder, *args)
        return _lookup_one_by_one(builder, *args)

    return _floats(_floats, _bits), generate


def _permute(builder: Any, name: str, table: Any, index: Any) -> Any:
    function = ir.FunctionType(table.type, [table.type, index.type])
    return builder.call(builder.module.declare_intrinsic(name, (), function), [table, index])


def _lookup_avx2(builder: Any, table: Any, bits: Any) -> Any:
    low, high = (_half(builder, table, half) for half in range(2))
    found = []
    for half in range(2):
        index = _half(builder, bits, half)
        in_low = _permute(builder, "llvm.x86.avx2.permps", low, index)  # its index has 3 bits
        in_high = _permute(builder, "llvm.x86.avx2.permps", high, index)
        fourth = builder.icmp_unsigned("!=", builder.and_(index, _constant([8] * 8)), _constant([0] * 8))
        found.append(builder.select(fourth, in_high, in_low))
    return builder.shuffle_vector(*found, _constant(range(LANES)))


def _half(builder: Any, vector: Any, half: int) -> Any:
    return builder.shuffle_vector(vector, vector, _constant(range(8 * half, 8 * half + 8)))


def _lookup_one_by_one(builder: Any, table: Any, bits: Any) -> Any:
    index = builder.and_(bits, _constant([LANES - 1] * LANES))
    found = ir.Constant(_FLOATS, ir.Undefined)
    for lane in range(LANES):
        here = ir.Constant(_WORD, lane)
        value = builder.extract_element(table, builder.extract_element(index, here))
        found = builder.insert_element(found, value, here)
    return found


def _cost_of_flip(builder: Any, bits: Any, field: Any, position: Any) -> Any:
    """(1 - 2x) · field, where x is the bit at the position: the field with its sign flipped where x is 1."""
    to_sign = _splat(builder, builder.sub(ir.Constant(_WORD, 31), position), _BITS)
    sign = builder.and_(builder.shl(bits, to_sign), _constant([-(2**31)] * LANES))
    return builder.bitcast(builder.xor(builder.bitcast(field, _BITS), sign), _FLOATS)


@_lane_function(_bits(_bits, _floats, _floats, types.int64))
def flip(builder: Any, bits: Any, field: Any, threshold: Any, position: Any) -> Any:
    """The bits after flipping the one at the position in all lanes where that costs less than the threshold."""
    position = builder.trunc(position, _WORD)
    accept = builder.fcmp_ordered("<", _cost_of_flip(builder, bits, field, position), threshold)
    bit = _splat(builder, builder.shl(ir.Constant(_WORD, 1), position), _BITS)
    return builder.select(accept, builder.xor(bits, bit), bits)


@_lane_function(types.float32(_bits, _floats, types.int64))
def lowest_flip(builder: Any, bits: Any, field: Any, position: Any) -> Any:
    """What flipping the bit at the position costs in the lane where it costs least."""
    cost = _cost_of_flip(builder, bits, field, builder.trunc(position, _WORD))
    function = ir.FunctionType(ir.FloatType(), [_FLOATS])
    minimum = builder.module.declare_intrinsic("llvm.vector.reduce.fmin.v16f32", (), function)
    return builder.call(minimum, [cost])


# Masks are one bit a lane, as the lowest 16 bits of an int64.


def _mask(builder: Any, lanes: Any) -> Any:
    """16 truth values as an int64."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(16)), ir.IntType(64))


def _unmask(builder: Any, mask: Any) -> Any:
    return builder.bitcast(builder.trunc(mask, ir.IntType(16)), ir.VectorType(ir.IntType(1), LANES))


@_lane_function(_floats(types.float32))
def splat(builder: Any, value: Any) -> Any:
    """The value in all lanes."""
    return _splat(builder, value, _FLOATS)


@_lane_function(_floats(types.float32, _floats, _floats))
def scaled_product(builder: Any, scale: Any, first: Any, second: Any) -> Any:
    """scale · first · second, lane by lane."""
    return builder.fmul(_splat(builder, scale, _FLOATS), builder.fmul(first, second))


@_lane_function(_floats(_floats, types.int64))
def negate_where(builder: Any, values: Any, mask: Any) -> Any:
    """The values with their sign flipped in the lanes of the mask."""
    return builder.select(_unmask(builder, mask), builder.fneg(values), values)


@_lane_function(types.int64(_floats, _floats))
def below(builder: Any, first: Any, second: Any) -> Any:
    """The mask of the lanes where first < second."""
    return _mask(builder, builder.fcmp_ordered("<", first, second))


@_lane_function(types.int64(types.int64))
def first_of(builder: Any, mask: Any) -> Any:
    """The number of the lowest bit of a mask that is not 0."""
    return builder.cttz(mask, ir.Constant(ir.IntType(1), 1))


@_lane_function(_floats(_floats, types.int64, types.float32))
def add_where(builder: Any, total: Any, mask: Any, value: Any) -> Any:
    """total + value in the lanes of the mask, total in the others."""
    return builder.select(_unmask(builder, mask), builder.fadd(total, _splat(builder, value, _FLOATS)), total)


@_lane_function(types.int64(types.int64, _floats, types.float32, _floats))
def flip_mask(builder: Any, bits: Any, field: Any, scale: Any, threshold: Any) -> Any:
    """The mask of bits after flipping those for which that costs less: scale · (1 - 2x) · field < threshold."""
    field = builder.fmul(field, _splat(builder, scale, _FLOATS))
    cost = builder.select(_unmask(builder, bits), builder.fneg(field), field)
    return builder.xor(bits, _mask(builder, builder.fcmp_ordered("<", cost, threshold)))


#: log2(1 + y) is y times the polynomial with these coefficients: right at y = 0 and 1, off by at most 1.6e-5 between.
_LOG2_TERMS = (1.441917, -0.7090964, 0.415606, -0.1935756, 0.045149)


@_intrinsic
def exponentials(typing: Any, words: Any, index: Any) -> Any:
    """Independent draws of -log(u), one a lane, from the 16 generators (xorshift32) whose states are words[index:].

    With r a random number of 31 bits as a float, -log(u) = (31 - log2 r) log 2; log2 r is r's exponent plus a
    polynomial of its mantissa.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, index = args
        pointer = _pointer(context, builder, signature.args[0], words, index, _BITS)
        state = builder.load(pointer, align=4)
        for shift, left in ((13, True), (17, False), (5, True)):
            shifted = (builder.shl if left else builder.lshr)(state, _constant([shift] * LANES))
            state = builder.xor(state, shifted)
        builder.store(state, pointer, align=4)
        number = builder.sitofp(builder.lshr(state, _constant([1] * LANES)), _FLOATS)
        bits = builder.bitcast(number, _BITS)
        exponent = builder.sitofp(builder.lshr(bits, _constant([23] * LANES)), _FLOATS)
        one = builder.or_(builder.and_(bits, _constant([0x7FFFFF] * LANES)), _constant([0x3F800000] * LANES))
        mantissa = builder.fsub(builder.bitcast(one, _FLOATS), _float_constant(1.0))
        value = _float_constant(_LOG2_TERMS[-1])
        for term in reversed(_LOG2_TERMS[:-1]):
            value = builder.fadd(builder.fmul(value, mantissa), _float_constant(term))
        value = builder.fadd(builder.fmul(value, mantissa), builder.fsub(exponent, _float_constant(127.0 + 31.0)))
        return builder.fmul(value, _float_constant(-math.log(2)))

    return _floats(words, types.intp), generate


def _float_constant(value: float) -> Any:
    return ir.Constant(_FLOATS, [value] * LANES)
