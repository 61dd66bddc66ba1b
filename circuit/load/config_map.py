"""The config map of an architecture: what every key of a checkpoint's config means, as records.

A key gives facts (dims, params, run values), or is ignored, refused, required to have a value, or an object of keys.
A fact is resolved from the keys that give it, else from its default, another fact, an exact quotient, or a tensor.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from circuit.load.inputs import Library, once

Scalar = bool | int | float | str
Given = Scalar | tuple[Scalar, ...]
"""A value that a key may have: a scalar or a flat list of them."""

QUANTIZATION = "quantization"
"""The object whose keys belong to a quantization method, not to a model: quantization.py reads it."""

FactType = Literal["int", "switch", "float", "str", "strs", "ids"]
"""`switch` is 0 or 1, written true or false; `strs` a list of names; `ids` one token id or a list of them."""


class Condition(Struct, frozen=True, kw_only=True):
    """`fact` has one of `values`; with no values: it is there (`given`) or not."""

    fact: str
    values: tuple[Scalar, ...]
    given: bool


class FactSpec(Struct, frozen=True, kw_only=True):
    """One fact and where its value comes from when no key gives it, in this order: const, tensors, default, or_*.

    `above` and `most` bound numbers; `divides` and `same_as` name facts that it must divide, or equal.
    Where a condition of `when` fails, the fact is absent, and keys that give it are ignored or refused (`otherwise`).
    """

    name: str
    kind: Literal["dim", "param", "run"]
    type: FactType
    const: Scalar | None
    default: Given | None
    source: str
    or_fact: str | None
    or_div: tuple[str, str] | None
    if_tensor: str | None
    unless_tensor: str | None
    optional: bool
    allowed: tuple[Scalar, ...]
    above: float | None
    most: int
    divides: str | None
    same_as: str | None
    when: tuple[Condition, ...]
    otherwise: Literal["ignore", "refuse"]


class KeySpec(Struct, frozen=True, kw_only=True):
    """The class of one key. `show` names the entries of a refused object that the message quotes, `fix` what to do.
    `values` renames; other values are refused, those of `refused_values` with their reason.
    `null_unsets`: an explicit null means "none", not "as if the key were absent", as the published class has it.
    """

    name: str
    facts: tuple[str, ...]
    ignore: str | None
    refuse: str | None
    fix: str | None
    require: tuple[Given, ...]
    why: str
    object: str | None
    values: tuple[tuple[str, Scalar], ...]
    refused_values: tuple[tuple[str, str], ...]
    show: tuple[str, ...]
    null_unsets: bool
    length: bool


class LayerRule(Struct, frozen=True, kw_only=True):
    """How the kind of each layer is found: the list fact `kinds` where it is there; else the layers from `start` on
    slide if the dim `window` is there; else all are full."""

    count: str
    kinds: str
    window: str
    start: str


class ConfigMap(Struct, frozen=True, kw_only=True):
    """The map for one model type, with its variant laid over. `origin` is where the class defaults come from."""

    file: str
    arch: str
    model_type: str
    origin: str
    facts: tuple[FactSpec, ...]
    keys: Mapping[str, KeySpec]
    objects: Mapping[str, Mapping[str, KeySpec]]
    generation: Mapping[str, KeySpec]
    layers: LayerRule
    names: tuple[tuple[str, str], ...]
    unpermute: tuple[tuple[str, str], ...]
    ignored_tensors: tuple[tuple[str, str], ...]


Reads = Literal["config.json", "gguf"]
"""What kind of config a map is for."""


def mapped_types(library: Library, reads: Reads) -> tuple[str, ...]:
    """Each model type that the library maps, sorted."""

    def read() -> tuple[str, ...]:
        from circuit.load.config_map_file import model_types  # kept records need no reader

        return tuple(model_types(library, reads))

    return once(library, ("mapped types", reads), read)


def load_config_map(library: Library, reads: Reads, model_type: str) -> ConfigMap:
    """The map of a model type that is mapped, with its variant."""

    def read() -> ConfigMap:
        from circuit.load.config_map_file import model_types, read_config_map  # kept records need no reader

        return read_config_map(model_types(library, reads)[model_type], model_type)

    return once(library, ("config map", reads, model_type), read)


def key_spec(keys: Mapping[str, KeySpec], name: str) -> KeySpec | None:
    """The class of the key `name`: its own entry, else the longest entry that ends in `*` and fits."""
    found = keys.get(name)
    if found is not None:
        return found
    fitting = [key for key in keys if key.endswith("*") and name.startswith(key[:-1])]
    return keys[max(fitting, key=len)] if fitting else None


def first_key(config_map: ConfigMap, fact: str) -> str | None:
    """The key that usually gives `fact`, for messages about an absent value."""
    for name, spec in config_map.keys.items():
        if fact in spec.facts:
            return name
    for object_name, keys in config_map.objects.items():
        for name, spec in keys.items():
            if fact in spec.facts:
                owner = next(key for key, outer in config_map.keys.items() if outer.object == object_name)
                return f"{owner}.{name}"
    return None
