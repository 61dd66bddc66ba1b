"""`kernels/<class>/common/PROOFS.toml`: the evidence for a class's relations, as records and as text.

Evidence never inherits: a class has a record of its own for every relation that it uses, also for an inherited rule.
"""

from msgspec import Struct

from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under, once
from circuit.load.rules import Accepted, RuleValue
from circuit.text import quoted

FILE = "PROOFS.toml"


EQUAL = "equal"


class Compared(Struct, frozen=True, kw_only=True):
    """One case: the instance in words, and the digests of both definitions there."""

    shape: str
    fused: str
    chain: str


class Proof(Struct, frozen=True, kw_only=True):
    """The record of one relation. `modes`, `rows` and `accepts` are its envelope: a rule within it is proven.

    `rule` is the hash of what the rule is besides its envelope. `accepts` has, for each element of the pattern, the
    facts and their values. `compiled` says in words which kernels gave equal bytes where.
    """

    id: str
    verdict: str
    date: str
    rule: str
    modes: tuple[str, ...]
    rows: tuple[int, int]
    accepts: tuple[tuple[tuple[str, Accepted], ...], ...]
    cases: tuple[Compared, ...]
    seeds: tuple[int, ...]
    compiled: tuple[str, ...]
    file: str
    line: int | None


def proofs_path(class_name: str) -> str:
    """Where the records of a class stand, from the folder that holds kernels/."""
    return f"kernels/{class_name}/common/{FILE}"


def proving_class(library: Library, hardware: HardwareClass) -> str:
    """The class whose records a report takes: the nearest of those it is planned with that has any."""
    recorded = (name for name in hardware.lowered_by if files_under(library, f"{name}/common", FILE))
    return next(recorded, hardware.proven_by)


def load_proofs(library: Library, hardware: HardwareClass) -> tuple[Proof, ...]:
    """The records of the class itself, in file order."""

    def read() -> tuple[Proof, ...]:
        from circuit.load.proofs_file import read_proofs  # kept records need no reader

        return read_proofs(library, hardware)

    return once(library, ("proofs", hardware.proven_by), read)


HEAD = """\
# What shows that each relation of the class keeps the bytes. `met circuit prove --write` writes it; nobody else does.
# `fused` and `chain` are digests of both sides' definitions at a case; `rule` hashes the rule without its envelope,
# which is `modes`, `rows` and `accepts`. A rule without a current record, or that reaches further, is refused at load.
schema = 1
"""


def proofs_text(proofs: tuple[Proof, ...]) -> str:
    """The file of these records; it reads back to them."""
    return "\n".join([HEAD, *map(_text, sorted(proofs, key=lambda proof: proof.id))])


def _text(proof: Proof) -> str:
    lines = ["[[proof]]"]
    lines += [f"{name} = {quoted(getattr(proof, name))}" for name in ("id", "verdict", "date", "rule")]
    lines += [f"modes = {_values(proof.modes)}", f"rows = {_values(proof.rows)}", "accepts = ["]
    for accepts in proof.accepts:
        facts = (f"{quoted(name)} = {quoted(a) if isinstance(a, str) else _values(a)}" for name, a in accepts)
        lines.append(f"  {{ {', '.join(facts)} }},")
    lines += ["]", f"seeds = {_values(proof.seeds)}", "compiled = ["]
    lines += [f"  {quoted(words)}," for words in proof.compiled]
    lines.append("]")
    for case in proof.cases:
        lines += ["", "[[proof.case]]"]
        lines += [f"{name} = {quoted(getattr(case, name))}" for name in ("shape", "fused", "chain")]
    return "\n".join([*lines, ""])


def _values(values: tuple[RuleValue, ...]) -> str:
    return f"[{', '.join(map(_value, values))}]"


def _value(value: RuleValue) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return quoted(value)
