"""`kernels/ENGINES.toml` -> how other engines divide a device's memory."""

from msgspec import Struct

from circuit.load.inputs import Library, once


class Engine(Struct, frozen=True, kw_only=True):
    """An engine's rule: the part of all memory that it uses for what a plan counts."""

    name: str
    part: float
    says: str
    source: str


def load_engines(library: Library) -> tuple[Engine, ...]:
    """Every engine, in the order of the file."""

    def read() -> tuple[Engine, ...]:
        from circuit.load.engines_file import read_engines  # kept records need no reader

        return read_engines(library)

    return once(library, "engines", read)
