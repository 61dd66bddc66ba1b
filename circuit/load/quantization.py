"""`quantization_config` of a checkpoint, or hf_quant_config.json, as a declared precision.

Every key of every object is used, required to have a value, ignored with a reason, or refused by name.
"""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from circuit.load.classify import Reading, value_text
from circuit.load.precision import Pattern, Precision, Quantization
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
)
from circuit.load.quantization_scope import GROUPS, Refused, Scope, value_at
from circuit.load.source import Document, Path, Plain, path_text
from circuit.text import listed

METHODS = ("fp8", "compressed-tensors", "modelopt", "awq", "gptq")
_INPUT_SCALE = "a scale of activations, which are not quantized"
_CACHE_SCALE = "a scale of a quantized cache; the cache's format is a policy of the run"


def read_quantization(
    reading: Reading, config: tuple[Document, Path, Mapping[str, str]] | None, own: Document | None
) -> Quantization | None:
    """The declaration of the config, of hf_quant_config.json (`own`), or of both, which must say the same.

    `config` is where it is, and our words for keys that are named after modules of the model.
    """
    found = [_of_config(reading, *config)] if config is not None else []
    found += [_of_own_file(reading, own)] if own is not None else []
    if None in found or not found:
        return None
    first, last = found[0], found[-1]
    assert first is not None
    assert last is not None
    if (first.precision, first.head) != (last.precision, last.head):
        assert own is not None
        message = f"`{first.said}` and hf_quant_config.json declare different weights"
        reading.refuse(own, (), message, "keep the file that belongs to the tensors")
        return None
    return first if len(found) == 1 else replace(first, skipped=tuple(dict.fromkeys((*first.skipped, *last.skipped))))


def _of_config(reading: Reading, document: Document, path: Path, words: Mapping[str, str]) -> Quantization | None:
    value = value_at(document, path)
    if not isinstance(value, dict):
        reading.refuse(document, path, f"`{path_text(path)}` is {value_text(value)}", "write an object or null")
        return None
    method = value.get("quant_method")
    producer = value.get("producer")
    if method is None and isinstance(producer, dict) and producer.get("name") == "modelopt":
        method = "modelopt"
    read = _READERS.get(method) if isinstance(method, str) else None
    if read is None:
        name = path_text((*path, "quant_method"))
        said = f"is {value_text(method)}, which is not supported" if method is not None else "is missing"
        fix = f"use a checkpoint with one of: {listed(METHODS)}; or one with float weights, or a GGUF file"
        reading.refuse(document, (*path, "quant_method"), f"`{name}` {said}", fix)
        return None
    try:
        return read(Scope(reading, document, path, words))
    except Refused:
        return None


def _fp8(scope: Scope) -> Quantization:
    found = scope.used(FP8)
    rows, columns = None, None
    if "weight_block_size" in found:
        rows, columns = _block(scope, found["weight_block_size"], ("weight_block_size",))
    skip_key = _one_list(scope, found, "modules_to_not_convert", "ignored_layers")
    precision = _codes_of_8_bits(("weight_scale_inv",) if columns else ("weight_scale_inv", "weight_scale"))
    unread = tuple((part, _INPUT_SCALE) for part in ("activation_scale", "input_scale"))
    unread += tuple((part, _CACHE_SCALE) for part in ("k_scale", "v_scale"))
    skipped = _patterns(scope.names(found, skip_key), "segments")
    return scope.made(
        replace(precision, rows=rows, columns=columns), skipped, skip_key, head=skip_key in found, unread=unread
    )


def _compressed(scope: Scope) -> Quantization:
    found = scope.used(COMPRESSED, ("format", "config_groups"))
    groups = found.get("config_groups")
    if not isinstance(groups, dict) or len(groups) != 1:
        scope.refuse(("config_groups",), "one group of modules")
        raise AssertionError
    group = scope.inner("config_groups", next(iter(groups)))
    of_group = group.used(GROUP, ("targets", "weights"))
    weights = group.inner("weights")
    of_weights = weights.used(WEIGHTS, ("num_bits", "type", "symmetric", "strategy"))
    format, kind = found.get("format"), (of_weights.get("type"), of_weights.get("num_bits"))
    if of_group.get("format", format) != format:
        group.refuse(("format",), f"the format of the whole, {value_text(format)},")
    if (format, kind) not in (("float-quantized", ("float", 8)), ("pack-quantized", ("int", 4))):
        scope.refuse(("format",), "float-quantized with floats of 8 bits, or pack-quantized with integers of 4 bits,")
    symmetric = weights.switch(of_weights, "symmetric")
    if kind == ("float", 8):
        if not symmetric:
            weights.refuse(("symmetric",), "true")
        precision = _of_strategy(weights, of_weights)
    else:
        columns = None
        if of_weights.get("strategy") == "group":
            columns = weights.group(of_weights, "group_size")
        elif of_weights.get("strategy") != "channel":
            weights.refuse(("strategy",), "group or channel")
        precision = Precision(
            scheme="packed",
            codes="weight_packed",
            scales=("weight_scale",),
            zeros=None if symmetric else "weight_zero_point",
            order=None,
            rows=1,
            columns=columns,
            zero=8 if symmetric else 0,
        )
    _check_shares(weights, of_weights)
    unread = (
        ("weight_shape", "the shape, which the config gives"),
        ("input_scale", _INPUT_SCALE),
        ("output_scale", _INPUT_SCALE),
        ("k_scale", _CACHE_SCALE),
        ("v_scale", _CACHE_SCALE),
    )
    named = group.names(of_group, "targets")
    targets = () if "Linear" in named else _patterns(named, "exact")
    if not named:
        group.refuse(("targets",), "a list that is not empty")
    skipped = _patterns(tuple(name for name in scope.names(found, "ignore")), "exact")
    _check_regexes(scope, (*targets, *skipped))
    return scope.made(precision, skipped, "ignore", head=True, targets=targets, unread=unread)


def _check_shares(weights: Scope, found: Mapping[str, Plain]) -> None:
    """Sizes stand beside the strategy that has them, as compressed-tensors requires: a size that no value depended on
    would be a key that is claimed as used and changes nothing."""
    strategy = found.get("strategy")
    if strategy == "group" and found.get("group_size") == -1:
        weights.refuse(("group_size",), f"with `strategy` = group one of {listed(map(str, GROUPS))}")
    if strategy != "group" and found.get("group_size", -1) != -1:
        weights.refuse(("group_size",), f"with `strategy` = {value_text(strategy)} only null or -1")
    if strategy != "block" and "block_structure" in found:
        weights.refuse(("block_structure",), f"with `strategy` = {value_text(strategy)} only null")


def _of_strategy(weights: Scope, found: Mapping[str, Plain]) -> Precision:
    precision = _codes_of_8_bits(("weight_scale",))
    match found.get("strategy"):
        case "tensor":
            return precision
        case "channel":
            return replace(precision, rows=1)
        case "block":
            rows, columns = _block(weights, found.get("block_structure"), ("block_structure",))
            return replace(precision, rows=rows, columns=columns)
        case _:
            weights.refuse(("strategy",), "tensor, channel or block")
            raise AssertionError


def _modelopt(scope: Scope) -> Quantization:
    found = scope.used(MODELOPT)
    made = _modelopt_fp8(scope, found, _one_list(scope, found, "exclude_modules", "ignore"))
    groups = found.get("config_groups", {})
    if not isinstance(groups, dict):
        scope.refuse(("config_groups",), "an object")
        raise AssertionError
    for name in groups:
        group = scope.inner("config_groups", name)
        if "weights" in group.used(MODELOPT_GROUP):
            group.inner("weights").used(MODELOPT_WEIGHTS)
    return made


def _of_own_file(reading: Reading, document: Document) -> Quantization | None:
    scope = Scope(reading, document, ())
    try:
        scope.used(HF_QUANT, ("quantization",))
        inner = scope.inner("quantization")
        return _modelopt_fp8(inner, inner.used(HF_QUANT_INNER), "exclude_modules")
    except Refused:
        return None


def _one_list(scope: Scope, found: Mapping[str, Plain], first: str, second: str) -> str:
    """Which of two spellings of one list the object has, the first where it has none; both must say the same."""
    if first in found and second in found and scope.names(found, first) != scope.names(found, second):
        scope.refuse((second,), f"the list of `{first}`, or one of the two keys,")
    return second if second in found and first not in found else first


def _modelopt_fp8(scope: Scope, found: Mapping[str, Plain], skip_key: str) -> Quantization:
    if found.get("quant_algo") != "FP8":
        scope.refuse(("quant_algo",), '"FP8"')
    unread = (("input_scale", _INPUT_SCALE), ("k_scale", _CACHE_SCALE), ("v_scale", _CACHE_SCALE))
    skipped = _patterns(scope.names(found, skip_key), "segments")
    return scope.made(_codes_of_8_bits(("weight_scale",)), skipped, skip_key, head=True, unread=unread)


def _awq(scope: Scope) -> Quantization:
    found = scope.used(AWQ, ("bits", "group_size", "version", "zero_point"))
    version = found.get("version")
    if not isinstance(version, str) or version.lower() != "gemm":
        scope.refuse(("version",), '"gemm"')
    precision = Precision(
        scheme="awq",
        codes="qweight",
        scales=("scales",),
        zeros="qzeros",
        order=None,
        rows=1,
        columns=scope.group(found, "group_size"),
        zero=0,
    )
    if found.get("q_group_size", found["group_size"]) != found["group_size"]:
        scope.refuse(
            ("q_group_size",), f"the {value_text(found['group_size'])} of `group_size`, or one of the two keys,"
        )
    skipped = _patterns(scope.names(found, "modules_to_not_convert"), "segments")
    return scope.made(precision, skipped, "modules_to_not_convert", head=False)


def _gptq(scope: Scope) -> Quantization:
    found = scope.used(GPTQ, ("bits", "group_size", "desc_act", "sym"))
    version = found.get("checkpoint_format", "gptq")
    if version not in ("gptq", "gptq_v2"):
        scope.refuse(("checkpoint_format",), "gptq or gptq_v2")
    precision = Precision(
        scheme="gptq" if version == "gptq" else "gptq_v2",
        codes="qweight",
        scales=("scales",),
        zeros="qzeros",
        order="g_idx",
        rows=1,
        columns=scope.group(found, "group_size"),
        zero=8 if scope.switch(found, "sym") else 0,
    )
    head = scope.switch(found, "head") if "head" in found else False
    return scope.made(precision, (), "modules_in_block_to_quantize", head=head)


_READERS = {"fp8": _fp8, "compressed-tensors": _compressed, "modelopt": _modelopt, "awq": _awq, "gptq": _gptq}


def _codes_of_8_bits(scales: tuple[str, ...]) -> Precision:
    return Precision(
        scheme="fp8", codes="weight", scales=scales, zeros=None, order=None, rows=None, columns=None, zero=0
    )


def _block(scope: Scope, value: Plain, names: Path) -> tuple[int, int]:
    sizes = [n for n in value if isinstance(n, int) and not isinstance(n, bool)] if isinstance(value, list) else []
    if (
        not isinstance(value, list)
        or len(value) != 2
        or len(sizes) != 2
        or sizes[0] < 1
        or sizes[1] % 128
        or not sizes[1]
    ):
        scope.refuse(names, "a pair of numbers, the second a multiple of 128,")
    return sizes[0], sizes[1]


def _patterns(names: tuple[str, ...], plain: str) -> tuple[Pattern, ...]:
    """`re:` begins a regular expression of compressed-tensors; a `*` makes a glob where names are segments."""
    found = []
    for name in names:
        if plain == "exact":
            found.append(Pattern(kind="regex" if name.startswith("re:") else "exact", text=name.removeprefix("re:")))
        else:
            found.append(Pattern(kind="glob" if "*" in name else "segments", text=name))
    return tuple(found)


def _check_regexes(scope: Scope, patterns: tuple[Pattern, ...]) -> None:
    for pattern in patterns:
        if pattern.kind == "regex":
            try:
                re.compile(pattern.text)
            except re.error as error:
                message = f"`re:{pattern.text}` is no regular expression"
                scope.reading.refuse(scope.document, scope.path, message, "correct it")
                raise Refused from error
