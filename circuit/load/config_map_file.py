"""Config-map TOML -> `ConfigMap`.

Variants are laid over entry by entry: an entry of the variant replaces the whole entry.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import field

from circuit.errors import LoadError, Problem
from circuit.load.config_map import (
    QUANTIZATION,
    Condition,
    ConfigMap,
    FactSpec,
    FactType,
    Given,
    KeySpec,
    LayerRule,
    Reads,
)
from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library, files_under, once
from circuit.load.shapes import Schema
from circuit.load.source import Document, Path, line_of
from circuit.load.toml_text import read_toml
from circuit.text import Source, check, listed, problem_at

_Scalar = bool | int | float | str


class _Condition(FileShape, frozen=True, kw_only=True):
    fact: str
    values: list[_Scalar] = field(default_factory=list)
    given: bool = True


class _Fact(FileShape, frozen=True, kw_only=True):
    type: FactType = "int"
    const: _Scalar | None = None
    default: _Scalar | list[_Scalar] | None = None
    source: str | None = None
    or_fact: str | None = None
    or_div: list[str] | None = None
    if_tensor: str | None = None
    unless_tensor: str | None = None
    optional: bool = False
    allowed: list[_Scalar] = field(default_factory=list)
    above: float | None = None
    most: int = 2**31 - 1
    divides: str | None = None
    same_as: str | None = None
    when: list[_Condition] = field(default_factory=list)
    otherwise: Literal["ignore", "refuse"] = "refuse"


class _Key(FileShape, frozen=True, kw_only=True):
    dim: str | list[str] | None = None
    param: str | None = None
    run: str | None = None
    ignore: str | None = None
    refuse: str | None = None
    fix: str | None = None
    require: list[_Scalar | list[_Scalar]] | None = None
    why: str = ""
    object: str | None = None
    values: dict[str, _Scalar] = field(default_factory=dict)
    refused_values: dict[str, str] = field(default_factory=dict)
    show: list[str] = field(default_factory=list)
    null_unsets: bool = False
    length: bool = False


class _Layers(FileShape, frozen=True, kw_only=True):
    count: str
    kinds: str
    window: str
    start: str


class _Variant(FileShape, frozen=True, kw_only=True):
    dims: dict[str, _Fact] = field(default_factory=dict)
    params: dict[str, _Fact] = field(default_factory=dict)
    run: dict[str, _Fact] = field(default_factory=dict)
    keys: dict[str, _Key] = field(default_factory=dict)
    unpermute: dict[str, str] = field(default_factory=dict)


class _File(FileShape, frozen=True, kw_only=True):
    schema: Schema
    arch: str
    reads: Reads
    model_types: list[str]
    origin: str
    dims: dict[str, _Fact]
    params: dict[str, _Fact]
    run: dict[str, _Fact]
    keys: dict[str, _Key]
    objects: dict[str, dict[str, _Key]] = field(default_factory=dict)
    generation: dict[str, _Key] = field(default_factory=dict)
    layers: _Layers
    names: dict[str, str] = field(default_factory=dict)
    ignored_tensors: dict[str, str] = field(default_factory=dict)
    variant: dict[str, _Variant] = field(default_factory=dict)


def model_types(library: Library, reads: Reads) -> dict[str, Document]:
    """Each model type that the library maps, with the file that maps it, sorted by name."""
    return once(library, ("model types", reads), lambda: _loaded(library, reads))


def _loaded(library: Library, reads: Reads) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for source in _files(library, reads):
        document = read_toml(source)
        for name in validated(document, _File).model_types:
            if name in found:
                message = f"the model type `{name}` is mapped in {found[name].source.path} too"
                raise LoadError(problem_at(source, None, message, "map it once"))
            found[name] = document
    return dict(sorted(found.items()))


def architecture_keys(library: Library) -> dict[str, str]:
    """Every name that a config map gives to something of an architecture, with the file: config keys and facts."""
    found: dict[str, str] = {}
    for source in sorted((*_files(library, "config.json"), *_files(library, "gguf")), key=lambda s: s.path):
        shape = validated(read_toml(source), _File)
        names = [*shape.keys, *(name for table in shape.objects.values() for name in table), *shape.dims, *shape.params]
        for name in names:
            found.setdefault(name.replace("{arch}.", ""), source.path)
    return found


def read_config_map(document: Document, model_type: str) -> ConfigMap:
    """The map of `model_type`, with its variant; a LoadError with all that is wrong in the file."""
    shape = validated(document, _File)
    variant = shape.variant.get(model_type, _Variant())
    problems: list[Problem] = []
    for name in shape.variant:
        if name not in shape.model_types:
            line = line_of(document, ("variant", name))
            problems.append(
                problem_at(document.source, line, f"variant `{name}` is no model type", "rename or remove it")
            )

    def keys(table: Mapping[str, _Key], path: Path) -> dict[str, KeySpec]:
        found = {}
        for name, key in table.items():
            at = ("variant", model_type, "keys", name) if path == ("keys",) and name in variant.keys else (*path, name)
            real = name.replace("{arch}", model_type)
            found[real] = _key(document, at, real, key, problems)
        return found

    facts = [
        *(_fact(shape, model_type, name, "dim", fact) for name, fact in {**shape.dims, **variant.dims}.items()),
        *(_fact(shape, model_type, name, "param", fact) for name, fact in {**shape.params, **variant.params}.items()),
        *(_fact(shape, model_type, name, "run", fact) for name, fact in {**shape.run, **variant.run}.items()),
    ]
    config_map = ConfigMap(
        file=document.source.path,
        arch=shape.arch,
        model_type=model_type,
        origin=shape.origin,
        facts=tuple(facts),
        keys=keys({**shape.keys, **variant.keys}, ("keys",)),
        objects={name: keys(table, ("objects", name)) for name, table in shape.objects.items()},
        generation=keys(shape.generation, ("generation",)),
        layers=LayerRule(
            count=shape.layers.count, kinds=shape.layers.kinds, window=shape.layers.window, start=shape.layers.start
        ),
        names=tuple(shape.names.items()),
        unpermute=tuple(variant.unpermute.items()),
        ignored_tensors=tuple(shape.ignored_tensors.items()),
    )
    problems.extend(_reference_problems(document, config_map))
    check(problems)
    return config_map


def _files(library: Library, reads: Reads) -> tuple[Source, ...]:
    return files_under(library, "circuits", ".config.toml" if reads == "config.json" else ".gguf.toml")


def _fact(shape: _File, model_type: str, name: str, kind: Literal["dim", "param", "run"], fact: _Fact) -> FactSpec:
    return FactSpec(
        name=name,
        kind=kind,
        type=fact.type,
        const=fact.const,
        default=tuple(fact.default) if isinstance(fact.default, list) else fact.default,
        source=fact.source or f"default of {model_type}, {shape.origin}",
        or_fact=fact.or_fact,
        or_div=(fact.or_div[0], fact.or_div[1]) if fact.or_div else None,
        if_tensor=fact.if_tensor,
        unless_tensor=fact.unless_tensor,
        optional=fact.optional,
        allowed=tuple(fact.allowed),
        above=fact.above,
        most=fact.most,
        divides=fact.divides,
        same_as=fact.same_as,
        when=tuple(Condition(fact=each.fact, values=tuple(each.values), given=each.given) for each in fact.when),
        otherwise=fact.otherwise,
    )


def _key(document: Document, path: Path, name: str, key: _Key, problems: list[Problem]) -> KeySpec:
    dims = [key.dim] if isinstance(key.dim, str) else key.dim or []
    facts = [*dims, *([key.param] if key.param else []), *([key.run] if key.run else [])]
    chosen = [bool(facts), key.ignore is not None, key.refuse is not None, key.require is not None, bool(key.object)]

    def add(message: str, fix: str) -> None:
        problems.append(problem_at(document.source, line_of(document, path), message, fix))

    if sum(chosen) != 1:
        add(
            f"key `{name}` has {sum(chosen)} classes",
            "give it one of: dim, param, run, ignore, refuse, require, object",
        )
    if key.require is not None and not key.why:
        add(f"key `{name}` requires a value without saying why", "add `why = ...`")
    if key.ignore == "" or key.refuse == "":
        add(f"key `{name}` gives no reason", "say why it is ignored or refused")
    return KeySpec(
        name=name,
        facts=tuple(facts),
        ignore=key.ignore,
        refuse=key.refuse,
        fix=key.fix,
        require=tuple(_given(value) for value in key.require or []),
        why=key.why,
        object=key.object,
        values=tuple(key.values.items()),
        refused_values=tuple(key.refused_values.items()),
        show=tuple(key.show),
        null_unsets=key.null_unsets,
        length=key.length,
    )


def _given(value: _Scalar | list[_Scalar]) -> Given:
    return tuple(value) if isinstance(value, list) else value


def _reference_problems(document: Document, config_map: ConfigMap) -> list[Problem]:
    """Names of facts and objects that do not exist, or that are resolved only later."""
    problems: list[Problem] = []
    before: list[str] = list(PRESET)
    for fact in config_map.facts:
        tied = [
            fact.or_fact,
            fact.divides,
            fact.same_as,
            *(fact.or_div or ()),
            *(condition.fact for condition in fact.when),
        ]
        for name in (name for name in tied if name is not None and name not in before):
            message = f"`{fact.name}` refers to `{name}`, which is not a fact above it"
            problems.append(_at_fact(document, fact.name, message, f"name one of: {listed(before)}"))
        before.append(fact.name)
    rule = config_map.layers
    for name in (rule.count, rule.kinds, rule.window, rule.start):
        if name not in before:
            line = line_of(document, ("layers",))
            message = f"`layers` refers to `{name}`, which is no fact"
            problems.append(problem_at(document.source, line, message, f"name one of: {listed(before)}"))
    tables: list[tuple[str, Mapping[str, KeySpec]]] = [("keys", config_map.keys), ("generation", config_map.generation)]
    tables.extend((f"objects.{name}", keys) for name, keys in config_map.objects.items())
    for table, keys in tables:
        for key in keys.values():
            unknown = [name for name in key.facts if name not in before]
            if key.object not in (None, QUANTIZATION, *config_map.objects):
                unknown.append(str(key.object))
            for name in unknown:
                message = f"key `{key.name}` gives `{name}`, which does not exist"
                fix = "declare it under dims, params, run or objects"
                problems.append(
                    problem_at(document.source, line_of(document, (*table.split("."), key.name)), message, fix)
                )
    return problems


def _at_fact(document: Document, name: str, message: str, fix: str) -> Problem:
    for table in ("dims", "params", "run"):
        if (table, name) in document.lines:
            return problem_at(document.source, document.lines[(table, name)], message, fix)
    return problem_at(document.source, None, message, fix)


PRESET: tuple[str, ...] = ("has_tensors",)
"""Facts that no file gives: whether the checkpoint's tensors are known."""
