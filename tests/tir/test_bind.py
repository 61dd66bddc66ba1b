"""Tensors against the circuit: read once, ignored with a reason, or refused by name with the key that disagrees."""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError
from circuit.load.inputs import TensorInfo
from circuit.tir.bind import bind
from circuit.tir.ir import Concat, Key, Recipe, Tir
from tests.cases.texts import MODEL_TYPES, Config, case, mapped, tensors_of, tir_of


def refusal(config: Config, tensors: tuple[TensorInfo, ...]) -> str:
    with pytest.raises(LoadError) as caught:
        bind(tir_of(config), tensors, mapped(config)[1])
    return str(caught.value)


def tensor(name: str, *shape: int, stored: str = "bf16") -> TensorInfo:
    return TensorInfo(name=name, format=stored, shape=shape)


def edited(tensors: tuple[TensorInfo, ...], name: str, **changes: object) -> tuple[TensorInfo, ...]:
    return tuple(replace(each, **changes) if each.name == name else each for each in tensors)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_every_weight_takes_the_format_of_its_own_tensor(model_type: str) -> None:
    config = case(model_type)
    tir = tir_of(config)
    stored = tuple(replace(each, format="f32" if len(each.shape) == 1 else "f16") for each in tensors_of(tir))
    bound = bind(tir, stored, mapped(config)[1])
    assert {weight.format for weight in bound.tir.weights if len(weight.shape) == 1} == {"f32"}
    assert {weight.format for weight in bound.tir.weights if len(weight.shape) == 2} == {"f16"}
    assert bound.equal == bound.ignored == ()
    assert replace(bound.tir, weights=()) == replace(tir, weights=())


def test_a_head_beside_a_tied_embedding_must_be_compared() -> None:
    config = case("llama")
    tir = tir_of(config)
    with_head = (*tensors_of(tir), tensor("lm_head.weight", 290, 64))
    assert bind(tir, with_head, mapped(config)[1]).equal == (("lm_head.weight", "model.embed_tokens.weight"),)
    assert bind(tir, tensors_of(tir), mapped(config)[1]).equal == ()


def test_a_missing_head_is_refused_with_the_key_that_asks_for_it() -> None:
    config = case("llama", tie_word_embeddings=False)
    tensors = tuple(each for each in tensors_of(tir_of(config)) if each.name != "lm_head.weight")
    assert refusal(config, tensors) == (
        "error: tensor `lm_head.weight` is missing; head.logits reads it because tie_word_embeddings = false\n"
        "  = fix: correct the config if the head is the embedding table, or add the tensor"
    )


def test_stored_frequencies_are_ignored_with_a_reason() -> None:
    config = case("llama")
    tir = tir_of(config)
    buffers = tensor("model.layers.0.self_attn.rotary_emb.inv_freq", 8, stored="f32")
    bound = bind(tir, (*tensors_of(tir), buffers), mapped(config)[1])
    assert bound.ignored == ((buffers.name, "the frequencies are computed from the config, exactly"),)


def test_missing_surplus_and_wrong_tensors_are_all_named() -> None:
    config = case("llama")
    tensors = tensors_of(tir_of(config))
    tensors = tuple(each for each in tensors if each.name != "model.norm.weight")
    tensors = edited(tensors, "model.layers.1.mlp.up_proj.weight", shape=(64, 96))
    tensors = (*tensors, tensor("model.layers.2.mlp.up_proj.weight", 96, 64))
    assert refusal(config, tensors) == (
        "error: tensor `model.layers.1.mlp.up_proj.weight` is 64 x 96; the config asks for 96 x 64 = ff x dim "
        "(intermediate_size = 96, hidden_size = 64)\n"
        "  = fix: correct the config, or use the checkpoint that belongs to it\n"
        "error: tensor `model.norm.weight` is missing; head.norm reads it\n  = fix: use a complete checkpoint\n"
        "error: tensor `model.layers.2.mlp.up_proj.weight` is read by no node\n"
        "  = fix: classify it in kernels/circuits/dense_gqa.config.toml, or remove it"
    )


def test_a_wrong_shape_names_the_keys_of_every_side() -> None:
    config = case("mistral")
    tensors = edited(tensors_of(tir_of(config)), "model.layers.0.self_attn.q_proj.weight", shape=(64, 64))
    assert (
        "tensor `model.layers.0.self_attn.q_proj.weight` is 64 x 64; the config asks for 96 x 64 = "
        "heads*head_dim x dim "
        "(num_attention_heads = 4, head_dim = 24, hidden_size = 64)\n"
    ) in refusal(config, tensors)


def test_a_bias_that_the_config_denies_names_the_key() -> None:
    config = case("llama")
    tensors = (*tensors_of(tir_of(config)), tensor("model.layers.1.self_attn.o_proj.bias", 64))
    assert refusal(config, tensors) == (
        "error: tensor `model.layers.1.self_attn.o_proj.bias` is there, but attention_bias = false says l1.attn.o has "
        "no bias\n  = fix: correct the config, or remove the tensor"
    )


def test_a_bias_that_the_config_asks_for_names_the_key() -> None:
    config = case("llama", mlp_bias=True)
    tensors = tuple(each for each in tensors_of(tir_of(config)) if each.name != "model.layers.0.mlp.gate_proj.bias")
    assert refusal(config, tensors) == (
        "error: tensor `model.layers.0.mlp.gate_proj.bias` is missing; l0.mlp.gate reads it because mlp_bias = true\n"
        "  = fix: correct the config, or add the tensor"
    )


def test_formats_must_be_known_and_rows_whole_blocks() -> None:
    config = case("llama")
    name = "model.layers.0.mlp.down_proj.weight"
    tensors = edited(tensors_of(tir_of(config)), name, format="f8_e4m3")
    error = refusal(config, tensors)
    assert f"tensor `{name}` is stored as f8_e4m3, which is not supported\n" in error
    assert "  = fix: use a checkpoint stored as one of: f32, i32, f16, bf16, q4_0, " in error
    odd = case("llama", intermediate_size=100)
    tensors = edited(tensors_of(tir_of(odd)), name, format="q4_0")
    error = refusal(odd, tensors)
    assert f"tensor `{name}` has rows of 100 values, which are not whole q4_0 blocks\n" in error
    assert "  = fix: use an undamaged checkpoint" in error


def test_a_tensor_that_is_there_twice_is_refused() -> None:
    config = case("llama")
    tensors = tensors_of(tir_of(config))
    error = refusal(config, (*tensors, tensors[-1]))
    assert "tensor `model.norm.weight` is there twice\n  = fix: use an undamaged checkpoint" in error


def bound_again(recipe: Recipe) -> Tir:
    """The circuit with another recipe for the last weight."""
    tir = tir_of(case("llama"))
    return replace(tir, weights=(*tir.weights[:-1], replace(tir.weights[-1], recipe=recipe)))


def test_a_tensor_that_two_weights_read_is_refused() -> None:
    config, name = case("llama"), "model.layers.0.input_layernorm.weight"
    ledger = mapped(config)[1]
    with pytest.raises(LoadError) as caught:
        bind(bound_again(Key(key=name)), tensors_of(tir_of(config)), ledger)
    problem = caught.value.problems[0]
    assert problem.message == f"tensor `{name}` is bound twice, by l0.attn.norm.weight and head.norm.weight"
    assert problem.fix == "bind it once in the circuit"


def test_parts_of_one_weight_must_be_stored_alike() -> None:
    parts = ("a", "b")
    tir = bound_again(Concat(parts=tuple(Key(key=name) for name in parts)))
    given = [
        TensorInfo(name=name, format=format, shape=(32,)) for name, format in zip(parts, ("f32", "bf16"), strict=True)
    ]
    with pytest.raises(LoadError) as caught:
        bind(tir, (*tensors_of(tir_of(case("llama"))), *given), mapped(case("llama"))[1])
    problem = caught.value.problems[0]
    assert problem.message == "tensors `a` (f32) and `b` (bf16) differ in format"
    assert problem.fix == "store them alike"


def test_dtype_is_not_read_where_the_tensors_say_it() -> None:
    config = case("llama")
    found, ledger = mapped(config, tensors_of(tir_of(config), "f32"))
    assert found.format == "file"
    (entry,) = [each for each in ledger.entries if each.key == "torch_dtype"]
    assert (entry.kind, entry.why) == ("ignore", "the tensors themselves say it")


def test_hundreds_of_problems_of_one_kind_are_counted() -> None:
    config = case("llama")
    renamed = tuple(replace(each, name=f"base.{each.name}") for each in tensors_of(tir_of(config)))
    error = refusal(config, renamed)
    assert error.count("error: ") == 21
    assert (
        "error: 20 more tensors are missing, surplus or wrong\n"
        "  = fix: correct the ones above first: a prefix in every name, or another model's config, does this" in error
    )
