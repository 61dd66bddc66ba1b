"""`kernels/<class>/HARDWARE.toml` -> what kernels are written for, with everything that the class inherits."""

from typing import Literal

from msgspec import Struct

from circuit.errors import PlanError, Problem
from circuit.load.inputs import Library, once
from circuit.text import Source, listed

Language = Literal["c", "cuda", "hip"]
VECTOR_LANES = "vector_lanes"


class Limit(Struct, frozen=True, kw_only=True):
    """A number of the hardware, and where it comes from."""

    name: str
    value: int
    source: str


class HardwareClass(Struct, frozen=True, kw_only=True):
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
    return tuple(sorted(folder_of(source.path) for source in class_files(library)))


def load_hardware(library: Library, name: str) -> HardwareClass:
    """The class `name`; a name without a HARDWARE.toml is a PlanError that lists what exists."""

    def read() -> HardwareClass:
        from circuit.load.hardware_file import read_hardware  # kept records need no reader

        return read_hardware(library, name)

    return once(library, ("hardware", name), read)


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


def class_files(library: Library) -> tuple[Source, ...]:
    """The HARDWARE.toml of every class."""
    return tuple(source for source in library.files if source.path.replace("\\", "/").endswith("/HARDWARE.toml"))


def folder_of(path: str) -> str:
    """The folder that a file is in: the name of its class."""
    return path.replace("\\", "/").split("/")[-2]
