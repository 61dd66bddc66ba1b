"""The recipe of the demo model, in a copy of the tree with a cache of its own: other threads, every class."""

import shutil
from pathlib import Path

import pytest

from circuit.compiled import Goal
from circuit.load.hardware import against_host, load_hardware
from circuit.load.inputs import GgufKey, GgufTexts, GgufValue, TensorInfo
from circuit.load.recipe import choices, load_recipe
from circuit.load.source import Length
from circuit.pipeline import compiled
from circuit.text import Source, round_f32
from circuit_exec.cache import entry_path, user_cache
from circuit_exec.host import this_host
from circuit_exec.library import library
from tests.cli.harness import ROOT, met
from tests.demo import DEMO, demo_file

RECIPE = "recipes/llama/smollm2_135m_q4_1.toml"
VOCABULARY, DIM, FF, KV_DIM, LAYERS = 49_152, 576, 1_536, 192, 30


def planned_from() -> GgufTexts:
    """What a plan of the demo model depends on, so that it needs no file: its metadata, and its tensors without one."""
    keys: dict[str, GgufValue] = {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.context_length": 8_192,
        "llama.embedding_length": DIM,
        "llama.feed_forward_length": FF,
        "llama.attention.head_count": 9,
        "llama.attention.head_count_kv": 3,
        "llama.rope.freq_base": 100_000.0,
        "llama.attention.layer_norm_rms_epsilon": round_f32(1e-5),
        "llama.vocab_size": VOCABULARY,
        "llama.rope.dimension_count": 64,
        "tokenizer.ggml.tokens": Length(VOCABULARY),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
    }
    of_layer = {
        "attn_norm": ("f32", (DIM,)),
        "ffn_norm": ("f32", (DIM,)),
        "attn_q": ("q4_1", (DIM, DIM)),
        "attn_k": ("q4_1", (KV_DIM, DIM)),
        "attn_v": ("q4_1", (KV_DIM, DIM)),
        "attn_output": ("q4_1", (DIM, DIM)),
        "ffn_gate": ("q4_1", (FF, DIM)),
        "ffn_up": ("q4_1", (FF, DIM)),
        "ffn_down": ("q4_1", (DIM, FF)),
    }
    stored = {"token_embd": ("q8_0", (VOCABULARY, DIM)), "output_norm": ("f32", (DIM,))}
    stored |= {f"blk.{layer}.{name}": each for layer in range(LAYERS) for name, each in of_layer.items()}
    return GgufTexts(
        path="SmolLM2-135M-Instruct.Q4_1.gguf",
        metadata=tuple(GgufKey(key=key, type="any", value=value) for key, value in keys.items()),
        tensors=tuple(TensorInfo(name=f"{name}.weight", format=f, shape=shape) for name, (f, shape) in stored.items()),
    )


def test_the_recipe_of_the_demo_model_has_the_digests_of_the_plans_of_today() -> None:
    """Where it fails, the recipe is to be written anew: its output stays as it was where no byte changed."""
    source = Source(path=RECIPE, text=(ROOT / RECIPE).read_text(encoding="utf-8"))
    recipe = load_recipe(source, library())
    assert recipe.expect is not None
    goal = Goal(hardware_class="avx2", choices=choices(recipe))
    plans = compiled(planned_from(), library(), goal).plans
    assert {dict(plan.parts)["bytes"] for plan in plans} == {recipe.expect.bytes}
    found = tuple(("avx2", f"{plan.mode}:{plan.rows[0]}-{plan.rows[1]}", plan.digest) for plan in plans)
    assert found == recipe.expect.plans


@pytest.mark.slow
@pytest.mark.parametrize(("name", "threads"), [("cpu", "1"), ("avx2", "3"), ("avx512", "2")])
def test_the_recipe_of_the_demo_model_verifies_in_a_fresh_place(name: str, threads: str, tmp_path: Path) -> None:
    host, hardware = this_host(), load_hardware(library(), name)
    against = against_host(hardware, host.machine, host.features)
    if against is not None:
        pytest.skip(f"this host does not run it: {against}")
    fetched = demo_file()
    shutil.copy(ROOT / RECIPE, tmp_path / "recipe.toml")
    own = tmp_path / "cache" / "met" / entry_path(user_cache(), "models", DEMO).relative_to(user_cache().root)
    own.mkdir(parents=True)
    (own / fetched.name).symlink_to(fetched)
    ran = met("recipe", "verify", "recipe.toml", "--class", name, "--threads", threads, home=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.splitlines()[-1] == "verified"
