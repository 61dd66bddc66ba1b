"""The demo model on real text: its GGUF against transformers on the weights that the gguf package decodes."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec import Struct
from numpy.typing import NDArray

from circuit_exec.cache import Cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.logits import all_logits, logits_hash
from circuit_exec.model import load_model
from circuit_exec.text.load import load_tokenizer
from circuit_exec.text.tokenizer import encode_prompt
from tests.demo import demo_file
from tests.oracle import torch_models
from tests.oracle.english import TEXT

if TYPE_CHECKING:
    import torch

pytestmark = pytest.mark.slow
for _package in ("torch", "transformers", "gguf"):
    pytest.importorskip(_package, reason="the oracle is not installed: pip install -e '.[oracle]'")

N_POSITIONS = 512


class Demo(Struct, frozen=True, kw_only=True):
    """The model file, a text's ids, and both programs' logits of them; `copy` has the decoded weights in float32."""

    file: Path
    copy: Path
    cache: Cache
    ids: list[int]
    expected: NDArray[np.float32]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    file = demo_file()
    folder = tmp_path_factory.mktemp("demo")
    oracle = dequantized(file)
    oracle.save_pretrained(folder / "copy")
    ids = encode_prompt(load_tokenizer(open_checkpoint(str(file))), TEXT)[:N_POSITIONS]
    assert len(ids) == N_POSITIONS, f"the text has only {len(ids)} tokens"
    expected = torch_models.logits(oracle, ids)
    return Demo(file=file, copy=folder / "copy", cache=Cache(root=folder / "cache"), ids=ids, expected=expected)


def dequantized(file: Path) -> "torch.nn.Module":
    """The LlamaForCausalLM of a GGUF file, read with the gguf package alone."""
    import torch
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from transformers import LlamaConfig, LlamaForCausalLM

    reader = GGUFReader(file)
    value = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.ggml.m")}
    assert value["general.architecture"] == "llama"
    heads = {"attn_q": value["llama.attention.head_count"], "attn_k": value["llama.attention.head_count_kv"]}
    tensors = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
    config = LlamaConfig(
        hidden_size=value["llama.embedding_length"],
        intermediate_size=value["llama.feed_forward_length"],
        num_hidden_layers=value["llama.block_count"],
        num_attention_heads=heads["attn_q"],
        num_key_value_heads=heads["attn_k"],
        rms_norm_eps=value["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": value["llama.rope.freq_base"]},
        max_position_embeddings=value["llama.context_length"],
        vocab_size=tensors["token_embd.weight"].shape[0],
        tie_word_embeddings="output.weight" not in tensors,
        bos_token_id=value["tokenizer.ggml.bos_token_id"],
        eos_token_id=value["tokenizer.ggml.eos_token_id"],
        attn_implementation="eager",
        dtype="float32",
    )
    model = LlamaForCausalLM(config).float().eval()
    state = {published(name): torch.from_numpy(unpermuted(name, values, heads)) for name, values in tensors.items()}
    left = model.load_state_dict(state, strict=False)
    assert left.unexpected_keys == []
    assert left.missing_keys == (["lm_head.weight"] if config.tie_word_embeddings else [])
    return model


NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def published(name: str) -> str:
    """The published name of a GGUF tensor."""
    module = name.removesuffix(".weight")
    if module in NAMES:
        return f"{NAMES[module]}.weight"
    _, layer, part = module.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.weight"


def unpermuted(name: str, values: NDArray[np.float32], heads: dict[str, int]) -> NDArray[np.float32]:
    """q and k with the rows of each head as published: first all first halves of the pairs, then all second ones.

    Source: LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py, turned around.
    """
    count = heads.get(name.split(".")[-2])
    if count is None:
        return values
    return np.ascontiguousarray(values.reshape(count, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape))


def test_logits_of_512_positions_of_english_are_those_of_transformers(demo: Demo) -> None:
    model = load_model(str(demo.file), demo.cache, 2, "all", (), lambda what, part: None)
    found = all_logits(model.program, model.pages, demo.ids, N_POSITIONS)
    model.close()
    assert np.isfinite(found).all()
    far = float(np.abs(found - demo.expected).max())
    same = float((found.argmax(axis=1) == demo.expected.argmax(axis=1)).mean())
    assert far < 5e-3, f"a logit differs by {far:.1e}"
    assert same >= 0.995, f"the likeliest token is the same at {same:.2%} of the positions"


def test_the_text_is_one_that_the_model_can_read(demo: Demo) -> None:
    """Weights that do not belong together would agree on nonsense; English text is predicted far better than chance."""
    rows = demo.expected[:-1].astype(np.float64)
    highest = rows.max(axis=1)
    total = highest + np.log(np.exp(rows - highest[:, None]).sum(axis=1))
    loss = float((total - rows[np.arange(len(rows)), demo.ids[1:]]).mean())
    assert loss < 4.0, f"{loss:.2f} nats a token; chance is {np.log(rows.shape[1]):.2f}"


def test_integer_activations_keep_the_likeliest_token_nearly_everywhere(demo: Demo) -> None:
    model = load_model(str(demo.file), demo.cache, 2, "all", ("activations=int8/g32",), lambda what, part: None)
    found = all_logits(model.program, model.pages, demo.ids, N_POSITIONS)
    model.close()
    far = float(np.linalg.norm(found - demo.expected) / np.linalg.norm(demo.expected))
    same = float((found.argmax(axis=1) == demo.expected.argmax(axis=1)).mean())
    assert 1e-4 < far < 0.03, f"the logits differ by {far:.1e} of their size"
    assert same >= 0.95, f"the likeliest token is the same at {same:.2%} of the positions"


def test_the_gguf_and_its_decoded_copy_give_equal_bytes(demo: Demo) -> None:
    found = {}
    for path in (demo.file, demo.copy):
        model = load_model(str(path), demo.cache, 2, "all", (), lambda what, part: None)
        logits = all_logits(model.program, model.pages, demo.ids, N_POSITIONS)
        found[path] = (logits_hash(logits), model.planned.bytes_digest, logits)
        model.close()
    assert found[demo.file][:2] == found[demo.copy][:2]
    assert np.array_equal(found[demo.file][2].view(np.uint32), found[demo.copy][2].view(np.uint32))
