"""Contradictions between quantization configs and tensors that were reported of published checkpoints, in our words.

Each is either read as the tensors say, because config and tensors agree in our reading, or refused by name.
"""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError
from circuit.load.inputs import TensorInfo
from circuit.load.source import Plain
from circuit.tir.bind import bind
from circuit.tir.ir import Bound, Quantized
from tests.cases.texts import Config, case, mapped, tensors_of, tir_of

HEAD = "lm_head"
EIGHT: dict[str, Plain] = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor"}


def config_of(quantization: Plain) -> Config:
    return case("llama", quantization_config=quantization, tie_word_embeddings=False)


def compressed(ignore: list[Plain], **more: Plain) -> Config:
    groups: Plain = {"group_0": {"targets": ["Linear"], "weights": EIGHT}}
    method: dict[str, Plain] = {"quant_method": "compressed-tensors", "format": "float-quantized"}
    return config_of(method | {"config_groups": groups, "ignore": ignore} | more)


def tensors(config: Config, scale: str, block: int | None, floats: tuple[str, ...]) -> list[TensorInfo]:
    """Every projection but those in `floats` as codes of 8 bits, with a scale for each block or for the tensor."""
    found: list[TensorInfo] = []
    for tensor in tensors_of(tir_of(config)):
        module = tensor.name.removesuffix(".weight")
        if len(tensor.shape) == 2 and "embed" not in tensor.name and module not in floats:
            shape = () if block is None else tuple(-(-side // block) for side in tensor.shape)
            found += [
                replace(tensor, format="F8_E4M3"),
                TensorInfo(name=f"{module}.{scale}", format="f32", shape=shape),
            ]
        else:
            found.append(tensor)
    return found


def bound(config: Config, given: list[TensorInfo]) -> Bound:
    facts, ledger = mapped(config)
    return bind(tir_of(config), tuple(given), ledger, facts.quantization)


def refusal(config: Config, given: list[TensorInfo]) -> str:
    with pytest.raises(LoadError) as caught:
        bound(config, given)
    return str(caught.value)


def recipe(found: Bound, name: str) -> Quantized:
    (weight,) = [weight for weight in found.tir.weights if weight.name == name]
    assert isinstance(weight.recipe, Quantized)
    return weight.recipe


def test_a_whole_column_for_a_group_with_inputs_in_another_order_is_refused() -> None:
    """`group_size` -1 with `desc_act`."""
    gptq: Plain = {"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": True, "sym": True}
    with pytest.raises(LoadError) as caught:
        mapped(config_of(gptq))
    assert "`quantization_config.desc_act` is true; only false is supported" in str(caught.value)


def test_names_of_fused_modules_in_an_ignore_list_leave_nothing_out() -> None:
    """An engine that fuses q, k and v reads the list by the parts; here each tensor goes by its own name."""
    config = compressed(["model.layers.0.self_attn.qkv_proj", HEAD])
    parts = tuple(f"model.layers.0.self_attn.{name}_proj" for name in "qkv")
    assert bound(config, tensors(config, "weight_scale", None, (HEAD,))).tir
    error = refusal(config, tensors(config, "weight_scale", None, (*parts, HEAD)))
    for part in parts:
        said = f"error: `quantization_config` says that {part} is quantized, but tensor `{part}.weight` is bf16\n"
        assert said in error


def test_an_ignore_list_that_misses_a_module_by_a_suffix_of_its_name_is_refused() -> None:
    """Names that end in `.linear` in the list alone."""
    up = "model.layers.0.mlp.up_proj"
    config = compressed([f"{up}.linear", HEAD])
    error = refusal(config, tensors(config, "weight_scale", None, (up, HEAD)))
    assert f"error: `quantization_config` says that {up} is quantized, but tensor `{up}.weight` is bf16\n" in error
    assert "= fix: name it in `quantization_config.ignore`, or use the checkpoint that belongs to the config" in error


def test_a_head_that_the_list_leaves_out_and_the_file_has_quantized_is_refused() -> None:
    for entry in (HEAD, "re:lm_head.*"):
        config = compressed([entry])
        error = refusal(config, tensors(config, "weight_scale", None, ()))
        shown = entry.removeprefix("re:")
        why = f"`quantization_config.ignore` leaves lm_head out (`{shown}`)"
        assert f"error: {why}, but tensor `lm_head.weight` holds codes\n" in error
    config = config_of({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head*"]})
    assert "leaves lm_head out (`lm_head*`), but" in refusal(config, tensors(config, "weight_scale", None, ()))


def test_a_head_in_blocks_of_codes_is_read_where_the_config_says_so() -> None:
    config = config_of({"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": []})
    found = bound(config, tensors(config, "weight_scale_inv", 128, ()))
    assert recipe(found, "head.logits.weight").columns == 128


def test_scales_of_a_cache_that_the_config_declares_are_named_and_the_cache_stays_as_the_policy_says() -> None:
    """`k_scale` and `v_scale` under a static `kv_cache_scheme`: no cache at a scale of 1 in their place."""
    scheme: Plain = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
    config = compressed([HEAD], kv_cache_scheme=scheme)
    given = tensors(config, "weight_scale", None, (HEAD,))
    given += [TensorInfo(name=f"model.layers.0.self_attn.{n}_scale", format="f32", shape=()) for n in "kv"]
    found = bound(config, given)
    why = "a scale of a quantized cache; the cache's format is a policy of the run"
    assert found.ignored == tuple((f"model.layers.0.self_attn.{n}_scale", why) for n in "kv")
    assert {state.format for state in found.tir.states} == {"f32"}
    (entry,) = [e for e in mapped(config)[1].entries if e.key == "quantization_config.kv_cache_scheme"]
    assert (entry.kind, entry.why) == (
        "ignore",
        "the cache's format is a policy of the run; scales in the file are not read",
    )


def test_one_scale_a_tensor_is_no_block_of_128_where_the_config_has_no_block_size() -> None:
    config = config_of({"quant_method": "fp8", "activation_scheme": "static"})
    found = bound(config, tensors(config, "weight_scale", None, (HEAD,)))
    up = recipe(found, "l0.mlp.up.weight")
    assert (up.rows, up.columns) == next(w.shape for w in found.tir.weights if w.name == "l0.mlp.up.weight")
    error = refusal(config, tensors(config, "weight_scale", 32, (HEAD,)))
    assert "`quantization_config` asks for one number" in error


def test_codes_whose_scale_is_missing_are_refused() -> None:
    config = compressed([HEAD])
    given = [
        t
        for t in tensors(config, "weight_scale", None, (HEAD,))
        if t.name != "model.layers.1.mlp.down_proj.weight_scale"
    ]
    error = refusal(config, given)
    assert "error: tensor `model.layers.1.mlp.down_proj.weight_scale` is missing; l1.mlp.down reads it\n" in error


def test_a_tensor_that_belongs_to_no_projection_is_refused() -> None:
    """What a converter left behind, such as zeros of a scheme without zeros."""
    config = compressed([HEAD])
    extra = TensorInfo(name="model.layers.0.mlp.up_proj.weight_zero_point", format="I32", shape=(1, 1))
    error = refusal(config, [*tensors(config, "weight_scale", None, (HEAD,)), extra])
    assert "`model.layers.0.mlp.up_proj.weight_zero_point`" in error
