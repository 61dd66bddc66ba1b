"""`kernels/<class>/common/PROOFS.toml`: the shape of the file, and how it is read to the records of `proofs.py`."""

from typing import Annotated

from msgspec import Meta, field

from circuit.errors import LoadError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under
from circuit.load.ops import Mode
from circuit.load.proofs import FILE, Compared, Proof
from circuit.load.rules import RuleValue
from circuit.load.shapes import RowRange, Schema
from circuit.load.source import line_of
from circuit.load.toml_text import read_toml
from circuit.text import problem_at


def read_proofs(library: Library, hardware: HardwareClass) -> tuple[Proof, ...]:
    """The records of the class itself, read."""
    found: list[Proof] = []
    problems: list[Problem] = []
    for source in files_under(library, f"{hardware.proven_by}/common", FILE):
        document = read_toml(source)
        for place, shape in enumerate(validated(document, _ProofsFile).proof):
            line = line_of(document, ("proof", place))
            if any(proof.id == shape.id for proof in found):
                message = f"proof `{shape.id}` is written twice"
                problems.append(problem_at(source, line, message, "remove one"))
            found.append(_proof(shape, source.path, line))
    if problems:
        raise LoadError(problems)
    return tuple(found)


class _Compared(FileShape, frozen=True, kw_only=True):
    shape: str
    fused: str
    chain: str


class _Proof(FileShape, frozen=True, kw_only=True):
    id: str
    verdict: str
    date: str
    rule: str
    modes: list[Mode]
    rows: RowRange
    accepts: list[dict[str, str | list[RuleValue]]]
    case: Annotated[list[_Compared], Meta(min_length=1)]
    seeds: list[int]
    compiled: list[str]


class _ProofsFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    proof: list[_Proof] = field(default_factory=list)


def _proof(shape: _Proof, file: str, line: int | None) -> Proof:
    return Proof(
        id=shape.id,
        verdict=shape.verdict,
        date=shape.date,
        rule=shape.rule,
        modes=tuple(shape.modes),
        rows=(shape.rows[0], shape.rows[1]),
        accepts=tuple(
            tuple((name, tuple(values) if isinstance(values, list) else "any") for name, values in sorted(each.items()))
            for each in shape.accepts
        ),
        cases=tuple(Compared(shape=case.shape, fused=case.fused, chain=case.chain) for case in shape.case),
        seeds=tuple(shape.seeds),
        compiled=tuple(shape.compiled),
        file=file,
        line=line,
    )
