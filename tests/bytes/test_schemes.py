"""A model in each quantization scheme and its dequantized copy in F32 give the same logits, to the byte."""

from collections.abc import Callable
from pathlib import Path

import pytest

from circuit.load.source import Plain
from circuit_exec.cache import Cache
from circuit_exec.model import load_model
from tests import models
from tests.bytes.running import Logits, assert_equal_bytes, decoded, prefilled, tokens
from tests.checkpoint import schemes
from tests.checkpoint.files import Tensor, safetensors
from tests.checkpoint.schemes import Stored
from tests.shared import compiled_quickly

CONFIG = models.tiny_config("llama", hidden_size=128, intermediate_size=256, vocab_size=296, tie_word_embeddings=False)
ACTIVATIONS: Plain = {"dynamic": True, "num_bits": 8, "strategy": "token", "symmetric": True, "type": "float"}
EIGHT: models.Config = {"dynamic": False, "num_bits": 8, "strategy": "channel", "symmetric": True, "type": "float"}
FOUR: models.Config = {"dynamic": False, "group_size": 32, "num_bits": 4, "strategy": "group", "type": "int"}


def compressed(weights: models.Config, format: str, ignore: list[Plain]) -> models.Config:
    group: models.Config = {"weights": weights, "input_activations": ACTIVATIONS, "targets": ["Linear"]}
    return {
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "format": format,
        "config_groups": {"group_0": group},
        "ignore": ignore,
        "kv_cache_scheme": None,
    }


def gptq(version: str, sym: bool, group_size: int) -> models.Config:
    sizes: models.Config = {"bits": 4, "group_size": group_size, "desc_act": False, "sym": sym}
    return {"quant_method": "gptq", "checkpoint_format": version, **sizes}


Maker = Callable[[str, int, int], Stored]
CASES: dict[str, tuple[models.Config, Maker, bool]] = {  # the config, the tensors, whether the head is quantized
    "fp8_block": (
        {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
        },
        lambda module, n, k: schemes.fp8(module, n, k, 128, 128),
        False,
    ),
    "compressed_fp8": (
        compressed(EIGHT, "float-quantized", []),
        lambda module, n, k: schemes.fp8(module, n, k, 1, k, "weight_scale", "BF16"),
        True,
    ),
    "compressed_int4": (
        compressed(FOUR | {"symmetric": False}, "pack-quantized", ["re:.*self_attn\\.k_proj$", "lm_head"]),
        lambda module, n, k: schemes.packed(module, n, k, 32, False),
        False,
    ),
    "modelopt_fp8": (
        {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"], "kv_cache_scheme": None},
        lambda module, n, k: schemes.fp8(module, n, k, n, k, "weight_scale"),
        False,
    ),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True},
        lambda module, n, k: schemes.awq(module, n, k, 128),
        False,
    ),
    "gptq": (
        gptq("gptq", True, -1),
        lambda module, n, k: schemes.gptq(module, n, k, k, 1, True),
        False,
    ),
    "gptq_v2": (
        gptq("gptq_v2", False, 128),
        lambda module, n, k: schemes.gptq(module, n, k, 128, 2, False),
        False,
    ),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, share: Callable[[Cache], Cache]) -> Cache:
    """One cache, so that models of equal formats are compiled once."""
    return share(Cache(root=tmp_path_factory.mktemp("schemes") / "cache"))


FAST = ("fp8_block", "compressed_int4", "gptq")
"""One of each storage format, and between them every packing but AWQ's and every way to leave the head out."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in CASES])
def test_a_quantized_model_and_its_dequantized_copy_give_equal_bytes(name: str, tmp_path: Path, cache: Cache) -> None:
    quantization, make, with_head = CASES[name]
    stored: list[Tensor] = []
    plain = models.random_tensors(CONFIG)
    for key, values in list(plain.items()):
        module = key.removesuffix(".weight")
        left_out = (module == "lm_head" and not with_head) or (name == "compressed_int4" and "k_proj" in module)
        if values.ndim == 2 and "embed" not in key and not left_out:
            made = make(module, *values.shape)
            stored += made.tensors
            plain[key] = made.values
        else:
            stored.append(Tensor(name=key, dtype="F32", shape=values.shape, data=values.tobytes()))
    quantized = logits(written(tmp_path / "quantized", CONFIG | {"quantization_config": quantization}, stored), cache)
    copies = [Tensor(name=key, dtype="F32", shape=v.shape, data=v.tobytes()) for key, v in plain.items()]
    with compiled_quickly():
        copy = logits(written(tmp_path / "plain", CONFIG, copies), cache)
    for ours, theirs in zip(quantized, copy, strict=True):
        assert_equal_bytes(ours, theirs)


def written(folder: Path, config: models.Config, tensors: list[Tensor]) -> Path:
    folder.mkdir()
    models.write_config(folder, config)
    models.write_tokenizer(folder)
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    return folder


def logits(path: Path, cache: Cache) -> tuple[Logits, Logits]:
    """By prefill and by decode."""
    model = load_model(str(path), cache, 2, "all", (), lambda what, part: None)
    ids = tokens(model, 1, 24)
    (stepped,) = decoded(model, [ids], [0], n_steps=20)
    found = (prefilled(model, ids, 24), stepped)
    model.close()
    return found
