"""`kernels/<class>/HARDWARE.toml`: the shape of the file, and how it is read to the records of `hardware.py`."""

from msgspec import field

from circuit.errors import LoadError, PlanError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.hardware import HardwareClass, Language, Limit, class_files, class_names, folder_of, load_hardware
from circuit.load.inputs import Library
from circuit.load.instructions import load_instructions
from circuit.load.ops import Mode
from circuit.load.shapes import RowRange, Schema
from circuit.load.source import Document, line_of
from circuit.load.toml_text import read_toml
from circuit.text import Source, listed, problem_at


def read_hardware(library: Library, name: str) -> HardwareClass:
    """The class `name`, read with all that it inherits from."""
    documents: list[Document] = []
    shapes: list[_HardwareFile] = []
    chain: list[str] = []
    following: str | None = name
    asked: tuple[Source, int | None] | None = None
    while following is not None:
        source = next((s for s in class_files(library) if folder_of(s.path) == following), None)
        if source is None:
            raise _no_class(library, following, asked)
        document = read_toml(source)
        shape = validated(document, _HardwareFile)
        asked = (source, line_of(document, ("hardware", "inherits")))
        if shape.hardware.name != following:
            line = line_of(document, ("hardware", "name"))
            message = f"class `{shape.hardware.name}` is in the folder `{following}`"
            raise LoadError(problem_at(source, line, message, f'write name = "{following}"'))
        documents.append(document)
        shapes.append(shape)
        chain.append(following)
        following = shape.hardware.inherits
        if following in chain:
            message = f"class `{name}` inherits from itself: {' <- '.join([*chain, following or ''])}"
            raise LoadError(problem_at(*asked, message, "remove one `inherits`"))
    host = shapes[0].host or _Host(features={})
    planned_as = next((s.hardware.lowered_as for s in shapes if s.hardware.lowered_as is not None), None)
    other = () if planned_as is None else load_hardware(library, planned_as).lowered_by
    limits = {n: Limit(name=n, value=v.value, source=v.source) for s in reversed(shapes) for n, v in s.limits.items()}
    rows = {mode: (lo_hi[0], lo_hi[1]) for s in reversed(shapes) for mode, lo_hi in s.rows.items()}
    return HardwareClass(
        name=name,
        chain=tuple(chain),
        language=shapes[0].hardware.language,
        arch=tuple(sorted(shapes[0].hardware.arch.items())),
        features=tuple((machine, tuple(names)) for machine, names in sorted(host.features.items())),
        chosen=host.chosen,
        limits=tuple(limits[n] for n in sorted(limits)),
        rows=tuple((mode, rows[mode]) for mode in sorted(rows)),
        instructions=_instructions(library, documents, shapes),
        lowered_by=(*chain, *other),
        proven_by=other[0] if other else name,
    )


class _Class(FileShape, frozen=True, kw_only=True):
    name: str
    why: str
    inherits: str | None = None
    lowered_as: str | None = None
    language: Language
    arch: dict[str, str]
    instructions: list[str] = field(default_factory=list)
    remove_instructions: list[str] = field(default_factory=list)


class _Limit(FileShape, frozen=True, kw_only=True):
    value: int
    source: str


class _Host(FileShape, frozen=True, kw_only=True):
    chosen: str | None = None
    features: dict[str, list[str]]


class _HardwareFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    hardware: _Class
    host: _Host | None = None
    limits: dict[str, _Limit] = field(default_factory=dict)
    rows: dict[Mode, RowRange] = field(default_factory=dict)


def _instructions(library: Library, documents: list[Document], shapes: list["_HardwareFile"]) -> tuple[str, ...]:
    """What the base states, with what each class on the way adds and removes. Every target of a class has all of it."""
    known = {instruction.id: instruction for instruction in load_instructions(library)}
    problems: list[Problem] = []
    found: set[str] = set()
    for document, shape in zip(reversed(documents), reversed(shapes), strict=True):
        own = shape.hardware

        def wrong(key: str, message: str, fix: str, document: Document = document) -> None:
            line = line_of(document, ("hardware", key))
            problems.append(problem_at(document.source, line, message, fix))

        for name in own.remove_instructions:
            if name not in found:
                message = f"class `{own.name}` removes the instruction `{name}`, which it does not inherit"
                wrong("remove_instructions", message, "remove it from `remove_instructions`")
        found -= set(own.remove_instructions)
        for name in own.instructions:
            if name not in known:
                message = f"class `{own.name}` states `{name}`, which is no instruction"
                wrong("instructions", message, f"use one of: {listed(known)}")
        found |= set(own.instructions) & set(known)
        for name in sorted(found):
            for target in own.arch.values():
                if target not in known[name].targets:
                    message = f"class `{own.name}` states the instruction {name}, which {target} does not have"
                    fix = "add it to `remove_instructions`, or correct the targets in kernels/INSTRUCTIONS.toml"
                    wrong("instructions" if name in own.instructions else "arch", message, fix)
    if problems:
        raise LoadError(problems)
    return tuple(sorted(found))


def _no_class(library: Library, name: str, asked: tuple[Source, int | None] | None) -> LoadError | PlanError:
    message, fix = f"there is no hardware class `{name}`", f"use one of: {listed(class_names(library))}"
    if asked is None:
        return PlanError(Problem(message=message, fix=fix))
    return LoadError(problem_at(*asked, message, fix))
