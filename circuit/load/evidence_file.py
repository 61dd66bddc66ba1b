"""`kernels/<class>/common/EVIDENCE.toml`: the shape of the file, and how it is read to the records of `evidence.py`."""

from typing import Annotated

from msgspec import Meta, field

from circuit.errors import LoadError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.evidence import FILE, Evidence, Rung, key_of
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under
from circuit.load.shapes import Schema
from circuit.load.source import line_of
from circuit.load.toml_text import read_toml
from circuit.text import problem_at


def read_evidence(library: Library, hardware: HardwareClass) -> tuple[Evidence, ...]:
    """The records of the class itself, read."""
    found: list[Evidence] = []
    problems: list[Problem] = []
    for source in files_under(library, f"{hardware.name}/common", FILE):
        document = read_toml(source)
        for place, shape in enumerate(validated(document, _EvidenceFile).evidence):
            record = _evidence(shape, source.path, line_of(document, ("evidence", place)))
            if any(key_of(record) == key_of(other) for other in found):
                message = f"evidence of `{record.rule}` on {record.machine} with {record.model} is written twice"
                problems.append(problem_at(source, record.line, message, "remove one"))
            found.append(record)
    if problems:
        raise LoadError(problems)
    return tuple(found)


class _Rung(FileShape, frozen=True, kw_only=True):
    rows: int
    off_ms: float
    ratio: float
    control: Annotated[list[float], Meta(min_length=2, max_length=2)]
    energy: float | None = None
    energy_control: Annotated[list[float], Meta(min_length=2, max_length=2)] | None = None


class _Evidence(FileShape, frozen=True, kw_only=True):
    rule: str
    hash: str
    machine: str
    threads: int
    model: str
    under: list[str]
    date: str
    on: str
    off: str
    energy: str
    rung: Annotated[list[_Rung], Meta(min_length=1)]


class _EvidenceFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    evidence: list[_Evidence] = field(default_factory=list)


def _evidence(shape: _Evidence, file: str, line: int | None) -> Evidence:
    return Evidence(
        rule=shape.rule,
        hash=shape.hash,
        machine=shape.machine,
        threads=shape.threads,
        model=shape.model,
        under=tuple(shape.under),
        date=shape.date,
        on=shape.on,
        off=shape.off,
        energy=shape.energy,
        rungs=tuple(
            Rung(
                rows=rung.rows,
                off_ms=rung.off_ms,
                ratio=rung.ratio,
                control=(rung.control[0], rung.control[1]),
                energy=rung.energy,
                energy_control=None
                if rung.energy_control is None
                else (rung.energy_control[0], rung.energy_control[1]),
            )
            for rung in shape.rung
        ),
        file=file,
        line=line,
    )
