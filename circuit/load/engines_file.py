"""`kernels/ENGINES.toml`: the shape of the file, and how it is read to the records of `engines.py`."""

from typing import Annotated

from msgspec import Meta

from circuit.load.edge import FileShape, validated
from circuit.load.engines import Engine
from circuit.load.inputs import Library, files_under
from circuit.load.shapes import Schema
from circuit.load.toml_text import read_toml


def read_engines(library: Library) -> tuple[Engine, ...]:
    """Every engine, read."""
    sources = files_under(library, "kernels", "ENGINES.toml")
    assert len(sources) == 1, "the library has one kernels/ENGINES.toml"
    return tuple(
        Engine(name=each.name, part=each.part, says=each.says, source=each.source)
        for each in validated(read_toml(sources[0]), _EnginesFile).engine
    )


class _Engine(FileShape, frozen=True, kw_only=True):
    name: str
    part: Annotated[float, Meta(gt=0, le=1)]
    says: str
    source: str


class _EnginesFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    engine: list[_Engine]
