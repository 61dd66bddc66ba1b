"""The matcher: what fires, what it refuses, and that every node ends in exactly one group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from circuit.errors import PlanError
from circuit.load.policy import load_policy
from circuit.load.rules import Element, Rule
from circuit.lower.example import example_of
from circuit.lower.fuse import fuse
from circuit.lower.ir import Group, Which
from circuit.lower.text import groups_text
from circuit.lower.weights import weights_of
from circuit.tir.ir import Edge, Node, Tir
from tests.lower.dense import LLAMA_405B, Sizes, dense
from tests.lower.library import class_rules, own_library
from tests.work import calls

LIBRARY = own_library()
RULES = class_rules(LIBRARY)
POLICY = load_policy(LIBRARY)


def check(tir: Tir, expected: list[tuple[str, ...]], which: Which = "all", rules: tuple[Rule, ...] = RULES) -> None:
    """The groups, each as its rule and members, are these, in this order."""
    groups = fuse(tir, rules, POLICY, "decode", (1, 64), which)
    assert [(group.rule, *(tir.nodes[n].id for n in group.nodes)) for group in groups] == expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_example_of_a_rule_makes_it_fire_on_all_its_elements(rule: Rule) -> None:
    rows = (rule.rows[0], min(rule.rows[1], 64))
    rules = tuple(replace(each, used=True) if each is rule else each for each in RULES)
    groups = fuse(example_of(rule), rules, POLICY, "decode", rows, "all")
    fired = [group for group in groups if group.rule == rule.id]
    assert [len(group.nodes) for group in fired] == [len(rule.pattern)]


def test_a_layer_fuses_across_its_blocks_and_into_the_next_layer() -> None:
    tir = dense(Sizes(layers=2, qk_norm=True))
    groups = fuse(tir, RULES, POLICY, "prefill", (1, 512), "all")
    lines = groups_text(tir, groups).splitlines()
    assert lines[0] == "24 groups of 42 nodes"
    assert lines[3] == (
        "g2 linear_qkv panel_linear bit_identical [l0.attn.q l0.attn.k l0.attn.v] derived=l0.attn.q+k+v.weight"
    )
    assert lines[10] == "g9 glu+linear_down panel_linear bit_identical [l0.mlp.glu l0.mlp.down] inner=l0.mlp.p"
    assert lines[11] == "g10 residual_add+rms_norm row_norm bit_identical [l0.mlp.add l1.attn.norm]"


def test_in_a_step_of_one_or_two_rows_each_norm_is_part_of_the_projections_that_read_it() -> None:
    tir = dense(Sizes(layers=2))
    groups = fuse(tir, RULES, POLICY, "decode", (1, 2), "all")
    assert [group.rule for group in groups] == [
        "embed",
        *[
            "rms_norm+linear_qkv",
            "rope",
            "rope+kv_write",
            "attention",
            "linear+residual_add",
            "rms_norm+linear_gate_up",
            "glu+linear_down+residual_add",
        ]
        * 2,
        "index_select+rms_norm+linear",
        "argmax",
        "sample",
    ]
    first = groups[1]
    assert [weight.name for weight in weights_of(tir, first)] == ["l0.attn.norm.weight", "l0.attn.q+k+v.weight"]


def test_reference_rules_give_one_group_for_each_node_in_execution_order() -> None:
    tir = dense(Sizes(qkv_bias=True))
    groups = fuse(tir, RULES, POLICY, "prefill", (1, 512), "reference")
    assert [group.nodes for group in groups] == [(place,) for place in range(len(tir.nodes))]
    assert {group.numerics for group in groups} == {"reference"}


def test_the_last_sum_joins_its_projection_because_the_selection_of_rows_is_before_the_norm() -> None:
    tir = dense(Sizes(layers=1))
    groups = fuse(tir, RULES, POLICY, "prefill", (1, 512), "all")
    assert [g.rule for g in groups][-6:] == [
        "glu+linear_down+residual_add",
        "index_select",
        "rms_norm",
        "linear",
        "argmax",
        "sample",
    ]


def test_projections_of_unlike_formats_stay_apart() -> None:
    tir = dense(Sizes(layers=1))
    place = next(n.weights[0] for n in tir.nodes if n.id == "l0.attn.v")
    weights = tuple(replace(w, format="q4_1") if i == place else w for i, w in enumerate(tir.weights))
    groups = fuse(replace(tir, weights=weights), RULES, POLICY, "decode", (1, 64), "all")
    assert not [group.rule for group in groups if "linear_qkv" in group.rule]


def test_the_derived_weights_have_the_rows_of_all_parts_and_their_recipes() -> None:
    tir = dense(Sizes(layers=1, qkv_bias=True))
    group = next(g for g in fuse(tir, RULES, POLICY, "decode", (1, 64), "all") if g.derived)
    assert [(w.name, w.shape, w.format) for w in group.derived] == [
        ("l0.attn.q+k+v.weight", (128, 64), "bf16"),
        ("l0.attn.q+k+v.bias", (128,), "f32"),
    ]


def test_a_product_that_somebody_else_reads_is_not_fused_away() -> None:
    tir = dense(Sizes(layers=1))
    glu = next(n for n in tir.nodes if n.op == "glu")
    groups = fuse(replace(tir, outputs=(*tir.outputs, *glu.outputs)), RULES, POLICY, "decode", (1, 64), "all")
    assert "glu+linear_down" not in [group.rule for group in groups]


def test_a_parameter_that_no_rule_takes_is_refused_with_what_each_rule_has_against_it() -> None:
    tir = dense(Sizes(layers=3))
    params = (("kind", "gelu"),)
    nodes = tuple(replace(n, params=params) if n.op == "glu" else n for n in tir.nodes)
    lines = {rule.id: rule.line for rule in RULES}
    with pytest.raises(PlanError) as error:
        fuse(replace(tir, nodes=nodes), RULES, POLICY, "decode", (1, 64), "reference")
    file = "kernels/cpu/common/FUSIONS.toml"
    assert str(error.value) == (
        "error: l0.mlp.glu and 2 more like it: no rule computes this glu; "
        f"glu+act_quant ({file}:{lines['glu+act_quant']}): it is no single-op rule, it does not take kind = gelu; "
        f"glu+linear_down+residual_add ({file}:{lines['glu+linear_down+residual_add']}): "
        "it is no single-op rule, it does not take kind = gelu; "
        f"glu+linear_down ({file}:{lines['glu+linear_down']}): it is no single-op rule, it does not take kind = gelu; "
        f"glu ({file}:{lines['glu']}): it does not take kind = gelu\n"
        "  = fix: add a rule that takes it, or change what the circuit asks for"
    )


def test_an_op_that_no_rule_has_is_refused() -> None:
    rules = tuple(rule for rule in RULES if all(element.op != "glu" for element in rule.pattern))
    with pytest.raises(PlanError) as error:
        fuse(dense(Sizes(layers=1)), rules, POLICY, "decode", (1, 64), "all")
    assert error.value.problems[0].message == "l0.mlp.glu: no rule computes this glu; no rule has this op"


def test_a_parameter_that_a_rule_does_not_know_keeps_it_from_matching() -> None:
    tir = dense(Sizes(layers=1))
    nodes = tuple(replace(n, params=(*n.params, ("softcap", 30.0))) if n.op == "attention" else n for n in tir.nodes)
    with pytest.raises(PlanError, match=r"l0.attn.attend: no rule computes this attention; .* softcap = 30.0"):
        fuse(replace(tir, nodes=nodes), RULES, POLICY, "decode", (1, 64), "all")


def test_rows_and_modes_outside_a_rule_are_named() -> None:
    tir = dense(Sizes(layers=1))
    with pytest.raises(PlanError, match=r"it is not for mode verify, it is for rows 1-65536"):
        fuse(tir, RULES, POLICY, "verify", (1, 70000), "all")


def _element(op: str, keep: bool = False, sibling: bool = False) -> Element:
    return Element(op=op, accepts=(("reads", "any"), ("writes", "any")), keep=keep, sibling=sibling)


def _rule(id: str, priority: int, *pattern: Element) -> Rule:
    base = next(rule for rule in RULES if rule.id == "linear_qkv")
    return replace(base, id=id, priority=priority, pattern=pattern, same=(), derive=None)


def _node(place: int, op: str, ins: tuple[int, ...], outs: tuple[int, ...]) -> Node:
    return Node(id=f"n{place}", op=op, inputs=ins, outputs=outs, block="b")


def _tir(n_edges: int, outputs: tuple[int, ...], *nodes: Node) -> Tir:
    edges = tuple(Edge(name=f"e{i}", rows="n", dim=1, format="f32") for i in range(n_edges))
    return Tir(
        arch="t", context=1, dims=(), edges=edges, weights=(), states=(), nodes=nodes, inputs=(0,), outputs=outputs
    )


def test_a_chain_around_a_node_outside_is_refused() -> None:
    """a feeds b directly and through x: a and b together would need x both after and before them."""
    tir = _tir(4, (3,), _node(0, "a", (0,), (1,)), _node(1, "x", (1,), (2,)), _node(2, "b", (1, 2), (3,)))
    rules = (_rule("ab", 9, _element("a", keep=True), _element("b")), *(_rule(op, 1, _element(op)) for op in "abx"))
    check(tir, [("a", "n0"), ("x", "n1"), ("b", "n2")], rules=rules)


def test_a_chain_that_would_wait_for_another_group_and_that_for_it_is_refused() -> None:
    """{a, d} and {b, c} have no node between them, but a feeds b and c feeds d."""
    tir = _tir(
        6,
        (5,),
        _node(0, "a", (0,), (1, 2)),
        _node(1, "c", (0,), (3,)),
        _node(2, "b", (1, 3), (4,)),
        _node(3, "d", (2, 3, 4), (5,)),
    )
    rules = (
        _rule("cb", 9, _element("c", keep=True), _element("b")),
        _rule("ad", 8, _element("a", keep=True), _element("d")),
        *(_rule(op, 1, _element(op)) for op in "abcd"),
    )
    check(tir, [("a", "n0"), ("cb", "n1", "n2"), ("d", "n3")], rules=rules)


@given(st.data())
def test_groups_cover_every_node_once_in_an_order_that_runs(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 14))
    nodes = []
    for place in range(n):
        ins = data.draw(st.lists(st.integers(0, place), min_size=1, max_size=3, unique=True))
        nodes.append(_node(place, data.draw(st.sampled_from("abc")), tuple(ins), (place + 1,)))
    tir = _tir(n + 1, (n,), *nodes)
    flags = st.booleans()
    chains = [
        _rule(
            f"r{i}",
            10 + i,
            *(_element(op, data.draw(flags), place > 0 and data.draw(flags)) for place, op in enumerate(ops)),
        )
        for i, ops in enumerate(
            data.draw(st.lists(st.lists(st.sampled_from("abc"), min_size=2, max_size=4), max_size=3))
        )
    ]
    groups = fuse(tir, (*chains, *(_rule(op, 1, _element(op)) for op in "abc")), POLICY, "decode", (1, 1), "all")
    assert sorted(node for group in groups for node in group.nodes) == list(range(n))
    _runs(tir, groups)


def _runs(tir: Tir, groups: tuple[Group, ...]) -> None:
    known = set(tir.inputs)
    for group in groups:
        for node in group.nodes:
            assert known.issuperset(tir.nodes[node].inputs), f"{group} reads what is not there yet"
            known.update(tir.nodes[node].outputs)


def test_work_grows_with_the_layers_and_no_faster() -> None:
    def work(layers: int) -> int:
        tir = dense(replace(LLAMA_405B, layers=layers))
        return calls(lambda: fuse(tir, RULES, POLICY, "decode", (1, 64), "all"))

    one, two, more = (work(layers) for layers in (32, 64, 128))
    assert len(fuse(dense(LLAMA_405B), RULES, POLICY, "decode", (1, 64), "all")) == 1140
    assert more - two < 2.1 * (two - one)
    assert two - one < 32 * 16 * 100, "calls for each node"
