"""The ledger in its two forms."""

import json

from circuit.load.ledger import keys_of, ledger_json, ledger_text
from tests.cases.texts import MODEL_TYPES, case, mapped


def test_the_text_says_for_each_key_what_it_became() -> None:
    text = ledger_text(mapped(case("qwen3"))[1])
    assert text.startswith("qwen3 -> dense_gqa (kernels/circuits/dense_gqa.config.toml)\nconfig.json:\n")
    assert (
        "  num_key_value_heads = 2                                                 dim\n"
        "      -> kv_heads\n"
        "      at attn.kv, attn.k, attn.v, attn.k_norm, attn.k_norm.heads, attn.rope_k,\n"
        "      attn.rope_k.heads, attn.write.heads, attn.attend.kv_heads\n"
    ) in text
    assert (
        '  transformers_version = "5.24.0"                                      ignore\n      who wrote the file\n'
        in text
    )
    assert (
        "  partial_rotary_factor = 1.0                                         default\n      -> rope.partial\n"
    ) in text


def test_no_line_of_the_text_is_longer_than_80() -> None:
    for model_type in MODEL_TYPES:
        lines = ledger_text(mapped(case(model_type))[1]).split("\n")
        assert max(map(len, lines)) <= 80


def test_the_json_has_every_key_of_the_config_with_its_line() -> None:
    for model_type in MODEL_TYPES:
        config = case(model_type)
        data = json.loads(ledger_json(mapped(config)[1]))
        written = {entry["key"]: entry for entry in data["keys"] if entry["line"] is not None}
        assert set(config) <= set(written)
        for line, key in enumerate(config, 2):
            assert written[key]["line"] == line
        assert data["model_type"] == model_type
        for entry in data["keys"]:
            assert entry["became"] or entry["why"] or entry["class"] == "object", entry


def test_keys_of_names_the_keys_that_gave_a_fact() -> None:
    ledger = mapped(case("llama"))[1]
    assert keys_of(ledger, ("heads", "head_dim")) == ("num_attention_heads = 4", "head_dim = 16")
    assert keys_of(ledger, ("nothing",)) == ()


def test_nodes_that_the_model_leaves_out_are_not_listed() -> None:
    text = ledger_text(mapped(case("mistral"))[1])
    assert "attn.q_norm.heads" not in text
    assert "attn.q_norm.heads" in ledger_text(mapped(case("qwen3"))[1])
