"""`met circuit prove --ab`: each rule measured on against off, told, and recorded."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

if TYPE_CHECKING:
    from circuit.load.evidence import Evidence, Rung
    from circuit.load.rules import Rule
    from circuit_exec.ab import Sides
    from circuit_exec.prove.given import Class


def measured(
    model: str,
    given: "Class",
    rules: "tuple[Rule, ...]",
    policy: tuple[str, ...],
    *,
    named: bool,
    write: bool,
    as_json: bool,
) -> int:
    """The ladder of each rule; a rule that takes nothing is an error where it was named, else it is told."""
    from circuit_exec.ab import idle, sides
    from circuit_exec.cache import user_cache
    from cli.models import model_path

    def tell(text: str) -> None:
        if not as_json:
            print(text, flush=True)

    found: list[Evidence] = []
    for rule in rules:
        compared = sides(model_path(model), given.hardware.name, rule, policy, user_cache())
        if compared is None and named:
            raise idle(rule, model)
        if compared is None:
            tell(f"{rule.id}: takes no node of a decode step of {model}; not measured")
            continue
        found.append(_record(model, given, rule, policy, compared, tell))
        if write:  # after each rule: a later one may be interrupted
            _write(given, found)
    if as_json:
        print(json.dumps({"class": given.hardware.name, "evidence": [to_builtins(each) for each in found]}, indent=1))
    return 0


def _record(
    model: str,
    given: "Class",
    rule: "Rule",
    policy: tuple[str, ...],
    compared: "Sides",
    tell: Callable[[str], None],
) -> "Evidence":
    from circuit.load.evidence import Evidence, evidence_path
    from circuit.lower.evidence import losses
    from circuit.lower.proven import rule_hash
    from circuit_exec.ab import measure
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.energy import meter
    from circuit_exec.machine import machine_name
    from cli.progress import progress_bar

    joules, threads = meter(), available_threads()
    rungs: list[Rung] = []
    with progress_bar() as progress:
        for rung in measure(compared, user_cache(), threads, joules, progress):
            rungs.append(rung)
            tell(f"{rule.id}: {_line(rung)}")
    record = Evidence(
        rule=rule.id,
        hash=rule_hash(rule),
        machine=machine_name(),
        threads=threads,
        model=Path(model).name,
        under=policy,
        date=datetime.now(UTC).date().isoformat(),
        on=compared.on,
        off=compared.off,
        energy=f"not readable here: {joules}" if isinstance(joules, str) else "RAPL",
        rungs=tuple(rungs),
        file=evidence_path(given.hardware.name),
        line=None,
    )
    lost = losses(record)
    tell(f"{rule.id}: {'loses at ' + '; '.join(lost) if lost else 'loses nowhere'}; energy {record.energy}")
    return record


def _line(rung: "Rung") -> str:
    lo, hi = rung.control
    text = f"{rung.rows} rows: {rung.off_ms:.3f} ms without, time x {rung.ratio:.3f} (control {lo:.3f} to {hi:.3f})"
    if rung.energy is None or rung.energy_control is None:
        return text
    lo, hi = rung.energy_control
    return f"{text}; energy x {rung.energy:.3f} (control {lo:.3f} to {hi:.3f})"


def _write(given: "Class", found: "list[Evidence]") -> None:
    from circuit.load.evidence import evidence_path, evidence_text, key_of, load_evidence
    from circuit.lower.proven import relations
    from circuit_exec.library import library_root

    known = {rule.id for rule in relations(given.rules)}
    records = {key_of(e): e for e in load_evidence(given.library, given.hardware) if e.rule in known}
    records |= {key_of(each): each for each in found}
    path = Path(library_root(), evidence_path(given.hardware.name))
    path.write_text(evidence_text(tuple(records.values())), encoding="utf-8")
