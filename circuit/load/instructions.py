"""`kernels/INSTRUCTIONS.toml` -> what a processor can multiply in one instruction, and on which compilation targets."""

from msgspec import Struct

from circuit.load.inputs import Library, once


class Instruction(Struct, frozen=True, kw_only=True):
    """An instruction by its name in reports and rates; `targets` are the compilation targets that have it, sorted.

    `operand`: the type of both factors of one that multiplies; None of one that does not.
    """

    id: str
    why: str
    operand: str | None
    targets: tuple[str, ...]
    source: str


def load_instructions(library: Library) -> tuple[Instruction, ...]:
    """Every instruction, in the order of the file."""

    def read() -> tuple[Instruction, ...]:
        from circuit.load.instructions_file import read_instructions  # kept records need no reader

        return read_instructions(library)

    return once(library, "instructions", read)
