"""`quantization_config` of a checkpoint, or hf_quant_config.json, as a declared precision.

Every key of every object is used, required to have a value, ignored with a reason, or refused by name.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

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
    WEIGHTS,
    Rule,
    Table,
)
from circuit.load.source import Document, Path, Plain, line_of, path_text
from circuit.text import listed

METHODS = ("fp8", "compressed-tensors", "modelopt", "awq", "gptq")
GROUPS = (32, 64, 128)
_FLOATS = "use the checkpoint with float weights, or a GGUF file"
_INPUT_SCALE = "a scale of activations, which are not quantized"
_CACHE_SCALE = "a scale of a quantized cache; the cache's format is a policy of the run"


class _Refused(Exception):
    """The declaration cannot be used; the reading has the problem."""


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
    value = _at(document, path)
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
        return read(_Scope(reading, document, path, words))
    except _Refused:
        return None


class _Scope:
    """An object of the document that is being read; what is wrong goes to the reading."""

    def __init__(
        self, reading: Reading, document: Document, path: Path, words: Mapping[str, str] | None = None
    ) -> None:
        self.reading, self.document, self.path, self.words = reading, document, path, words or {}

    def used(self, table: Table, needed: tuple[str, ...] = ()) -> dict[str, Plain]:
        """The values of the keys that count; every other key is noted or refused. Null counts as absent."""
        value = _at(self.document, self.path)
        assert isinstance(value, dict)
        found: dict[str, Plain] = {}
        wrong = len(self.reading.problems)
        for name, item in value.items():
            at = (*self.path, name)
            rule = None if name in self.words.values() else table.get(self.words.get(name, name))
            if rule is None:
                message = f"unknown key `{path_text(at)}` of a quantization config"
                self.reading.refuse(self.document, at, message, f"remove it if it changes nothing; {_FLOATS}")
            elif item is None:
                self.reading.note(self.document, at, item, "ignore", "null counts as absent")
            else:
                self._key(at, item, rule, found)
        for name in needed:
            if value.get(name) is None:
                message = f"`{path_text((*self.path, name))}` is missing"
                self.reading.refuse(self.document, self.path, message, "use a checkpoint whose config is complete")
        if len(self.reading.problems) > wrong:
            raise _Refused
        return found

    def _key(self, at: Path, item: Plain, rule: Rule, found: dict[str, Plain]) -> None:
        match rule.kind:
            case "ignore":
                self.reading.note(self.document, at, item, "ignore", rule.why)
            case "use":
                name = str(at[-1])
                found[self.words.get(name, name)] = item
                self.reading.note(self.document, at, item, "param", rule.why, ("quantization",))
            case "require" if item in rule.values and isinstance(item, bool) == isinstance(rule.values[0], bool):
                self.reading.note(self.document, at, item, "require", rule.why)
            case "require":
                wanted = " or ".join(value_text(value) for value in rule.values)
                message = f"`{path_text(at)}` is {value_text(item)}; only {wanted} is supported: {rule.why}"
                self.reading.refuse(self.document, at, message, _FLOATS)

    def inner(self, *names: str | int) -> "_Scope":
        """An object inside."""
        scope = _Scope(self.reading, self.document, (*self.path, *names))
        if not isinstance(_at(self.document, scope.path), dict):
            scope.refuse((), "an object")
        return scope

    def refuse(self, names: Path, wanted: str) -> None:
        """Stops: the value at `names` is not what it must be."""
        at = (*self.path, *names)
        value = _at(self.document, at)
        said = "is missing" if value is None else f"is {value_text(value)}"
        message = f"`{path_text(at)}` {said}; {wanted} is supported"
        self.reading.refuse(self.document, at, message, _FLOATS)
        raise _Refused

    def number(self, found: Mapping[str, Plain], name: str) -> int:
        value = found.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse((name,), "an integer")
            raise AssertionError
        return value

    def switch(self, found: Mapping[str, Plain], name: str) -> bool:
        value = found.get(name)
        if not isinstance(value, bool):
            self.refuse((name,), "true or false")
            raise AssertionError
        return value

    def names(self, found: Mapping[str, Plain], name: str) -> tuple[str, ...]:
        """A list of names; none where it is absent."""
        value = found.get(name, [])
        texts = [item for item in value if isinstance(item, str)] if isinstance(value, list) else None
        if texts is None or not isinstance(value, list) or len(texts) != len(value):
            self.refuse((name,), "a list of names")
            raise AssertionError
        return tuple(texts)

    def group(self, found: Mapping[str, Plain], name: str) -> int | None:
        """Inputs that share a scale; None where -1 says all of them."""
        size = self.number(found, name)
        if size != -1 and size not in GROUPS:
            self.refuse((name,), f"-1 or one of {listed(map(str, GROUPS))}")
        return None if size == -1 else size

    def made(
        self,
        precision: Precision,
        skipped: tuple[Pattern, ...],
        skip_key: str,
        head: bool,
        targets: tuple[Pattern, ...] = (),
        unread: tuple[tuple[str, str], ...] = (),
    ) -> Quantization:
        return Quantization(
            source=self.document.source,
            line=line_of(self.document, self.path),
            said=path_text(self.path) or "quantization",
            precision=precision,
            head=head,
            targets=targets,
            skipped=skipped,
            skip_key=path_text((*self.path, skip_key)),
            unread=unread,
        )


def _fp8(scope: _Scope) -> Quantization:
    found = scope.used(FP8)
    rows, columns = None, None
    if "weight_block_size" in found:
        rows, columns = _block(scope, found["weight_block_size"], ("weight_block_size",))
    names = ("modules_to_not_convert", "ignored_layers")
    given = [name for name in names if name in found]
    if len(given) == 2 and scope.names(found, names[0]) != scope.names(found, names[1]):
        scope.refuse((names[1],), f"the list of `{names[0]}`, or one of the two keys,")
    skip_key = given[0] if given else names[0]
    precision = _codes_of_8_bits(("weight_scale_inv",) if columns else ("weight_scale_inv", "weight_scale"))
    unread = tuple((part, _INPUT_SCALE) for part in ("activation_scale", "input_scale"))
    unread += tuple((part, _CACHE_SCALE) for part in ("k_scale", "v_scale"))
    skipped = _patterns(scope.names(found, skip_key), "segments")
    return scope.made(
        replace(precision, rows=rows, columns=columns), skipped, skip_key, head=bool(given), unread=unread
    )


def _compressed(scope: _Scope) -> Quantization:
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


def _of_strategy(weights: _Scope, found: Mapping[str, Plain]) -> Precision:
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


def _modelopt(scope: _Scope) -> Quantization:
    found = scope.used(MODELOPT)
    return _modelopt_fp8(scope, found, "ignore" if "ignore" in found else "exclude_modules")


def _of_own_file(reading: Reading, document: Document) -> Quantization | None:
    scope = _Scope(reading, document, ())
    try:
        scope.used(HF_QUANT, ("quantization",))
        inner = scope.inner("quantization")
        return _modelopt_fp8(inner, inner.used(HF_QUANT_INNER), "exclude_modules")
    except _Refused:
        return None


def _modelopt_fp8(scope: _Scope, found: Mapping[str, Plain], skip_key: str) -> Quantization:
    if found.get("quant_algo") != "FP8":
        scope.refuse(("quant_algo",), '"FP8"')
    unread = (("input_scale", _INPUT_SCALE), ("k_scale", _CACHE_SCALE), ("v_scale", _CACHE_SCALE))
    skipped = _patterns(scope.names(found, skip_key), "segments")
    return scope.made(_codes_of_8_bits(("weight_scale",)), skipped, skip_key, head=True, unread=unread)


def _awq(scope: _Scope) -> Quantization:
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
    skipped = _patterns(scope.names(found, "modules_to_not_convert"), "segments")
    return scope.made(precision, skipped, "modules_to_not_convert", head=False)


def _gptq(scope: _Scope) -> Quantization:
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


def _block(scope: _Scope, value: Plain, names: Path) -> tuple[int, int]:
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


def _check_regexes(scope: _Scope, patterns: tuple[Pattern, ...]) -> None:
    for pattern in patterns:
        if pattern.kind == "regex":
            try:
                re.compile(pattern.text)
            except re.error as error:
                message = f"`re:{pattern.text}` is no regular expression"
                scope.reading.refuse(scope.document, scope.path, message, "correct it")
                raise _Refused from error


def _at(document: Document, path: Path) -> Plain:
    value: Plain = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) and isinstance(part, str) else None
    return value
