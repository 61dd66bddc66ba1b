"""What can be said of rules without an instance: undeclared overlaps, and rules that another always beats."""

from collections.abc import Iterator
from itertools import combinations

from circuit.errors import LoadError, Problem
from circuit.load.rules import Accepted, Element, Rule


def linted(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The same rules, or a LoadError that names every pair without a winner and every rule that cannot win."""
    problems = [*overlaps(rules), *shadows(rules)]
    if problems:
        raise LoadError(problems)
    return rules


def overlaps(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    """Rules of one priority that can want the same node."""
    for one, other in combinations(rules, 2):
        if one.priority != other.priority or not _meet(one, other):
            continue
        if any(_overlap(a, b) for a in one.pattern for b in other.pattern):
            yield Problem(
                message=f"rules `{one.id}` and `{other.id}` can want the same node, both with priority {one.priority}",
                fix=f"give them different priorities; the other is on line {one.line}",
                file=other.file,
                line=other.line,
            )


def shadows(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    """Rules whose nodes are always taken before: one by one by a rule of a single op, or all by a rule of as many."""
    for winner in rules:
        if winner.when or winner.opt_in:
            continue
        for rule in rules:
            covered = set(rule.modes) <= set(winner.modes) and _within(rule.rows, winner.rows)
            if rule.priority >= winner.priority or not covered:
                continue
            if _takes_one(winner, rule) or _takes_all(winner, rule):
                yield Problem(
                    message=f"rule `{rule.id}` is never used: `{winner.id}` takes its nodes first",
                    fix=f"give it a priority over {winner.priority}, or remove it",
                    file=rule.file,
                    line=rule.line,
                )


def _takes_one(winner: Rule, rule: Rule) -> bool:
    return len(winner.pattern) == 1 and any(_includes(winner.pattern[0], element) for element in rule.pattern)


def _takes_all(winner: Rule, rule: Rule) -> bool:
    """Whether the winner's chain is the rule's, element by element, and asks for no more than it."""
    if len(winner.pattern) != len(rule.pattern) or not set(winner.same) <= set(rule.same):
        return False
    return all(
        _includes(ours, theirs) and ours.sibling == theirs.sibling and ours.keep >= theirs.keep
        for ours, theirs in zip(winner.pattern, rule.pattern, strict=True)
    )


def _meet(one: Rule, other: Rule) -> bool:
    rows = max(one.rows[0], other.rows[0]) <= min(one.rows[1], other.rows[1])
    settings = dict(other.when)
    both = all(set(values) & set(settings.get(key, values)) for key, values in one.when)
    return rows and both and bool(set(one.modes) & set(other.modes))


def _within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _overlap(one: Element, other: Element) -> bool:
    """Whether some node fits both. A fact that a pattern takes no value of must be absent, which the other allows."""
    if one.op != other.op:
        return False
    theirs = dict(other.accepts)
    return all(_some(values, theirs.get(name, ())) for name, values in one.accepts)


def _some(one: Accepted, other: Accepted) -> bool:
    if one == "any" or other == "any":
        return True
    return not one or not other or any(type(a) is type(b) and a == b for a in one for b in other)


def _includes(outer: Element, inner: Element) -> bool:
    """Whether every node that fits `inner` fits `outer`."""
    if outer.op != inner.op:
        return False
    theirs = dict(outer.accepts)
    for name, values in inner.accepts:
        taken = theirs.get(name, ())
        if taken == "any":
            continue
        if values == "any" or any(not any(type(a) is type(b) and a == b for b in taken) for a in values):
            return False
    return True
