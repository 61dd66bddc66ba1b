"""Why a node is computed as it is: which rule took it, what each other rule has against it, and why its point.

The matching is run again with its attempts kept, so that what is told is what was decided.
"""

from typing import Literal, assert_never

from msgspec import Struct

from circuit.errors import PlanError, Problem
from circuit.load.families import Family, Point
from circuit.load.policy import Policy, policy_value
from circuit.load.rules import Rule
from circuit.lower.facts import facts_of, misfits, shown
from circuit.lower.fuse import fuse
from circuit.lower.ir import Which
from circuit.lower.match import (
    Apart,
    Attempt,
    Escapes,
    Matcher,
    NoMember,
    Refusal,
    Returns,
    Taken,
    Unfit,
    why_not,
)
from circuit.plan.kernels import against_point, point_of
from circuit.text import listed
from circuit.tir.activations import why_not_coded
from circuit.tir.ir import Node, Tir

NEAR = 12
"""The most names that an unknown node is answered with."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of a rule at the node. `reasons` are empty where it took the node; `members` are those it took."""

    rule: str
    file: str
    line: int | None
    priority: int
    numerics: str
    outcome: Literal["took it", "refused"]
    members: tuple[str, ...]
    reasons: tuple[str, ...]


class PointVerdict(Struct, frozen=True, kw_only=True):
    """A point of the rule's family: the chosen one has no reasons."""

    point: str
    values: tuple[tuple[str, int], ...]
    claim: str
    reasons: tuple[str, ...]


class Why(Struct, frozen=True, kw_only=True):
    """The answer for one node in one plan. `facts` are what rules may ask of it. `others` have no such op at all.
    `notes` say what the policy did before rules were asked."""

    node: str
    op: str
    facts: tuple[str, ...]
    mode: str
    rows: tuple[int, int]
    family: str
    verdicts: tuple[Verdict, ...]
    others: tuple[str, ...]
    points: tuple[PointVerdict, ...]
    notes: tuple[str, ...]


class Asked(Struct, frozen=True, kw_only=True):
    """The plan that is asked about."""

    rules: tuple[Rule, ...]
    families: tuple[Family, ...]
    policy: Policy
    mode: str
    rows: tuple[int, int]
    which: Which


def why(tir: Tir, name: str, asked: Asked) -> Why:
    """The answer; an unknown node, or one that no rule takes, is a PlanError."""
    place = place_of(tir, name)
    groups = fuse(tir, asked.rules, asked.policy, asked.mode, asked.rows, asked.which)
    group = next(group for group in groups if place in group.nodes)
    matcher = Matcher(tir)
    attempts: dict[str, list[Attempt]] = {}
    for attempt in matcher.run(asked.rules, asked.policy, asked.mode, asked.rows, asked.which):
        if place in _concerned(attempt):
            attempts.setdefault(attempt.rule.id, []).append(attempt)
    node = tir.nodes[place]
    own = [rule for rule in asked.rules if any(element.op == node.op for element in rule.pattern)]
    chosen = point_of(asked.families, group, asked.mode, asked.rows)
    family = next(family for family in asked.families if family.id == group.family)
    return Why(
        node=name,
        op=node.op if node.role is None else f"{node.op}:{node.role}",
        facts=tuple(shown(name, value) for name, values in facts_of(tir, node) for value in dict.fromkeys(values)),
        mode=asked.mode,
        rows=asked.rows,
        family=family.id,
        verdicts=tuple(_verdict(matcher, rule, place, asked, attempts.get(rule.id, [])) for rule in own),
        others=tuple(rule.id for rule in asked.rules if rule not in own),
        points=tuple(_point(point, chosen, asked) for point in family.points),
        notes=_notes(tir, node, asked.policy),
    )


def _notes(tir: Tir, node: Node, policy: Policy) -> tuple[str, ...]:
    """Whether a projection reads integers, and why not."""
    if node.op != "linear" or policy_value(policy, "activations") == "f32":
        return ()
    reads, against = tir.edges[node.inputs[0]].format, why_not_coded(tir, node)
    what = f"policy activations = {policy_value(policy, 'activations')}: it reads {reads} rows"
    return (f"{what}: {against}" if reads == "f32" and against is not None else what,)


def place_of(tir: Tir, name: str) -> int:
    """The node's place; a name that no node has is answered with those that begin like it."""
    names = [node.id for node in tir.nodes]
    if name in names:
        return names.index(name)
    length = max(_common(name, other) for other in names)
    near = [other for other in names if _common(name, other) == length]
    more = f" and {len(near) - NEAR} more" if len(near) > NEAR else ""
    message = f"there is no node `{name}`; the nearest are {listed(near[:NEAR])}{more}"
    raise PlanError(
        Problem(message=message, fix="give one of them; `met circuit show MODEL --stage tir` lists all nodes")
    )


def _common(one: str, other: str) -> int:
    """How many characters two names have in common from the start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _concerned(attempt: Attempt) -> tuple[int, ...]:
    """The nodes that an attempt says something about: its members, and those that were tried as the next one."""
    tried = attempt.refusal.tried if isinstance(attempt.refusal, NoMember) else ()
    return (*attempt.chain, *(each.place for each in tried))


def _verdict(matcher: Matcher, rule: Rule, place: int, asked: Asked, attempts: list[Attempt]) -> Verdict:
    took = next((a for a in attempts if a.refusal is None), None)
    members = () if took is None else tuple(matcher.tir.nodes[p].id for p in took.chain)
    return Verdict(
        rule=rule.id,
        file=rule.file,
        line=rule.line,
        priority=rule.priority,
        numerics=rule.numerics,
        outcome="refused" if took is None else "took it",
        members=members,
        reasons=() if took is not None else tuple(_reasons(matcher, rule, place, asked, attempts)),
    )


def _reasons(matcher: Matcher, rule: Rule, place: int, asked: Asked, attempts: list[Attempt]) -> list[str]:
    """Of the rule as a whole; else of its elements, and of each attempt that had the node in it."""
    unused = why_not(rule, asked.policy, asked.mode, asked.rows, asked.which)
    if unused:
        return list(unused)
    op, facts = matcher.kinds[place]
    elements = [(at, element) for at, element in enumerate(rule.pattern, 1) if element.op == op]
    against = {at: misfits(element, op, facts) for at, element in elements}
    if all(against.values()):
        alike: dict[str, list[int]] = {}
        for at, texts in against.items():
            alike.setdefault(", ".join(texts), []).append(at)
        return [_element(rule, places, text) for text, places in alike.items()]
    told = [_told(matcher, attempt, place) for attempt in attempts if not _is_no_anchor(attempt, place)]
    if not told:
        fitting = next(at for at, texts in against.items() if not texts)
        told = [_element(rule, [fitting], "no chain from an earlier element leads to it")]
    return list(dict.fromkeys(told))


def _is_no_anchor(attempt: Attempt, place: int) -> bool:
    """Whether the attempt only says that the node, which fits a later element, does not fit the first."""
    return isinstance(attempt.refusal, Unfit) and attempt.refusal.place == place


def _element(rule: Rule, places: list[int], text: str) -> str:
    """The text, with the elements that it is about where the rule has several."""
    if len(rule.pattern) == 1:
        return text
    return f"as its element {listed(map(str, places))} of {len(rule.pattern)}: {text}"


def _told(matcher: Matcher, attempt: Attempt, place: int) -> str:
    """Why an attempt failed, as seen from the node."""
    refusal = attempt.refusal
    assert refusal is not None
    anchor = matcher.tir.nodes[attempt.chain[0]].id
    if isinstance(refusal, NoMember) and place not in attempt.chain:
        own = next(each for each in refusal.tried if each.place == place)
        return f"in a chain from {anchor}: {_text(matcher, own, place)}"
    text = _text(matcher, refusal, place)
    return text if attempt.chain[0] == place else f"in a chain from {anchor}: {text}"


def _text(matcher: Matcher, refusal: Refusal, place: int) -> str:
    nodes = matcher.tir.nodes

    def of(other: int) -> str:
        return "it" if other == place else nodes[other].id

    match refusal:
        case Taken():
            winner, chain = matcher.chains[refusal.chain]
            members = " ".join(nodes[p].id for p in chain)
            return f"{of(refusal.place)} was taken before, by {winner.id} (priority {winner.priority}) [{members}]"
        case Unfit():
            op, facts = matcher.kinds[refusal.place]
            texts = [text.removeprefix("it ") for text in misfits(refusal.element, op, facts)]
            return f"the element for {refusal.element.op} {', '.join(texts)} ({of(refusal.place)})"
        case Apart():
            return f"{of(refusal.place)} cannot join: {refusal.why}"
        case NoMember():
            return _no_member(matcher, refusal, place)
        case Escapes(reader=None):
            return f"{_edge(matcher, refusal)} is an output of the step, and the rule does not keep it"
        case Escapes():
            assert refusal.reader is not None
            return f"{nodes[refusal.reader].id} reads {_edge(matcher, refusal)} too, and the rule does not keep it"
        case Returns():
            return f"a path leaves the chain and comes back through {nodes[refusal.place].id}"
        case _:
            assert_never(refusal)


def _no_member(matcher: Matcher, refusal: NoMember, place: int) -> str:
    wanted = f"no {refusal.element.op} can be the next member"
    same = [each for each in refusal.tried if matcher.kinds[each.place][0] == refusal.element.op]
    if same:
        return f"{wanted}: {'; '.join(_text(matcher, each, place) for each in same)}"
    beside = "beside the first" if refusal.element.sibling else "after the chain"
    found = listed(matcher.tir.nodes[each.place].id for each in refusal.tried)
    return f"{wanted}: {beside} there is {found}"


def _edge(matcher: Matcher, refusal: Escapes) -> str:
    return matcher.tir.edges[refusal.edge].name


def _point(point: Point, chosen: Point, asked: Asked) -> PointVerdict:
    reasons = against_point(point, asked.mode, asked.rows)
    if not reasons and point != chosen:
        reasons = (f"{chosen.id} stands before it and covers the plan",)
    return PointVerdict(point=point.id, values=point.values, claim=point.claim, reasons=reasons)
