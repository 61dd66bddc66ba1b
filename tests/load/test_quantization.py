"""Quantization configs as declared precisions: what they say, and what is refused by name."""

import json

import pytest

from circuit.errors import LoadError
from circuit.load.config import map_config
from circuit.load.inputs import HfTexts
from circuit.load.precision import Quantization, covers
from circuit.load.source import Plain
from circuit.text import Source
from tests.cases.texts import case, library, mapped, refusal, texts

Object = dict[str, Plain]
FP8: Object = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}
AWQ: Object = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "GEMM", "zero_point": True}
GPTQ: Object = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
OWN: Object = {
    "producer": {"name": "modelopt", "version": "0.27"},
    "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
}
MODELOPT: Object = {"quant_algo": "FP8", "producer": {"name": "modelopt"}, "ignore": []}
WEIGHTS: Object = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}


def compressed(format: str = "pack-quantized", ignore: tuple[str, ...] = (), **weights: Plain) -> Object:
    group: Plain = {"targets": ["Linear"], "weights": WEIGHTS | weights, "input_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": format,
        "config_groups": {"group_0": group},
        "ignore": list(ignore),
    }


def declared(config: Object) -> Quantization:
    found = mapped(case("llama", quantization_config=config))[0].quantization
    assert found is not None
    return found


def refused(config: Object, message: str, fix: str = "use the checkpoint with float weights, or a GGUF file") -> None:
    error = refusal(case("llama", quantization_config=config))
    assert f"error: {message}\n --> config.json:" in error
    assert f"  = fix: {fix}" in error
    assert error.count("error:") == 1


def test_each_method_declares_a_scheme_and_what_shares_a_scale() -> None:
    found = [
        declared(config).precision
        for config in (
            FP8,
            FP8 | {"weight_block_size": None},
            AWQ,
            GPTQ,
            GPTQ | {"checkpoint_format": "gptq_v2", "sym": False, "group_size": -1},
            compressed(),
            compressed(symmetric=False, strategy="channel", group_size=None),
            compressed("float-quantized", num_bits=8, type="float", strategy="channel", group_size=None),
            compressed("float-quantized", num_bits=8, type="float", strategy="tensor", group_size=None),
            MODELOPT,
        )
    ]
    assert [(p.scheme, p.scales[0], p.zeros, p.rows, p.columns, p.zero) for p in found] == [
        ("fp8", "weight_scale_inv", None, 128, 128, 0),
        ("fp8", "weight_scale_inv", None, None, None, 0),
        ("awq", "scales", "qzeros", 1, 128, 0),
        ("gptq", "scales", "qzeros", 1, 128, 8),
        ("gptq_v2", "scales", "qzeros", 1, None, 0),
        ("packed", "weight_scale", None, 1, 128, 8),
        ("packed", "weight_scale", "weight_zero_point", 1, None, 0),
        ("fp8", "weight_scale", None, 1, None, 0),
        ("fp8", "weight_scale", None, None, None, 0),
        ("fp8", "weight_scale", None, None, None, 0),
    ]


@pytest.mark.parametrize(
    ("entry", "module", "out"),
    [
        ("mlp.up_proj", "model.layers.0.mlp.up_proj", True),
        ("mlp.up", "model.layers.0.mlp.up_proj", False),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1", "model.layers.11.mlp.up_proj", False),
        ("lm_head", "lm_head", True),
        ("head", "lm_head", False),
        ("*.mlp.*", "model.layers.0.mlp.up_proj", True),
        ("model.layers.1*", "model.layers.0.mlp.up_proj", False),
    ],
)
def test_names_match_on_whole_segments(entry: str, module: str, out: bool) -> None:
    assert covers(declared(FP8 | {"modules_to_not_convert": [entry]}), module, None) is not out


@pytest.mark.parametrize(
    ("entry", "module", "out"),
    [
        ("lm_head", "lm_head", True),
        ("self_attn.k_proj", "model.layers.0.self_attn.k_proj", False),
        ("model.layers.0.self_attn.k_proj", "model.layers.0.self_attn.k_proj", True),
        ("re:.*self_attn.*", "model.layers.0.self_attn.k_proj", True),
        ("re:self_attn", "model.layers.0.self_attn.k_proj", False),
    ],
)
def test_compressed_tensors_ignores_whole_names_and_expressions(entry: str, module: str, out: bool) -> None:
    assert covers(declared(compressed(ignore=(entry,))), module, None) is not out


def test_the_head_is_quantized_only_where_the_method_says_so() -> None:
    heads = [
        covers(declared(config), "lm_head", "head")
        for config in (FP8, FP8 | {"modules_to_not_convert": []}, AWQ, GPTQ, GPTQ | {"lm_head": True}, compressed())
    ]
    assert heads == [False, True, False, False, True, True]


def test_the_ledger_says_at_which_nodes_a_key_of_a_quantization_config_is_used() -> None:
    projections = ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up", "mlp.down")

    def nodes(config: Object, key: str) -> tuple[str, ...]:
        ledger = mapped(case("llama", quantization_config=config, tie_word_embeddings=False))[1]
        (found,) = [e.nodes for e in ledger.entries if e.key == f"quantization_config.{key}" and e.line is not None]
        return found

    assert nodes(FP8, "weight_block_size") == projections
    one_layer: Object = FP8 | {"modules_to_not_convert": ["lm_head", "model.layers.0.mlp.up_proj"]}
    assert nodes(one_layer, "weight_block_size") == projections
    assert nodes(one_layer, "modules_to_not_convert") == ("mlp.up", "head.logits")
    assert "mlp.up" not in nodes(FP8 | {"ignored_layers": ["mlp.up_proj"]}, "quant_method")
    assert nodes(GPTQ | {"lm_head": True}, "lm_head") == ("head.logits",)
    assert nodes(GPTQ | {"lm_head": True}, "bits") == ()  # a required value decides nothing
    assert nodes(GPTQ | {"lm_head": True}, "group_size") == (*projections, "head.logits")


def test_every_key_is_in_the_ledger_with_what_became_of_it() -> None:
    ledger = mapped(case("llama", quantization_config=FP8 | {"scale_fmt": "ue8m0"}))[1]
    of = {e.key: (e.kind, e.became, e.why) for e in ledger.entries if e.key.startswith("quantization_config")}
    assert of == {
        "quantization_config": ("object", (), ""),
        "quantization_config.quant_method": ("param", ("quantization",), ""),
        "quantization_config.activation_scheme": (
            "ignore",
            (),
            "activations are not quantized, whatever scales the file has; that is a policy of the run",
        ),
        "quantization_config.fmt": ("require", (), "codes have 4 bits of exponent and 3 of mantissa"),
        "quantization_config.weight_block_size": ("param", ("quantization",), ""),
        "quantization_config.scale_fmt": ("ignore", (), "scales are read as they are stored, powers of two or not"),
    }


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GPTQ | {"bits": 8}, "`quantization_config.bits` is 8; only 4 is supported: codes have 4 bits"),
        (
            GPTQ | {"desc_act": True},
            "`quantization_config.desc_act` is true; only false is supported: inputs stand in the order of their",
        ),
        (GPTQ | {"group_size": 100}, "`quantization_config.group_size` is 100; -1 or one of 32, 64, 128 is supported"),
        (GPTQ | {"checkpoint_format": "marlin"}, '`quantization_config.checkpoint_format` is "marlin"; gptq or'),
        (GPTQ | {"sym": 1}, "`quantization_config.sym` is 1; true or false is supported"),
        (AWQ | {"version": "gemv"}, '`quantization_config.version` is "gemv"; "gemm" is supported'),
        (AWQ | {"zero_point": False}, "`quantization_config.zero_point` is false; only true is supported: zeros are"),
        (AWQ | {"modules_to_not_convert": "x"}, '`quantization_config.modules_to_not_convert` is "x"; a list of names'),
        (FP8 | {"fmt": "e5m2"}, '`quantization_config.fmt` is "e5m2"; only "e4m3" or "float8_e4m3fn" or'),
        (
            FP8 | {"weight_block_size": [64, 64]},
            "`quantization_config.weight_block_size` is [64, 64]; a pair of numbers, the second a multiple of 128,",
        ),
        (
            FP8 | {"modules_to_not_convert": ["a"], "ignored_layers": ["b"]},
            '`quantization_config.ignored_layers` is ["b"]; the list of `modules_to_not_convert`, or one of the two',
        ),
        (
            compressed("nvfp4-pack-quantized"),
            '`quantization_config.format` is "nvfp4-pack-quantized"; float-quantized with floats of 8 bits, or',
        ),
        (compressed() | {"config_groups": {}}, "`quantization_config.config_groups` is {}; one group of modules is"),
        (
            compressed(strategy="tensor"),
            '`quantization_config.config_groups.group_0.weights.strategy` is "tensor"; group or channel is supported',
        ),
        (
            compressed(actorder="group"),
            '`quantization_config.config_groups.group_0.weights.actorder` is "group"; only "static" or "weight" is',
        ),
        (
            compressed("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=False),
            "`quantization_config.config_groups.group_0.weights.symmetric` is false; true is supported",
        ),
        (
            compressed(strategy="channel"),
            '`quantization_config.config_groups.group_0.weights.group_size` is 128; with `strategy` = "channel" only '
            "null or -1 is supported",
        ),
        (
            compressed(group_size=-1),
            "`quantization_config.config_groups.group_0.weights.group_size` is -1; with `strategy` = group one of 32, "
            "64, 128 is supported",
        ),
        (
            compressed(block_structure=[128, 128]),
            "`quantization_config.config_groups.group_0.weights.block_structure` is [128, 128]; with `strategy` = "
            '"group" only null is supported',
        ),
        (
            AWQ | {"q_group_size": 64},
            "`quantization_config.q_group_size` is 64; the 128 of `group_size`, or one of the two keys, is supported",
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["a"], "exclude_modules": ["b"]},
            '`quantization_config.ignore` is ["a"]; the list of `exclude_modules`, or one of the two keys, is',
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4"},
            '`quantization_config.quant_algo` is "NVFP4"; "FP8" is supported',
        ),
        (
            MODELOPT | {"config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float"}}}},
            "`quantization_config.config_groups.group_0.weights.num_bits` is 4; only 8 is supported: `quant_algo` says",
        ),
        (MODELOPT | {"config_groups": []}, "`quantization_config.config_groups` is []; an object is supported"),
        ({"quant_method": "modelopt"}, '`quantization_config.quant_algo` is missing; "FP8" is supported'),
    ],
)
def test_what_is_not_supported_is_refused_by_name(config: Object, message: str) -> None:
    error = refusal(case("llama", quantization_config=config))
    assert f"error: {message}" in error
    assert " --> config.json:" in error
    assert error.endswith("  = fix: use the checkpoint with float weights, or a GGUF file")
    assert error.count("error:") == 1


def test_other_methods_unknown_keys_and_missing_ones_are_refused() -> None:
    fix = (
        "use a checkpoint with one of: fp8, compressed-tensors, modelopt, awq, gptq; or one with float weights, "
        "or a GGUF file"
    )
    refused({"quant_method": "bitnet"}, '`quantization_config.quant_method` is "bitnet", which is not supported', fix)
    refused({"bits": 4}, "`quantization_config.quant_method` is missing", fix)
    refused(
        FP8 | {"spin": 1},
        "unknown key `quantization_config.spin` of a quantization config",
        "remove it if it changes nothing; use the checkpoint with float weights, or a GGUF file",
    )
    refused(FP8 | {"head": True}, "unknown key `quantization_config.head` of a quantization config", "remove it if")
    without = {key: value for key, value in GPTQ.items() if key != "sym"}
    refused(without, "`quantization_config.sym` is missing", "use a checkpoint whose config is complete")
    refused(compressed(ignore=("re:(",)), "`re:(` is no regular expression", "correct it")
    assert "error: `quantization_config` is 3\n" in refusal(case("llama", quantization_config=3))


def test_two_declarations_are_refused_where_they_differ() -> None:
    both = case("llama", quantization_config=FP8, compression_config=compressed())
    assert "error: there are `quantization_config` and `compression_config`\n" in refusal(both)
    assert "  = fix: keep the one that belongs to the tensors" in refusal(both)
    config = texts(case("llama", quantization_config=GPTQ)).config
    with pytest.raises(LoadError) as caught:
        map_config(HfTexts(config=config, quantization=own_file(OWN)), library())
    assert str(caught.value).startswith(
        "error: `quantization_config` and hf_quant_config.json declare different weights\n --> hf_quant_config.json:1\n"
    )
    assert caught.value.problems[0].fix == "keep the file that belongs to the tensors"


def own_file(data: Object) -> Source:
    return Source(path="hf_quant_config.json", text=json.dumps(data))


def test_the_own_file_declares_alone_or_says_the_same() -> None:
    alone = map_config(HfTexts(config=texts(case("llama")).config, quantization=own_file(OWN)), library())[0]
    assert alone.quantization is not None
    assert alone.quantization.precision.scheme == "fp8"
    assert not covers(alone.quantization, "lm_head", "head")
    assert covers(alone.quantization, "model.layers.0.mlp.up_proj", "up")
    modelopt: Object = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.0*"]}
    config = texts(case("llama", quantization_config=modelopt)).config
    joined = map_config(HfTexts(config=config, quantization=own_file(OWN)), library())[0].quantization
    assert joined is not None
    assert [pattern.text for pattern in joined.skipped] == ["model.layers.0*", "lm_head"]


def test_an_own_file_of_another_algorithm_is_refused() -> None:
    other: Object = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": []}}
    with pytest.raises(LoadError) as caught:
        map_config(HfTexts(config=texts(case("llama")).config, quantization=own_file(other)), library())
    assert [(p.message, p.file) for p in caught.value.problems] == [
        ('`quantization.quant_algo` is "NVFP4"; "FP8" is supported', "hf_quant_config.json")
    ]
