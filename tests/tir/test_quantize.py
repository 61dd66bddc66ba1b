"""Declared precision against tensors: both must say the same of every projection, or the load is refused."""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError
from circuit.load.inputs import TensorInfo
from circuit.load.source import Plain
from circuit.tir.bind import bind
from circuit.tir.ir import Bound, Quantized
from circuit.tir.quantize import as_declared
from tests.cases.texts import Config, case, mapped, tensors_of, tir_of

FP8: Plain = {"quant_method": "fp8", "weight_block_size": [128, 128]}
GPTQ: Plain = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
UP = "model.layers.0.mlp.up_proj"


def config_of(quantization: Plain) -> Config:
    return case("llama", quantization_config=quantization, tie_word_embeddings=False)


def bound(config: Config, tensors: tuple[TensorInfo, ...]) -> Bound:
    facts, ledger = mapped(config)
    return bind(tir_of(config), tensors, ledger, facts.quantization)


def refusal(config: Config, tensors: tuple[TensorInfo, ...]) -> str:
    with pytest.raises(LoadError) as caught:
        bound(config, tensors)
    return str(caught.value)


def fp8_tensors(config: Config) -> tuple[TensorInfo, ...]:
    """Every projection but the head in codes of 8 bits."""
    found: list[TensorInfo] = []
    for tensor in tensors_of(tir_of(config)):
        if len(tensor.shape) == 2 and ".layers." in tensor.name:
            scale = f"{tensor.name}_scale_inv"
            shape = tuple(-(-side // 128) for side in tensor.shape)
            found += [replace(tensor, format="F8_E4M3"), TensorInfo(name=scale, format="f32", shape=shape)]
        else:
            found.append(tensor)
    return tuple(found)


def gptq_tensors(config: Config) -> tuple[TensorInfo, ...]:
    found: list[TensorInfo] = []
    for tensor in tensors_of(tir_of(config)):
        module = tensor.name.removesuffix(".weight")
        if len(tensor.shape) == 2 and ".layers." in tensor.name:
            n, k = tensor.shape
            shapes = {"qweight": (k // 8, n), "qzeros": (k // 32, n // 8), "g_idx": (k,)}
            found += [TensorInfo(name=f"{module}.{part}", format="I32", shape=shape) for part, shape in shapes.items()]
            found.append(TensorInfo(name=f"{module}.scales", format="f16", shape=(k // 32, n)))
        else:
            found.append(tensor)
    return tuple(found)


def changed(tensors: tuple[TensorInfo, ...], name: str, **changes: object) -> tuple[TensorInfo, ...]:
    assert any(tensor.name == name for tensor in tensors)
    return tuple(replace(t, **changes) if t.name == name else t for t in tensors)


def test_quantized_weights_read_all_their_tensors() -> None:
    config = config_of(FP8)
    found = bound(config, fp8_tensors(config))
    formats = {weight.format for weight in found.tir.weights if isinstance(weight.recipe, Quantized)}
    assert formats == {"f8_e4m3"}
    assert sum(isinstance(weight.recipe, Quantized) for weight in found.tir.weights) == 14
    config = config_of(GPTQ)
    found = bound(config, gptq_tensors(config))
    assert {w.format for w in found.tir.weights if isinstance(w.recipe, Quantized)} == {"i4_f16_32"}
    recipe = next(weight.recipe for weight in found.tir.weights if weight.name == "l0.mlp.up.weight")
    assert recipe == Quantized(
        scheme="gptq",
        codes=f"{UP}.qweight",
        scales=f"{UP}.scales",
        zeros=f"{UP}.qzeros",
        order=f"{UP}.g_idx",
        rows=1,
        columns=32,
        zero=8,
    )


def test_scales_of_activations_are_left_with_a_reason() -> None:
    config = config_of(FP8)
    scale = TensorInfo(name=f"{UP}.input_scale", format="f32", shape=())
    cache = TensorInfo(name="model.layers.0.self_attn.k_scale", format="f32", shape=())
    assert bound(config, (*fp8_tensors(config), scale, cache)).ignored == (
        (f"{UP}.input_scale", "a scale of activations, which are not quantized"),
        ("model.layers.0.self_attn.k_scale", "a scale of a quantized cache; the cache's format is a policy of the run"),
    )


def test_a_config_alone_is_planned_as_it_declares() -> None:
    config = config_of(FP8)
    tir = as_declared(tir_of(config), mapped(config)[0].quantization)
    assert {weight.format for weight in tir.weights if ".layers." in str(weight.recipe)} == {"bf16", "f8_e4m3"}
    assert as_declared(tir_of(config), None) == tir_of(config)


def test_a_float_tensor_where_codes_are_declared_is_refused() -> None:
    config = config_of(FP8)
    tensors = changed(fp8_tensors(config), f"{UP}.weight", format="bf16")
    error = refusal(config, tensors)
    assert f"error: `quantization_config` says that {UP} is quantized, but tensor `{UP}.weight` is bf16\n" in error
    assert " --> config.json:" in error
    assert "= fix: name it in `quantization_config.modules_to_not_convert`, or use the checkpoint that belongs" in error


def test_codes_where_the_config_leaves_the_module_out_are_refused() -> None:
    config = config_of({"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["up_proj"]})
    head = changed(fp8_tensors(config), "lm_head.weight", format="F8_E4M3")
    scale = TensorInfo(name="lm_head.weight_scale_inv", format="f32", shape=(3, 1))
    error = refusal(config, (*head, scale))
    assert (
        f"error: `quantization_config.modules_to_not_convert` leaves {UP} out (`up_proj`), but tensor `{UP}.weight` "
        "holds codes\n"
    ) in error
    assert "  = fix: correct the config, or use the checkpoint that belongs to it" in error
    config = config_of(FP8)
    error = refusal(config, changed(fp8_tensors(config), "lm_head.weight", format="F8_E4M3"))
    assert "error: `quantization_config` does not cover the head, but tensor `lm_head.weight` holds codes\n" in error


def test_codes_that_no_target_names_are_refused() -> None:
    weights: Plain = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
    group: Plain = {"targets": ["re:.*self_attn.*"], "weights": weights}
    config = config_of(
        {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": group}}
    )
    error = refusal(config, fp8_tensors(config))
    assert f"error: no target of `quantization_config` names {UP}, but tensor `{UP}.weight` holds codes\n" in error


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("qzeros", {"shape": (1, 12)}, "is 1 x 12; `quantization_config` asks for 2 x 12"),
        ("scales", {"format": "f32"}, "is f32; `quantization_config` asks for f16 or bf16"),
        ("g_idx", {"shape": (32,)}, "is 32; `quantization_config` asks for 64"),
        ("qweight", {"shape": (16, 96)}, "is 16 x 96; `quantization_config` asks for 8 x 96"),
    ],
)
def test_tensors_of_another_type_or_shape_are_refused(part: str, changes: dict[str, object], message: str) -> None:
    config = config_of(GPTQ)
    error = refusal(config, changed(gptq_tensors(config), f"{UP}.{part}", **changes))
    assert f"error: tensor `{UP}.{part}` {message}\n --> config.json:" in error
    assert error.count("error:") == 1


def test_rows_that_are_not_whole_groups_are_refused() -> None:
    config = config_of({"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": False, "sym": True})
    error = refusal(config, gptq_tensors(config))
    down = "model.layers.0.mlp.down_proj"
    assert f"error: {down} has rows of 96 inputs, which are not whole groups of 64\n --> config.json:" in error


def test_outputs_that_are_not_whole_words_are_refused() -> None:
    config = config_of(GPTQ) | {"intermediate_size": 100}
    up = "model.layers.0.mlp.up_proj"
    error = refusal(config, gptq_tensors(config))
    assert f"error: {up} has 100 outputs, which are not whole words of eight\n --> config.json:" in error
    assert "  = fix: correct the config, or use the checkpoint that belongs to it" in error


def test_a_missing_part_is_refused_by_its_name() -> None:
    config = config_of(GPTQ)
    tensors = tuple(tensor for tensor in gptq_tensors(config) if tensor.name != f"{UP}.qzeros")
    assert f"error: tensor `{UP}.qzeros` is missing; l0.mlp.up reads it\n" in refusal(config, tensors)


def test_codes_without_a_quantization_config_are_refused() -> None:
    config = case("llama", tie_word_embeddings=False)
    error = refusal(config, changed(tensors_of(tir_of(config)), f"{UP}.weight", format="F8_E4M3"))
    assert f"error: tensor `{UP}.weight` is stored as F8_E4M3, but the config declares no quantization\n" in error
