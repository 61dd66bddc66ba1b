"""Tiny random decoders of transformers, the oracle for whole models: float32, eager attention, every weight random.

The sizes are odd on purpose: 288 and 544 columns are chunks of 256 and a tail, 500 outputs fill no panel of 48, a head
is not hidden/heads wide, and three query heads share one of keys.
"""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

F32 = NDArray[np.float32]
Rounded = Callable[[F32], F32]
"""[..., head_dim] values as a cache keeps them."""

SIZES: Mapping[str, object] = {
    "hidden_size": 288,
    "intermediate_size": 544,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "vocab_size": 500,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}


class Case(Struct, frozen=True, kw_only=True):
    """A config: `changes` on top of SIZES, as arguments of the published class. `without` are changes that take its
    feature away: a model with them must give other logits, or the comparison could not see the feature.

    `stored` is the type of the weights in the file; the oracle has the same values in float32.
    """

    name: str
    model_type: str
    seed: int
    changes: Mapping[str, object] = field(default_factory=dict)
    without: Mapping[str, object]
    stored: str = "float32"


def _rope(**values: object) -> dict[str, dict[str, object]]:
    return {"rope_parameters": {"rope_theta": 10000.0, **values}}


PLAIN = _rope(rope_type="default")
LLAMA3 = _rope(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=256,
)
OTHER_BASE = _rope(rope_type="default", rope_theta=20000.0)
YARN = _rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=256)
TIED: Mapping[str, object] = {"tie_word_embeddings": True}

CASES = (
    Case(name="llama_llama3_rope", model_type="llama", seed=25, changes=LLAMA3, without=PLAIN),
    Case(
        name="mistral_window_bf16",
        model_type="mistral",
        seed=21,
        changes={"sliding_window": 70},
        without={"sliding_window": None},
        stored="bfloat16",
    ),
    Case(
        name="qwen2_window_from_layer_1_tied",
        model_type="qwen2",
        seed=7,
        changes={**TIED, "use_sliding_window": True, "sliding_window": 70, "max_window_layers": 1},
        without={"use_sliding_window": False},
    ),
    Case(
        name="qwen3_yarn_tied",
        model_type="qwen3",
        seed=23,
        changes={**TIED, **_rope(**YARN["rope_parameters"], attention_factor=1.2)},
        without=YARN,
    ),
)
MORE_CASES = (
    Case(
        name="llama_linear_rope_biases",
        model_type="llama",
        seed=20,
        changes={**_rope(rope_type="linear", factor=4.0), "attention_bias": True, "mlp_bias": True},
        without=PLAIN,
    ),
    Case(name="llama_yarn_tied", model_type="llama", seed=3, changes={**TIED, **YARN}, without=PLAIN),
    Case(
        name="mistral_no_window",
        model_type="mistral",
        seed=5,
        changes={"sliding_window": None},
        without={"sliding_window": 70},
    ),
    Case(name="qwen2_no_window_f16", model_type="qwen2", seed=21, without=OTHER_BASE, stored="float16"),
    Case(
        name="qwen3_no_rope_scaling",
        model_type="qwen3",
        seed=8,
        changes={"rms_norm_eps": 1e-6},
        without=OTHER_BASE,
    ),
)


def oracle(case: Case) -> "torch.nn.Module":
    """The model of a case, with values that its stored type holds exactly."""
    import torch

    model = _untrained(case.model_type, {**SIZES, **case.changes})
    random = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            value = _random(name, weight, random)
            weight.copy_(value.to(getattr(torch, case.stored)).float())
    return model


def without_feature(case: Case, model: "torch.nn.Module") -> "torch.nn.Module":
    """A model with the same weights and the changes of `case.without`."""
    other = _untrained(case.model_type, {**SIZES, **case.changes, **case.without})
    other.load_state_dict(model.state_dict())
    return other


def save(case: Case, model: "torch.nn.Module", folder: Path) -> Path:
    """The model as transformers saves it: config.json and model.safetensors; gives the folder."""
    import torch

    copy.deepcopy(model).to(getattr(torch, case.stored)).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text("utf-8"))["dtype"] == case.stored
    return folder


def logits(model: "torch.nn.Module", tokens: Sequence[int]) -> F32:
    """[positions, vocabulary]."""
    import torch

    with torch.no_grad():
        found: F32 = model(torch.tensor([list(tokens)]), use_cache=False).logits[0].numpy()
    return found


def long_logits(model: "torch.nn.Module", tokens: Sequence[int], positions: Sequence[int], chunk: int = 512) -> F32:
    """[positions asked for, vocabulary]: the text in chunks with a cache, so that no matrix has a side for every token
    but one."""
    import torch
    from transformers import DynamicCache

    past = DynamicCache(config=model.config)
    rows: list[F32] = []
    for at in range(0, len(tokens), chunk):
        with torch.no_grad():
            found = model(torch.tensor([list(tokens[at : at + chunk])]), cache=past, use_cache=True).logits[0]
        rows += [found[position - at].numpy() for position in positions if at <= position < at + chunk]
    return np.stack(rows)


def logits_with_cache(model: "torch.nn.Module", tokens: Sequence[int], rounded: Rounded) -> F32:
    """[positions, vocabulary] where every head of keys and values is rounded before attention sees it."""
    import torch
    from transformers import DynamicCache

    past = DynamicCache(config=model.config)
    plain = past.update

    def update(keys: torch.Tensor, values: torch.Tensor, *args: object, **named: object) -> object:
        kept = (torch.from_numpy(rounded(states.numpy())) for states in (keys, values))
        return plain(*kept, *args, **named)

    past.update = update
    with torch.no_grad():
        found: F32 = model(torch.tensor([list(tokens)]), cache=past, use_cache=True).logits[0].numpy()
    return found


def greedy(model: "torch.nn.Module", prompt: Sequence[int], n: int) -> tuple[list[int], float]:
    """`n` ids after the prompt, and the smallest lead of a chosen logit over the next, as part of the largest logit."""
    import torch
    from transformers import DynamicCache

    past, given = DynamicCache(config=model.config), list(prompt)
    ids: list[int] = []
    lead = float("inf")
    for _ in range(n):
        with torch.no_grad():
            row = model(torch.tensor([given]), cache=past, use_cache=True).logits[0, -1].numpy()
        second, first = np.sort(row)[-2:]
        lead = min(lead, float(first - second) / float(np.abs(row).max()))
        given = [int(row.argmax())]
        ids += given
    return ids, lead


def _untrained(model_type: str, values: Mapping[str, object]) -> "torch.nn.Module":
    import torch
    import transformers

    prefix = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[model_type]
    config = getattr(transformers, f"{prefix}Config")(**values, attn_implementation="eager", dtype="float32")
    torch.manual_seed(0)
    return getattr(transformers, f"{prefix}ForCausalLM")(config).float().eval()


def _random(name: str, weight: "torch.Tensor", random: "torch.Generator") -> "torch.Tensor":
    """Sizes that keep logits apart and attention sharp, so that a wrong position shows."""
    import torch

    value = torch.randn(weight.shape, generator=random)
    match name.rsplit(".", 2)[-2:]:
        case [_, "bias"]:
            return value * 0.3
        case ["q_norm" | "k_norm", _]:
            return value * 0.3 + 1.5
        case [norm, _] if norm.endswith("norm"):
            return value * 0.2 + 1.0
        case ["embed_tokens", _]:
            return value * 0.1  # small beside what the layers add, so that tied models do not repeat their token
        case ["q_proj" | "k_proj", _]:
            return value * 1.5 / weight.shape[1] ** 0.5
    return value / weight.shape[1] ** 0.5
