"""`kernels/INSTRUCTIONS.toml`: the shape of the file, and how it is read to the records of `instructions.py`."""

from typing import Literal

from circuit.errors import LoadError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library, files_under
from circuit.load.instructions import Instruction
from circuit.load.shapes import Schema
from circuit.load.source import line_of
from circuit.load.toml_text import read_toml
from circuit.text import problem_at


def read_instructions(library: Library) -> tuple[Instruction, ...]:
    """Every instruction, read."""
    sources = files_under(library, "kernels", "INSTRUCTIONS.toml")
    assert len(sources) == 1, "the library has one kernels/INSTRUCTIONS.toml"
    document = read_toml(sources[0])
    found: dict[str, Instruction] = {}
    problems: list[Problem] = []
    for place, each in enumerate(validated(document, _InstructionsFile).instruction):
        if each.id in found:
            line = line_of(document, ("instruction", place, "id"))
            message = f"instruction `{each.id}` is written twice"
            problems.append(problem_at(document.source, line, message, "remove one"))
        found[each.id] = Instruction(
            id=each.id,
            why=each.why,
            operand=each.operand,
            targets=tuple(sorted(each.targets)),
            source=each.source,
        )
    if problems:
        raise LoadError(problems)
    return tuple(found.values())


class _Instruction(FileShape, frozen=True, kw_only=True):
    id: str
    why: str
    operand: Literal["f32", "bf16", "f16", "i8", "f8_e4m3", "f4_e2m1"] | None = None
    targets: list[str]
    source: str


class _InstructionsFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    instruction: list[_Instruction]
