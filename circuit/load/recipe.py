"""`recipes/<family>/<name>.toml`: which checkpoint runs under which policy within which resources, and what comes out.

A recipe states every key of the policy and none of the compiler's, and nothing of the architecture.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, fields

from circuit.errors import LoadError, Problem
from circuit.load.config_map_file import architecture_keys
from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library
from circuit.load.owners import Owned, load_owners
from circuit.load.policy import Policy, wrong_choice
from circuit.load.settings import PREFIX
from circuit.load.shapes import Schema
from circuit.load.source import Document, Path, line_of, path_text
from circuit.load.toml_text import read_toml
from circuit.text import Source, listed, nearest, problem_at


class Metadata(Struct, frozen=True, kw_only=True):
    """Words for people; nothing reads them."""

    title: str
    why: str
    author: str


class Checkpoint(Struct, frozen=True, kw_only=True):
    """`source`: a fetched model's name, or a path from the recipe's folder. `files`: (name, SHA-256), sorted."""

    source: str
    files: tuple[tuple[str, str], ...]


class Resources(Struct, frozen=True, kw_only=True):
    """`hardware`: a device. `sequences` at once, each of `context` positions. `reserved_bytes` of the device's memory
    are not for the plan. `threads` of the host, None where the device is no processor.
    """

    hardware: str
    sequences: int
    context: int
    reserved_bytes: int
    threads: int | None


class Output(Struct, frozen=True, kw_only=True):
    """What a prompt gives. `logits` is the hash of the logits of every position of prompt and answer.

    `chat`: the prompt is put into the chat template, which writes `date` if it writes one. `ended`: stop or length.
    """

    prompt: str
    chat: bool
    date: str | None
    temperature: float
    top_p: float
    seed: int
    n: int
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    ended: str
    text: str
    logits: str


class Expect(Struct, frozen=True, kw_only=True):
    """What is recorded. `bytes` and outputs hold on every class; `plans` are (class, mode and rows, digest), of the
    classes that were planned. `fingerprint` is None where there were no weights.
    """

    bytes: str
    fingerprint: str | None
    plans: tuple[tuple[str, str, str], ...]
    outputs: tuple[Output, ...]


class Recipe(Struct, frozen=True, kw_only=True):
    """A recipe whose every key and value is known. `document` tells the line of each."""

    document: Document
    metadata: Metadata
    checkpoint: Checkpoint
    policy: Policy
    resources: Resources
    expect: Expect | None


def load_recipe(source: Source, library: Library) -> Recipe:
    """The recipe of a text; a LoadError has all that is wrong with it, each with line and fix."""
    document = read_toml(source)
    problems = [*_unknown(document, library), *_wrong_policy(document, load_owners(library))]
    try:
        shape = validated(document, _RecipeFile)
    except LoadError as error:
        raise LoadError((*problems, *error.problems)) from None
    if problems:
        raise LoadError(problems)
    return Recipe(
        document=document,
        metadata=Metadata(**asdict(shape.metadata)),
        checkpoint=Checkpoint(source=shape.checkpoint.source, files=tuple(sorted(shape.checkpoint.files.items()))),
        policy=Policy(entries=tuple(sorted((name, str(value)) for name, value in shape.policy.items()))),
        resources=Resources(**asdict(shape.resources)),
        expect=None if shape.expect is None else _expect(shape.expect),
    )


def choices(recipe: Recipe) -> tuple[str, ...]:
    """The policy as the KEY=VALUE texts of a goal."""
    return tuple(f"{key}={value}" for key, value in recipe.policy.entries)


def problem_of(recipe: Recipe, path: Path, message: str, fix: str) -> Problem:
    """A problem with the value at `path` of a recipe."""
    return problem_at(recipe.document.source, line_of(recipe.document, path), message, fix)


class _Part(FileShape, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Unknown keys are no errors here: `_unknown` names each, with what to write."""


_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Text = Annotated[str, Meta(min_length=1)]
_Count = Annotated[int, Meta(ge=1)]


class _Metadata(_Part, frozen=True, kw_only=True):
    title: _Text
    why: _Text
    author: _Text


class _Checkpoint(_Part, frozen=True, kw_only=True):
    source: _Text
    files: Annotated[dict[str, _Hash], Meta(min_length=1)]


class _Resources(_Part, frozen=True, kw_only=True):
    hardware: _Text
    sequences: _Count
    context: _Count
    reserved_bytes: Annotated[int, Meta(ge=0)]
    threads: _Count | None = None


class _Output(_Part, frozen=True, kw_only=True):
    prompt: _Text
    chat: bool
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d\Z")] | None = None
    temperature: Annotated[float, Meta(ge=0)]
    top_p: Annotated[float, Meta(gt=0, le=1)]
    seed: Annotated[int, Meta(ge=0)]
    n: _Count
    prompt_ids: Annotated[list[int], Meta(min_length=1)]
    ids: list[int]
    ended: Annotated[str, Meta(pattern=r"^(stop|length)\Z")]
    text: _Hash
    logits: _Hash


class _Expect(_Part, frozen=True, kw_only=True):
    bytes: _Hash
    fingerprint: _Hash | None = None
    plans: dict[str, dict[str, _Hash]] = field(default_factory=dict)
    output: list[_Output] = field(default_factory=list)


class _RecipeFile(_Part, frozen=True, kw_only=True):
    schema: Schema
    metadata: _Metadata
    checkpoint: _Checkpoint
    policy: dict[str, object]
    resources: _Resources
    expect: _Expect | None = None


def _expect(shape: _Expect) -> Expect:
    return Expect(
        bytes=shape.bytes,
        fingerprint=shape.fingerprint,
        plans=tuple((name, plan, digest) for name, plans in shape.plans.items() for plan, digest in plans.items()),
        outputs=tuple(
            Output(**(asdict(each) | {"prompt_ids": tuple(each.prompt_ids), "ids": tuple(each.ids)}))
            for each in shape.output
        ),
    )


_SECTIONS: tuple[tuple[str, type[_Part]], ...] = (
    ("metadata", _Metadata),
    ("checkpoint", _Checkpoint),
    ("resources", _Resources),
    ("expect", _Expect),
)


def _unknown(document: Document, library: Library) -> Iterator[Problem]:
    """Every key that no section has; the ones of an architecture are named as what they are."""
    architecture = architecture_keys(library)

    def named(path: Path, known: list[str]) -> Iterator[Problem]:
        name, line = str(path[-1]), line_of(document, path)
        like, restated = nearest(name, known), architecture.get(name)
        if restated is not None:
            message = f"`{path_text(path)}` restates the architecture, which the checkpoint says ({restated})"
            yield problem_at(document.source, line, message, f"remove `{name}`: a recipe states no architecture")
            return
        fix = f"rename it to `{like}`" if like else f"remove it; the keys here are: {listed(known)}"
        yield problem_at(document.source, line, f"unknown key `{path_text(path)}`", fix)
        inner = document.data.get(name) if len(path) == 1 else None
        for key in inner if isinstance(inner, dict) else ():
            if key in architecture:
                yield from named((*path, key), known)

    tables: list[tuple[Path, object, type[_Part]]] = [((), document.data, _RecipeFile)]
    tables += [((name,), document.data.get(name), shape) for name, shape in _SECTIONS]
    expect = document.data.get("expect")
    outputs = expect.get("output") if isinstance(expect, dict) else None
    if isinstance(outputs, list):
        tables += [(("expect", "output", at), output, _Output) for at, output in enumerate(outputs)]
    for path, table, shape in tables:
        known = [each.encode_name for each in fields(shape)]
        for name in table if isinstance(table, dict) else ():
            if name not in known:
                yield from named((*path, name), known)


def _wrong_policy(document: Document, owned: tuple[Owned, ...]) -> Iterator[Problem]:
    stated = document.data.get("policy")
    if not isinstance(stated, dict):
        return  # the shape says so
    known = {each.key.name: each for each in owned}
    keys = [each.key.name for each in owned if each.owner == "policy"]
    flat = dict(_flat(stated, ()))
    for path, value in flat.items():
        name = ".".join(path)
        line = line_of(document, ("policy", *path))

        def wrong(message: str, fix: str, line: int | None = line) -> Problem:
            return problem_at(document.source, line, message, fix)

        own = known.get(name)
        if name.startswith(PREFIX):
            message = f"`{name}` is the compiler's: it chooses among equal bytes"
            yield wrong(message, f"remove it; to try it, give the command --policy {name}=on or =off")
        elif own is not None and own.owner != "policy":
            yield wrong(f"`{name}` is the compiler's: {own.why}", "remove it")
        elif own is None:
            like = nearest(name, keys)
            yield wrong(f"unknown policy key `{name}`", f"rename it to `{like}`" if like else f"keys: {listed(keys)}")
        elif not isinstance(value, str):
            yield wrong(f"policy {name} is no text", f"write one of: {_values(own)}")
        else:
            yield from (wrong(*each) for each in wrong_choice(name, value))
    for each in owned:
        if each.owner == "policy" and (each.key.name,) not in flat:
            line = line_of(document, ("policy",))
            message = f"missing policy key `{each.key.name}`: {each.key.why}"
            yield problem_at(document.source, line, message, f"state one of: {_values(each)}")


def _values(owned: Owned) -> str:
    return listed(f'{owned.key.name} = "{value}"' for value in owned.key.implemented)


def _flat(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """The values of a table by their dotted keys: `fuse.RULE = ...` is a table in TOML."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), value
