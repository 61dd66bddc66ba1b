"""`kernels/ENGINES.toml` -> how other engines divide a device's memory."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library, files_under, once
from circuit.load.shapes import Schema
from circuit.load.toml_text import read_toml


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine's rule: the part of all memory that it uses for what a plan counts."""

    name: str
    part: float
    says: str
    source: str


def load_engines(library: Library) -> tuple[Engine, ...]:
    """Every engine, in the order of the file."""
    return once(library, "engines", lambda: _loaded(library))


def _loaded(library: Library) -> tuple[Engine, ...]:
    sources = files_under(library, "kernels", "ENGINES.toml")
    assert len(sources) == 1, "the library has one kernels/ENGINES.toml"
    return tuple(
        Engine(name=each.name, part=each.part, says=each.says, source=each.source)
        for each in validated(read_toml(sources[0]), _EnginesFile).engine
    )


class _Engine(FileShape):
    name: str
    part: Annotated[float, Field(gt=0, le=1)]
    says: str
    source: str


class _EnginesFile(FileShape):
    schema_: Schema
    engine: list[_Engine]
