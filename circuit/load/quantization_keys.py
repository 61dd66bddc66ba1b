"""The keys of quantization configs, one table an object: what counts, what must have a value, what is ignored."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from circuit.load.source import Plain


class Rule(Struct, frozen=True, kw_only=True):
    """The class of a key. `decides` says what a used key does: a fact of the ledger."""

    kind: Literal["use", "object", "require", "ignore"]
    why: str = ""
    values: tuple[Plain, ...] = ()
    decides: str = ""


Table = Mapping[str, Rule]


def _ignored(why: str, *names: str) -> dict[str, Rule]:
    return {name: Rule(kind="ignore", why=why) for name in names}


def _required(why: str, *values: Plain) -> Rule:
    return Rule(kind="require", why=why, values=values)


STORED = "quantization"
"""How the projections are stored that are not left out."""
LEFT_OUT = "quantization.left_out"
"""Which projections are left out."""
OF_HEAD = "quantization.head"
"""Whether the head is stored as the other projections are."""

_USE = Rule(kind="use", decides=STORED)
_LIST = Rule(kind="use", decides=LEFT_OUT)
_OBJECT = Rule(kind="object")
OF_ACTIVATIONS = "activations are not quantized, whatever scales the file has; that is a policy of the run"
OF_CACHE = "the cache's format is a policy of the run; scales in the file are not read"
_PROGRAM = "about how another program quantized or runs the model"

FP8: Table = {
    "quant_method": _USE,
    "weight_block_size": _USE,
    "modules_to_not_convert": _LIST,
    "ignored_layers": _LIST,
    "fmt": _required("codes have 4 bits of exponent and 3 of mantissa", "e4m3", "float8_e4m3fn", "float8_e4m3"),
    **_ignored("scales are read as they are stored, powers of two or not", "scale_fmt"),
    **_ignored(OF_ACTIVATIONS, "activation_scheme"),
    **_ignored(OF_CACHE, "kv_cache_scheme"),
    **_ignored(_PROGRAM, "dequantize"),
}
COMPRESSED: Table = {
    "quant_method": _USE,
    "format": _USE,
    "config_groups": _OBJECT,
    "ignore": _LIST,
    "quantization_status": _required("weights are stored as codes", "compressed"),
    "sparsity_config": _required("no weight is left out of the tensors", {}),
    "transform_config": _required("no projection is turned before it is stored", {}),
    **_ignored(OF_CACHE, "kv_cache_scheme"),
    **_ignored(_PROGRAM, "global_compression_ratio", "version"),
}
GROUP: Table = {
    "targets": _USE,
    "format": _USE,
    "weights": _OBJECT,
    **_ignored(OF_ACTIVATIONS, "input_activations", "output_activations"),
}
WEIGHTS: Table = {
    "num_bits": _USE,
    "type": _USE,
    "symmetric": _USE,
    "strategy": _USE,
    "group_size": _USE,
    "block_structure": _USE,
    "dynamic": _required("scales of weights are stored", False),
    "actorder": _required("inputs stand in the order of their groups", "static", "weight"),
    **_ignored("the tensors have a type of their own, which is checked", "scale_dtype", "zp_dtype"),
    **_ignored(_PROGRAM, "observer", "observer_kwargs"),
}
MODELOPT: Table = {
    "quant_method": _USE,
    "quant_algo": _USE,
    "ignore": _LIST,
    "exclude_modules": _LIST,
    "config_groups": _OBJECT,
    **_ignored(OF_CACHE, "kv_cache_scheme", "kv_cache_quant_algo"),
    **_ignored(_PROGRAM, "producer"),
}
MODELOPT_GROUP: Table = {
    "weights": _OBJECT,
    "targets": _required("every projection is stored alike", ["Linear"]),
    **_ignored(OF_ACTIVATIONS, "input_activations", "output_activations"),
}
MODELOPT_WEIGHTS: Table = {
    "num_bits": _required("`quant_algo` says FP8", 8),
    "type": _required("`quant_algo` says FP8", "float"),
    "dynamic": _required("scales of weights are stored", False),
}
HF_QUANT: Table = {"quantization": _OBJECT, **_ignored(_PROGRAM, "producer")}
HF_QUANT_INNER: Table = {
    "quant_algo": _USE,
    "exclude_modules": _LIST,
    **_ignored(OF_CACHE, "kv_cache_quant_algo"),
}
AWQ: Table = {
    "quant_method": _USE,
    "bits": _required("codes have 4 bits", 4),
    "group_size": _USE,
    "version": _USE,
    "modules_to_not_convert": _LIST,
    "w_bit": _required("codes have 4 bits", 4),
    "q_group_size": _USE,
    "zero_point": _required("zeros are stored", True),
    **_ignored(_PROGRAM, "backend", "do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse"),
}
GPTQ: Table = {
    "quant_method": _USE,
    "bits": _required("codes have 4 bits", 4),
    "group_size": _USE,
    "sym": _USE,
    "checkpoint_format": _USE,
    "head": Rule(kind="use", decides=OF_HEAD),  # under the name that the model's config map gives
    "desc_act": _required("inputs stand in the order of their groups", False),
    "is_marlin_format": _required("codes are packed as GPTQ packs them", False),
    "pack_dtype": _required("eight codes a word", "int32"),
    "modules_in_block_to_quantize": _required("every projection of a layer is quantized", []),
    "dynamic": _required("every projection is quantized alike", {}),
    **_ignored(
        _PROGRAM, "static_groups", "true_sequential", "damp_percent", "damp_auto_increment", "model_file_base_name",
        "model_name_or_path", "meta", "quantizer", "dataset", "tokenizer", "batch_size", "block_name_to_quantize",
        "cache_block_outputs", "module_name_preceding_first_block", "model_seqlen", "max_input_length", "pad_token_id",
        "use_cuda_fp16", "disable_exllama", "use_exllama", "exllama_config", "backend", "mse",
    ),
}  # fmt: skip
