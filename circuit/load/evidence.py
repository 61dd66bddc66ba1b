"""`kernels/<class>/common/EVIDENCE.toml`: what relations cost or save where they were measured, as records and as text.

Like proofs, evidence never inherits: it is of one class on one machine.
"""

from dataclasses import dataclass

from pydantic import Field

from circuit.errors import LoadError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under, once
from circuit.load.shapes import Schema
from circuit.load.source import line_of
from circuit.load.toml_text import read_toml
from circuit.text import problem_at, quoted

FILE = "EVIDENCE.toml"

Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """Decode steps of `rows` rows. `off_ms`: the median milliseconds of a step without the rule.

    `ratio`: median of time with the rule / time without, of pairs measured in turn; below 1 the rule is faster.
    `control`: where the middle 80 % of the same ratio lies for a leg without the rule that runs once more. `energy` and
    `energy_control` are the same of joules; None where they cannot be read.
    """

    rows: int
    off_ms: float
    ratio: float
    control: Span
    energy: float | None = None
    energy_control: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One rule on one model and machine. `hash` is the rule's (`lower.proven.rule_hash`); `on` and `off` hash the plans
    of both legs, which ran under the settings `under`. `energy` says how joules were read, or why they were not.
    """

    rule: str
    hash: str
    machine: str
    threads: int
    model: str
    under: tuple[str, ...]
    date: str
    on: str
    off: str
    energy: str
    rungs: tuple[Rung, ...]
    file: str
    line: int | None


def evidence_path(class_name: str) -> str:
    """Where the records of a class stand, from the folder that holds kernels/."""
    return f"kernels/{class_name}/common/{FILE}"


def load_evidence(library: Library, hardware: HardwareClass) -> tuple[Evidence, ...]:
    """The records of the class itself, in file order; two of one rule, machine and model are a LoadError."""
    return once(library, ("evidence", hardware.name), lambda: _loaded(library, hardware))


def _loaded(library: Library, hardware: HardwareClass) -> tuple[Evidence, ...]:
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


def key_of(record: Evidence) -> tuple[str, str, str]:
    """What there is one record of."""
    return record.rule, record.machine, record.model


class _Rung(FileShape):
    rows: int
    off_ms: float
    ratio: float
    control: list[float] = Field(min_length=2, max_length=2)
    energy: float | None = None
    energy_control: list[float] | None = Field(default=None, min_length=2, max_length=2)


class _Evidence(FileShape):
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
    rung: list[_Rung] = Field(min_length=1)


class _EvidenceFile(FileShape):
    schema_: Schema
    evidence: list[_Evidence] = Field(default_factory=list)


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


HEAD = """\
# What relations cost or save, measured by `met circuit prove --ab MODEL --write`; nobody else writes it. `ratio` is the
# time of a decode step with the rule over that without; `control` the spread of the leg without it against itself.
schema = 1
"""


def evidence_text(records: tuple[Evidence, ...]) -> str:
    """The file of these records; it reads back to them."""
    return "\n".join([HEAD, *map(_text, sorted(records, key=key_of))])


def _text(record: Evidence) -> str:
    lines = ["[[evidence]]"]
    lines += [f"{name} = {quoted(getattr(record, name))}" for name in ("rule", "hash", "machine")]
    lines += [f"threads = {record.threads}", f"model = {quoted(record.model)}"]
    lines.append(f"under = [{', '.join(map(quoted, record.under))}]")
    lines += [f"{name} = {quoted(getattr(record, name))}" for name in ("date", "on", "off", "energy")]
    for rung in record.rungs:
        lines += ["", "[[evidence.rung]]", f"rows = {rung.rows}", f"off_ms = {rung.off_ms}", f"ratio = {rung.ratio}"]
        lines.append(f"control = {list(rung.control)}")
        if rung.energy is not None and rung.energy_control is not None:
            lines += [f"energy = {rung.energy}", f"energy_control = {list(rung.energy_control)}"]
    return "\n".join([*lines, ""])
