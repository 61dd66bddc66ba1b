"""Runs elementwise programs over whole numpy arrays, float32 exact: a second evaluator, fast enough for sweeps."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from circuit.uop.node import Const, DType, Op, UOp, toposort

Array = npt.NDArray[Any]  # of the type that the node has
Floats = npt.NDArray[np.float32]
TYPES = {DType.F32: np.float32, DType.I32: np.int32, DType.U32: np.uint32, DType.BOOL: np.bool_}


def run(root: UOp, inputs: Mapping[UOp, Array]) -> Array:
    """The value of the program where each input node stands for an array."""
    value: dict[UOp, Array] = dict(inputs)
    with np.errstate(all="ignore"):
        for node in toposort(root):
            if node not in value:
                value[node] = _apply(node, [value[s] for s in node.src])
    return value[root]


def fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c with one rounding: the float64 sum is moved to its odd neighbour where it is not exact."""
    product = a.astype(np.float64) * b.astype(np.float64)
    wide = c.astype(np.float64)
    total = product + wide
    back = total - product
    error = (product - (total - back)) + (wide - back)
    even = (total.view(np.int64) & 1) == 0
    move = np.isfinite(total) & (error != 0) & even
    total = np.where(move, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)
    return total.astype(np.float32)


def _apply(node: UOp, x: list[Array]) -> Array:
    kind = TYPES[node.dtype]
    match node.op:
        case Op.CONST:
            assert isinstance(node.arg, Const)
            raw = np.array([node.arg.bits])
            return raw.astype(np.uint32).view(np.float32) if kind is np.float32 else raw.astype(kind)
        case Op.ADD:
            return x[0] + x[1]
        case Op.MUL:
            return x[0] * x[1]
        case Op.MULACC:
            a, b, c = np.broadcast_arrays(*x)
            return fma(a, b, c)
        case Op.MAX:
            return np.where(x[0] < x[1], x[1], x[0])
        case Op.XOR:
            return np.bitwise_xor(x[0], x[1])
        case Op.CMPLT:
            return np.less(x[0], x[1])
        case Op.SHL:
            return np.left_shift(x[0], x[1])
        case Op.FLOORDIV:
            return x[0] // x[1]
        case Op.FLOORMOD:
            return x[0] % x[1]
        case Op.WHERE:
            return np.where(x[0], x[1], x[2])
        case Op.RECIPROCAL:
            return np.divide(np.float32(1), x[0])
        case Op.TRUNC:
            return np.asarray(np.trunc(x[0]))
        case Op.CAST if node.src[0].dtype is not DType.F32:
            return x[0].astype(kind)
        case Op.BITCAST:
            bits: Array = x[0].view(kind)
            return np.where(np.isnan(x[0]), np.uint32(0x7FC00000), bits) if kind is np.uint32 else bits
    raise AssertionError(f"{node} is not elementwise")
