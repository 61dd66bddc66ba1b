"""What each refusal of a config tells its reader to do, with the value that triggers it."""

import pytest

from circuit.load.source import Plain
from tests.cases.texts import Config, case, refusal
from tests.load.test_gguf import Metadata, metadata
from tests.load.test_gguf import refusal as gguf_refusal

ROPE: Config = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}
GPTQ: dict[str, Plain] = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
FLOATS = "use the checkpoint with float weights, or a GGUF file"


def compressed(group: dict[str, Plain], **weights: Plain) -> Config:
    of_weights: Plain = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, **weights}
    groups: Plain = {"group_0": {"targets": ["Linear"], "weights": of_weights, **group}}
    config: Plain = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": groups}
    return {"quantization_config": config}


@pytest.mark.parametrize(
    ("changes", "message", "fix"),
    [
        ({"hidden_size": "64"}, '`hidden_size` is "64"', "write an integer"),
        ({"hidden_size": 0}, "`hidden_size` is 0", "write a number above 0"),
        ({"num_hidden_layers": 10001}, "`num_hidden_layers` is 10001", "write a number up to 10000"),
        ({"rms_norm_eps": 1e-31}, "`rms_norm_eps` is 1e-31", "write a number from 1e-30 to 1e+30"),
        ({"rms_norm_eps": "x"}, '`rms_norm_eps` is "x"', "write a finite number"),
        ({"tie_word_embeddings": 1}, "`tie_word_embeddings` is 1", "write true or false"),
        ({"eos_token_id": "</s>"}, '`eos_token_id` is "</s>"', "write a token id or a list of them"),
        ({"layer_types": "full"}, '`layer_types` is "full"', "write a list of names"),
        ({"rope_scaling": 3}, "`rope_scaling` is 3", "write an object or null"),
        ({"quantization_config": 3}, "`quantization_config` is 3", "write an object or null"),
        (
            {"num_key_value_heads": 3},
            "`num_key_value_heads` 3 does not divide `num_attention_heads` 4",
            "correct one of the two",
        ),
        (
            {"layer_types": ["full_attention"]},
            "`layer_types` names 1 layers, `num_hidden_layers` is 2",
            "correct one of the two",
        ),
        (
            {"partial_rotary_factor": 1.5},
            "24 of 16 values of a head are turned (`partial_rotary_factor`)",
            "an even number from 2 to 16 can be",
        ),
        (
            {"rope_scaling": ROPE},
            "`rope_scaling.high_freq_factor` is not above `rope_scaling.low_freq_factor`",
            "correct one of the two",
        ),
        (
            {"quantization_config": GPTQ | {"checkpoint_format": "marlin"}},
            '`quantization_config.checkpoint_format` is "marlin"; gptq or gptq_v2 is supported',
            FLOATS,
        ),
        (
            compressed({"format": "pack-quantized"}),
            '`quantization_config.config_groups.group_0.format` is "pack-quantized"; the format of the whole, '
            '"float-quantized", is supported',
            FLOATS,
        ),
        (
            compressed({"targets": []}),
            "`quantization_config.config_groups.group_0.targets` is []; a list that is not empty is supported",
            FLOATS,
        ),
        (
            compressed({}, strategy="token"),
            '`quantization_config.config_groups.group_0.weights.strategy` is "token"; tensor, channel or block is '
            "supported",
            FLOATS,
        ),
        (
            compressed({"weights": 3}),
            "`quantization_config.config_groups.group_0.weights` is 3; an object is supported",
            FLOATS,
        ),
        (
            compressed({}, num_bits="8"),
            '`quantization_config.format` is "float-quantized"; float-quantized with floats of 8 bits, or '
            "pack-quantized with integers of 4 bits, is supported",
            FLOATS,
        ),
        (
            {"quantization_config": GPTQ | {"group_size": "32"}},
            '`quantization_config.group_size` is "32"; an integer is supported',
            FLOATS,
        ),
    ],
)
def test_a_config_is_refused_with_what_to_do(changes: Config, message: str, fix: str) -> None:
    error = refusal(case("llama", **changes))
    assert f"error: {message}" in error
    assert " --> config.json:" in error
    assert f"  = fix: {fix}" in error
    assert error.count("error:") == 1


@pytest.mark.parametrize(
    ("keys", "factors", "message", "fix"),
    [
        (
            {"general.architecture": "gemma"},
            None,
            'the file has the architecture "gemma", which has no circuit',
            "use a file with one of: llama, qwen2, qwen3",
        ),
        (
            {"llama.rope.dimension_count": 8},
            None,
            "`llama.rope.dimension_count` is 8, `llama.attention.key_length` is 16",
            "only equal values are supported",
        ),
        (
            {"tokenizer.ggml.tokens": 3},
            None,
            "`tokenizer.ggml.tokens` is 3",
            "write a list",
        ),
        (
            {},
            (1.0,) * 7,
            "the file has 7 rope factors for 8 frequencies of the kind default",
            "use a file with one factor for each, without another rope scaling",
        ),
        (
            {},
            (0.0,) * 8,
            "the rope factors 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 cannot divide a frequency",
            "use a file with factors from 1e-30 to 1e+30",
        ),
    ],
)
def test_a_gguf_file_is_refused_with_what_to_do(
    keys: Metadata, factors: tuple[float, ...] | None, message: str, fix: str
) -> None:
    error = gguf_refusal(metadata("llama") | keys, factors)
    assert f"error: {message}\n --> m.gguf" in error
    assert f"  = fix: {fix}" in error
    assert error.count("error:") == 1
