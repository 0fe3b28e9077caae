"""SIMD vectors as values inside compiled kernels: sixteen float32 or eight float64 numbers.

The compiler turns plain loops into vector instructions only where it can prove that no two arrays
overlap, which it cannot for a stencil over seven arrays. `Lanes` makes it explicit: a kernel loads 64
bytes, computes with them by the usual operators, and stores them. The compiler still chooses the machine
instructions, on any processor.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model
from numba.np.arrayobj import make_array

LANE_BYTES = 64
# float64 numbers per vector.
WIDE = LANE_BYTES // 8
FAST = ("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc")


class Lanes(types.Type):
    """64 bytes of float32 or float64."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        self.count = LANE_BYTES * 8 // dtype.bitwidth
        super().__init__(name=f"Lanes({dtype} x {self.count})")

    @property
    def vector(self) -> ir.VectorType:
        """LLVM type of the vector."""
        return ir.VectorType(self.element, self.count)

    @property
    def element(self) -> ir.Type:
        """LLVM type of one number."""
        return ir.FloatType() if self.dtype.bitwidth == 32 else ir.DoubleType()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, lanes.vector)


def address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Return a pointer to an entry of a one-dimensional contiguous array."""
    data = make_array(array_type)(context, builder, array).data
    return cgutils.gep(builder, data, index, inbounds=True)


def _load_vector(builder: Any, pointer: Any, vector: ir.VectorType, align: int) -> Any:
    typed = builder.bitcast(pointer, vector.as_pointer())
    return builder.load(typed, align=align, typ=vector)


def _widened(builder: Any, values: Any, dtype: Any, lanes: Lanes) -> Any:
    """Return `values` in the precision of `lanes`, which is never the lower one."""
    return values if dtype == lanes.dtype else builder.fpext(values, lanes.vector)


def _load_code(array: Any, lanes: Lanes) -> Any:
    narrow = ir.VectorType(Lanes(array.dtype).element, lanes.count)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address(context, builder, signature.args[0], *arguments[:2])
        values = _load_vector(builder, pointer, narrow, array.dtype.bitwidth // 8)
        return _widened(builder, values, array.dtype, lanes)

    return codegen


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """``array[index : index + count]``."""
    lanes = Lanes(array.dtype)
    return lanes(array, index), _load_code(array, lanes)


@intrinsic
def load_wide(typing_context: Any, array: Any, index: Any) -> Any:
    """Eight numbers of either precision as float64."""
    lanes = Lanes(types.float64)
    return lanes(array, index), _load_code(array, lanes)


@intrinsic
def load_as(typing_context: Any, array: Any, index: Any, like: Any) -> Any:
    """``array[index : index + count]`` in the precision of `like` (an array or lanes), which is not lower."""
    lanes = Lanes(like.dtype)
    return lanes(array, index, like), _load_code(array, lanes)


@intrinsic
def gather_as(typing_context: Any, array: Any, indices: Any, at: Any, like: Any) -> Any:
    """``array[indices[at : at + count]]`` in the precision of `like`, loaded one by one.

    That is no slower than the gather instructions.
    """
    lanes = Lanes(like.dtype)
    narrow = ir.VectorType(Lanes(array.dtype).element, lanes.count)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = ir.Constant(narrow, ir.Undefined)
        for lane in range(lanes.count):
            position = builder.add(arguments[2], ir.Constant(arguments[2].type, lane))
            pointer = address(context, builder, indices, arguments[1], position)
            index = builder.zext(builder.load(pointer), ir.IntType(64))
            entry = builder.load(address(context, builder, array, arguments[0], index))
            values = builder.insert_element(values, entry, ir.IntType(32)(lane))
        return _widened(builder, values, array.dtype, lanes)

    return lanes(array, indices, at, like), codegen


@intrinsic
def store(typing_context: Any, array: Any, index: Any, values: Any) -> Any:
    """``array[index : index + count] = values``, rounded to the precision of the array."""
    narrow = ir.VectorType(Lanes(array.dtype).element, values.count)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address(context, builder, signature.args[0], *arguments[:2])
        rounded = arguments[2] if array.dtype == values.dtype else builder.fptrunc(arguments[2], narrow)
        typed = builder.bitcast(pointer, narrow.as_pointer())
        builder.store(rounded, typed, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, values), codegen


@intrinsic
def keep_where(typing_context: Any, values: Any, flags: Any, index: Any, bit: Any) -> Any:
    """`values` where ``flags[index + lane]`` has the bit (a literal or variable uint8 mask), else 0."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address(context, builder, signature.args[1], arguments[1], arguments[2])
        bytes_type = ir.VectorType(ir.IntType(8), values.count)
        found = _load_vector(builder, pointer, bytes_type, 1)
        mask = _splat(builder, builder.trunc(arguments[3], ir.IntType(8)), bytes_type)
        hit = builder.icmp_unsigned("!=", builder.and_(found, mask), ir.Constant(bytes_type, None))
        return builder.select(hit, arguments[0], ir.Constant(values.vector, None))

    return values(values, flags, index, types.intp), codegen


def _splat(builder: Any, scalar: Any, vector: ir.VectorType) -> Any:
    seed = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return builder.shuffle_vector(seed, ir.Constant(vector, ir.Undefined), zeros)


@intrinsic
def splat(typing_context: Any, scalar: Any) -> Any:
    """Put the same number into all lanes."""
    lanes = Lanes(scalar)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _splat(builder, arguments[0], lanes.vector)

    return lanes(scalar), codegen


@intrinsic
def one_per_axis(typing_context: Any, value: Any, strides: Any) -> Any:
    """Return a tuple of the same value for every axis of a grid."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_tuple(builder, signature.return_type, [arguments[0]] * strides.count)

    return types.UniTuple(value, strides.count)(value, strides), codegen


def _binary(name: str) -> Any:
    @intrinsic
    def function(typing_context: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(*arguments, flags=FAST)

        return a(a, b), codegen

    return function


def _pick(comparison: str) -> Any:
    @intrinsic
    def function(typing_context: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            better = builder.fcmp_ordered(comparison, *arguments, flags=FAST)
            return builder.select(better, *arguments)

        return a(a, b), codegen

    return function


_add, _subtract, _multiply = _binary("fadd"), _binary("fsub"), _binary("fmul")
smaller, larger = _pick("<"), _pick(">")


def _use_for(symbol: Any, implementation: Any) -> None:
    # the compiler compares this signature with that of the lambda, annotations included: none here
    @overload(symbol)
    def choose(a, b):  # type: ignore[no-untyped-def]
        if isinstance(a, Lanes) and isinstance(b, Lanes):
            return lambda a, b: implementation(a, b)
        return None


for _symbol, _implementation in ((operator.add, _add), (operator.sub, _subtract), (operator.mul, _multiply)):
    _use_for(_symbol, _implementation)


def _call(builder: Any, name: str, lanes: Lanes, arguments: Any) -> Any:
    function_type = ir.FunctionType(lanes.vector, [lanes.vector] * len(arguments))
    suffix = f"v{lanes.count}f{lanes.dtype.bitwidth}"
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{suffix}")
    return builder.call(function, arguments, fastmath=FAST)


def _lane_by_lane(name: str) -> Any:
    @intrinsic
    def function(typing_context: Any, a: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _call(builder, name, a, arguments)

        return a(a), codegen

    return function


square_root, magnitude = _lane_by_lane("sqrt"), _lane_by_lane("fabs")


@intrinsic
def inverse_root(typing_context: Any, a: Any) -> Any:
    """``1 / sqrt(a)``, lane by lane."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = _splat(builder, ir.Constant(a.element, 1.0), a.vector)
        return builder.fdiv(one, _call(builder, "sqrt", a, arguments), flags=FAST)

    return a(a), codegen


@intrinsic
def lane_sum(typing_context: Any, a: Any) -> Any:
    """Sum of the lanes, in float64."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.VectorType(ir.DoubleType(), a.count)
        values = arguments[0] if a.dtype.bitwidth == 64 else builder.fpext(arguments[0], wide)
        function_type = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), wide])
        name = f"llvm.vector.reduce.fadd.v{a.count}f64"
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        return builder.call(function, [ir.Constant(ir.DoubleType(), 0.0), values], fastmath=FAST)

    return types.float64(a), codegen


@intrinsic
def any_nonzero(typing_context: Any, a: Any) -> Any:
    """Return whether any lane is not zero."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        hit = builder.fcmp_unordered("!=", arguments[0], ir.Constant(a.vector, None))
        bits = ir.IntType(a.count)
        return builder.icmp_unsigned("!=", builder.bitcast(hit, bits), ir.Constant(bits, 0))

    return types.boolean(a), codegen
