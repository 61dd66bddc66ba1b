"""What keys and values take, against the formula and against what was reported of other planners."""

import json
import tomllib
from pathlib import Path

import pytest

from circuit.compiled import Goal
from circuit.errors import LoadError, PlanError
from circuit.load.devices import device_named, load_devices
from circuit.load.inputs import HfTexts
from circuit.load.source import Plain
from circuit.report.fit import AskedFit
from circuit.report.planner import Planner
from circuit.reports import assessed
from circuit.text import Source
from tests.cases.texts import Config, case, texts, without
from tests.lower.library import own_library

LIBRARY = own_library()
H200 = device_named(load_devices(LIBRARY), "h200")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "configs"
LLAMA_8B: dict[str, Plain] = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def planned(config: Config, *choices: str, asked: AskedFit | None = None) -> Planner:
    goal = Goal(hardware_class="hopper", scheduled=False, choices=choices)
    return assessed(texts(config), LIBRARY, goal, H200, asked=asked)


def test_the_figures_of_an_8b_model_on_one_device() -> None:
    """KV in bf16, 4,096 positions; everything else as the stated policy has it."""
    found = planned(case("llama", **LLAMA_8B), "kv=bf16")
    assert found.memory.token_bytes == 131_072
    assert sum(each.stored for each in found.memory.weights) / 1e9 == pytest.approx(16.06, abs=0.005)
    decode = found.rooflines[0]
    assert (decode.work.sequences, decode.work.context) == (1, 4096)
    assert decode.weight_bytes / 1e9 == pytest.approx(15.01, abs=0.005)
    assert decode.weight_floor_s == pytest.approx(3.13e-3, abs=0.005e-3)
    assert decode.tokens / decode.ceiling_s == pytest.approx(309, abs=1)
    by_hand = decode.weight_bytes + 4097 * 131_072  # every position is read, one is written
    assert decode.ceiling_s == pytest.approx(by_hand / 4.8e12, rel=2e-3)
    assert len({site.rule for site in decode.sites}) > 8  # each launch is of a rule and has a kernel
    assert all(site.kernel and site.launches for roof in found.rooflines for site in roof.sites)


def test_the_plan_is_of_the_stated_policy_and_says_what_each_other_value_takes() -> None:
    found = planned(case("llama", **LLAMA_8B))
    assert found.memory.token_bytes == 2 * 131_072  # f32, which is the policy
    elements = 2 * 32 * 8 * 128
    assert [(format, n) for format, n, _ in found.fit.kv] == [
        ("f32", 4 * elements),
        ("f16", 2 * elements),
        ("bf16", 2 * elements),
        ("int8", elements + 4 * 2 * 32 * 8),  # and one f32 scale for each head and side
    ]
    most = {format: n for format, _, n in found.fit.kv}
    assert most["f32"] == dict(found.fit.most)[4096]
    for format in ("f32", "bf16", "int8"):
        alone = found if format == "f32" else planned(case("llama", **LLAMA_8B), f"kv={format}")
        assert dict(alone.fit.most)[4096] == most[format]


@pytest.mark.parametrize(
    ("model_type", "kv_heads", "head_dim"), [("llama", 1, 32), ("mistral", 2, 16), ("qwen2", 4, 8), ("qwen3", 2, 32)]
)
def test_traffic_of_keys_and_values_counts_key_heads_and_not_query_heads(
    model_type: str, kv_heads: int, head_dim: int
) -> None:
    """hahnyuan/LLM-Viewer#12: with grouped queries, heads of attention were counted."""
    config = case(model_type, num_attention_heads=4, num_key_value_heads=kv_heads, head_dim=head_dim)
    config = without(config, "use_sliding_window", "layer_types")
    config |= {"sliding_window": None} if "sliding_window" in config else {}
    layers = config["num_hidden_layers"]
    assert isinstance(layers, int)
    found = planned(config, "kv=bf16")
    of_one = 2 * layers * kv_heads * head_dim * 2
    assert found.memory.token_bytes == of_one
    decode = found.rooflines[0]
    assert sum(site.states for site in decode.sites) == of_one * (decode.work.context + 1)


def test_what_is_no_weight_and_no_cache_has_lines_of_its_own() -> None:
    """unslothai/unsloth#9525: a narrow cache saved less than the buffers that it needed."""
    held = planned(case("llama"), "kv=int8").memory
    assert all(n > 0 for _, _, n in held.arenas)
    assert 0 < held.outputs <= max(n for _, _, n in held.arenas)


PUBLISHED = {
    "meta-llama--Meta-Llama-3.1-8B": 131_072,
    "meta-llama--Llama-3.1-70B-Instruct": 327_680,
    "meta-llama--Llama-3.2-1B-Instruct": 32_768,
    "mistralai--Ministral-8B-Instruct-2410": 147_456,
    "Qwen--Qwen2.5-7B": 57_344,
    "Qwen--Qwen3-32B": 262_144,
    "Qwen--Qwen3-1.7B": 114_688,
    "LiquidAI--LFM2-700M": 12_288,  # gpustack/gguf-parser-go#31: 384 MiB at 32,768, of 6 layers of 16
}
"""Bytes of keys and values of a position in 16 bits."""


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the published configs are not here")
@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_and_values_of_published_models(name: str) -> None:
    """For a model without a circuit no number is given: it is refused by name."""
    source = Source(path="config.json", text=(SHARED / name / "config.json").read_text(encoding="utf-8"))
    goal = Goal(hardware_class="hopper", scheduled=False, choices=("kv=bf16",))
    if json.loads(source.text)["model_type"] not in model_types():
        with pytest.raises(LoadError, match="has no circuit"):
            assessed(HfTexts(config=source), LIBRARY, goal, H200)
    else:
        assert assessed(HfTexts(config=source), LIBRARY, goal, H200).memory.token_bytes == PUBLISHED[name]


def model_types() -> set[str]:
    """Those that have a circuit."""
    maps = [source for source in LIBRARY.files if source.path.endswith(".config.toml")]
    return {name for source in maps for name in tomllib.loads(source.text)["model_types"]}


def test_what_cannot_fit_is_refused_with_what_can() -> None:
    held = planned(case("llama", **LLAMA_8B), "kv=bf16").memory
    bytes_of_it = sum(each.baked for each in held.weights) + 16 * 131_072 * 131_072 + max(n for _, _, n in held.arenas)
    with pytest.raises(PlanError) as error:
        planned(case("llama", **LLAMA_8B), "kv=bf16", asked=AskedFit(sequences=16, context=131072))
    assert str(error.value) == (
        f"error: 16 x 131,072 positions need {bytes_of_it:,} bytes, h200 has 141,000,000,000\n"
        f" --> kernels/DEVICES.toml:{H200.line}\n"
        "  = fix: ask for --sequences 7 or --context 57344"
    )
    with pytest.raises(PlanError) as error:
        planned(case("llama", **LLAMA_8B), asked=AskedFit(context=200_000))
    assert str(error.value).startswith(
        "error: 200,000 positions are asked for, the model has 131,072\n --> config.json:"
    )
    assert str(error.value).endswith("  = fix: ask for at most --context 131072")


def test_a_model_that_no_length_makes_fit_is_refused() -> None:
    small = device_named(load_devices(LIBRARY), "l4")
    config = case("llama", **LLAMA_8B) | {"num_hidden_layers": 64}
    goal = Goal(hardware_class=small.hardware_class, scheduled=False)
    with pytest.raises(PlanError, match="choose a device with more memory: not even one position fits"):
        assessed(texts(config), LIBRARY, goal, small, asked=AskedFit(sequences=1))
