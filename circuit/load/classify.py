"""Each key of a document against the config map: the facts it gives, or why it is ignored or refused."""

import json
import math
from collections.abc import Mapping

from msgspec import Struct, field

from circuit.errors import Problem
from circuit.load.config_map import QUANTIZATION, ConfigMap, FactSpec, Given, KeySpec, key_spec
from circuit.load.ledger import Entry, EntryKind
from circuit.load.source import Document, Length, Path, Plain, line_of, path_text
from circuit.text import listed, problem_at

Value = int | float | str | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]
"""A fact's value after conversion to its type."""


class Said(Struct, frozen=True, kw_only=True):
    """One key gives one fact this value; None is an explicit null. `entry` is its place in the ledger."""

    document: Document
    path: Path
    value: Value | None
    entry: int


class Reading(Struct, kw_only=True):
    """What has been found so far: facts by the keys that gave them, ledger entries, problems, facts that failed."""

    config_map: ConfigMap
    said: dict[str, list[Said]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    quantized: list[tuple[Document, Path, Mapping[str, str]]] = field(default_factory=list)

    def refuse(self, document: Document, path: Path, message: str, fix: str) -> None:
        self.problems.append(problem_at(document.source, line_of(document, path), message, fix))

    def note(
        self,
        document: Document,
        path: Path,
        value: Plain,
        kind: EntryKind,
        why: str = "",
        became: tuple[str, ...] = (),
    ) -> int:
        """Add a ledger entry; its place."""
        self.entries.append(
            Entry(
                file=document.source.path,
                line=line_of(document, path),
                key=path_text(path),
                value=value_text(value),
                kind=kind,
                became=became,
                nodes=(),
                why=why,
            )
        )
        return len(self.entries) - 1


def classify(reading: Reading, document: Document, keys: Mapping[str, KeySpec]) -> None:
    """Every key of the document, in its order."""
    _table(reading, document, (), document.data, keys)


def value_text(value: Plain) -> str:
    """The value as JSON; a long list as its length."""
    if isinstance(value, Length):
        return f"[{value.count} values]"
    if isinstance(value, list | tuple) and len(value) > 256:
        return f"[{len(value)} values]"
    return json.dumps(value, ensure_ascii=False)


def _table(
    reading: Reading, document: Document, path: Path, table: dict[str, Plain], keys: Mapping[str, KeySpec]
) -> None:
    for name, value in table.items():
        at = (*path, name)
        spec = key_spec(keys, name)
        if spec is None:
            message = f"unknown key `{path_text(at)}` for model type {reading.config_map.model_type}"
            fix = f"remove it if it changes nothing, or classify it in {reading.config_map.file}"
            reading.refuse(document, at, message, fix)
        else:
            _key(reading, document, at, value, spec)


def _key(reading: Reading, document: Document, path: Path, value: Plain, spec: KeySpec) -> None:
    name = path_text(path)
    if value is None and not (spec.null_unsets and spec.facts):
        reading.note(document, path, value, "ignore", "null counts as absent")
    elif spec.ignore is not None:
        reading.note(document, path, value, "ignore", spec.ignore)
    elif spec.refuse is not None:
        message = f"`{name}` is refused{_shown(value, spec)}: {spec.refuse}"
        reading.refuse(document, path, message, spec.fix or _refuse_fix(name))
        reading.failed.update(spec.facts)
    elif spec.object == QUANTIZATION:
        reading.note(document, path, value, "object")
        reading.quantized.append((document, path, {theirs: str(ours) for theirs, ours in spec.values}))
    elif spec.object is not None:
        if isinstance(value, dict):
            reading.note(document, path, value, "object")
            _table(reading, document, path, value, reading.config_map.objects[spec.object])
        else:
            reading.refuse(document, path, f"`{name}` is {value_text(value)}", "write an object or null")
    elif spec.require:
        if any(_same(value, wanted) for wanted in spec.require):
            reading.note(document, path, value, "require", spec.why)
        else:
            wanted_text = " or ".join(value_text(_plain(wanted)) for wanted in spec.require)
            message = f"`{name}` is {value_text(value)}; only {wanted_text} is supported: {spec.why}"
            reading.refuse(document, path, message, f"use a checkpoint with `{name}` = {wanted_text}")
    else:
        _facts(reading, document, path, value, spec)


def _facts(reading: Reading, document: Document, path: Path, value: Plain, spec: KeySpec) -> None:
    specs = [fact for fact in reading.config_map.facts if fact.name in spec.facts]
    entry = reading.note(document, path, value, specs[0].kind, "", spec.facts)
    for fact in specs:
        if value is None:
            reading.said.setdefault(fact.name, []).append(Said(document=document, path=path, value=None, entry=entry))
            continue
        try:
            converted = _converted(value, spec, fact)
        except ValueError as error:
            reading.failed.add(fact.name)
            message, fix = error.args
            reading.refuse(document, path, f"`{path_text(path)}` {message}", fix)
            break
        reading.said.setdefault(fact.name, []).append(Said(document=document, path=path, value=converted, entry=entry))


def _converted(value: Plain, spec: KeySpec, fact: FactSpec) -> Value:
    """The value in the fact's type; ValueError(message, fix)."""
    shown = value_text(value)
    if spec.length:
        if isinstance(value, Length):
            return value.count
        if not isinstance(value, list | tuple):
            raise ValueError(f"is {shown}", "write a list")
        return len(value)
    match fact.type:
        case "int":
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"is {shown}", "write an integer")
            return value
        case "switch":
            if not isinstance(value, bool):
                raise ValueError(f"is {shown}", "write true or false")
            return int(value)
        case "float":
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise ValueError(f"is {shown}", "write a finite number")
            return float(value)
        case "str":
            return _renamed(value, spec)
        case "strs":
            if not isinstance(value, list | tuple):
                raise ValueError(f"is {shown}", "write a list of names")
            return tuple(_renamed(item, spec) for item in value)
        case "ids":
            items = value if isinstance(value, list | tuple) else [value]
            ids = [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
            if len(ids) != len(items):
                raise ValueError(f"is {shown}", "write a token id or a list of them")
            return tuple(ids)


def _renamed(value: Plain, spec: KeySpec) -> str:
    for theirs, ours in spec.values:
        if value == theirs and isinstance(ours, str):
            return ours
    fix = f"use a checkpoint with one of: {listed(theirs for theirs, _ in spec.values)}"
    for refused, why in spec.refused_values:
        if value == refused:
            raise ValueError(f"is {value_text(value)}, which is refused: {why}", fix)
    raise ValueError(f"is {value_text(value)}, which is not supported", fix)


def _same(value: Plain, wanted: Given) -> bool:
    if isinstance(wanted, tuple):
        return isinstance(value, list | tuple) and tuple(value) == wanted
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _plain(value: Given) -> Plain:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Plain, spec: KeySpec) -> str:
    if not isinstance(value, dict):
        return f" ({value_text(value)})"
    shown: list[tuple[str, Plain]] = [(name, value[name]) for name in spec.show if name in value]
    return f" ({', '.join(f'{name} = {value_text(item)}' for name, item in shown)})" if shown else ""


def _refuse_fix(name: str) -> str:
    return f"use a checkpoint without it, or remove `{name}` if it changes nothing"
