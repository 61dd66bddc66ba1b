"""Tiny random checkpoints, made with numpy alone: config, tensors and a byte-level tokenizer, as safetensors or GGUF.

The dimensions are small and odd on purpose: 290 outputs fill no panel of 48 or 64, 96 columns fill no chunk of 256.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from circuit.load.source import Plain

Config = dict[str, Plain]
Tensors = dict[str, NDArray[np.float32]]
Blocks = tuple[int, bytes]

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_config(model_type: str, **changes: Plain) -> Config:
    """A two-layer config of `model_type` as its vendor writes it; `changes` replace or add keys."""
    config: Config = {
        "architectures": [
            {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[model_type] + "ForCausalLM"
        ],
        "bos_token_id": 272,
        "eos_token_id": 274,
        "hidden_act": "silu",
        "hidden_size": 64,
        "initializer_range": 0.02,
        "intermediate_size": 96,
        "max_position_embeddings": 1024,
        "model_type": model_type,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "transformers_version": "4.51.0",
        "use_cache": True,
        "vocab_size": 290,
    }
    if model_type == "qwen3":
        config["head_dim"] = 24
    if model_type == "mistral":
        config["sliding_window"] = 40
    return config | changes


def tensor_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Every tensor of the checkpoint, under its published name."""
    dim, inner, vocab = (_size(config, key) for key in ("hidden_size", "intermediate_size", "vocab_size"))
    heads, kv_heads = _size(config, "num_attention_heads"), _size(config, "num_key_value_heads")
    head_dim = _size(config, "head_dim") if "head_dim" in config else dim // heads
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, dim)}
    for layer in range(_size(config, "num_hidden_layers")):
        at = f"model.layers.{layer}"
        shapes[f"{at}.input_layernorm.weight"] = (dim,)
        shapes[f"{at}.self_attn.q_proj.weight"] = (heads * head_dim, dim)
        shapes[f"{at}.self_attn.k_proj.weight"] = (kv_heads * head_dim, dim)
        shapes[f"{at}.self_attn.v_proj.weight"] = (kv_heads * head_dim, dim)
        shapes[f"{at}.self_attn.o_proj.weight"] = (dim, heads * head_dim)
        if config["model_type"] == "qwen2":
            shapes[f"{at}.self_attn.q_proj.bias"] = (heads * head_dim,)
            shapes[f"{at}.self_attn.k_proj.bias"] = (kv_heads * head_dim,)
            shapes[f"{at}.self_attn.v_proj.bias"] = (kv_heads * head_dim,)
        if config["model_type"] == "qwen3":
            shapes[f"{at}.self_attn.q_norm.weight"] = (head_dim,)
            shapes[f"{at}.self_attn.k_norm.weight"] = (head_dim,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (dim,)
        shapes[f"{at}.mlp.gate_proj.weight"] = (inner, dim)
        shapes[f"{at}.mlp.up_proj.weight"] = (inner, dim)
        shapes[f"{at}.mlp.down_proj.weight"] = (dim, inner)
    shapes["model.norm.weight"] = (dim,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, dim)
    return shapes


def random_tensors(config: Config, *, seed: int = 0) -> Tensors:
    """Values of a size that keeps logits apart; each is exactly a bfloat16 and an f16."""
    draw = np.random.default_rng(seed)
    tensors: Tensors = {}
    for name, shape in tensor_shapes(config).items():
        values = draw.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            values = values * np.float32(0.1) + np.float32(0.0 if name.endswith("bias") else 1.0)
        elif "embed" not in name:
            values = values / np.float32(np.sqrt(shape[1]))
        short = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        tensors[name] = np.where(np.abs(short) < 2.0**-14, np.float32(0), short)  # f16 has 8 bits from there on
    return tensors


def write_safetensors(path: Path, tensors: Tensors, *, dtype: str = "F32") -> None:
    """One safetensors file; `dtype` is F32, F16 or BF16."""
    header: Config = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in tensors.items():
        stored = _stored(values, dtype)
        header[name] = {
            "dtype": dtype,
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(stored)],
        }
        data += stored
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_checkpoint(folder: Path, config: Config, *, seed: int = 0, dtype: str = "F32") -> Path:
    """The folder with config, weights and tokenizer of a random model; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, config)
    write_safetensors(folder / "model.safetensors", random_tensors(config, seed=seed), dtype=dtype)
    write_tokenizer(folder)
    return folder


def write_config(folder: Path, config: Config) -> Path:
    """config.json, one key a line, as vendors write it; gives its path."""
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return path


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json: byte-level BPE with 16 merges, three special tokens, ChatML."""
    tokens, merges = _vocabulary()
    flags: Config = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special: list[Plain] = [
        {"id": place, "content": text, **flags} for place, text in enumerate(tokens) if text.startswith("<|")
    ]
    level: Config = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    bpe: Config = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {text: place for place, text in enumerate(tokens)},
        "merges": list(merges),
    }
    tokenizer: Config = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special}
    tokenizer |= {"normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": bpe}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    settings: Config = {
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "chat_template": CHAT_TEMPLATE,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def write_gguf(path: Path, config: Config, *, seed: int = 0, blocks: Mapping[str, Blocks] | None = None) -> Path:
    """The same random llama-type model as one GGUF file in F32; gives the path.

    `blocks`: tensors, by their names in the file, that are stored otherwise: the ggml type and the bytes.
    """
    assert config["model_type"] == "llama", "GGUF names are written for llama only"
    tokens, merges = _vocabulary()
    tokens += [f"<|unused_{i}|>" for i in range(_size(config, "vocab_size") - len(tokens))]
    heads, dim = _size(config, "num_attention_heads"), _size(config, "hidden_size")
    metadata = [
        _string_entry("general.architecture", "llama"),
        _string_entry("general.name", "tiny"),
        _u32_entry("general.file_type", 0),
        _u32_entry("llama.context_length", _size(config, "max_position_embeddings")),
        _u32_entry("llama.embedding_length", dim),
        _u32_entry("llama.block_count", _size(config, "num_hidden_layers")),
        _u32_entry("llama.feed_forward_length", _size(config, "intermediate_size")),
        _u32_entry("llama.attention.head_count", heads),
        _u32_entry("llama.attention.head_count_kv", _size(config, "num_key_value_heads")),
        _u32_entry("llama.rope.dimension_count", dim // heads),
        _u32_entry("llama.vocab_size", _size(config, "vocab_size")),
        _f32_entry("llama.attention.layer_norm_rms_epsilon", config["rms_norm_eps"]),
        _f32_entry("llama.rope.freq_base", config["rope_theta"]),
        _string_entry("tokenizer.ggml.model", "gpt2"),
        _string_entry("tokenizer.ggml.pre", "smollm"),
        _strings_entry("tokenizer.ggml.tokens", tokens),
        _i32s_entry("tokenizer.ggml.token_type", [3 if text.startswith("<|") else 1 for text in tokens]),
        _strings_entry("tokenizer.ggml.merges", merges),
        _u32_entry("tokenizer.ggml.bos_token_id", _size(config, "bos_token_id")),
        _u32_entry("tokenizer.ggml.eos_token_id", _size(config, "eos_token_id")),
        _string_entry("tokenizer.chat_template", CHAT_TEMPLATE),
    ]
    tensors = {
        _gguf_name(name): _interleaved(name, values, config)
        for name, values in random_tensors(config, seed=seed).items()
    }
    table, data = b"", b""
    for name, values in tensors.items():
        table += _string(name) + struct.pack("<I", values.ndim)
        kind, stored = (blocks or {}).get(name, (0, values.tobytes()))
        table += struct.pack(f"<{values.ndim}Q", *reversed(values.shape)) + struct.pack("<IQ", kind, len(data))
        data += stored
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata) + table
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def _size(config: Config, key: str) -> int:
    value = config[key]
    assert isinstance(value, int), f"{key} = {value}"
    return value


def _stored(values: NDArray[np.float32], dtype: str) -> bytes:
    match dtype:
        case "F32":
            return values.astype("<f4").tobytes()
        case "F16":
            return values.astype("<f2").tobytes()
        case "BF16":
            return (values.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
    raise AssertionError(dtype)


def _vocabulary() -> tuple[list[str], list[str]]:
    """Tokens by id (256 bytes, 16 merged, 3 special) and merges. Source: bytes_to_unicode of GPT-2's encoder.py."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shown = {byte: chr(byte) for byte in printable}
    for n, byte in enumerate(byte for byte in range(256) if byte not in shown):
        shown[byte] = chr(256 + n)
    merges = [
        "Ġ t",
        "h e",
        "i n",
        "Ġ a",
        "r e",
        "o n",
        "Ġt he",
        "Ġ s",
        "e r",
        "a t",
        "Ġ w",
        "e n",
        "Ġ o",
        "o r",
        "Ġ c",
        "i s",
    ]
    merged = [pair.replace(" ", "") for pair in merges]
    return [shown[byte] for byte in range(256)] + merged + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], merges


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def _gguf_name(name: str) -> str:
    module, _, last = name.rpartition(".")
    if module in _GGUF_NAMES:
        return f"{_GGUF_NAMES[module]}.{last}"
    layer, _, rest = module.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_GGUF_NAMES[rest]}.{last}"


def _interleaved(name: str, values: NDArray[np.float32], config: Config) -> NDArray[np.float32]:
    """q and k rows in the order of llama-type GGUF files: row 2*i + s of a head is the published row s*half + i."""
    for key, count in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        if key in name:
            heads = _size(config, count)
            halves = values.reshape(heads, 2, values.shape[0] // heads // 2, -1)
            return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
    return values


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _u32_entry(key: str, value: int) -> bytes:
    return _string(key) + struct.pack("<II", 4, value)


def _f32_entry(key: str, value: Plain) -> bytes:
    return _string(key) + struct.pack("<If", 6, cast(float, value))


def _string_entry(key: str, value: str) -> bytes:
    return _string(key) + struct.pack("<I", 8) + _string(value)


def _strings_entry(key: str, values: list[str]) -> bytes:
    return _string(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(_string, values))


def _i32s_entry(key: str, values: list[int]) -> bytes:
    return _string(key) + struct.pack(f"<IIQ{len(values)}i", 9, 5, len(values), *values)
