"""What was measured of a rule on a class, for the reports that say so."""

from circuit.load.evidence import Evidence
from circuit.load.rules import Rule
from circuit.lower.proven import rule_hash


def against_evidence(rule: Rule | None, records: tuple[Evidence, ...], mode: str, rows: tuple[int, int]) -> str:
    """Why a relation counts as not measured at rows of a mode; "" where it was. Nobody measures a rule of one op."""
    if rule is None or rule.numerics != "bit_identical":
        return "evidence is of relations"
    own = [record for record in records if record.rule == rule.id]
    if not own:
        return "no record"
    own = [record for record in own if record.hash == rule_hash(rule)]
    if not own:
        return "the rule has changed since"
    if mode != "decode":
        return "evidence is of decode steps"
    within = any(rows[0] <= rung.rows <= rows[1] for record in own for rung in record.rungs)
    return "" if within else "not at these rows"
