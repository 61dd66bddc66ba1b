"""`.uir`: the fixture of the design, round trips, refusals by line, canonical names."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuit.errors import LoadError
from circuit.text import Source
from circuit.uop import build as u
from circuit.uop.evaluate import evaluate
from circuit.uop.math import sin
from circuit.uop.node import Axis, DType, Op, Storage, UOp, f32_value
from circuit.uop.rangeify import Lowering
from circuit.uop.text import canonical, digest, parse_uir, uir_text
from tests.uop.index_programs import PROGRAMS

FIXTURE = """\
%0 = buffer 65536 dtype=f32 slot=0
%1 = buffer 65536 dtype=f32 slot=1
%2 = reshape %0 [256 256 1]
%3 = reshape %1 [256 1 256]
%4 = mul %2 %3
%5 = reduce %4 op=add pop=1
"""


def _parse(text: str) -> tuple[UOp, ...]:
    return parse_uir(Source(path="a.uir", text=text))


def _round_trip(*roots: UOp) -> None:
    assert _parse(uir_text(*roots)) == roots


def test_the_fixture_of_the_design_reads_and_prints_the_same() -> None:
    (root,) = _parse(FIXTURE)
    assert root.shape == (256, 256)
    assert uir_text(root) == FIXTURE


def test_the_fixture_computes_the_product_with_a_transposed_factor() -> None:
    small = FIXTURE.replace("65536", "6").replace("[256 256 1]", "[2 3 1]").replace("[256 1 256]", "[2 1 3]")
    (root,) = _parse(small)
    program = Lowering().write(u.param(2, DType.F32, (9,)), root, ("i", "j"))
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
    out = [0.0] * 9
    evaluate(program, {0: a, 1: b, 2: out})
    assert out == [a[i] * b[j] + a[3 + i] * b[3 + j] for i in range(3) for j in range(3)]


@settings(deadline=None, max_examples=200)
@given(PROGRAMS)
def test_any_integer_program_survives(programs: tuple[UOp, UOp]) -> None:
    _round_trip(programs[0])
    if programs[0] is not programs[1]:
        _round_trip(*programs)


@given(st.integers(0, 2**32 - 1))
def test_any_float_survives_but_for_the_payload_of_a_nan(bits: int) -> None:
    _round_trip(u.f32(f32_value(bits)))


def test_every_kind_of_node_survives() -> None:
    n = u.param(4, DType.I32, (), "rows", 1, 64)
    r, s = u.loop("r", n), u.loop("s'", 8, Axis.UPCAST)
    x = u.param(0, DType.F32, (64, 8), "x")
    tokens = UOp(Op.BUFFER, (), Storage(1, 64, DType.I32, 'na"me', 0, 99))
    room = u.alloc(0, 512, DType.F32, "room")
    local = u.stage(u.index(x, r, s) * 2.0, r, s, where="local", sizes=(64, 8))
    inline = u.stage(u.cast(s, DType.F32), s)
    shaped = u.permute(u.reshape(u.expand(u.shrink(inline, (2,), (4,)), 3), 2, 6), 1, 0)
    folded = u.reduce("mulacc", x, x, pop=1, order="lanes:128")
    looped = u.reduce("max", u.load(u.index(room, r)), r, order="fold:256")
    stored = u.end(u.store(u.index(u.after(room, s), s), u.where(s < 3, sin(u.cast(s, DType.F32)), -math.inf)), s)
    bits = u.bitcast(u.f32(math.nan), DType.U32) ^ u.shl(u.u32(7), 3)
    call = UOp(Op.CALL, (x * x, local))
    table = u.load(u.index(UOp(Op.STACK, (u.i32(5), u.i32(-6))), 1))
    flag = u.logical_not(u.cast(u.load(u.index(tokens, 0)), DType.BOOL))
    others = (u.trunc(u.reciprocal(looped)), u.mulacc(u.f32(-0.0), u.f32(2.0**-149), u.f32(1.5)), n // 3 % 2)
    _round_trip(local, shaped, folded, stored, bits, call, table, flag, *others, u.barrier(u.group(stored, stored)))


def test_text_of_a_constant_keeps_its_bits() -> None:
    assert uir_text(u.f32(0.1)) == "%0 = const 0x1.99999ap-4 dtype=f32\n"
    assert uir_text(u.f32(-0.0)) == "%0 = const -0x0p+0 dtype=f32\n"
    assert uir_text(u.f32(-math.inf)) == "%0 = const -inf dtype=f32\n"
    assert uir_text(u.i32(-5)) == "%0 = const -5 dtype=i32\n"
    assert uir_text(UOp(Op.CAST, (u.i32(1),), DType.BOOL)) == "%0 = const 1 dtype=i32\n%1 = cast %0 dtype=bool\n"


def test_several_roots_are_named() -> None:
    text = uir_text(u.i32(1), u.i32(2))
    assert text == "%0 = const 1 dtype=i32\n%1 = const 2 dtype=i32\nroots %0 %1\n"
    assert _parse(text) == (u.i32(1), u.i32(2))


def _line(op: str, rest: str) -> str:
    return f"%0 = const 0x1p+0 dtype=f32\n%1 = param [2 3] dtype=f32 slot=0\n%2 = {op} {rest}\n"


@pytest.mark.parametrize(
    ("text", "line", "message", "fix"),
    [
        ("", None, "the text has no node", "write one node a line: %N = op sources key=value"),
        ("add %0 %1", 1, "a line that is not `%N = op ...`", "begin it with `%0 = `"),
        ("\n%1 = const 1 dtype=i32", 2, "node %1 where %0 is next", "number the nodes from %0, one a line"),
        (_line("sum", "%0 %0"), 3, "unknown op `sum`", "use one of const, param"),
        (_line("add", "%0 %3"), 3, "%3 is not defined above", "define a node before its use"),
        (_line("add", "%0 %x"), 3, "`%x` where a node is expected", "write %N"),
        (_line("add", "%0"), 3, "add with 1 sources", "give it 2"),
        (_line("add", "%0 %0 pop=1"), 3, "add does not take `pop=`", "remove it"),
        (_line("add", "%0 %0 [1]"), 3, "add does not take [1]", "remove it"),
        (_line("add", "%0 %1"), 3, "add of unlike shapes [(), (2, 3)]", "correct the node or its sources"),
        (_line("const", "dtype=f32"), 3, "a value is missing", "write it after the sources"),
        (_line("const", "2.5 dtype=f32"), 3, "`2.5` is no value", "correct this word"),
        (_line("const", "2 dtype=f32"), 3, "`2` is no f32", "write floats in hex, as 0x1.8p+1"),
        (_line("const", "0x1p+0 dtype=i32"), 3, "`0x1p+0` is no i32", "write floats in hex"),
        (_line("const", "0x1.00000001p+0 dtype=f32"), 3, "`0x1.00000001p+0` is no float32", "write a value that"),
        (_line("const", "-1 dtype=u32"), 3, "-1 is no u32", "correct the node or its sources"),
        (_line("const", "2 dtype=bool"), 3, "`2` is no bool", "write 0 or 1"),
        (_line("const", "2 dtype=f64"), 3, "dtype=f64", "use one of bool, i32, u32, f32"),
        (_line("const", "2 dtype=i32 dtype=i32"), 3, "key `dtype` twice", "keep one"),
        (_line("const", "0x1p+0 dtype=f32"), 3, "%2 repeats %0", "use %0 instead"),
        (_line("cast", "%0"), 3, "missing key `dtype`", "add dtype=..."),
        (_line("reduce", "%1 op=sum pop=1"), 3, "op=sum", "use one of add, mul, max, mulacc"),
        (_line("reduce", "%1 op=add pop=x"), 3, "`x` is no value", "correct this word"),
        (_line("reduce", "%1 op=add pop=0x1p+0"), 3, "`0x1p+0` where a whole number is expected", "write a decimal"),
        (_line("reshape", "%1"), 3, "a list of sizes is missing", "write it as [2 3 4]"),
        (_line("permute", "%1 [0 0]"), 3, "permute of 2 axes by (0, 0)", "name every axis once"),
        (_line("add", "%0 %0") + "roots %2", 4, "`roots` names fewer than two nodes", "leave it out"),
        (_line("add", "%0 %0") + "roots %2 %1\n%3 = neg", 5, "a line after `roots`", "make `roots` the last line"),
        (_line("add", "%0 %0"), 3, "%1 is used by nothing", "remove it, or name it on a line `roots`"),
        (_line("param", '[2] dtype=f32 slot=0 name="a'), 3, "cannot be read", "correct this word"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(text: str, line: int | None, message: str, fix: str) -> None:
    with pytest.raises(LoadError) as caught:
        _parse(text)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("a.uir", line)
    assert message in problem.message
    assert problem.fix.startswith(fix)


def _program(name: str, slot: int) -> UOp:
    r = u.loop(name, 4)
    room = u.alloc(slot, 4, DType.F32, name)
    filled = u.end(u.store(u.index(room, r), u.cast(r, DType.F32)), r)
    s = u.loop(f"{name}'", 4)
    return u.reduce("add", u.load(u.index(u.after(room, filled), s)), s)


def test_programs_that_differ_in_names_alone_have_one_canonical_form_and_digest() -> None:
    a, b = _program("a", 3), _program("b", 7)
    assert a is not b
    assert canonical(a) is canonical(b)
    assert digest(a) == digest(b)
    assert digest(a) != digest(a * 1.0)
    assert 'name="r0"' in uir_text(canonical(a))
    assert evaluate(canonical(a)) == evaluate(a) == 6.0
