"""What every ALU op does to plain Python values: the one definition that folding and the evaluator share.

A value is an int (i32 and u32 in their range, bool as 0 or 1) or a float that float32 holds exactly. Sums, products and
reciprocals go through float64 and are rounded once more, which is innocuous because 53 >= 2 * 24 + 2 (Figueroa 1995,
"When is double rounding innocuous?"). A fused multiply-add is not: `fma` rounds the exact sum to odd first.
"""

import math
import struct
from collections.abc import Callable

from circuit.uop.node import DType, Op, UOp, f32_bits, f32_value

Value = float  # ints are ints
Function = Callable[..., Value]

LIMITS = {DType.BOOL: (0, 1), DType.I32: (-(2**31), 2**31 - 1), DType.U32: (0, 2**32 - 1)}

_F32 = struct.Struct("<f")
_F64 = struct.Struct("<d")
_I64 = struct.Struct("<q")


def function_of(op: Op, dtype: DType, source: DType) -> Function:
    """The function of an ALU op whose result has `dtype` and whose operands have type `source`."""
    found = _CASTS.get((source, dtype)) if op in (Op.CAST, Op.BITCAST) else _FUNCTIONS.get((op, source))
    if op is Op.BITCAST:
        found = _BITCASTS.get((source, dtype))
    assert found is not None, f"{op} from {source} to {dtype} has no meaning"
    return found


def operand_type(op: Op, src: tuple[UOp, ...]) -> DType:
    """The type that the op works on: of a WHERE its sides, else the first source."""
    return src[1].dtype if op is Op.WHERE else src[0].dtype


def is_alu(op: Op) -> bool:
    """Whether the op maps values to a value, element by element."""
    return op in _ALU


def identity(op: str, dtype: DType) -> Value:
    """What a REDUCE starts from."""
    match op:
        case "add" | "mulacc":
            return 0.0 if dtype is DType.F32 else 0
        case "mul":
            return 1.0 if dtype is DType.F32 else 1
        case "max":
            return -math.inf if dtype is DType.F32 else LIMITS[dtype][0]
    raise AssertionError(f"no reduce by {op}")


def round_f32(x: float) -> float:
    """The float32 nearest to x, ties to even."""
    try:
        return float(_F32.unpack(_F32.pack(x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def fma(a: float, b: float, c: float) -> float:
    """a * b + c rounded once to float32.

    The product is exact in float64. TwoSum gives the sum and its exact error; where there is one, the sum is moved to
    the neighbour with an odd last bit, which no rounding boundary of float32 has, so that the last rounding is right.
    """
    product = a * b
    total = product + c
    if total - total != 0.0:  # an infinity or a NaN
        return total
    back = total - product
    error = (product - (total - back)) + (c - back)
    if error and not _I64.unpack(_F64.pack(total))[0] & 1:
        total = math.nextafter(total, math.copysign(math.inf, error))
    return round_f32(total)


def wrap_i32(x: int) -> int:
    """x modulo 2**32, in the range of i32."""
    return ((x + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def wrap_u32(x: int) -> int:
    """x modulo 2**32."""
    return x & 0xFFFFFFFF


def _reciprocal(x: float) -> float:
    return round_f32(1.0 / x) if x else math.copysign(math.inf, x)


def _trunc(x: float) -> float:
    return x if x - x != 0.0 else math.copysign(float(int(x)), x)


def _saturate(dtype: DType) -> Function:
    lo, hi = LIMITS[dtype]

    def convert(x: float) -> int:
        if x != x:
            return 0
        return lo if x <= lo else hi if x >= hi else int(x)

    return convert


def _shl(wrap: Callable[[int], int]) -> Function:
    def shift(x: int, n: int) -> int:
        assert 0 <= n <= 31, f"shl by {n}"
        return wrap(x << n)

    return shift


def _maximum(a: Value, b: Value) -> Value:
    return b if a < b else a


def _where(p: int, a: Value, b: Value) -> Value:
    return a if p else b


def _int_functions(dtype: DType, wrap: Callable[[int], int]) -> dict[tuple[Op, DType], Function]:
    return {
        (Op.ADD, dtype): lambda a, b: wrap(a + b),
        (Op.MUL, dtype): lambda a, b: wrap(a * b),
        (Op.MULACC, dtype): lambda a, b, c: wrap(a * b + c),
        (Op.MAX, dtype): max,
        (Op.XOR, dtype): lambda a, b: a ^ b,
        (Op.CMPLT, dtype): lambda a, b: int(a < b),
        (Op.SHL, dtype): _shl(wrap),
        (Op.FLOORDIV, dtype): lambda a, b: wrap(a // b),
        (Op.FLOORMOD, dtype): lambda a, b: a % b,
        (Op.TRUNC, dtype): lambda a: a,
        (Op.WHERE, dtype): _where,
    }


_FUNCTIONS: dict[tuple[Op, DType], Function] = {
    **_int_functions(DType.I32, wrap_i32),
    **_int_functions(DType.U32, wrap_u32),
    (Op.ADD, DType.BOOL): lambda a, b: a | b,
    (Op.MUL, DType.BOOL): lambda a, b: a & b,
    (Op.MAX, DType.BOOL): lambda a, b: a | b,
    (Op.XOR, DType.BOOL): lambda a, b: a ^ b,
    (Op.CMPLT, DType.BOOL): lambda a, b: int(a < b),
    (Op.WHERE, DType.BOOL): _where,
    (Op.ADD, DType.F32): lambda a, b: round_f32(a + b),
    (Op.MUL, DType.F32): lambda a, b: round_f32(a * b),
    (Op.MULACC, DType.F32): fma,
    (Op.MAX, DType.F32): _maximum,
    (Op.CMPLT, DType.F32): lambda a, b: int(a < b),
    (Op.RECIPROCAL, DType.F32): _reciprocal,
    (Op.TRUNC, DType.F32): _trunc,
    (Op.WHERE, DType.F32): _where,
}

_CASTS: dict[tuple[DType, DType], Function] = {
    (DType.BOOL, DType.BOOL): lambda x: x,
    (DType.BOOL, DType.I32): lambda x: x,
    (DType.BOOL, DType.U32): lambda x: x,
    (DType.BOOL, DType.F32): float,
    (DType.I32, DType.BOOL): lambda x: int(x != 0),
    (DType.I32, DType.I32): lambda x: x,
    (DType.I32, DType.U32): wrap_u32,
    (DType.I32, DType.F32): lambda x: round_f32(float(x)),
    (DType.U32, DType.BOOL): lambda x: int(x != 0),
    (DType.U32, DType.I32): wrap_i32,
    (DType.U32, DType.U32): lambda x: x,
    (DType.U32, DType.F32): lambda x: round_f32(float(x)),
    (DType.F32, DType.BOOL): lambda x: int(x != 0.0),
    (DType.F32, DType.I32): _saturate(DType.I32),
    (DType.F32, DType.U32): _saturate(DType.U32),
    (DType.F32, DType.F32): lambda x: x,
}

_BITCASTS: dict[tuple[DType, DType], Function] = {
    (DType.F32, DType.U32): f32_bits,
    (DType.U32, DType.F32): f32_value,
    (DType.F32, DType.F32): lambda x: x,
    (DType.U32, DType.U32): lambda x: x,
}

_ALU = frozenset(op for op, _ in _FUNCTIONS) | {Op.CAST, Op.BITCAST}
