"""`kernels/<class>/AUDIT.toml` -> where a class must multiply on which instructions, and where it need not, and why.

The nearest file on the way from a class to its base is its policy. An exemption that was measured speaks for the class
whose file states it, and for no other.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from circuit.errors import LoadError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under, once
from circuit.load.policy import KEYS
from circuit.load.shapes import Mode, RowRange, Schema
from circuit.load.source import Document, Path, line_of
from circuit.load.toml_text import read_toml
from circuit.text import listed, problem_at

FILE = "AUDIT.toml"
OPS = ("linear", "attention")
"""Ops that multiply one value with another many times; sums of squares are of a row with itself."""

Kind = Literal["policy", "measured", "shape", "backlog"]
"""policy: other bytes were asked for; measured: the required one is slower; shape: it has no tile for it; backlog:
there is no kernel yet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    """Which nodes an entry is about. `ops` are `linear`, `linear:q` or `attention`; `reads` the formats of their rows,
    `weights` of their weights, where None is any; `rows` inclusive.
    """

    ops: tuple[str, ...]
    modes: tuple[str, ...]
    rows: tuple[int, int]
    reads: tuple[str, ...] | None
    weights: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Require:
    """Nodes that run on one of `instructions` where a plan has as many rows as `sites` begins with."""

    sites: Sites
    instructions: tuple[str, ...]
    why: str
    source: str
    file: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exempt:
    """Nodes that need not. `policy`: under which choices, sorted by key; empty under all."""

    sites: Sites
    policy: tuple[tuple[str, str], ...]
    kind: Kind
    reason: str
    evidence: str
    file: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPolicy:
    """Of a class. `stated_by` is the class whose file it is."""

    stated_by: str
    file: str
    require: tuple[Require, ...]
    exempt: tuple[Exempt, ...]


def load_audit_policy(library: Library, hardware: HardwareClass) -> AuditPolicy | None:
    """The policy of a class; None for one without matrix instructions that states none."""
    return once(library, ("audit policy", hardware), lambda: _loaded(library, hardware))


def _loaded(library: Library, hardware: HardwareClass) -> AuditPolicy | None:
    for folder in hardware.chain:
        for source in files_under(library, f"kernels/{folder}", FILE):
            return _policy(read_toml(source), folder, hardware)
    matrix = [name for name in hardware.instructions if name.startswith("mma.")]
    if matrix:
        message = f"class {hardware.name} has {listed(matrix)} and no policy that says where they are to be used"
        fix = f"write kernels/{hardware.name}/{FILE}, as kernels/ampere/{FILE} is written"
        raise LoadError(Problem(message=message, fix=fix, file=f"kernels/{hardware.name}/HARDWARE.toml"))
    return None


class _Sites(FileShape):
    ops: Annotated[list[str], Field(min_length=1)]
    modes: list[Mode] | None = None
    reads: list[str] | None = None
    weights: list[str] | None = None


class _Require(_Sites):
    rows: Annotated[int, Field(ge=1)] = 1
    instructions: Annotated[list[str], Field(min_length=1)]
    why: str
    source: str


class _Exempt(_Sites):
    rows: RowRange | None = None
    policy: dict[str, str] = Field(default_factory=dict)
    kind: Kind
    reason: str
    evidence: str = ""


class _AuditFile(FileShape):
    schema_: Schema
    require: Annotated[list[_Require], Field(min_length=1)]
    exempt: list[_Exempt] = Field(default_factory=list)


MODES: tuple[Mode, ...] = ("decode", "prefill")
"""What an entry is about that states none."""
MOST_ROWS = 1 << 31
"""More rows than any plan has."""


def _policy(document: Document, stated_by: str, hardware: HardwareClass) -> AuditPolicy:
    shape = validated(document, _AuditFile)
    file = document.source.path
    problems: list[Problem] = []
    require, exempt = [], []
    for place, each in enumerate(shape.require):
        at: Path = ("require", place)
        problems += _wrong_ops(document, at, each)
        found = []
        for name in each.instructions:
            own = [known for known in hardware.instructions if _means(name, known)]
            if not own:
                message = f"class {hardware.name} has no instruction `{name}`"
                fix = f"use one of: {listed(hardware.instructions)}; or mma.* for every matrix instruction"
                problems.append(_problem(document, (*at, "instructions"), message, fix))
            found += own
        require.append(
            Require(
                sites=_sites(each, (each.rows, MOST_ROWS)),
                instructions=tuple(dict.fromkeys(found)),
                why=each.why,
                source=each.source,
                file=file,
                line=line_of(document, at),
            )
        )
    for place, entry in enumerate(shape.exempt):
        at = ("exempt", place)
        rows = (1, MOST_ROWS) if entry.rows is None else (entry.rows[0], entry.rows[1])
        made = Exempt(
            sites=_sites(entry, rows),
            policy=tuple(sorted(entry.policy.items())),
            kind=entry.kind,
            reason=entry.reason,
            evidence=entry.evidence,
            file=file,
            line=line_of(document, at),
        )
        problems += [*_wrong_ops(document, at, entry), *_wrong_exempt(document, at, made, require)]
        if made.kind != "measured" or stated_by == hardware.name:
            exempt.append(made)
    if problems:
        raise LoadError(problems)
    return AuditPolicy(stated_by=stated_by, file=file, require=tuple(require), exempt=tuple(exempt))


def _means(name: str, instruction: str) -> bool:
    """`mma.*` means every instruction that begins so."""
    return instruction.startswith(name[:-1]) if name.endswith("*") else instruction == name


def _sites(each: _Sites, rows: tuple[int, int]) -> Sites:
    return Sites(
        ops=tuple(each.ops),
        modes=MODES if each.modes is None else tuple(each.modes),
        rows=rows,
        reads=None if each.reads is None else tuple(each.reads),
        weights=None if each.weights is None else tuple(each.weights),
    )


def _problem(document: Document, at: Path, message: str, fix: str) -> Problem:
    return problem_at(document.source, line_of(document, at), message, fix)


def _wrong_ops(document: Document, at: Path, each: _Sites) -> list[Problem]:
    fix = f"use one of: {listed(OPS)}; or a role of linear, as in linear:q"
    wrong = [name for name in each.ops if name not in OPS and not name.startswith("linear:")]
    return [_problem(document, (*at, "ops"), f"`{name}` is no op that an audit is about", fix) for name in wrong]


def _wrong_exempt(document: Document, at: Path, each: Exempt, require: list[Require]) -> list[Problem]:
    problems = []
    if not any(_meet(each.sites, entry.sites) for entry in require):
        message = "the entry exempts nothing: no `require` entry is about any of its sites"
        problems.append(_problem(document, at, message, "remove it, or correct its ops, modes, rows or formats"))
    if each.kind == "measured" and not each.evidence:
        message = "an exemption that was measured names no evidence"
        problems.append(_problem(document, at, message, "add `evidence`: the command, the machine and the date"))
    if (each.kind == "policy") != bool(each.policy):
        message = f"an exemption of kind {each.kind} {'has no' if each.kind == 'policy' else 'has a'} `policy`"
        fix = "state the policy under which it holds, with kind policy; leave it out with every other kind"
        problems.append(_problem(document, at, message, fix))
    known = {key.name: (*key.implemented, *key.planned) for key in KEYS}
    for name, value in each.policy:
        if value not in known.get(name, ()):
            what = f"policy {name} has no value `{value}`" if name in known else f"unknown policy key `{name}`"
            fix = f"use one of: {listed(known.get(name, known))}"
            problems.append(_problem(document, (*at, "policy", name), what, fix))
    return problems


def _meet(a: Sites, b: Sites) -> bool:
    """Whether a node could be a site of both."""
    ops = any(x == y or x == y.partition(":")[0] or y == x.partition(":")[0] for x in a.ops for y in b.ops)
    rows = a.rows[0] <= b.rows[1] and b.rows[0] <= a.rows[1]
    return (
        ops and rows and bool(set(a.modes) & set(b.modes)) and _share(a.reads, b.reads) and _share(a.weights, b.weights)
    )


def _share(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> bool:
    return a is None or b is None or bool(set(a) & set(b))
