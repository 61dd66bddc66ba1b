"""Checkpoints in which, together, every key that the config maps know is there and counts.

Each is a config.json (and perhaps a generation_config.json) or the metadata of a GGUF file, as plain values by key.
"""

from msgspec import Struct
from msgspec.structs import replace

from circuit.load.source import Plain
from tests import models
from tests.cases.texts import MODEL_TYPES, case, without
from tests.load import test_gguf

Keys = dict[str, Plain]

YARN: Keys = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 256,
    "beta_fast": 4.0,
    "beta_slow": 2.0,
    "truncate": False,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 1.0,
}
LLAMA3: Keys = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
GGUF_TYPES = ("llama", "qwen2", "qwen3")


class Case(Struct, frozen=True, kw_only=True):
    """One checkpoint: `files` are config.json and generation_config.json, or "gguf", by name."""

    name: str
    model_type: str
    files: dict[str, Keys]


def cases() -> tuple[Case, ...]:
    """All of them."""
    found = [each for model_type in MODEL_TYPES for each in _hf(model_type)]
    return (*found, *(each for model_type in GGUF_TYPES for each in _gguf(model_type)))


def changed(case: Case, file: str, key: tuple[str, ...], value: Plain) -> Case:
    """The case with another value of one key, which may lie in an object."""
    keys = case.files[file]
    if len(key) == 1:
        new = keys | {key[0]: value}
    else:
        table = keys[key[0]]
        assert isinstance(table, dict)
        new = keys | {key[0]: table | {key[1]: value}}
    return replace(case, files=case.files | {file: new})


def _hf(model_type: str) -> list[Case]:
    """The tiny config of the cases, the one of the models, every kind of rope, every other spelling."""
    base: Keys = dict(models.tiny_config(model_type, head_dim=64, bos_token_id=1, eos_token_id=[2, 7]))
    plain = without(base, "rope_theta")
    spelled = without(base, "torch_dtype") | {
        "bias": model_type == "qwen2",
        "dtype": "bfloat16",
        "layer_types": ["full_attention", "full_attention" if model_type == "llama" else "sliding_attention"],
        "mlp_bias": False,
        "original_max_position_embeddings": 256,
        "pad_token_id": 3,
        "partial_rotary_factor": 1.0,
        "rope_scaling": {"type": "yarn", "factor": 4.0},
        "use_sliding_window": model_type in ("qwen2", "qwen3"),
    }
    if model_type in ("qwen2", "qwen3"):
        spelled |= {"sliding_window": 48}
        plain |= {"sliding_window": 48, "use_sliding_window": True, "max_window_layers": 1}
    ropes: dict[str, Keys] = {
        "linear": {"type": "linear", "factor": 2.0, "rope_theta": 10000.0},
        "llama3": LLAMA3 | {"rope_theta": 10000.0},
        "yarn": YARN,
        "yarn by its factor alone": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0},
        "yarn with mscales": YARN | {"mscale": 1.0, "mscale_all_dim": 0.7},
        "yarn with its factor": YARN | {"attention_factor": 0.9},
    }
    found: dict[str, dict[str, Keys]] = {
        "case": {"config.json": case(model_type)},
        "tiny": {"config.json": base},
        "spelled": {"config.json": spelled},
        **{name: {"config.json": plain | {"rope_parameters": dict(rope)}} for name, rope in ropes.items()},
        "generation": {
            "config.json": without(base, "bos_token_id", "eos_token_id"),
            "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
        },
    }
    return [Case(name=f"{model_type} {name}", model_type=model_type, files=files) for name, files in found.items()]


def _gguf(model_type: str) -> list[Case]:
    """What a converter writes; with and without what says a thing twice; every kind of rope scaling."""
    base: Keys = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in test_gguf.metadata(model_type, tokenizer__ggml__padding_token_id=0).items()
    }
    base |= {f"{model_type}.embedding_length": 256, f"{model_type}.rope.dimension_count": 64}
    heads = {f"{model_type}.attention.key_length": 64}
    values = {f"{model_type}.attention.value_length": 64}
    scaling = f"{model_type}.rope.scaling"
    yarn: Keys = {
        f"{scaling}.type": "yarn",
        f"{scaling}.factor": 4.0,
        f"{scaling}.original_context_length": 256,
        f"{scaling}.yarn_beta_fast": 4.0,
        f"{scaling}.yarn_beta_slow": 2.0,
    }
    turned = f"{model_type}.rope.dimension_count"
    found: dict[str, Keys] = {
        "plain": base,
        "vocabulary by size": without(base, "tokenizer.ggml.tokens"),
        "vocabulary by tokens": without(base, f"{model_type}.vocab_size"),
        "keys": without(base, turned) | heads,
        "values": without(base, turned) | values,
        "linear": base | {f"{scaling}.type": "linear", f"{scaling}.factor": 2.0},
        "yarn": base | yarn,
    }
    return [
        Case(name=f"gguf {model_type} {name}", model_type=model_type, files={"gguf": keys})
        for name, keys in found.items()
    ]
