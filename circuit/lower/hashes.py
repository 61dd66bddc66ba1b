"""What a proof is of: hashes of the rule, and of both definitions at each of its cases."""

from msgspec import Struct

from circuit.load.proofs import Compared
from circuit.load.rules import Rule
from circuit.lower.cases import Case, cases_of
from circuit.lower.proven import rule_hash
from circuit.lower.sides import chain, fused


class Hashes(Struct, frozen=True, kw_only=True):
    """What a proof is of: the rule, and both definitions at each of its cases."""

    rule: str
    cases: tuple[Compared, ...]


def hashes(rule: Rule) -> Hashes:
    """What a proof of the rule is of today."""
    return Hashes(rule=rule_hash(rule), cases=tuple(_compared(case) for case in cases_of(rule)))


def first_case(rule: Rule) -> Compared:
    """The first case of a rule."""
    return _compared(cases_of(rule)[0])


def _compared(case: Case) -> Compared:
    """The digests of both definitions at a case."""
    shape = f"{case.shape} rows={case.rows}"
    return Compared(shape=shape, fused=fused(case).digest(), chain=chain(case).digest())
