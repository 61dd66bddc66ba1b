"""Relations as scalar DAGs: those of the project hold, and a wrong one of each kind is caught where it differs."""

from collections.abc import Callable
from functools import cache

import pytest
from msgspec.structs import replace

from circuit.errors import PlanError
from circuit.load.rules import Rule
from circuit.lower.cases import Case, Sizes, cases_of
from circuit.lower.proofs import Differs, Equal, compared, holds
from circuit.lower.proven import relations
from circuit.lower.sides import Side, chain, fused
from circuit.sigma import OPS
from circuit.sigma.op import OpKind, Use, Values
from circuit.tir.ir import Concat
from circuit.uop.build import bitcast, broadcast_last, f32, mulacc, permute, reduce, reshape, shl
from circuit.uop.evaluate import storage_of
from circuit.uop.math import rsqrt
from circuit.uop.node import DType, Op, UOp
from circuit.uop.schedule import rebuild
from tests.lower.library import class_rules, own_library, with_files

LIBRARY = own_library()
RELATIONS = relations(class_rules(LIBRARY))
SMALL = Sizes(reduced=(544, 288, 32), rows=(2, 1), free=((3, 2, 2, 2), (2, 1, 1, 1)))
"""As the proofs' own sizes, with fewer rows and outputs."""
LEAST = Sizes(reduced=(288,), rows=(1,), free=((1, 1, 1, 1),))
"""A chunk and a tail, one row, one output: where a fault shows in the first element already."""

ROPE_ATTENTION = """schema = 1

[[rule]]
id = "rope+attention"
why = "a test: queries turned where they are read"
modes = ["decode"]
rows = [1, 8]
family = "attention"
numerics = "bit_identical"
proof = "rope+attention"
priority = 400
example = \"\"\"
t = rope(q) head_dim=4 heads=2 inv_freq=[1.0,0.5] rotary_dim=4 scale=1.0 style="neox"
a = attention(t) state=f32 causal=true head_dim=4 heads=2 kv_heads=1 scale=0.5 window=3
\"\"\"

[[rule.pattern]]
op = "rope"
reads = ["f32"]
writes = ["f32"]
params = { head_dim = [4], heads = [2], inv_freq = "any", rotary_dim = [4], scale = [1.0], style = ["neox"] }

[[rule.pattern]]
op = "attention"
reads = ["f32"]
writes = ["f32"]
state = ["f32"]
params = { causal = [true], head_dim = [4], heads = [2], kv_heads = [1], scale = [0.5], window = [3] }
"""
ATTENTION = """schema = 1
[[family]]
id = "attention"
why = "a test"
made = "generated"
ops = ["attention", "rope"]
point = [{ id = "p", modes = ["decode", "prefill"], rows = [1, 65536], values = { lanes = 8, positions = 64 }, claim = "keeps" }]
"""  # noqa: E501


def rule(id: str) -> Rule:
    return next(rule for rule in RELATIONS if rule.id == id)


def attention_rule() -> Rule:
    files = {"kernels__avx2__common__FUSIONS": ROPE_ATTENTION, "kernels__avx2__common__KERNEL_FAMILIES": ATTENTION}
    return next(r for r in class_rules(with_files(LIBRARY, **files), "avx2") if r.id == "rope+attention")


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.id)
def test_the_relation_holds_at_two_chunks_and_a_tail_and_in_every_case(relation: Rule) -> None:
    for case in cases_of(relation, SMALL):
        found = compared(case)
        assert isinstance(found, Equal), f"{case.shape}: {found}"
        assert found.elements > 0


def test_the_cases_of_a_rule_have_every_format_a_bias_and_none_and_each_pairing() -> None:
    shapes = " ".join(case.shape for case in cases_of(rule("linear_qkv")))
    for words in ("weight=f32", "weight=bf16", "weight=f16", "weight=q8_0", "weight=q4_0", "weight=q4_1"):
        assert f"linear.{words}" in shapes
    assert "bias=true" in shapes
    assert "bias=false" in shapes
    split = [case.shape.split() for case in cases_of(rule("rope+kv_write"))]
    turned = {tuple(w for w in case if w.startswith(("rope.rotary_dim", "rope.style"))) for case in split}
    assert len(turned) == 4


def test_holds_gives_a_verdict_for_each_case() -> None:
    found = list(holds(rule("rope+kv_write")))
    assert [type(verdict) for _, verdict in found] == [Equal] * 4


def with_op(monkeypatch: pytest.MonkeyPatch, name: str, define: Callable[[Use], Values]) -> Callable[[Case], Side]:
    """The fused side made with another definition of one op."""

    def wrong(case: Case) -> Side:
        changed: OpKind = replace(OPS[name], define=define)
        with monkeypatch.context() as patch:
            patch.setitem(OPS, name, changed)
            return fused(case)

    return wrong


def caught(case: Case, wrong: Callable[[Case], Side], where: str) -> Differs:
    """The wrong side is not equal, its right one is; `where` is the first element that differs."""
    assert isinstance(_right(case), Equal)
    found = compared(case, one=wrong)
    assert isinstance(found, Differs)
    assert found.where == where
    return found


@cache
def _right(case: Case) -> Equal | Differs:
    """The case as it is, which several faults are held against."""
    return compared(case)


@pytest.mark.parametrize("order", ["fold", "lanes:128"])
@pytest.mark.parametrize("id", ["linear_qkv", "rms_norm+linear_qkv", "glu+linear_down", "linear+residual_add"])
def test_a_reassociated_sum_is_caught(id: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def linear(use: Use) -> Values:
        w = use.weights[0]
        rows = permute(broadcast_last(use.inputs[0], w.shape[0]), 0, 1)
        return (reduce("mulacc", permute(w, 1, 0), rows, pop=1, order=order),)

    case = cases_of(rule(id), LEAST)[0]
    firsts = {"linear_qkv": "q", "rms_norm+linear_qkv": "q", "glu+linear_down": "d", "linear+residual_add": "y"}
    caught(case, with_op(monkeypatch, "linear", linear), f"{firsts[id]}[0, 0]")


def _norm(use: Use, scale_of: Callable[[UOp, UOp, UOp], UOp]) -> Values:
    heads = use.count("heads")
    n = use.inputs[0].shape[0] // heads
    x = reshape(use.inputs[0], heads, n)
    squares = reduce("mulacc", permute(x, 1, 0), permute(x, 1, 0), pop=1, order="lanes:128")
    scale = scale_of(squares, f32(1.0 / n), f32(use.number("eps")))
    return (x * broadcast_last(scale, n) * use.weights[0],)


NORMS: dict[str, Callable[[UOp, UOp, UOp], UOp]] = {
    "contracted": lambda s, by, eps: rsqrt(mulacc(s, _expanded(by, s), _expanded(eps, s))),
    "outside the root": lambda s, by, eps: rsqrt(s * by) + eps,
    "before the mean": lambda s, by, eps: rsqrt((s + eps) * by),
    "left out": lambda s, by, eps: rsqrt(s * by),
}


def _expanded(value: UOp, like: UOp) -> UOp:
    """A scalar in the shape of another value."""
    return UOp(Op.EXPAND, (value,), like.shape)


NORMED = {
    "residual_add+rms_norm": "h",
    "rms_norm+rope": "t",
    "rms_norm+linear_qkv": "q",
    "rms_norm+linear_gate_up": "g",
    "index_select+rms_norm+linear": "y",
}
"""Relations with a norm, and the first edge that each writes after it."""


@pytest.mark.parametrize("wrong", NORMS)
@pytest.mark.parametrize("id", NORMED)
def test_a_contracted_multiply_and_an_epsilon_in_the_wrong_place_are_caught(
    id: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases_of(rule(id), LEAST)[0]
    found = caught(
        case,
        with_op(monkeypatch, "rms_norm", lambda use: _norm(use, NORMS[wrong])),
        f"{NORMED[id]}[0, 0]",
    )
    assert found.fused != found.chain


def test_the_weight_multiplied_into_the_scale_first_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """x * (scale * w) in place of (x * scale) * w: a product that is rounded elsewhere."""

    def norm(use: Use) -> Values:
        x, w = use.inputs[0], use.weights[0]
        n = x.shape[0]
        squares = reduce("mulacc", x, x, pop=1, order="lanes:128")
        scale = rsqrt(squares * f32(1.0 / n) + f32(use.number("eps")))
        return (x * (_expanded(scale, x) * w),)

    caught(cases_of(rule("residual_add+rms_norm"), LEAST)[0], with_op(monkeypatch, "rms_norm", norm), "h[0, 0]")


def _to_bf16(value: UOp) -> UOp:
    """Rounded to bf16, ties to even, and back."""
    bits = bitcast(value, DType.U32)
    up = bits + 0x7FFF + bits // 65536 % 2
    return bitcast(shl(up // 65536, 16), DType.F32)


def test_a_lost_rounding_is_caught() -> None:
    """A chain whose inner edge is rounded to bf16, against a fused side that keeps it in f32."""

    def rounded(case: Case) -> Side:
        first, *rest = chain(case).parts
        group, definition = first

        def visit(node: UOp) -> UOp:
            return UOp(Op.STORE, (node.src[0], _to_bf16(node.src[1]))) if node.op is Op.STORE else node

        effects = tuple(rebuild(effect, visit) for effect in definition.effects)
        return Side(parts=((group, replace(definition, effects=effects)), *rest))

    case = cases_of(rule("glu+linear_down"), LEAST)[0]
    assert isinstance(compared(case, one=rounded, other=rounded), Equal)
    found = compared(case, other=rounded)
    assert isinstance(found, Differs)
    assert found.where == "d[0, 0]"


def test_a_window_that_is_off_by_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    define = OPS["attention"].define
    assert define is not None

    def wider(by: int) -> Callable[[Use], Values]:
        return lambda use: define(replace(use, params={**use.params, "window": use.count("window") + by}))

    case = cases_of(attention_rule())[0]
    for by in (1, -1):
        caught(case, with_op(monkeypatch, "attention", wider(by)), "a[0, 0]")


@pytest.mark.parametrize("id", ["linear_qkv", "rms_norm+linear_qkv"])
def test_parts_of_a_horizontal_fusion_in_another_order_are_caught(id: str) -> None:
    """The derived weight with its parts swapped: the rows of q and v change places."""

    def swapped(case: Case) -> Side:
        (weight,) = case.group.derived
        assert isinstance(weight.recipe, Concat)
        other = replace(weight, recipe=Concat(parts=tuple(reversed(weight.recipe.parts))))
        group = replace(case.group, derived=(other,))
        return fused(replace(case, group=group))

    found = compared(cases_of(rule(id), SMALL)[0], one=swapped)
    assert isinstance(found, Differs)
    assert found.where == "q[0, 0]"


def test_the_row_itself_in_place_of_the_one_that_gets_logits_is_caught() -> None:
    def own_row(case: Case) -> Side:
        def visit(node: UOp) -> UOp:
            base = node.src[0].src[0] if node.op is Op.LOAD else None
            return node.src[0].src[1] if base is not None and "logit_rows" in str(base.arg) else node

        parts = fused(case).parts
        return Side(parts=tuple((g, replace(d, effects=tuple(rebuild(e, visit) for e in d.effects))) for g, d in parts))

    caught(cases_of(rule("index_select+rms_norm+linear"), SMALL)[0], own_row, "y[0, 0]")


def test_a_norm_of_one_row_for_all_is_caught() -> None:
    """What each thread makes for itself is of every row: the first row's in place of each differs from row 1 on."""

    def first(case: Case) -> Side:
        def visit(node: UOp) -> UOp:
            if node.op is Op.LOAD and "own" in str(storage_of(node.src[0]).arg):
                place = node.src[0]
                return UOp(Op.LOAD, (UOp(Op.INDEX, (place.src[0], place.src[1] % case.tir.edges[0].dim)),))
            return node

        parts = fused(case).parts
        return Side(parts=tuple((g, replace(d, effects=tuple(rebuild(e, visit) for e in d.effects))) for g, d in parts))

    caught(cases_of(rule("rms_norm+linear"), SMALL)[0], first, "y[1, 0]")


def test_a_side_that_writes_nothing_is_no_proof() -> None:
    def nothing(case: Case) -> Side:
        return Side(parts=())

    found = compared(cases_of(rule("linear+residual_add"), SMALL)[0], one=nothing, other=nothing)
    assert found == Differs(where="y[0, 0]", fused="not written", chain="not written")
    found = compared(cases_of(rule("rope+kv_write"), SMALL)[0], one=nothing, other=nothing)
    assert found == Differs(where="1.kv", fused="not written", chain="not written")


def refused(of: Rule, message: str, fix: str) -> None:
    with pytest.raises(PlanError) as error:
        cases_of(of)
    expected = f"error: rule `glu+linear_down`: {message}\n --> {of.file}:{of.line}\n  = fix: {fix}"
    assert str(error.value) == expected


def test_a_rule_whose_example_does_not_fire_has_no_cases() -> None:
    of = replace(rule("glu+linear_down"), example='p = glu(g, u) kind="silu"')
    refused(of, "its example does not fire", "write an example that has each element of the pattern once")


def test_a_parameter_without_samples_has_no_cases() -> None:
    of = rule("glu+linear_down")
    glu = replace(of.pattern[0], accepts=(*of.pattern[0].accepts, ("param.limit", "any")))
    message = "no sample values are known for parameter `limit`, which its pattern leaves open"
    fix = "list the values it takes, or add samples to `circuit/lower/cases.py`"
    refused(replace(of, pattern=(glu, of.pattern[1])), message, fix)


def test_a_value_at_which_a_rule_does_not_fire_is_named_by_its_case() -> None:
    """It takes a projection with a bias, but no format of one."""
    of = rule("glu+linear_down")
    accepts = tuple((name, () if name == "bias" else values) for name, values in of.pattern[1].accepts)
    linear = replace(of.pattern[1], accepts=accepts)
    message = "it does not fire at case 1"
    refused(
        replace(of, pattern=(of.pattern[0], linear)), message, "write an example that fires at every value it takes"
    )
