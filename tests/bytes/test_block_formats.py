"""A model in GGUF's block formats and its dequantized copy in F32 give the same logits, to the byte."""

from pathlib import Path

import numpy as np

from circuit.formats import FORMATS
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.decode import decode
from circuit_exec.checkpoint.raw import Bytes
from circuit_exec.model import Model, load_model
from tests import models
from tests.bytes.running import Logits, assert_equal_bytes, decoded, prefilled, tokens
from tests.checkpoint.blocks import HEAD, random_blocks
from tests.checkpoint.files import GGML
from tests.shared import compiled_quickly

CONFIG = models.tiny_config("llama", hidden_size=256, intermediate_size=512, num_attention_heads=4)
FORMAT_OF = {
    "token_embd.weight": "q6_k",
    "output.weight": "q4_k",
    "blk.0.attn_q.weight": "q5_k",
    "blk.0.attn_k.weight": "q5_k",
    "blk.0.attn_v.weight": "q6_k",
    "blk.0.attn_output.weight": "q4_1",
    "blk.0.ffn_gate.weight": "q4_k",
    "blk.0.ffn_up.weight": "q4_k",
    "blk.0.ffn_down.weight": "q3_k",
    "blk.1.attn_q.weight": "q5_0",
    "blk.1.attn_k.weight": "q5_0",
    "blk.1.attn_v.weight": "q5_0",
    "blk.1.attn_output.weight": "q5_1",
    "blk.1.ffn_gate.weight": "q2_k",
    "blk.1.ffn_up.weight": "iq4_nl",
    "blk.1.ffn_down.weight": "mxfp4",
}
ROWS = {"token_embd": 290, "output": 290, "attn_k": 128, "attn_v": 128, "ffn_gate": 512, "ffn_up": 512}
COLUMNS = {"ffn_down": 512}


def test_a_model_of_all_block_formats_and_its_dequantized_copy_give_equal_bytes(tmp_path: Path) -> None:
    stored = {name: blocks_of(name, format) for name, format in FORMAT_OF.items()}
    quantized = {name: (GGML[FORMAT_OF[name]], rows.tobytes()) for name, rows in stored.items()}
    plain = {name: (0, decode(rows.reshape(-1), FORMAT_OF[name]).tobytes()) for name, rows in stored.items()}
    cache = Cache(root=tmp_path / "cache")
    found = logits(models.write_gguf(tmp_path / "quantized.gguf", CONFIG, blocks=quantized), cache)
    with compiled_quickly():
        copy = logits(models.write_gguf(tmp_path / "plain.gguf", CONFIG, blocks=plain), cache)
    for ours, theirs in zip(found, copy, strict=True):
        assert_equal_bytes(ours, theirs)


def blocks_of(name: str, format: str) -> Bytes:
    """Random blocks of all codes whose values are of a size that keeps logits finite and apart."""
    part = name.removesuffix(".weight").rpartition(".")[2]
    n = ROWS.get(part, 256) * COLUMNS.get(part, 256) // FORMATS[format].block
    stored = random_blocks(format, n, len(name))
    at, heads = HEAD[format]
    if heads == 0:
        stored[:, 0] = np.random.default_rng(0).integers(118, 124, n)
        return stored
    stored[:, at : at + 2 * heads] = np.array([1.0] * heads, dtype="<f2").view(np.uint8)
    size = decode(stored.reshape(-1), format).std()
    scales = np.random.default_rng(1).uniform(0.02, 0.1, (n, heads)) / size
    stored[:, at : at + 2 * heads] = scales.astype("<f2").view(np.uint8).reshape(n, -1)
    return stored


def logits(path: Path, cache: Cache) -> tuple[Logits, Logits]:
    """By prefill and by decode."""
    model: Model = load_model(str(path), cache, 2, "all", (), lambda what, part: None)
    ids = tokens(model, 1, 24)
    (stepped,) = decoded(model, [ids], [0], n_steps=20)
    found = (prefilled(model, ids, 24), stepped)
    model.close()
    return found
