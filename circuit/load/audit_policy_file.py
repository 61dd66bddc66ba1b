"""`kernels/<class>/AUDIT.toml`: the shape of the file, and how it is read to the records of `audit_policy.py`."""

from typing import Annotated

from msgspec import Meta, field

from circuit.errors import LoadError, Problem
from circuit.load.audit_policy import FILE, MODES, OPS, AuditPolicy, Exempt, Kind, Require, Sites
from circuit.load.edge import FileShape, validated
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under
from circuit.load.ops import Mode
from circuit.load.policy import KEYS
from circuit.load.shapes import RowRange, Schema
from circuit.load.source import Document, Path, line_of
from circuit.load.toml_text import read_toml
from circuit.text import listed, problem_at


def read_audit_policy(library: Library, hardware: HardwareClass) -> AuditPolicy | None:
    """What the class requires, read."""
    for folder in hardware.chain:
        for source in files_under(library, f"kernels/{folder}", FILE):
            return _policy(read_toml(source), folder, hardware)
    matrix = [name for name in hardware.instructions if name.startswith("mma.")]
    if matrix:
        message = f"class {hardware.name} has {listed(matrix)} and no policy that says where they are to be used"
        fix = f"write kernels/{hardware.name}/{FILE}, as kernels/ampere/{FILE} is written"
        raise LoadError(Problem(message=message, fix=fix, file=f"kernels/{hardware.name}/HARDWARE.toml"))
    return None


class _Sites(FileShape, frozen=True, kw_only=True):
    ops: Annotated[list[str], Meta(min_length=1)]
    modes: list[Mode] | None = None
    reads: list[str] | None = None
    weights: list[str] | None = None


class _Require(_Sites, frozen=True, kw_only=True):
    rows: Annotated[int, Meta(ge=1)] = 1
    instructions: Annotated[list[str], Meta(min_length=1)]
    why: str
    source: str


class _Exempt(_Sites, frozen=True, kw_only=True):
    rows: RowRange | None = None
    policy: dict[str, str] = field(default_factory=dict)
    kind: Kind
    reason: str
    evidence: str = ""


class _AuditFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    require: Annotated[list[_Require], Meta(min_length=1)]
    exempt: list[_Exempt] = field(default_factory=list)


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
