"""Quantization configs in which, together, every key that the tables know is there and counts.

Each is the `quantization_config` of a config.json, the hf_quant_config.json beside it, or both.
"""

from collections.abc import Iterator

from msgspec import Struct

from circuit.load.quantization_keys import (
    AWQ,
    COMPRESSED,
    FP8,
    GPTQ,
    GROUP,
    HF_QUANT,
    HF_QUANT_INNER,
    MODELOPT,
    MODELOPT_GROUP,
    MODELOPT_WEIGHTS,
    WEIGHTS,
    Rule,
    Table,
)
from circuit.load.source import Plain

Path = tuple[str, ...]
Object = dict[str, Plain]
CONFIG, OWN = "config.json", "hf_quant_config.json"
UP = "model.layers.0.mlp.up_proj"


class Quantized(Struct, frozen=True, kw_only=True):
    """A declaration: `files` are the quantization objects by the file that holds them, `tables` their keys by path."""

    name: str
    files: dict[str, Object]
    tables: dict[Path, Table]

    @property
    def file(self) -> str:
        """The file whose keys are changed."""
        return next(iter(self.files))


def quantized() -> tuple[Quantized, ...]:
    """All of them: every method, with each thing that a key can say."""
    lists: Plain = ["lm_head", UP]
    fp8: Object = {"quant_method": "fp8", "fmt": "e4m3", "modules_to_not_convert": lists}
    modelopt: Object = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": lists}
    awq: Object = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
    gptq: Object = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    own: Object = {"quantization": {"quant_algo": "FP8", "exclude_modules": lists}}
    eight: Object = {"num_bits": 8, "type": "float", "symmetric": True}
    float8: Object = {"num_bits": 8, "type": "float", "dynamic": False}
    block: Plain = [128, 128]
    found = [
        _flat("fp8 of blocks", fp8 | {"weight_block_size": block}, FP8),
        _flat("fp8 of tensors", fp8 | {"ignored_layers": lists}, FP8),
        _flat("fp8 with the other list", {"quant_method": "fp8", "ignored_layers": lists}, FP8),
        _flat("modelopt", modelopt, MODELOPT),
        Quantized(
            name="modelopt with groups",
            files={CONFIG: modelopt | {"config_groups": {"group_0": {"targets": ["Linear"], "weights": float8}}}},
            tables={
                (): MODELOPT,
                ("config_groups", "group_0"): MODELOPT_GROUP,
                ("config_groups", "group_0", "weights"): MODELOPT_WEIGHTS,
            },
        ),
        _flat("modelopt with the other list", _without(modelopt, "ignore") | {"exclude_modules": lists}, MODELOPT),
        _flat("awq", awq | {"modules_to_not_convert": [UP]}, AWQ),
        _flat("awq with both sizes", awq | {"q_group_size": 32}, AWQ),
        _flat("gptq", gptq | {"checkpoint_format": "gptq", "lm_head": False}, GPTQ),
        _flat("gptq of the second version", gptq | {"checkpoint_format": "gptq_v2", "sym": False}, GPTQ),
        _flat("gptq of rows", gptq | {"group_size": -1}, GPTQ),
        compressed("int4", "pack-quantized", _four("group") | {"group_size": 32}),
        compressed("int4 of rows", "pack-quantized", _four("channel") | {"group_size": -1}),
        compressed("int4 with zeros", "pack-quantized", _four("group") | {"group_size": 32, "symmetric": False}),
        compressed("fp8 of rows", "float-quantized", eight | {"strategy": "channel"}),
        compressed("fp8 of tensors", "float-quantized", eight | {"strategy": "tensor"}),
        compressed("fp8 of blocks", "float-quantized", eight | {"strategy": "block", "block_structure": block}),
        Quantized(name="own file", files={OWN: own}, tables={(): HF_QUANT, ("quantization",): HF_QUANT_INNER}),
    ]
    return tuple(found)


def compressed(name: str, format: str, weights: Object) -> Quantized:
    """One of compressed-tensors."""
    group: Object = {"targets": ["Linear"], "format": format, "weights": weights}
    config: Object = {
        "quant_method": "compressed-tensors",
        "format": format,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }
    inner = ("config_groups", "group_0")
    return Quantized(
        name=f"compressed {name}",
        files={CONFIG: config},
        tables={(): COMPRESSED, inner: GROUP, (*inner, "weights"): WEIGHTS},
    )


def changed(case: Quantized, path: Path, value: Plain) -> Quantized:
    """The declaration with another value of one key, or with one more key."""
    files = {name: _put(data, path, value) if name == case.file else data for name, data in case.files.items()}
    return Quantized(name=case.name, files=files, tables=case.tables)


def keys_in(case: Quantized) -> Iterator[tuple[Path, Rule, Plain]]:
    """Every key that the declaration has: its path, its rule, its value."""
    for at, table in case.tables.items():
        data: Plain = case.files[case.file]
        for part in at:
            assert isinstance(data, dict)
            data = data[part]
        assert isinstance(data, dict)
        for name, value in data.items():
            yield (*at, name), table[OUR_NAME.get(name, name)], value


OUR_NAME = {"lm_head": "head"}
"""Our words for keys that are named after modules of the model."""


def other_values(path: Path, value: Plain) -> list[Plain]:
    """Values that differ from `value` and could be legal: those that some file has at such a key."""
    known: dict[str, list[Plain]] = {
        "quant_method": ["fp8", "compressed-tensors", "modelopt", "awq", "gptq"],
        "format": ["float-quantized", "pack-quantized", "naive-quantized"],
        "weight_block_size": [[64, 128], [128, 256]],
        "block_structure": [[64, 128], [128, 256]],
        "group_size": [32, 64, 128, -1, 16],
        "q_group_size": [64, -1],
        "version": ["gemv", "GEMM"],
        "checkpoint_format": ["gptq", "gptq_v2", "marlin"],
        "quant_algo": ["NVFP4", "W4A16_AWQ", "FP8_PB_WO"],
        "targets": [["re:.*self_attn.*"], [UP], []],
        "num_bits": [4, 8],
        "type": ["int", "float"],
        "strategy": ["tensor", "channel", "group", "block", "token"],
    }
    if isinstance(value, bool):
        return [not value]
    if path[-1] in known:
        return [other for other in known[path[-1]] if other != value]
    assert isinstance(value, list), path
    return [value[:-1], [*value, "model.layers.1.mlp.down_proj"], [*value, "model.layers.0.self_attn.q_proj"]]


def _flat(name: str, config: Object, table: Table) -> Quantized:
    return Quantized(name=name, files={CONFIG: config}, tables={(): table})


def _four(strategy: str) -> Object:
    return {"num_bits": 4, "type": "int", "symmetric": True, "strategy": strategy}


def _without(config: Object, key: str) -> Object:
    return {name: value for name, value in config.items() if name != key}


def _put(data: Object, path: Path, value: Plain) -> Object:
    if len(path) == 1:
        return data | {path[0]: value}
    inner = data[path[0]]
    assert isinstance(inner, dict)
    return data | {path[0]: _put(inner, path[1:], value)}
