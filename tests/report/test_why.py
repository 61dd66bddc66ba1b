"""Why a node is computed as it is: every way in which a rule can be refused is told, in words."""

import json

import pytest
from msgspec.structs import replace

from circuit.errors import PlanError
from circuit.load.policy import with_choices
from circuit.load.rules import Accepted, Element, Rule
from circuit.report.why import Asked, Why, why
from circuit.report.why_text import why_json, why_text
from circuit.tir.activations import with_activations
from circuit.tir.ir import Edge, Node, Tir
from tests.lower.dense import Sizes, dense
from tests.plan.plans import FAMILIES, POLICY, RULES

ASKED = Asked(rules=RULES, families=FAMILIES, policy=POLICY, mode="decode", rows=(3, 8), which="all")


def reasons(answer: Why, rule: str) -> tuple[str, ...]:
    """What is told of a refused rule."""
    (found,) = (verdict for verdict in answer.verdicts if verdict.rule == rule)
    assert found.outcome == "refused", found
    return found.reasons


def element(op: str, keep: bool = False, sibling: bool = False) -> Element:
    return Element(op=op, accepts=(("reads", "any"), ("writes", "any")), keep=keep, sibling=sibling)


def rule(id: str, priority: int, *pattern: Element) -> Rule:
    base = next(rule for rule in RULES if rule.id == "linear_qkv")
    return replace(base, id=id, priority=priority, pattern=pattern, same=(), derive=None)


def node(place: int, op: str, ins: tuple[int, ...], outs: tuple[int, ...], section: str = "main") -> Node:
    return Node(id=f"n{place}", op=op, inputs=ins, outputs=outs, block="b", section=section)


def tir(n_edges: int, outputs: tuple[int, ...], *nodes: Node) -> Tir:
    edges = tuple(Edge(name=f"e{i}", rows="n", dim=1, format="f32") for i in range(n_edges))
    return Tir(
        arch="t", context=1, dims=(), edges=edges, weights=(), states=(), nodes=nodes, inputs=(0,), outputs=outputs
    )


def asked(*chains: Rule, ops: str = "abx") -> Asked:
    """The rules, and one of priority 1 for each op."""
    return replace(ASKED, rules=(*chains, *(rule(op, 1, element(op)) for op in ops)))


def test_a_projection_under_integer_activations_says_what_it_reads_and_why() -> None:
    policy = with_choices(POLICY, ["activations=int8/g32"])
    asked_of = replace(ASKED, policy=policy)
    served = with_activations(dense(Sizes(layers=1, weight_format="q4_1")), policy)
    said = "policy activations = int8/g32: it reads"
    answer = why(served, "l0.attn.k", asked_of)
    assert answer.notes == (f"{said} int8_g32 rows",)
    assert f"  {said} int8_g32 rows" in why_text((answer,))
    answer = why(with_activations(dense(Sizes(layers=1)), policy), "l0.attn.k", asked_of)
    assert answer.notes == (
        f"{said} f32 rows: a weight stored as bf16 is not codes under one scale for each 32 inputs, "
        "as q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k are",
    )
    assert why(served, "l0.attn.norm", asked_of).notes == why(served, "l0.mlp.glu", ASKED).notes == ()


def test_the_rule_that_took_a_node_is_named_with_its_members() -> None:
    answer = why(dense(Sizes(layers=1)), "l0.attn.k", ASKED)
    (taking,) = (verdict for verdict in answer.verdicts if verdict.outcome == "took it")
    assert taking.rule == "linear_qkv"
    assert taking.members == ("l0.attn.q", "l0.attn.k", "l0.attn.v")
    assert reasons(answer, "linear") == (
        f"it was taken before, by linear_qkv (priority {taking.priority}) [l0.attn.q l0.attn.k l0.attn.v]",
    )
    assert reasons(answer, "linear_bias")[0] == "it does not take bias = false"
    assert "embed" in answer.others
    assert "role = k" in answer.facts


def test_the_answer_is_what_was_decided() -> None:
    """Every node of a model is said to be taken by the rule of its group."""
    instance = dense(Sizes(layers=2, qk_norm=True))
    for each in instance.nodes:
        taking = [v for v in why(instance, each.id, ASKED).verdicts if v.outcome == "took it"]
        assert [each.id in verdict.members for verdict in taking] == [True]


def test_mode_rows_setting_and_single_ops_are_told_before_anything_else() -> None:
    wide = replace(
        rule("ab", 9, element("a"), element("b")), modes=("prefill",), rows=(16, 32), when=(("kv", ("bf16", "int8")),)
    )
    instance = tir(3, (2,), node(0, "a", (0,), (1,)), node(1, "b", (1,), (2,)))
    answer = why(instance, "n1", replace(asked(wide), which="reference"))
    assert reasons(answer, "ab") == (
        "it is no single-op rule",
        "it is not for mode decode",
        "it is for rows 16-32",
        "it is for policy kv = bf16 or int8",
    )


def test_a_parameter_and_a_format_that_a_rule_does_not_take_are_told() -> None:
    instance = dense(Sizes(layers=1))
    nodes = tuple(replace(n, params=(("kind", "relu"),)) if n.op == "glu" else n for n in instance.nodes)
    edges = tuple(replace(e, format="bf16") if e.name == "l0.mlp.g" else e for e in instance.edges)
    glu = next(r for r in RULES if r.id == "glu")
    accepts: tuple[tuple[str, Accepted], ...] = (("param.kind", "any"), ("reads", "any"), ("writes", "any"))
    lenient = replace(
        glu, id="any", priority=1, pattern=(Element(op="glu", accepts=accepts, keep=False, sibling=False),)
    )
    gate = next(n for n in instance.nodes if n.id == "l0.mlp.glu")
    strange = replace(instance, nodes=nodes, edges=edges)
    only = replace(
        strange, nodes=(replace(gate, params=(("kind", "relu"),)),), inputs=gate.inputs, outputs=gate.outputs
    )
    answer = why(only, "l0.mlp.glu", replace(ASKED, rules=(*RULES, lenient)))
    assert reasons(answer, "glu") == ("it does not take kind = relu, it does not take reads = bf16",)
    assert reasons(answer, "glu+linear_down") == (
        "as its element 1 of 2: it does not take kind = relu, it does not take reads = bf16",
    )


def test_an_edge_that_somebody_else_reads_is_told_with_its_reader() -> None:
    ab = rule("ab", 9, element("a"), element("b"))
    instance = tir(4, (2, 3), node(0, "a", (0,), (1,)), node(1, "b", (1,), (2,)), node(2, "x", (1,), (3,)))
    assert reasons(why(instance, "n0", asked(ab)), "ab") == ("n2 reads e1 too, and the rule does not keep it",)
    assert reasons(why(instance, "n1", asked(ab)), "ab") == (
        "in a chain from n0: n2 reads e1 too, and the rule does not keep it",
    )


def test_an_edge_that_the_step_leaves_behind_is_told() -> None:
    ab = rule("ab", 9, element("a"), element("b"))
    instance = tir(3, (1, 2), node(0, "a", (0,), (1,)), node(1, "b", (1,), (2,)))
    text = "e1 is an output of the step, and the rule does not keep it"
    assert reasons(why(instance, "n0", asked(ab)), "ab") == (text,)


def test_a_cycle_is_told_with_the_node_that_it_comes_back_through() -> None:
    ab = rule("ab", 9, element("a", keep=True), element("b"))
    instance = tir(4, (3,), node(0, "a", (0,), (1,)), node(1, "x", (1,), (2,)), node(2, "b", (1, 2), (3,)))
    text = "a path leaves the chain and comes back through n1"
    assert reasons(why(instance, "n0", asked(ab)), "ab") == (text,)


def test_a_member_that_another_rule_took_is_told_with_the_priorities() -> None:
    ab, bx = rule("ab", 8, element("a"), element("b")), rule("bx", 9, element("b"), element("x"))
    instance = tir(4, (3,), node(0, "a", (0,), (1,)), node(1, "b", (1,), (2,)), node(2, "x", (2,), (3,)))
    answer = why(instance, "n0", asked(ab, bx))
    assert reasons(answer, "ab") == ("no b can be the next member: n1 was taken before, by bx (priority 9) [n1 n2]",)
    taken = why(instance, "n1", asked(ab, bx))
    assert reasons(taken, "ab") == ("in a chain from n0: it was taken before, by bx (priority 9) [n1 n2]",)


def test_a_chain_without_a_next_member_tells_what_is_there() -> None:
    ab = rule("ab", 9, element("a"), element("b"))
    side = rule("aa", 8, element("a"), element("b", sibling=True))
    instance = tir(4, (2, 3), node(0, "a", (0,), (1,)), node(1, "x", (1,), (2,)), node(2, "b", (2,), (3,)))
    answer = why(instance, "n0", asked(ab, side))
    assert reasons(answer, "ab") == ("no b can be the next member: after the chain there is n1",)
    assert reasons(answer, "aa") == ("no b can be the next member: beside the first there is n0",)
    assert reasons(why(instance, "n2", asked(ab, side)), "ab") == (
        "as its element 2 of 2: no chain from an earlier element leads to it",
    )


def test_another_section_and_an_unlike_fact_are_told() -> None:
    ab = rule("ab", 9, element("a"), element("b"))
    instance = tir(3, (2,), node(0, "a", (0,), (1,)), node(1, "b", (1,), (2,), "greedy"))
    assert reasons(why(instance, "n1", asked(ab)), "ab") == (
        "in a chain from n0: it cannot join: it runs in section greedy, n0 in main",
    )
    instance = dense(Sizes(layers=1))
    place = next(n.weights[0] for n in instance.nodes if n.id == "l0.attn.v")
    weights = tuple(replace(w, format="q4_1") if i == place else w for i, w in enumerate(instance.weights))
    told = reasons(why(replace(instance, weights=weights), "l0.attn.v", ASKED), "linear_qkv")
    assert told == ("in a chain from l0.attn.q: it cannot join: its weight is unlike that of l0.attn.q",)


def test_the_chosen_point_and_what_others_lack_are_told() -> None:
    family = next(f for f in FAMILIES if f.id == "panel_linear")
    first = family.points[0]
    points = (
        replace(first, id="small", modes=("decode",), rows=(1, 4)),
        replace(first, id="whole", modes=("decode",), rows=(1, 64)),
        replace(first, id="later", modes=("decode",), rows=(1, 64)),
        replace(first, id="long", modes=("prefill",), rows=(1, 64)),
    )
    families = tuple(replace(f, points=points) if f == family else f for f in FAMILIES)
    answer = why(dense(Sizes(layers=1)), "l0.attn.o", replace(ASKED, families=families))
    assert answer.family == "panel_linear"
    assert [(point.point, point.reasons) for point in answer.points] == [
        ("small", ("it is for rows 1-4",)),
        ("whole", ()),
        ("later", ("whole stands before it and covers the plan",)),
        ("long", ("it is not for mode decode",)),
    ]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("l0.attn.qq", "l0.attn.q"),
        ("l0.mlp", "l0.mlp.norm, l0.mlp.gate, l0.mlp.up, l0.mlp.glu, l0.mlp.down, l0.mlp.add"),
    ],
)
def test_an_unknown_node_is_answered_with_those_that_begin_like_it(name: str, near: str) -> None:
    with pytest.raises(PlanError) as caught:
        why(dense(Sizes(layers=1)), name, ASKED)
    (problem,) = caught.value.problems
    assert problem.message == f"there is no node `{name}`; the nearest are {near}"
    assert problem.fix == "give one of them; `met circuit show MODEL --stage tir` lists all nodes"


def test_a_long_list_of_near_names_is_cut() -> None:
    with pytest.raises(PlanError, match=r"the nearest are l0.attn.norm, .* and \d+ more"):
        why(dense(Sizes(layers=2)), "l", ASKED)


def test_plans_with_the_same_answer_are_one_block() -> None:
    instance = dense(Sizes(layers=1))
    both = tuple(why(instance, "l0.attn.rope_q", replace(ASKED, mode=mode)) for mode in ("decode", "prefill"))
    text = why_text(both)
    assert text.splitlines()[0] == "l0.attn.rope_q (rope) in decode, rows 3-8; prefill, rows 3-8"
    assert text.count("the rule that took it:") == 1
    assert [plan["mode"] for plan in json.loads(why_json(both))["plans"]] == ["decode", "prefill"]
