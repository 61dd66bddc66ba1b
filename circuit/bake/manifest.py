"""The manifest: every baked tensor in the order the program reads it, with recipe, layout and place in one file."""

import hashlib
import re

from msgspec import Struct

from circuit.bake.layout import PANEL_FORMATS, Layout, layout_of, n_words
from circuit.bake.recipe_text import RecipeError, parse_recipe, recipe_text
from circuit.errors import LoadError
from circuit.text import Source, problem_at, quoted, unquoted
from circuit.tir.ir import Recipe, Weight

ALIGN_BYTES = 64
VERSION = 3
"""Of the layouts: a file that was baked under another has another manifest, so it is never taken for this one."""

_QUOTED = r'("(?:[^"\\]|\\.)*")'
_WORD, _NUMBER, _DIMS = r"(\w+)", r"\d+", r"(\d+(?:x\d+)?)"


class Entry(Struct, frozen=True, kw_only=True):
    """One baked tensor. `format` is the checkpoint's; a vector is baked as f32 whatever its format."""

    name: str
    recipe: Recipe
    format: str
    layout: Layout
    shape: tuple[int, ...]
    offset_bytes: int
    n_bytes: int


class Manifest(Struct, frozen=True, kw_only=True):
    """`equal` are pairs of checkpoint tensors that must hold the same bytes, checked before baking.

    `n_bytes` is the size of the whole payload, a multiple of 64.
    """

    panel: int
    entries: tuple[Entry, ...]
    equal: tuple[tuple[str, str], ...]
    n_bytes: int


def build_manifest(weights: tuple[Weight, ...], panel: int, equal: tuple[tuple[str, str], ...] = ()) -> Manifest:
    """Places the weights one after the other, each at a multiple of 64 bytes, in the order given."""
    names = [weight.name for weight in weights]
    assert len(set(names)) == len(names), "two weights of one name"
    entries = []
    at = 0
    for weight in weights:
        assert weight.format in PANEL_FORMATS, f"{weight.name}: {weight.format} cannot be baked"
        layout = layout_of(weight.shape)
        n_bytes = n_words(layout, weight.format, weight.shape, panel) * 4
        entries.append(
            Entry(
                name=weight.name,
                recipe=weight.recipe,
                format=weight.format,
                layout=layout,
                shape=weight.shape,
                offset_bytes=at,
                n_bytes=n_bytes,
            )
        )
        at += -(-n_bytes // ALIGN_BYTES) * ALIGN_BYTES
    return Manifest(panel=panel, entries=tuple(entries), equal=equal, n_bytes=at)


def manifest_text(manifest: Manifest) -> str:
    """The text form: one line a tensor. It reads back with `parse`."""
    lines = [f"manifest {VERSION} panel {manifest.panel} bytes {manifest.n_bytes}"]
    lines += [f"equal {quoted(a)} {quoted(b)}" for a, b in manifest.equal]
    for entry in manifest.entries:
        shape = "x".join(str(dim) for dim in entry.shape)
        lines.append(
            f"weight {quoted(entry.name)} {entry.format} {entry.layout} {shape} at {entry.offset_bytes} "
            f"bytes {entry.n_bytes} <- {recipe_text(entry.recipe)}"
        )
    return "\n".join(lines) + "\n"


def manifest_digest(manifest: Manifest) -> str:
    """SHA-256 of the text form, in hex."""
    return hashlib.sha256(manifest_text(manifest).encode("utf-8")).hexdigest()


def parse(source: Source) -> Manifest:
    """The manifest of a text; what it says of layouts and places must be what its weights give."""
    lines = source.text.removesuffix("\n").split("\n")
    weights: list[Weight] = []
    equal: list[tuple[str, str]] = []
    panel = 0
    if not source.text:
        raise _refused(source, 1, "the manifest is empty")
    for at, line in enumerate(lines, start=1):
        try:
            if at == 1:
                panel = _panel(line)
            elif line.startswith("equal "):
                equal.append(_equal(line))
            else:
                weights.append(_weight(line))
        except (RecipeError, ValueError) as error:
            raise _refused(source, at, "not a line of a manifest") from error
    manifest = build_manifest(tuple(weights), panel, tuple(equal))
    for at, (given, made) in enumerate(zip(lines, manifest_text(manifest).split("\n"), strict=False), start=1):
        if given != made:
            raise _refused(source, at, f"the line does not follow from its weights, which give `{made}`")
    return manifest


def _refused(source: Source, line: int, message: str) -> LoadError:
    return LoadError(problem_at(source, line, message, "write the manifest again with the plan that it belongs to"))


def _panel(line: str) -> int:
    found = re.fullmatch(rf"manifest {VERSION} panel ([1-9]\d*) bytes \d+", line)
    if found is None:
        raise ValueError(line)
    return int(found[1])


def _equal(line: str) -> tuple[str, str]:
    found = re.fullmatch(f"equal {_QUOTED} {_QUOTED}", line)
    if found is None:
        raise ValueError(line)
    return unquoted(found[1]), unquoted(found[2])


def _weight(line: str) -> Weight:
    found = re.fullmatch(
        f"weight {_QUOTED} {_WORD} {_WORD} {_DIMS} at {_NUMBER} bytes {_NUMBER} <- (.+)", line, re.DOTALL
    )
    if found is None:
        raise ValueError(line)
    name, format, layout, dims, recipe = found.groups()
    shape = tuple(int(dim) for dim in dims.split("x"))
    if format not in PANEL_FORMATS or layout != layout_of(shape) or 0 in shape:
        raise ValueError(line)
    return Weight(name=unquoted(name), shape=shape, format=format, recipe=parse_recipe(recipe))
