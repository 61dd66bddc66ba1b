"""`kernels/<class>/HARDWARE.toml` -> what kernels are written for, with everything that the class inherits."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from circuit.errors import LoadError, PlanError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library, once
from circuit.load.instructions import load_instructions
from circuit.load.shapes import Mode, RowRange, Schema
from circuit.load.source import Document, line_of
from circuit.load.toml_text import read_toml
from circuit.text import Source, listed, problem_at

Language = Literal["c", "cuda", "hip"]
VECTOR_LANES = "vector_lanes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A number of the hardware, and where it comes from."""

    name: str
    value: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareClass:
    """A hardware class. `chain` is the class itself, then what it inherits from, the base last.

    `arch`: for each machine type, what the compiler is to compile for; `features`: for each, what its processor must
    have, as Linux names it; `chosen`: why hosts that have it run the class, None where they do not. None of the three
    is inherited. `rows`: the ranges that a plan set covers.
    `instructions`: what its processors multiply in one instruction, by the names of INSTRUCTIONS.toml, sorted.
    `lowered_by`: the classes whose rules and families it is planned with, its own first; `proven_by` is the class
    whose proofs speak for its relations. Both are its chain and itself, unless nothing renders its language yet: then
    it is planned from another class's definitions, which are the same on every class.
    """

    name: str
    chain: tuple[str, ...]
    language: Language
    arch: tuple[tuple[str, str], ...]
    features: tuple[tuple[str, tuple[str, ...]], ...]
    chosen: str | None
    limits: tuple[Limit, ...]
    rows: tuple[tuple[str, tuple[int, int]], ...]
    instructions: tuple[str, ...]
    lowered_by: tuple[str, ...]
    proven_by: str


def class_names(library: Library) -> tuple[str, ...]:
    """Every class that has a HARDWARE.toml, sorted."""
    return tuple(sorted(_folder(source.path) for source in _files(library)))


def load_hardware(library: Library, name: str) -> HardwareClass:
    """The class `name`; a name without a HARDWARE.toml is a PlanError that lists what exists."""
    return once(library, ("hardware", name), lambda: _loaded(library, name))


def _loaded(library: Library, name: str) -> HardwareClass:
    documents: list[Document] = []
    shapes: list[_HardwareFile] = []
    chain: list[str] = []
    following: str | None = name
    asked: tuple[Source, int | None] | None = None
    while following is not None:
        source = next((s for s in _files(library) if _folder(s.path) == following), None)
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


def rows_of(hardware: HardwareClass, mode: str) -> tuple[int, int]:
    """The range of rows that the class plans for in `mode`."""
    for name, rows in hardware.rows:
        if name == mode:
            return rows
    message = f"class {hardware.name} has no rows for mode `{mode}`"
    raise PlanError(Problem(message=message, fix=f"use one of: {listed(name for name, _ in hardware.rows)}"))


def is_rendered(hardware: HardwareClass) -> bool:
    """Whether the class's language is written out; of any other the kernels are their definitions."""
    return hardware.proven_by == hardware.name


def vector_lanes(hardware: HardwareClass) -> int | None:
    """How many f32 a vector register of the class holds; None for a class that states none, as those of GPUs do."""
    return next((limit.value for limit in hardware.limits if limit.name == VECTOR_LANES), None)


def lanes_of(hardware: HardwareClass) -> int:
    """The same for a class that C is rendered for."""
    lanes = vector_lanes(hardware)
    if lanes is None:
        message = f"class {hardware.name} does not state {VECTOR_LANES}, so no C is rendered for it"
        raise PlanError(Problem(message=message, fix="name a class of processors with vector registers"))
    return lanes


def against_host(hardware: HardwareClass, machine: str, features: frozenset[str]) -> str | None:
    """What keeps a class from running on a processor of a machine type; None where nothing does."""
    arch = dict(hardware.arch).get(machine)
    if arch is None:
        return f"class {hardware.name} is for {listed(name for name, _ in hardware.arch)}, not for {machine}"
    missing = [name for name in dict(hardware.features).get(machine, ()) if name not in features]
    if missing:
        return f"class {hardware.name} is compiled for {arch}, and this processor lacks {', '.join(missing)}"
    return None


def class_of_host(library: Library, machine: str, features: frozenset[str]) -> HardwareClass:
    """The class that a host runs: of those that are chosen and fit it, the one that inherits from most others."""
    classes = [load_hardware(library, name) for name in class_names(library)]
    chosen = sorted((c for c in classes if c.chosen is not None), key=lambda c: (len(c.chain), c.name))
    against = [against_host(hardware, machine, features) for hardware in chosen]
    fitting = [hardware for hardware, reason in zip(chosen, against, strict=True) if reason is None]
    if not fitting:
        raise PlanError(Problem(message=against[0] or "", fix="run it on a processor that has what the class needs"))
    return fitting[-1]


class _Class(FileShape):
    name: str
    why: str
    inherits: str | None = None
    lowered_as: str | None = None
    language: Language
    arch: dict[str, str]
    instructions: list[str] = Field(default_factory=list)
    remove_instructions: list[str] = Field(default_factory=list)


class _Limit(FileShape):
    value: int
    source: str


class _Host(FileShape):
    chosen: str | None = None
    features: dict[str, list[str]]


class _HardwareFile(FileShape):
    schema_: Schema
    hardware: _Class
    host: _Host | None = None
    limits: dict[str, _Limit] = Field(default_factory=dict)
    rows: dict[Mode, RowRange] = Field(default_factory=dict)


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


def _files(library: Library) -> tuple[Source, ...]:
    return tuple(source for source in library.files if source.path.replace("\\", "/").endswith("/HARDWARE.toml"))


def _folder(path: str) -> str:
    return path.replace("\\", "/").split("/")[-2]


def _no_class(library: Library, name: str, asked: tuple[Source, int | None] | None) -> LoadError | PlanError:
    message, fix = f"there is no hardware class `{name}`", f"use one of: {listed(class_names(library))}"
    if asked is None:
        return PlanError(Problem(message=message, fix=fix))
    return LoadError(problem_at(*asked, message, fix))
