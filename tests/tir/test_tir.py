"""The typed circuit: places, shapes, its text, and what `verify` refuses."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from circuit.errors import LoadError, PlanError
from circuit.front.blocks import blocks
from circuit.front.text import bir_text, parse_bir
from circuit.load.circuits import load_circuit
from circuit.text import Source
from circuit.tir.instantiate import instantiate
from circuit.tir.ir import Concat, Key, Node, Recipe, Tir, Unpermute, param
from circuit.tir.text import parse_tir, tir_text
from circuit.tir.verify import verify
from tests.cases.texts import MODEL_TYPES, bir_of, case, facts, library, tir_of
from tests.work import calls


def node(tir: Tir, node_id: str) -> Node:
    return next(each for each in tir.nodes if each.id == node_id)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_the_text_reads_back(model_type: str) -> None:
    tir = tir_of(case(model_type))
    assert parse_tir(Source(path="x.tir", text=tir_text(tir))) == tir
    assert verify(tir) is tir


recipes: st.SearchStrategy[Recipe] = st.recursive(
    st.builds(Key, key=st.text(min_size=1)),
    lambda inner: st.one_of(
        st.builds(Unpermute, of=inner, heads=st.integers(1, 99)),
        st.builds(Concat, parts=st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(recipes, st.text(min_size=1), st.text(min_size=1))
def test_any_recipe_and_any_tensor_name_read_back(recipe: Recipe, a: str, b: str) -> None:
    tir = tir_of_llama()
    weights = (replace(tir.weights[0], recipe=recipe, axes=()), *tir.weights[1:])
    odd = replace(tir, weights=weights, shares=((a, b),))
    assert parse_tir(Source(path="x", text=tir_text(odd))) == odd


@cache
def tir_of_llama() -> Tir:
    return tir_of(case("llama"))


def test_params_are_what_the_ops_are_defined_over() -> None:
    tir = tir_of(case("qwen3"))
    attend = node(tir, "l1.attn.attend")
    assert dict(attend.params) | {"scale": 0} == {
        "causal": True,
        "head_dim": 24,
        "heads": 4,
        "kv_heads": 2,
        "scale": 0,
        "window": 48,
    }
    assert param(attend, "scale") == float.fromhex("0x1.a20bd8p-3")  # 24 ** -0.5 as a float32
    assert param(node(tir, "l0.attn.attend"), "window") == 0
    assert dict(node(tir, "l0.attn.q_norm").params)["heads"] == 4
    assert dict(node(tir, "l0.attn.k_norm").params)["heads"] == 2
    assert dict(node(tir, "l0.attn.norm").params)["heads"] == 1
    rope = dict(node(tir, "l0.attn.rope_k").params)
    assert (rope["heads"], rope["rotary_dim"], rope["style"], rope["scale"]) == (2, 24, "neox", 1.0)
    assert isinstance(rope["inv_freq"], tuple)
    assert len(rope["inv_freq"]) == 12
    for each in tir.nodes:
        assert [name for name, _ in each.params] == sorted(name for name, _ in each.params)


def test_edges_states_and_outputs_are_typed() -> None:
    tir = tir_of(case("qwen2"))
    assert [tir.edges[place].name for place in tir.inputs] == ["tokens"]
    outputs = ["head.logits", "head.token", "head.sampled", "head.log_sum", "head.hidden"]
    assert [tir.edges[place].name for place in tir.outputs] == outputs
    logits = tir.edges[tir.outputs[0]]
    assert (logits.rows, logits.dim, logits.format) == ("m", 290, "f32")
    assert [(state.name, state.heads, state.head_dim, state.format) for state in tir.states] == [
        (f"l{layer}.attn.kv", 2, 16, "f32") for layer in range(3)
    ]
    assert node(tir, "l1.attn.write").states == node(tir, "l1.attn.attend").states == (1,)
    assert (node(tir, "head.argmax").section, node(tir, "head.sample").section) == ("greedy", "sample")
    assert [tir.weights[place].name for place in node(tir, "l0.attn.q").weights] == [
        "l0.attn.q.weight",
        "l0.attn.q.bias",
    ]
    for before, after in pairwise(tir.nodes):
        assert (before.layer or 0) <= (after.layer if after.layer is not None else 99)


def test_a_line_of_a_node_looks_like_this() -> None:
    lines = tir_text(tir_of(case("llama"))).splitlines()
    assert lines[0] == "tir dense_gqa context 1024"
    assert "state s1 l1.attn.kv paged_kv 2 16 f32" in lines
    assert (
        "node l0.attn.q linear:q in l0.attn layer 0 reads %2 weights w2 writes %3 l0.attn.q f32 n 64 {bias=false}"
        in (lines)
    )
    assert (
        'weight w3 l0.attn.k.weight bf16 32 x 64 (kv_heads*head_dim x dim) <- "model.layers.0.self_attn.k_proj.weight"'
    ) in lines
    assert 'share "lm_head.weight" = "model.embed_tokens.weight"' in lines
    assert sum(line.startswith("list ") for line in lines) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("loop", "`loop` is none of: tir, dim, list, state, weight, share, input, node, output"),
        ("state s9 a paged_kv 1 1 f32", "`s9` is out of order, s2 is expected"),
        ("output 3", "`3` is no place `%N`"),
        ("input %0 again f32 n 1", "the edge %0 is written twice"),
        ("node x glu", "the line is not whole"),
        ('weight w20 a f32 3 () <- "a" "b"', "there are words after the recipe"),
        ("list @9 1", "a list is in brackets"),
        ('share "a" <- "b"', "`=` is expected between two tensors"),
    ],
)
def test_a_malformed_line_is_refused_with_file_and_line(line: str, reason: str) -> None:
    text = tir_text(tir_of_llama()) + line + "\n"
    with pytest.raises(LoadError) as caught:
        parse_tir(Source(path="x.tir", text=text))
    assert str(caught.value) == (
        f"error: malformed line: {reason}\n --> x.tir:{text.count(chr(10))}\n  | {line}\n"
        "  = fix: write it as `met circuit show --stage tir` does"
    )


def test_a_text_without_head_or_with_a_gap_in_its_edges_is_refused() -> None:
    for text, message, fix in (
        ("dim a 1\n", "the text has no `tir` line", "start with `tir ARCH context N`"),
        (
            "tir a context 1\ninput %1 a f32 n 1\n",
            "the edges are not numbered from 0 on",
            "number every edge once",
        ),
    ):
        with pytest.raises(LoadError) as caught:
            parse_tir(Source(path="x.tir", text=text))
        assert (caught.value.problems[0].message, caught.value.problems[0].fix) == (message, fix)


Change = Callable[[Tir], Tir]


def changed(node_id: str, **changes: object) -> Change:
    def change(tir: Tir) -> Tir:
        nodes = tuple(replace(n, **changes) if n.id == node_id else n for n in tir.nodes)
        return replace(tir, nodes=nodes)

    return change


def with_param(node_id: str, name: str, value: object) -> Change:
    def change(tir: Tir) -> Tir:
        params = tuple((key, value if key == name else old) for key, old in node(tir, node_id).params)
        return changed(node_id, params=params)(tir)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("l0.mlp.glu", op="swish"), "l0.mlp.glu: unknown op swish"),
        (changed("l0.mlp.up", role="upper"), "l0.mlp.up: linear has no role upper"),
        (changed("l0.mlp.up", section="later"), "l0.mlp.up: unknown section later"),
        (changed("l0.mlp.up", params=()), "l0.mlp.up: has the params none; linear has bias"),
        (with_param("l0.mlp.up", "bias", 1), "l0.mlp.up: param bias is 1, bool is expected"),
        (with_param("l0.mlp.up", "bias", True), "l0.mlp.up: weight is ((96, 64),), ((96, 64), (96,)) is expected"),
        (with_param("l0.attn.norm", "heads", 3), "l0.attn.norm: 64 values are not 3 heads"),
        (with_param("l0.attn.norm", "heads", 2), "l0.attn.norm: weight is ((64,),), ((32,),) is expected"),
        (with_param("l0.attn.rope_q", "heads", 2), "l0.attn.rope_q: input is 64, 32 is expected"),
        (with_param("l0.attn.rope_q", "rotary_dim", 6), "l0.attn.rope_q: inv_freq is 8, 3 is expected"),
        (with_param("l0.attn.rope_q", "rotary_dim", 17), "l0.attn.rope_q: rotary_dim is 17 of 16"),
        (with_param("l0.attn.attend", "kv_heads", 3), "l0.attn.attend: 4 heads do not share 3 heads of keys"),
        (with_param("l0.attn.write", "heads", 4), "l0.attn.write: input is (32, 32), (64, 64) is expected"),
        (changed("l0.attn.attend", states=()), "l0.attn.attend: attention takes 1 edges, gives 1 and has 1 states"),
        (changed("l0.attn.attend", states=(7,)), "l0.attn.attend: there is no state 7"),
        (changed("l0.attn.q", inputs=(40,)), "l0.attn.q: there is no edge 40"),
        (changed("l0.attn.q", inputs=(30,)), "l0.attn.q: reads l1.mlp.d before it is written"),
        (changed("l0.attn.k", outputs=(3,)), "l0.attn.k: writes l0.attn.q a second time"),
        (changed("head.select", outputs=(31,)), "head.select: rows is n, m is expected"),
        (lambda tir: replace(tir, outputs=tir.outputs[:1]), "edge head.token is neither read nor an output"),
        (lambda tir: replace(tir, outputs=(99,)), "there is no edge 99 to be given or left"),
        (
            lambda tir: replace(tir, weights=(*tir.weights, tir.weights[0])),
            "weight embed.tokens.weight is read by no node",
        ),
        (
            lambda tir: replace(tir, states=(replace(tir.states[0], kind="ring"), tir.states[1])),
            "state l0.attn.kv: ring in f32 is no state type",
        ),
        (
            lambda tir: replace(tir, edges=(replace(tir.edges[0], format="f8"), *tir.edges[1:])),
            "edge tokens: n x 1 in f8 is no edge type",
        ),
    ],
)
def test_verify_refuses_what_does_not_fit(change: Change, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        verify(change(tir_of_llama()))
    assert message in [problem.message for problem in caught.value.problems]
    assert caught.value.problems[0].fix == "correct the typed circuit"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "reads l0.attn.h writes l0.attn.q ",
            "reads l0.attn.z writes l0.attn.q ",
            "`l0.attn.q` reads the unknown edge",
        ),
        ("weights l0.attn.q.weight", "weights l0.attn.z", "`l0.attn.q` reads the unknown weight `l0.attn.z`"),
        (
            "writes l0.attn.a f32 n 64 state l0.attn.kv",
            "writes l0.attn.a f32 n 64 state kw",
            "`l0.attn.attend` uses the unknown state `kw`",
        ),
        ("outputs head.logits", "outputs head.logit", "`head` leaves the unknown edge `head.logit`"),
        ("= embed.tokens.weight", "= embed.weight", "`lm_head.weight` shares the unknown weight `embed.weight`"),
        ("step l0.attn.k ", "step l0.attn.q ", "the step `l0.attn.q` is there twice"),
        ("writes l0.attn.k ", "writes l0.attn.q ", "the edge `l0.attn.q` is there twice"),
        ("bind l0.attn.k.weight", "bind l0.attn.q.weight", "the weight `l0.attn.q.weight` is there twice"),
    ],
)
def test_names_of_a_block_circuit_must_be_known_and_unique(old: str, new: str, message: str) -> None:
    text = bir_text(bir_of(case("llama")))
    assert old in text
    with pytest.raises(PlanError) as caught:
        instantiate(parse_bir(Source(path="x", text=text.replace(old, new, 1))))
    assert any(problem.message.startswith(message) for problem in caught.value.problems)
    assert {problem.fix for problem in caught.value.problems} == {"correct the block circuit"}


def test_work_grows_with_the_layers_and_no_faster() -> None:
    circuit = load_circuit(library(), "dense_gqa")

    def work(layers: int) -> int:
        found = facts(case("llama", num_hidden_layers=layers))
        return calls(lambda: instantiate(blocks(circuit, found)))

    one, two, more = (work(layers) for layers in (32, 64, 128))
    assert len(instantiate(blocks(circuit, facts(case("llama", num_hidden_layers=128)))).nodes) == 1 + 128 * 16 + 8
    assert more - two < 2.1 * (two - one)
    assert two - one < 32 * 16 * 100, "calls for each node"
