"""`kernels/<class>/common/EVIDENCE.toml`: what relations cost or save where they were measured, as records and as text.

Like proofs, evidence never inherits: it is of one class on one machine.
"""

from msgspec import Struct

from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, once
from circuit.text import quoted

FILE = "EVIDENCE.toml"


Span = tuple[float, float]


class Rung(Struct, frozen=True, kw_only=True):
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


class Evidence(Struct, frozen=True, kw_only=True):
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

    def read() -> tuple[Evidence, ...]:
        from circuit.load.evidence_file import read_evidence  # kept records need no reader

        return read_evidence(library, hardware)

    return once(library, ("evidence", hardware.name), read)


def key_of(record: Evidence) -> tuple[str, str, str]:
    """What there is one record of."""
    return record.rule, record.machine, record.model


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
