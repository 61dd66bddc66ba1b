"""Rope frequencies against transformers and against numbers worked out by hand."""

import struct
from itertools import pairwise
from typing import Any

import pytest

from circuit.load.facts import Facts
from circuit.load.source import Plain
from tests.cases.texts import Config, case, facts, without


def rope(**changes: Plain) -> tuple[tuple[float, ...], float]:
    config = without(case("llama", **changes), *(() if "rope_scaling" in changes else ("rope_scaling",)))
    return _rope(facts(config))


def _rope(found: Facts) -> tuple[tuple[float, ...], float]:
    params = dict(found.params)
    inv_freq, scale = params["inv_freq"], params["rope_scale"]
    assert isinstance(inv_freq, tuple)
    assert isinstance(scale, float)
    return inv_freq, scale


def ulps(a: float, b: float) -> int:
    """How many float32 values lie between two positive ones."""
    as_int = [struct.unpack("<i", struct.pack("<f", value))[0] for value in (a, b)]
    return abs(int(as_int[0]) - int(as_int[1]))


LLAMA3: Config = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN: Config = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("theta", [10000.0, 500000.0, 1000000.0])
@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 2.5},
        LLAMA3,
        LLAMA3 | {"factor": 8.0, "original_max_position_embeddings": 512},
        YARN,
        YARN | {"truncate": False},
        YARN | {"beta_fast": 16, "beta_slow": 2},
        YARN | {"attention_factor": 1.3},
        YARN | {"mscale": 1.0, "mscale_all_dim": 0.707},
        YARN | {"factor": 1.0},
        YARN | {"factor": 40, "original_max_position_embeddings": 4096},
    ],
)
def test_frequencies_are_those_of_transformers(head_dim: int, theta: float, scaling: Config) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=4 * head_dim,
        num_attention_heads=4,
        head_dim=head_dim,
        max_position_embeddings=131072,
        rope_parameters=dict(scaling) | {"rope_theta": theta},
    )
    theirs, their_scale = _theirs(transformers, config, str(scaling["rope_type"]))
    ours, scale = rope(head_dim=head_dim, rope_theta=theta, rope_scaling=dict(scaling), max_position_embeddings=131072)
    assert len(ours) == len(theirs) == head_dim // 2
    # transformers computes in float32; where it blends two frequencies it subtracts numbers near 1, which costs bits.
    allowed = 2 if scaling["rope_type"] in ("default", "linear") else 8
    assert max(ulps(a, b) for a, b in zip(ours, theirs, strict=True)) <= allowed
    assert sum(ulps(a, b) > 2 for a, b in zip(ours, theirs, strict=True)) <= 4
    assert ulps(scale, their_scale) <= 1


def _theirs(transformers: Any, config: Any, kind: str) -> tuple[list[float], float]:  # noqa: ANN401
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    if kind == "default":
        inv_freq, scale = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        inv_freq, scale = ROPE_INIT_FUNCTIONS[kind](config, None)
    return [float(value) for value in inv_freq], float(scale)


def test_llama_3_2_1b_keeps_15_pairs_blends_3_and_divides_14_by_32() -> None:
    plain, _ = rope(head_dim=64, rope_theta=500000.0)
    turned, scale = rope(head_dim=64, rope_theta=500000.0, rope_scaling=LLAMA3)
    ratios = [a / b for a, b in zip(plain, turned, strict=True)]
    assert ratios[:15] == [1.0] * 15
    assert all(1.0 < ratio < 32.0 for ratio in ratios[15:18])
    assert ratios[18:] == [32.0] * 14
    assert all(a < b for a, b in pairwise(ratios[14:19]))
    assert scale == 1.0


def test_exact_powers_come_out_exact() -> None:
    inv_freq, _ = rope(head_dim=16, rope_theta=10000.0)
    powers = (1.0, 10**-0.5, 0.1, 10**-1.5, 0.01, 10**-2.5, 0.001, 10**-3.5)
    assert inv_freq == tuple(struct.unpack("<f", struct.pack("<f", power))[0] for power in powers)


def test_the_attention_factor_is_on_cos_and_sin_only_and_once() -> None:
    found = facts(case("qwen2"))
    plain = facts(without(case("qwen2"), "rope_scaling"))
    _, scale = _rope(found)
    assert scale == struct.unpack("<f", struct.pack("<f", 1.1386294361119891))[0]  # 0.1 ln 4 + 1
    assert dict(found.params)["attn_scale"] == dict(plain.params)["attn_scale"] == 0.25


def test_a_partial_rope_turns_the_first_part_of_a_head() -> None:
    found = facts(without(case("mistral", partial_rotary_factor=0.5), "rope_scaling"))
    assert dict(found.dims)["rotary_dim"] == 12
    inv_freq, _ = _rope(found)
    assert inv_freq == rope(head_dim=12, rope_theta=10000.0)[0]


def test_mscale_without_its_partner_is_not_read() -> None:
    alone = rope(rope_scaling=YARN | {"mscale": 2.0})
    assert alone == rope(rope_scaling=YARN)
