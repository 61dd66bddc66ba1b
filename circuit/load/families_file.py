"""`kernels/<class>/common/KERNEL_FAMILIES.toml`: the shape of the file, and how it is read to records of families."""

from typing import Literal

from msgspec import field

from circuit.errors import LoadError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.families import FILE, Family, Point
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under
from circuit.load.ops import Mode
from circuit.load.shapes import RowRange, Schema
from circuit.load.source import Document, line_of
from circuit.load.toml_text import read_toml
from circuit.text import problem_at


def read_families(library: Library, hardware: HardwareClass) -> tuple[Family, ...]:
    """The families of a class, read."""
    families: dict[str, Family] = {}
    problems: list[Problem] = []
    for folder in reversed(hardware.lowered_by):
        for source in files_under(library, f"{folder}/common", FILE):
            own: dict[str, Family] = {}
            document = read_toml(source)
            for place, family in enumerate(validated(document, _FamiliesFile).family):
                record = _family(document, place, family)
                problems += _wrong(document, place, record, own)
                own[record.id] = record
            families.update(own)
    if problems:
        raise LoadError(problems)
    return tuple(families[name] for name in sorted(families))


class _Point(FileShape, frozen=True, kw_only=True):
    id: str
    modes: list[Mode]
    rows: RowRange
    values: dict[str, int] = field(default_factory=dict)
    claim: Literal["keeps", "changes"]
    numerics: str | None = None


class _Family(FileShape, frozen=True, kw_only=True):
    id: str
    why: str
    made: Literal["generated"]
    ops: list[str]
    point: list[_Point]


class _FamiliesFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    family: list[_Family]


def _family(document: Document, place: int, family: _Family) -> Family:
    points = tuple(
        Point(
            family=family.id,
            id=point.id,
            modes=tuple(point.modes),
            rows=(point.rows[0], point.rows[1]),
            values=tuple(sorted(point.values.items())),
            claim=point.claim,
            numerics=point.numerics,
            file=document.source.path,
            line=line_of(document, ("family", place, "point", at)),
        )
        for at, point in enumerate(family.point)
    )
    return Family(
        id=family.id,
        why=family.why,
        made=family.made,
        ops=tuple(family.ops),
        points=points,
        file=document.source.path,
        line=line_of(document, ("family", place)),
    )


def _wrong(document: Document, place: int, family: Family, known: dict[str, Family]) -> list[Problem]:
    problems = []
    line = line_of(document, ("family", place))
    if family.id in known:
        message = f"family `{family.id}` is written twice; the other is on line {known[family.id].line}"
        problems.append(problem_at(document.source, line, message, "rename one, or remove it"))
    seen: set[str] = set()
    for point in family.points:
        name = f"{family.id}.{point.id}"
        if point.id in seen:
            message = f"point `{name}` is written twice"
            problems.append(problem_at(document.source, point.line, message, "rename one, or remove it"))
        seen.add(point.id)
        if point.rows[0] > point.rows[1]:
            message = f"point `{name}` has rows {point.rows[0]} to {point.rows[1]}"
            problems.append(problem_at(document.source, point.line, message, "write rows = [lowest, highest]"))
        if point.claim == "changes" and point.numerics is None:
            message = f"point `{name}` changes the numerics of its definition and does not say to what"
            problems.append(problem_at(document.source, point.line, message, 'add `numerics = "..."`'))
        if point.claim == "keeps" and point.numerics is not None:
            message = f"point `{name}` keeps the numerics of its definition and states others"
            problems.append(problem_at(document.source, point.line, message, "remove `numerics`"))
    return problems
