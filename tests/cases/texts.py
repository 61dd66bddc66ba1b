"""The tiny configs of this folder, the project's own data files, and checkpoints made of them in memory."""

import json
from functools import cache
from pathlib import Path

from circuit.errors import LoadError
from circuit.front.bir import Bir
from circuit.front.blocks import blocks
from circuit.load.circuits import load_circuit
from circuit.load.config import map_config
from circuit.load.facts import Facts
from circuit.load.inputs import HfTexts, Library, TensorInfo
from circuit.load.json_text import read_json
from circuit.load.ledger import Ledger
from circuit.load.source import Plain
from circuit.text import Source
from circuit.tir.bind import keys_in
from circuit.tir.instantiate import instantiate
from circuit.tir.ir import Tir

CASES = Path(__file__).parent
ROOT = CASES.parents[1]
MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")

Config = dict[str, Plain]


@cache
def library() -> Library:
    """The TOML files under kernels/circuits."""
    paths = sorted((ROOT / "kernels" / "circuits").rglob("*.toml"))
    return Library(files=tuple(Source(path=p.relative_to(ROOT).as_posix(), text=p.read_text("utf-8")) for p in paths))


def case(model_type: str, **changes: Plain) -> Config:
    """The tiny config of a model type; `changes` replace or add keys."""
    text = (CASES / model_type / "config.json").read_text("utf-8")
    return read_json(Source(path="config.json", text=text)).data | changes


def without(config: Config, *keys: str) -> Config:
    """The config without these keys."""
    return {key: value for key, value in config.items() if key not in keys}


def texts(config: Config, tensors: tuple[TensorInfo, ...] | None = None) -> HfTexts:
    """A checkpoint with this config.json: line 1 is the brace, then one key a line."""
    rows = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in config.items())
    return HfTexts(config=Source(path="config.json", text=f"{{\n{rows}\n}}"), tensors=tensors)


def mapped(config: Config, tensors: tuple[TensorInfo, ...] | None = None) -> tuple[Facts, Ledger]:
    """What the config map makes of it."""
    return map_config(texts(config, tensors), library())


def facts(config: Config) -> Facts:
    """The facts alone."""
    return mapped(config)[0]


def refusal(config: Config) -> str:
    """The text of the refusal."""
    try:
        mapped(config)
    except LoadError as error:
        return str(error)
    raise AssertionError("the config was accepted")


def bir_of(config: Config) -> Bir:
    """The block circuit of the config."""
    return blocks(load_circuit(library(), "dense_gqa"), facts(config))


def tir_of(config: Config) -> Tir:
    """The typed circuit of the config."""
    return instantiate(bir_of(config))


def tensors_of(tir: Tir, stored: str = "bf16") -> tuple[TensorInfo, ...]:
    """The tensors that the circuit asks for, all in one format."""
    return tuple(
        TensorInfo(name=key, format=stored, shape=weight.shape)
        for weight in tir.weights
        for key in keys_in(weight.recipe)
    )
