"""The block circuit: what it says, and that its text reads back."""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError, PlanError
from circuit.front.bir import Bir
from circuit.front.blocks import blocks
from circuit.front.text import bir_text, parse_bir
from circuit.load.circuits import load_circuit
from circuit.load.facts import Naming
from circuit.text import Source
from tests.cases.texts import MODEL_TYPES, bir_of, case, facts, library

KINDS = ("dim", "const", "block", "share", "bind", "step")


def steps(bir: Bir, block: str) -> list[str]:
    return [step.id.removeprefix(block + ".") for step in bir.steps if step.block == block]


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_the_text_reads_back_and_has_six_kinds_of_line(model_type: str) -> None:
    bir = bir_of(case(model_type))
    text = bir_text(bir)
    assert parse_bir(Source(path="x.bir", text=text)) == bir
    assert {line.split(" ")[0] for line in text.splitlines()} <= set(KINDS)


def test_layers_are_written_out_in_execution_order() -> None:
    bir = bir_of(case("llama"))
    assert [block.name for block in bir.blocks] == ["embed", "l0.attn", "l0.mlp", "l1.attn", "l1.mlp", "head"]
    attention = ["norm", "q", "k", "v", "rope_q", "rope_k", "write", "attend", "o", "add"]
    assert steps(bir, "l1.attn") == attention
    assert steps(bir, "l1.mlp") == ["norm", "gate", "up", "glu", "down", "add"]
    assert steps(bir, "head") == [
        "select",
        "norm",
        "logits",
        "argmax",
        "sample",
        "score",
        "select_hidden",
        "norm_hidden",
    ]
    with_norms = steps(bir_of(case("qwen3")), "l0.attn")
    assert with_norms == [*attention[:4], "q_norm", "k_norm", *attention[4:]]


def test_a_layer_reads_the_edge_that_the_layer_before_it_left() -> None:
    by_id = {step.id: step for step in bir_of(case("llama")).steps}
    assert by_id["l0.attn.norm"].inputs == ("embed.x",)
    assert by_id["l0.mlp.norm"].inputs == ("l0.attn.y",)
    assert by_id["l1.attn.norm"].inputs == ("l0.mlp.y",)
    assert by_id["l1.attn.add"].inputs == ("l0.mlp.y", "l1.attn.d")
    assert by_id["head.select"].inputs == ("l1.mlp.y",)
    assert by_id["l0.attn.rope_q"].inputs == ("l0.attn.q",)


def test_windows_are_on_the_layers_that_slide() -> None:
    by_id = {step.id: dict(step.params) for step in bir_of(case("qwen2")).steps}
    assert [by_id[f"l{layer}.attn.attend"]["window"] for layer in range(3)] == [0, 48, 48]


def test_a_tied_head_shares_the_embedding_and_an_untied_one_has_its_own() -> None:
    tied, untied = bir_of(case("llama")), bir_of(case("llama", tie_word_embeddings=False))
    assert 'share "lm_head.weight" = embed.tokens.weight\n' in bir_text(tied)
    assert next(step for step in tied.steps if step.role == "head").weights == ("embed.tokens.weight",)
    assert untied.shares == ()
    assert next(step for step in untied.steps if step.role == "head").weights == ("head.logits.weight",)


def test_biases_are_bound_where_the_config_has_them() -> None:
    def biases(model_type: str, **changes: bool) -> list[str]:
        binds = bir_of(case(model_type, **changes)).binds
        return [bind.name for bind in binds if bind.name.startswith("l0") and bind.name.endswith("bias")]

    assert biases("llama") == []
    assert biases("qwen2") == ["l0.attn.q.bias", "l0.attn.k.bias", "l0.attn.v.bias"]
    assert biases("llama", mlp_bias=True) == ["l0.mlp.gate.bias", "l0.mlp.up.bias", "l0.mlp.down.bias"]
    assert biases("llama", attention_bias=True)[-1] == "l0.attn.o.bias"


def test_lines_of_a_step_and_a_bind_look_like_this() -> None:
    lines = bir_text(bir_of(case("qwen2"))).splitlines()
    assert (
        'bind l1.attn.k.weight bf16 32 x 64 (kv_heads*head_dim x dim) <- "model.layers.1.self_attn.k_proj.weight"'
        in lines
    )
    assert (
        "step l1.attn.k linear:k reads l1.attn.h writes l1.attn.k f32 n 32 weights l1.attn.k.weight l1.attn.k.bias "
        "{bias=true}" in lines
    )
    assert (
        "step l2.attn.attend attention reads l2.attn.q_turned writes l2.attn.a f32 n 64 state l2.attn.kv "
        "{causal=true, head_dim=16, heads=4, kv_heads=2, scale=0x1p-2, window=48}" in lines
    )
    assert "block l2.attn layer 2 state l2.attn.kv paged_kv 2 16 f32" in lines
    assert "block inputs writes tokens i32 n 1" in lines
    assert "block head outputs head.logits head.token head.sampled head.log_sum head.hidden" in lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("loop 3", "`loop` is none of: dim, const, block, share, bind, step"),
        ("dim heads", "the line is not whole"),
        ("dim heads four", "`four` is no integer"),
        ("const eps 1.5", "`1.5` is no value"),
        ("const eps 1 2", "a const has one value or a list in brackets"),
        ("block l0 stat", "`stat` is no part of a block line"),
        ('share "a" <- b', "`=` is expected after the tensor"),
        ("step a glu writes b f32 n 1", "the line is not whole"),
        ("step a glu reads b {kind 1 2}", "a param is `name=value`"),
        ('dim "x', '`"x` cannot be read'),
        ("share a = b", "a is not a quoted string"),
        ('share "a\\x" = b', '"a\\x" is not a quoted string'),
        ('bind a f32 3 ( dim ) <- "a" "b"', "a recipe is a tensor name or `unpermute(HEADS, NAME)`"),
        ("step a rope reads b {inv_freq=@nothing}", "the line is not whole"),
    ],
)
def test_a_malformed_line_is_refused_with_file_and_line(line: str, reason: str) -> None:
    text = bir_text(bir_of(case("llama"))) + line + "\n"
    count = text.count("\n")
    with pytest.raises(LoadError) as caught:
        parse_bir(Source(path="x.bir", text=text))
    assert str(caught.value) == (
        f"error: malformed line: {reason}\n --> x.bir:{count}\n  | {line}\n"
        "  = fix: write it as `met circuit show --stage bir` does"
    )


def test_a_text_without_its_first_lines_is_refused() -> None:
    with pytest.raises(LoadError) as caught:
        parse_bir(Source(path="x.bir", text="dim heads 4\n"))
    assert [problem.message for problem in caught.value.problems] == [
        "the text has no `arch`",
        "the text has no `context`",
    ]
    assert {problem.fix for problem in caught.value.problems} == {"start with `const arch` and `dim context`"}


def test_comments_and_empty_lines_are_nothing() -> None:
    text = bir_text(bir_of(case("llama")))
    assert parse_bir(Source(path="x", text=f"# a comment\n\n{text}")) == bir_of(case("llama"))


def test_facts_that_do_not_fit_the_circuit_are_refused() -> None:
    circuit, found = load_circuit(library(), "dense_gqa"), facts(case("mistral"))
    with pytest.raises(PlanError) as caught:
        blocks(circuit, replace(found, dims=tuple(dim for dim in found.dims if dim[0] not in ("window", "ff"))))
    assert str(caught.value) == (
        "error: the circuit dense_gqa needs ff, window, which the config map does not give\n"
        " --> kernels/circuits/dense_gqa.toml\n  = fix: add them to the config map"
    )
    with pytest.raises(PlanError) as caught:
        blocks(circuit, replace(found, layers=("full", "recurrent")))
    assert "error: the circuit dense_gqa has no layer kind `recurrent`\n" in str(caught.value)
    assert "  = fix: it has: full, sliding" in str(caught.value)
    with pytest.raises(PlanError) as caught:
        blocks(circuit, replace(found, naming=replace(found.naming, names=(("lm_head", "output"),))))
    assert "error: the config map names no tensor for `model.embed_tokens`\n" in str(caught.value)


def test_a_module_that_the_config_map_does_not_name_is_refused() -> None:
    circuit = load_circuit(library(), "dense_gqa")
    naming = Naming(names=(("model.embed_tokens", "token_embd"),))
    with pytest.raises(PlanError) as caught:
        blocks(circuit, replace(facts(case("mistral")), naming=naming))
    assert str(caught.value) == (
        "error: the config map names no tensor for `{L}.input_layernorm`\n --> kernels/circuits/dense_gqa.toml\n"
        "  = fix: add it to `names` in the map"
    )
