"""Published configs: each maps, or is refused for the reason that its file gives. Skipped where they are not there."""

from pathlib import Path

import pytest

from circuit.errors import LoadError
from circuit.front.blocks import blocks
from circuit.load.circuits import load_circuit
from circuit.load.config import map_config
from circuit.load.facts import Facts
from circuit.load.inputs import HfTexts
from circuit.load.json_text import read_json
from circuit.load.source import Plain
from circuit.text import Source
from circuit.tir.instantiate import instantiate
from circuit.tir.quantize import as_declared
from tests.cases.texts import MODEL_TYPES, library

CONFIGS = Path(__file__).parents[3] / "shared" / "configs"

MAPPED = {  # folder: nodes, context
    "Qwen--Qwen2.5-7B": (457, 131072),
    "Qwen--Qwen2.5-7B-Instruct": (457, 32768),
    "Qwen--Qwen3-1.7B": (513, 40960),
    "Qwen--Qwen3-14B": (729, 40960),
    "Qwen--Qwen3-32B": (1161, 40960),
    "Qwen--Qwen3-32B-FP8": (1161, 40960),
    "Qwen--Qwen3-32B-FP8-Static-PerTensor": (1161, 40960),
    "Qwen--Qwen3-8B-FP8": (657, 40960),
    "Qwen--Qwen3-4B-Thinking-2507": (657, 262144),
    "Qwen--Qwen3-Embedding-8B": (657, 40960),
    "codellama--CodeLlama-34b-hf": (777, 16384),
    "codellama--CodeLlama-70b-hf": (1289, 16384),
    "codellama--CodeLlama-7b-hf": (521, 16384),
    "hf-internal-testing--tiny-random-LlamaForCausalLM": (41, 2048),
    "internlm--internlm-20b": (969, 4096),
    "meta-llama--Llama-3.1-70B-Instruct": (1289, 131072),
    "meta-llama--Llama-3.2-1B-Instruct": (265, 131072),
    "meta-llama--Meta-Llama-3.1-70B": (1289, 131072),
    "meta-llama--Meta-Llama-3.1-8B": (521, 131072),
    "mistralai--Ministral-8B-Instruct-2410": (585, 32768),
    "naver-hyperclovax--HyperCLOVAX-SEED-Text-Instruct-0.5B": (393, 8192),
    "nvidia--Llama-3.1-70B-Instruct-FP8": (1289, 131072),
}
QUANTIZED = {  # folder: weights in codes of 8 bits; every other weight of every folder is a float
    "Qwen--Qwen3-32B-FP8": 448,
    "Qwen--Qwen3-32B-FP8-Static-PerTensor": 448,
    "Qwen--Qwen3-8B-FP8": 252,
    "nvidia--Llama-3.1-70B-Instruct-FP8": 560,
}
REFUSED = {  # folder: what the refusal says, all of it
    "Alibaba-NLP--gte-Qwen2-7B-instruct": ("`auto_map` is refused", "`is_causal` is false"),
    "dnakov--cwm-mlx": ("`layer_types` is", "`sliding_window` is refused"),
    "intfloat--e5-mistral-7b-instruct": ("`architectures` is",),
}

needs_configs = pytest.mark.skipif(not CONFIGS.is_dir(), reason="the published configs are not on this machine")


def found(folder: str) -> Facts:
    def beside(name: str) -> Source | None:
        path = CONFIGS / folder / name
        return Source(path=name, text=path.read_text("utf-8")) if path.is_file() else None

    config = beside("config.json")
    assert config is not None
    return map_config(
        HfTexts(
            config=config,
            generation_config=beside("generation_config.json"),
            quantization=beside("hf_quant_config.json"),
        ),
        library(),
    )[0]


@needs_configs
def test_the_two_tables_hold_every_file_of_the_four_types() -> None:
    of_ours = []
    for path in sorted(CONFIGS.glob("*/config.json")):
        data: dict[str, Plain] = read_json(Source(path=str(path), text=path.read_text("utf-8"))).data
        if data.get("model_type") in MODEL_TYPES:
            of_ours.append(path.parent.name)
    assert sorted([*MAPPED, *REFUSED]) == of_ours


@needs_configs
@pytest.mark.parametrize("folder", MAPPED)
def test_a_published_config_maps(folder: str) -> None:
    if not (CONFIGS / folder).is_dir():
        pytest.skip(f"{folder} is not there")
    facts = found(folder)
    tir = as_declared(instantiate(blocks(load_circuit(library(), facts.arch), facts)), facts.quantization)
    assert (len(tir.nodes), tir.context) == MAPPED[folder]
    assert sum(weight.format == "f8_e4m3" for weight in tir.weights) == QUANTIZED.get(folder, 0)


@needs_configs
@pytest.mark.parametrize("folder", REFUSED)
def test_a_published_config_is_refused_for_a_reason(folder: str) -> None:
    if not (CONFIGS / folder).is_dir():
        pytest.skip(f"{folder} is not there")
    with pytest.raises(LoadError) as caught:
        found(folder)
    for problem, said in zip(caught.value.problems, REFUSED[folder], strict=True):
        assert problem.message.startswith(said)
        assert problem.line is not None


@needs_configs
def test_other_published_configs_are_refused_by_their_model_type() -> None:
    refused = 0
    for path in sorted(CONFIGS.glob("*/config.json"))[::8]:
        if path.parent.name in MAPPED or path.parent.name in REFUSED:
            continue
        with pytest.raises(LoadError) as caught:
            found(path.parent.name)
        (problem,) = caught.value.problems
        assert "`model_type`" in problem.message
        assert problem.fix == "use a checkpoint with one of: llama, mistral, qwen2, qwen3"
        refused += 1
    assert refused > 30
