"""One C expression for one op, on one value or on a vector of lanes.

A bool is an i32: 0 or 1 alone, 0 or -1 (a mask) in a vector. Signed arithmetic wraps, so it runs on u32 unless the
bounds say that it cannot leave i32.
"""

from circuit.render.peephole import is_number
from circuit.uop.bounds import bounds
from circuit.uop.node import Const, DType, Op, UOp, f32_value

_LIMIT = 2**31


def c_type(dtype: DType, width: int) -> str:
    """The C type of a value, or of a vector of `width` lanes."""
    scalar = "i32" if dtype is DType.BOOL else str(dtype)
    return scalar if width == 1 else f"{scalar}x{width}"


def memory_type(dtype: DType, width: int) -> str:
    """The C type of the same in memory."""
    return c_type(dtype, width) + "m"


def literal(node: UOp, width: int) -> str:
    """A CONST, the same in every lane."""
    assert isinstance(node.arg, Const), node
    one = _scalar_literal(node.arg.dtype, node.arg.bits)
    if width == 1:
        return one
    if node.arg.dtype is DType.BOOL:
        one = str(-node.arg.bits)
    return f"met_all_{c_type(node.arg.dtype, width)}({one})"


def spread(text: str, dtype: DType, width: int) -> str:
    """A value as a vector of equal lanes."""
    return f"met_all_{c_type(dtype, width)}({'-' if dtype is DType.BOOL else ''}{text})"


def iota(start: int, width: int) -> str:
    """start, start+1, ..."""
    lanes = ", ".join(str(start + n) for n in range(width))
    return f"(i32x{width}){{{lanes}}}" if width > 1 else str(start)


def step(op: str, dtype: DType, width: int, total: str, values: list[str]) -> str:
    """The statement that folds the next value into a REDUCE's total."""
    match op:
        case "mulacc" if dtype is DType.F32 and width > 1:
            return f"met_into_{c_type(dtype, width)}(&{total}, {values[0]}, {values[1]});"
        case "mulacc":
            text = _mulacc(dtype, width, values[0], values[1], total)
        case "add" | "max" if dtype is DType.BOOL:
            text = f"{total} | {values[0]}"
        case "mul" if dtype is DType.BOOL:
            text = f"{total} & {values[0]}"
        case "max":
            text = f"met_max_{c_type(dtype, width)}({total}, {values[0]})"
        case "add" | "mul":
            text = _wrapping("+" if op == "add" else "*", dtype, width, total, values[0])
        case _:
            raise AssertionError(f"no reduce by {op}")
    return f"{total} = {text};"


def scalar_i32(op: Op, src: tuple[UOp, ...], a: str, b: str) -> str | None:
    """i32 sums and products that cannot wrap, as plain C, which compilers see through best."""
    (lo, hi), (x, y) = bounds(src[0]), bounds(src[1])
    ends = (lo + x, hi + y) if op is Op.ADD else (lo * x, lo * y, hi * x, hi * y)
    fits = all(-_LIMIT <= e < _LIMIT for e in ends)
    return f"{a} {'+' if op is Op.ADD else '*'} {b}" if fits else None


def expression(node: UOp, width: int, src: list[str]) -> str:
    """The value of an ALU op; `src` are C operands of the same width (names or primary expressions)."""
    kind = node.src[-1].dtype
    suffix = c_type(kind, width)
    match node.op:
        case Op.ADD | Op.MUL | Op.MAX | Op.XOR | Op.CMPLT if kind is DType.BOOL:
            return _logic(node.op, width, src)
        case Op.ADD | Op.MUL if kind is DType.F32:
            return _float_sum(node, src) if node.op is Op.ADD else f"{src[0]} * {src[1]}"
        case Op.ADD | Op.MUL:
            plain = scalar_i32(node.op, node.src, *src) if kind is DType.I32 and width == 1 else None
            return plain or _wrapping("+" if node.op is Op.ADD else "*", kind, width, *src)
        case Op.MULACC:
            return _mulacc(kind, width, *src)
        case Op.MAX:
            return f"met_max_{suffix}({src[0]}, {src[1]})"
        case Op.XOR:
            return f"{src[0]} ^ {src[1]}"
        case Op.CMPLT if width == 1:
            return f"{src[0]} < {src[1]}"
        case Op.CMPLT if kind is DType.U32 and all(bounds(s)[1] < _LIMIT for s in node.src):
            return f"(i32x{width}){src[0]} < (i32x{width}){src[1]}"
        case Op.CMPLT:
            return f"(i32x{width})({src[0]} < {src[1]})"
        case Op.WHERE if width == 1:
            return f"{src[0]} ? {src[1]} : {src[2]}"
        case Op.WHERE:
            return f"met_select_{suffix}({src[0]}, {src[1]}, {src[2]})"
        case Op.SHL:
            unsigned = c_type(DType.U32, width)
            return f"({suffix})(({unsigned}){src[0]} << {src[1]})"
        case Op.FLOORDIV | Op.FLOORMOD:
            return _division(node, width, src)
        case Op.RECIPROCAL:
            return f"1.0f / {src[0]}"
        case Op.TRUNC:
            return src[0] if kind is not DType.F32 else f"met_trunc_{suffix}({src[0]})"
        case Op.CAST:
            return _cast(node, width, src[0])
        case Op.BITCAST if node.dtype is kind:
            return src[0]
        case Op.BITCAST if kind is DType.F32 and width > 1 and is_number(node.src[0]):
            return f"(u32x{width}){src[0]}"
        case Op.BITCAST if kind is DType.F32:
            return f"met_word({src[0]})" if width == 1 else f"met_word_x{width}({src[0]})"
        case Op.BITCAST:
            return f"met_float({src[0]})" if width == 1 else f"(f32x{width}){src[0]}"
    raise AssertionError(f"{node.op} is no ALU op")


def _scalar_literal(dtype: DType, bits: int) -> str:
    match dtype:
        case DType.F32:
            value = f32_value(bits)
            return f"{value.hex()}f" if value - value == 0.0 else f"met_float({bits:#x}u)"
        case DType.U32:
            return f"{bits}u"
    return f"({bits + 1} - 1)" if bits == -_LIMIT else f"({bits})" if bits < 0 else str(bits)


def _logic(op: Op, width: int, src: list[str]) -> str:
    match op:
        case Op.CMPLT:
            return f"(1 ^ {src[0]}) & {src[1]}" if width == 1 else f"~{src[0]} & {src[1]}"
        case Op.MUL:
            return f"{src[0]} & {src[1]}"
        case Op.XOR:
            return f"{src[0]} ^ {src[1]}"
    return f"{src[0]} | {src[1]}"


def _float_sum(node: UOp, src: list[str]) -> str:
    return f"{src[0]} + {src[1]}"


def _wrapping(sign: str, dtype: DType, width: int, a: str, b: str) -> str:
    if dtype is not DType.I32:
        return f"{a} {sign} {b}"
    unsigned = c_type(DType.U32, width)
    return f"({c_type(dtype, width)})(({unsigned}){a} {sign} ({unsigned}){b})"


def _mulacc(dtype: DType, width: int, a: str, b: str, c: str) -> str:
    if dtype is DType.F32:
        return f"met_fma_{c_type(dtype, width)}({a}, {b}, {c})"
    return _wrapping("+", dtype, width, f"({_wrapping('*', dtype, width, a, b)})", c)


def _division(node: UOp, width: int, src: list[str]) -> str:
    kind, (lo, hi) = node.dtype, bounds(node.src[1])
    signed = bounds(node.src[0])[0] < 0
    if lo == hi > 0 and lo & (lo - 1) == 0:
        if node.op is Op.FLOORDIV:
            return f"{src[0]} >> {lo.bit_length() - 1}"  # gcc and clang shift the sign in
        return f"{src[0]} & {lo - 1}{'u' if kind is DType.U32 else ''}"
    if width == 1 and lo > 0 and (kind is DType.U32 or not signed):
        return f"{src[0]} {'/' if node.op is Op.FLOORDIV else '%'} {src[1]}"
    return f"met_{'div' if node.op is Op.FLOORDIV else 'mod'}_{c_type(kind, width)}({src[0]}, {src[1]})"


def _cast(node: UOp, width: int, a: str) -> str:
    source, kind = node.src[0].dtype, node.dtype
    if source is kind:
        return a
    match source, kind:
        case DType.BOOL, DType.F32:
            return f"(f32){a}" if width == 1 else f"(f32x{width})({a} & 0x3f800000)"
        case DType.BOOL, _:
            return f"({kind}){a}" if width == 1 else f"({c_type(kind, width)})({a} & 1)"
        case _, DType.BOOL:
            zero = "0.0f" if source is DType.F32 else "0"
            return f"{a} != {zero}" if width == 1 else f"(i32x{width})({a} != {zero})"
        case DType.U32, DType.F32 if bounds(node.src[0])[1] < _LIMIT:
            return f"(f32)(i32){a}" if width == 1 else f"met_f32x{width}_of_i32((i32x{width}){a})"
        case _ if DType.F32 in (source, kind):
            return f"met_{c_type(kind, width)}_of_{source}({a})"
    return f"({c_type(kind, width)}){a}"
