"""Configs to facts: what each model type means, and every refusal with its words."""

import json
from pathlib import Path

import pytest

from circuit.load.config import map_config
from circuit.load.facts import run_fact
from circuit.load.inputs import HfTexts
from circuit.load.ledger import Entry
from circuit.load.source import Plain
from circuit.text import Source
from tests.cases.texts import MODEL_TYPES, Config, case, facts, library, mapped, refusal, texts, without


def dim(config: Config, name: str) -> int | None:
    return dict(facts(config).dims).get(name)


def entry(config: Config, key: str) -> Entry:
    (found,) = [each for each in mapped(config)[1].entries if each.key == key]
    return found


def test_llama_facts_are_these() -> None:
    found = facts(case("llama"))
    assert found.context == 1024
    assert found.format == "bf16"
    assert found.layers == ("full", "full")
    assert dict(found.dims) == {
        "dim": 64,
        "ff": 96,
        "head_dim": 16,
        "heads": 4,
        "kv_heads": 2,
        "layers": 2,
        "mlp_bias": 0,
        "o_bias": 0,
        "qk_norm": 0,
        "qkv_bias": 0,
        "rotary_dim": 16,
        "tied": 1,
        "vocab": 290,
    }
    params = dict(found.params)
    assert params["eps"] == float.fromhex("0x1.4f8b58p-17")
    assert params["attn_scale"] == 0.25
    assert params["act"] == "silu"
    assert (run_fact(found, "bos"), run_fact(found, "eos"), run_fact(found, "pad")) == ((1,), (2, 7), ())


def test_head_dim_is_the_stated_one_or_an_exact_quotient() -> None:
    assert dim(case("mistral"), "head_dim") == 24
    assert dim(without(case("mistral"), "head_dim"), "head_dim") == 16
    assert dim(case("mistral", head_dim=None), "head_dim") == 16
    assert dim(without(case("qwen3"), "head_dim"), "head_dim") == 128  # the class default, not the quotient
    assert refusal(case("qwen2", hidden_size=66)) == (
        "error: `head_dim` is absent, and `hidden_size` 66 is not a multiple of `num_attention_heads` 4\n"
        ' --> config.json:6\n  | "hidden_size": 66,\n  = fix: add `head_dim` to the file'
    )
    # An explicit head size needs no such multiple.
    assert dim(case("mistral", hidden_size=66), "dim") == 66


@pytest.mark.parametrize(("model_type", "heads"), [("llama", 4), ("mistral", 8), ("qwen2", 32), ("qwen3", 32)])
def test_absent_kv_heads_are_the_class_default_and_null_means_as_many_as_heads(model_type: str, heads: int) -> None:
    config = case(model_type, num_attention_heads=32, hidden_size=1024)
    expected = 32 if heads == 4 else heads
    assert dim(without(config, "num_key_value_heads"), "kv_heads") == expected
    assert dim(config | {"num_key_value_heads": None}, "kv_heads") == 32


def test_biases_follow_the_class_and_the_config() -> None:
    def biases(config: Config) -> tuple[int | None, ...]:
        return tuple(dim(config, name) for name in ("qkv_bias", "o_bias", "mlp_bias"))

    assert biases(case("llama")) == (0, 0, 0)
    assert biases(case("llama", attention_bias=True)) == (1, 1, 0)
    assert biases(without(case("llama", bias=True), "attention_bias")) == (1, 1, 0)
    assert biases(case("llama", mlp_bias=True)) == (0, 0, 1)
    assert biases(case("qwen2")) == (1, 0, 0)
    assert biases(case("qwen3", attention_bias=True)) == (1, 1, 0)
    assert biases(case("mistral")) == (0, 0, 0)
    assert refusal(case("mistral", attention_bias=True)) == (
        "error: `attention_bias` is true; only false is supported: the published class has no bias\n"
        ' --> config.json:20\n  | "attention_bias": true\n  = fix: use a checkpoint with `attention_bias` = false'
    )


def test_windows_follow_the_class_and_the_config() -> None:
    def window(config: Config) -> tuple[tuple[str, ...], int | None]:
        return facts(config).layers, dim(config, "window")

    assert window(case("mistral")) == (("sliding", "sliding"), 40)
    assert window(case("mistral", sliding_window=None)) == (("full", "full"), None)
    assert window(without(case("mistral"), "sliding_window")) == (("sliding", "sliding"), 4096)
    mixed = case("mistral", layer_types=["full_attention", "sliding_attention"])
    assert window(mixed) == (("full", "sliding"), 40)
    assert window(case("qwen2")) == (("full", "sliding", "sliding"), 48)
    assert window(case("qwen2", use_sliding_window=False)) == (("full",) * 3, None)
    assert window(case("qwen2", max_window_layers=3)) == (("full",) * 3, None)
    assert window(case("qwen2", max_window_layers=0)) == (("sliding",) * 3, 48)
    assert window(without(case("qwen2"), "max_window_layers")) == (("full",) * 3, None)
    assert window(case("qwen3")) == (("full", "sliding"), 48)
    assert window(case("qwen3", sliding_window=None, layer_types=None)) == (("full", "full"), None)


def test_what_does_not_slide_is_reported_as_unread() -> None:
    off = entry(case("qwen2", use_sliding_window=False), "sliding_window")
    assert (off.kind, off.why) == ("ignore", "it counts only where `use_sliding_window` is true")
    assert entry(case("qwen2", max_window_layers=3), "sliding_window").why == "no layer slides"
    listed = entry(case("qwen3"), "max_window_layers")
    assert (listed.kind, listed.why) == ("ignore", "it counts only where `layer_types` is absent")


def test_layer_types_must_fit_the_layers_and_have_a_window() -> None:
    assert refusal(case("qwen3", layer_types=["full_attention"])).startswith(
        "error: `layer_types` names 1 layers, `num_hidden_layers` is 2\n --> config.json:11\n"
    )
    assert refusal(case("qwen3", sliding_window=None)).startswith(
        "error: `layer_types` has sliding layers, but no window is in force\n --> config.json:11\n"
    )
    assert refusal(case("qwen3", use_sliding_window=False)).startswith(
        "error: `layer_types` has sliding layers, but no window is in force\n"
    )
    assert '`layer_types` is "chunked_attention", which is not supported' in refusal(
        case("qwen3", layer_types=["full_attention", "chunked_attention"])
    )


def test_a_window_on_llama_is_refused_with_the_reason() -> None:
    config = case("llama", sliding_window=64, layer_types=["full_attention", "sliding_attention"])
    assert refusal(config) == (
        "error: `sliding_window` is refused (64): the published llama class reads no window, so readers of this file "
        'disagree\n --> config.json:27\n  | "sliding_window": 64,\n'
        "  = fix: use the checkpoint under the model_type of its own class\n"
        'error: `layer_types` is "sliding_attention", which is refused: the published llama class reads no window, so '
        "readers of this file disagree\n --> config.json:28\n"
        '  | "layer_types": ["full_attention", "sliding_attention"]\n'
        "  = fix: use a checkpoint with one of: full_attention"
    )
    assert facts(case("llama", sliding_window=None, layer_types=["full_attention"] * 2)) == facts(case("llama"))


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_absent_keys_take_the_class_default_and_the_ledger_says_so(model_type: str) -> None:
    config: Config = {"model_type": model_type}
    found, ledger = mapped(config)
    dims = dict(found.dims)
    assert dims["dim"] == 4096
    assert dims["ff"] == {"llama": 11008, "mistral": 14336}.get(model_type, 22016)
    assert dims["vocab"] == {"llama": 32000, "mistral": 32000}.get(model_type, 151936)
    assert found.context == {"llama": 2048, "mistral": 131072}.get(model_type, 32768)
    assert run_fact(found, "eos") == ((2,) if model_type in ("llama", "mistral") else ())
    assert dims["tied"] == 0
    (size,) = [each for each in ledger.entries if each.key == "hidden_size"]
    assert (size.value, size.kind, size.why) == ("4096", "default", f"default of {model_type}, transformers 5.24.0")
    (stored,) = [each for each in ledger.entries if "format" in each.became]
    assert (found.format, stored.why) == ("f32", "no dtype is stated: float32, the default of torch")


def test_class_defaults_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    classes = {"llama": "LlamaConfig", "mistral": "MistralConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config"}
    for model_type, name in classes.items():
        theirs = json.loads(getattr(transformers, name)().to_json_string(use_diff=False))
        absent, written = facts({"model_type": model_type}), facts(_published(theirs))
        assert absent == written, model_type


def _published(theirs: Config) -> Config:
    keep = (
        "model_type hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim "
        "vocab_size max_position_embeddings rms_norm_eps hidden_act tie_word_embeddings attention_bias mlp_bias "
        "sliding_window use_sliding_window layer_types rope_parameters bos_token_id eos_token_id pad_token_id"
    ).split()
    return {key: theirs[key] for key in keep if key in theirs}


def test_end_tokens_are_those_of_both_files() -> None:
    generation = {"eos_token_id": [7, 9], "pad_token_id": 0, "temperature": 0.6, "transformers_version": "4"}
    checkpoint = HfTexts(
        config=texts(case("mistral")).config,
        generation_config=Source(path="generation_config.json", text=json.dumps(generation)),
    )
    found, ledger = map_config(checkpoint, library())
    assert run_fact(found, "eos") == (2, 7, 9)
    assert run_fact(found, "pad") == (0,)
    assert [each.key for each in ledger.entries if each.file == "generation_config.json"] == list(generation)


def test_unknown_keys_are_all_refused_with_file_line_and_fix() -> None:
    config = case("llama", logit_scale=2.0)
    config["rope_scaling"] = {"rope_type": "linear", "factor": 2.0, "finetuned": True, "short": [1]}
    assert refusal(config) == (
        "error: unknown key `rope_scaling.short` for model type llama\n --> config.json:20\n"
        '  | "rope_scaling": {"rope_type": "linear", "factor": 2.0, "finetuned": true, "short": [1]},\n'
        "  = fix: remove it if it changes nothing, or classify it in kernels/circuits/dense_gqa.config.toml\n"
        "error: unknown key `logit_scale` for model type llama\n --> config.json:27\n"
        '  | "logit_scale": 2.0\n'
        "  = fix: remove it if it changes nothing, or classify it in kernels/circuits/dense_gqa.config.toml"
    )


@pytest.mark.parametrize(
    ("model_type", "message"),
    [
        ("olmoe", '`model_type` is "olmoe", which has no circuit'),
        (None, "the file has no `model_type`"),
        (3, "`model_type` is 3, which has no circuit"),
    ],
)
def test_a_model_type_without_a_circuit_is_refused_with_those_that_have_one(model_type: Plain, message: str) -> None:
    error = refusal({"hidden_size": 64} | ({} if model_type is None else {"model_type": model_type}))
    line = 2 if model_type is None else 3
    assert error.startswith(f"error: {message}\n --> config.json:{1 if model_type is None else line}\n")
    assert error.endswith("  = fix: use a checkpoint with one of: llama, mistral, qwen2, qwen3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "64"}, '`hidden_size` is "64"\n'),
        ({"hidden_size": True}, "`hidden_size` is true\n"),
        ({"hidden_size": 64.5}, "`hidden_size` is 64.5\n"),
        ({"hidden_size": 0}, "`hidden_size` is 0\n"),
        ({"num_hidden_layers": -1}, "`num_hidden_layers` is -1\n"),
        ({"rms_norm_eps": 0}, "`rms_norm_eps` is 0.0\n"),
        ({"rms_norm_eps": float("inf")}, "`rms_norm_eps` is Infinity\n"),
        ({"rope_theta": 1.0}, "`rope_theta` is 1.0\n"),
        ({"tie_word_embeddings": 1}, "`tie_word_embeddings` is 1\n"),
        ({"eos_token_id": "</s>"}, '`eos_token_id` is "</s>"\n'),
        ({"hidden_act": "gelu"}, '`hidden_act` is "gelu", which is not supported\n'),
        ({"torch_dtype": "float8_e4m3fn"}, '`torch_dtype` is "float8_e4m3fn", which is not supported\n'),
        ({"num_key_value_heads": 3}, "`num_key_value_heads` 3 does not divide `num_attention_heads` 4\n"),
        ({"pretraining_tp": 2}, "`pretraining_tp` is 2; only 1 is supported: slices of a projection"),
        ({"is_causal": False}, "`is_causal` is false; only true is supported: attention to later positions"),
        ({"architectures": ["LlamaModel"]}, '`architectures` is ["LlamaModel"]; only ["LlamaForCausalLM"] is'),
        ({"auto_map": {"AutoModel": "x.Y"}}, "`auto_map` is refused: it names code of its own"),
        ({"partial_rotary_factor": 0.2}, "3 of 16 values of a head are turned (`partial_rotary_factor`)\n"),
        ({"partial_rotary_factor": 1.5}, "24 of 16 values of a head are turned (`partial_rotary_factor`)\n"),
    ],
)
def test_a_value_that_is_not_meant_is_refused_by_name(changes: Config, message: str) -> None:
    error = refusal(case("llama", **changes))
    assert message in error
    assert " --> config.json:" in error
    assert error.count("error:") == 1


@pytest.mark.parametrize("kind", ["dynamic", "longrope", "su"])
def test_a_rope_that_depends_on_the_length_is_refused_by_name(kind: str) -> None:
    error = refusal(case("llama", rope_scaling={"type": kind, "factor": 2.0}))
    assert (
        f'`rope_scaling.type` is "{kind}", which is refused: its frequencies depend on the length so far, so prefill '
        "and decode would differ\n --> config.json:"
    ) in error
    assert error.endswith("  = fix: use a checkpoint with one of: default, linear, llama3, yarn")
    assert error.count("error:") == 1


def test_rope_keys_must_belong_to_the_kind_and_be_complete() -> None:
    assert (
        "`rope_scaling.low_freq_factor` contradicts the rest: it counts only where `rope_scaling.rope_type` is llama3"
        in refusal(case("llama", rope_scaling={"rope_type": "linear", "factor": 2.0, "low_freq_factor": 1.0}))
    )
    error = refusal(case("llama", rope_scaling={"rope_type": "llama3", "factor": 2.0}))
    assert "`rope_scaling.low_freq_factor` is missing (rope.kind is llama3)\n --> config.json\n" in error
    assert "`rope_scaling.high_freq_factor` is missing (rope.kind is llama3)\n" in error
    llama3: Plain = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}
    assert "`rope_scaling.high_freq_factor` is not above `rope_scaling.low_freq_factor`" in refusal(
        case("llama", rope_scaling=llama3)
    )
    yarn: Plain = {"rope_type": "yarn", "factor": 2.0, "beta_fast": 1.0, "beta_slow": 2.0}
    assert "`rope_scaling.beta_fast` is not above `rope_scaling.beta_slow`" in refusal(case("llama", rope_scaling=yarn))
    assert "`rope_scaling` is 3\n" in refusal(case("llama", rope_scaling=3))


def test_problems_of_every_kind_come_together() -> None:
    error = refusal(case("qwen2", hidden_act="relu", oops=1, vocab_size="x", is_causal=False))
    assert error.count("error:") == 4


def test_no_vendor_word_is_in_the_code_of_the_compiler() -> None:
    words = ("hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "rope_theta")
    more = ("max_position_embeddings", "num_hidden_layers", "rms_norm_eps", "q_proj", "embed_tokens", "llama.")
    for path in sorted((Path(__file__).parents[2] / "circuit").rglob("*.py")):
        text = path.read_text("utf-8")
        found = [word for word in (*words, *more) if word in text.replace("llama.cpp", "")]
        assert not found, f"{path} has {found}"
