"""Which relations may be used: those with a current record that covers what their rules ask for."""

import hashlib
from collections.abc import Iterator
from functools import partial

from circuit.errors import LoadError, Problem
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, once
from circuit.load.proofs import EQUAL, Proof, proofs_path
from circuit.load.rules import Accepted, Element, Rule
from circuit.sigma.storage import PANEL_FORMATS

Envelope = tuple[tuple[tuple[str, Accepted], ...], ...]


def relations(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules that claim to keep the bytes."""
    return tuple(rule for rule in rules if rule.numerics == "bit_identical")


def proven(rules: tuple[Rule, ...], proofs: tuple[Proof, ...], hardware: HardwareClass) -> tuple[Rule, ...]:
    """The same rules, or a LoadError that names every relation without a proof on this class that covers it."""
    by_id = {proof.id: proof for proof in proofs}
    claimed = {rule.proof for rule in relations(rules)}
    problems = [problem for rule in relations(rules) for problem in _wrong(rule, by_id.get(rule.proof or ""), hardware)]
    for proof in proofs:
        if proof.id not in claimed:
            message = f"proof `{proof.id}` is of no rule of class {hardware.name}"
            problems.append(Problem(message=message, fix="remove it", file=proof.file, line=proof.line))
    if problems:
        raise LoadError(problems)
    return rules


def current(used: tuple[Rule, ...], proofs: tuple[Proof, ...], hardware: HardwareClass, library: Library) -> None:
    """A LoadError that names every relation in use whose definitions have changed since they were proven equal.

    Definitions are compared at the first case of each rule; `met circuit prove` and the tests compare them at all.
    """
    by_id = {proof.id: proof for proof in proofs}
    problems: list[Problem] = []
    for rule in relations(used):
        proof = by_id[rule.proof or ""]
        problems += once(library, ("changed", rule, proof, hardware.name), partial(_changed, rule, proof, hardware))
    if problems:
        raise LoadError(problems)


def rule_hash(rule: Rule) -> str:
    """Of the pattern's structure, the derived weights, the family and the example; not of what the rule reaches."""
    lines = [f"{element.op} keep={element.keep} sibling={element.sibling}" for element in rule.pattern]
    lines += [f"same={rule.same} derive={rule.derive} family={rule.family}", rule.example.strip()]
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def envelope(rule: Rule) -> Envelope:
    """What the rule reaches: `any` of a closed set is its members, so that a set that grows is noticed."""
    return tuple(
        tuple((name, _closed(element, name, values)) for name, values in element.accepts) for element in rule.pattern
    )


def _closed(element: Element, name: str, values: Accepted) -> Accepted:
    if values != "any":
        return values
    match element.op, name:
        case "linear", "weight":
            return PANEL_FORMATS
        case "linear", "param.bias":
            return (False, True)
    return values


def _wrong(rule: Rule, proof: Proof | None, hardware: HardwareClass) -> Iterator[Problem]:
    again = _again(rule, hardware)
    if proof is None:
        message = f"rule `{rule.id}` is bit_identical, and class {hardware.name} has no proof `{rule.proof}` of it"
        fix = f"{again}, which adds it to {proofs_path(hardware.name)}"
        yield Problem(message=message, fix=fix, file=rule.file, line=rule.line)
        return

    def refuse(message: str) -> Problem:
        return _refusal(proof, message, again)

    if proof.verdict != EQUAL:
        yield refuse(f'its verdict is "{proof.verdict}"')
    outside = [f"mode {mode}" for mode in rule.modes if mode not in proof.modes]
    if rule.rows[0] < proof.rows[0] or rule.rows[1] > proof.rows[1]:
        outside.append(f"rows {rule.rows[0]}-{rule.rows[1]} where {proof.rows[0]}-{proof.rows[1]} are proven")
    if proof.rule != rule_hash(rule):
        yield refuse(f"rule `{rule.id}` ({rule.file}:{rule.line}) has changed since")
        return
    for place, (wanted, had) in enumerate(zip(envelope(rule), proof.accepts, strict=False)):
        of, have = rule.pattern[place].op, dict(had)
        for name, values in wanted:
            outside += [f"{of} with {name.removeprefix('param.')} = {v}" for v in _beyond(values, have.get(name, ()))]
    if outside:
        yield refuse(f"rule `{rule.id}` ({rule.file}:{rule.line}) reaches further: {', '.join(outside)}")


def _changed(rule: Rule, proof: Proof, hardware: HardwareClass) -> tuple[Problem, ...]:
    from circuit.lower.hashes import first_case  # what is kept of the library has been compared

    again = _again(rule, hardware)
    now, then = first_case(rule), proof.cases[0]
    if now.shape != then.shape:
        message = f"it is of the case `{then.shape}`, and the first case is `{now.shape}` today"
        return (_refusal(proof, message, again),)
    sides = (("fused", then.fused, now.fused), ("chain", then.chain, now.chain))
    said = "the definition of the {} side has changed since: {:.12} then, {:.12} today"
    return tuple(_refusal(proof, said.format(*side), again) for side in sides if side[1] != side[2])


def _again(rule: Rule, hardware: HardwareClass) -> str:
    return f"run `met circuit prove {rule.id} --class {hardware.name} --write`"


def _refusal(proof: Proof, message: str, fix: str) -> Problem:
    return Problem(message=f"proof `{proof.id}`: {message}", fix=fix, file=proof.file, line=proof.line)


def _beyond(values: Accepted, proven: Accepted) -> tuple[str, ...]:
    """The values that a proof does not cover."""
    if proven == "any":
        return ()
    if values == "any":
        return ("any",)
    covered = {(type(value), value) for value in proven}
    return tuple(
        str(value).lower() if isinstance(value, bool) else str(value)
        for value in values
        if (type(value), value) not in covered
    )
