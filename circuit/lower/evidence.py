"""What evidence says of relations: whether one may be a default on equal speed and energy, or stays opt-in."""

from collections.abc import Iterator
from typing import Literal

from circuit.errors import Problem
from circuit.load.evidence import Evidence, Rung, Span, evidence_path
from circuit.load.hardware import HardwareClass
from circuit.load.rules import Rule
from circuit.lower.proven import relations, rule_hash
from circuit.text import listed

Change = Literal["less", "same", "more"]


def change(ratio: float, control: Span) -> Change:
    """Whether a ratio is outside of what the control leg shows against itself, where 1 is always within."""
    lo, hi = min(control[0], 1.0), max(control[1], 1.0)
    return "less" if ratio < lo else "more" if ratio > hi else "same"


def losses(record: Evidence) -> tuple[str, ...]:
    """Where the rule costs time or energy, in words; empty where it may be a default."""
    return tuple(text for rung in record.rungs for text in _losses(rung))


def _losses(rung: Rung) -> Iterator[str]:
    if change(rung.ratio, rung.control) == "more":
        yield f"{rung.rows} rows: time x {rung.ratio:.3f}, control up to {rung.control[1]:.3f}"
    if rung.energy is None or rung.energy_control is None:
        return
    if change(rung.energy, rung.energy_control) == "more":
        yield f"{rung.rows} rows: energy x {rung.energy:.3f}, control up to {rung.energy_control[1]:.3f}"


def contradicted(rules: tuple[Rule, ...], records: tuple[Evidence, ...], hardware: HardwareClass) -> Iterator[Problem]:
    """Evidence of no relation of the class, and defaults that lose somewhere."""
    by_id = {rule.id: rule for rule in relations(rules)}
    for record in records:
        rule = by_id.get(record.rule)
        if rule is None:
            message = f"evidence of `{record.rule}`, which is no relation of class {hardware.name}"
            yield Problem(message=message, fix="remove it", file=record.file, line=record.line)
        elif not rule.opt_in and record.hash == rule_hash(rule) and losses(record):
            message = f"rule `{rule.id}` is a default and loses on {record.machine}: {'; '.join(losses(record))}"
            fix = f"write opt_in = true; the evidence is in {record.file}:{record.line}"
            yield Problem(message=message, fix=fix, file=rule.file, line=rule.line)


def unmeasured(rules: tuple[Rule, ...], records: tuple[Evidence, ...], hardware: HardwareClass) -> Iterator[Problem]:
    """Defaults of which nobody has measured on this class that they cost nothing."""
    for rule in relations(rules):
        own = [record for record in records if record.rule == rule.id]
        fix = f"run `met circuit prove {rule.id} --class {hardware.name} --ab MODEL --write`"
        if not rule.opt_in and not own:
            message = f"rule `{rule.id}` is a default without evidence in {evidence_path(hardware.name)}"
            yield Problem(message=message, fix=fix, file=rule.file, line=rule.line)
        stale = [record.machine for record in own if record.hash != rule_hash(rule)]
        if stale:
            message = f"rule `{rule.id}` has changed since it was measured on {listed(stale)}"
            yield Problem(message=message, fix=fix, file=rule.file, line=rule.line)
