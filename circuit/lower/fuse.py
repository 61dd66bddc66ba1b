"""Rules to groups: greedy by priority. What one launch computes is decided here and in `match.py`, and nowhere else."""

from heapq import heappop, heappush

from circuit.errors import PlanError, Problem
from circuit.load.ops import SECTIONS
from circuit.load.policy import Policy
from circuit.load.rules import Rule
from circuit.lower.facts import misfits
from circuit.lower.ir import Group, Which
from circuit.lower.match import Matcher, Nodes, applying, why_not
from circuit.tir.ir import Concat, Tir, Weight


def fuse(
    tir: Tir,
    rules: tuple[Rule, ...],
    policy: Policy,
    mode: str,
    rows: tuple[int, int],
    which: Which,
    nodes: Nodes | None = None,
) -> tuple[Group, ...]:
    """The groups of an instance, in an order that runs; a node that no rule takes is a PlanError that says why. `nodes`
    are those of the instance, where they are known."""
    matcher = Matcher(tir, nodes)
    for rule in applying(rules, policy, mode, rows, which):
        matcher.take(rule)
    uncovered = [place for place, owner in enumerate(matcher.owner) if owner is None]
    if uncovered:
        raise PlanError(_uncovered(matcher, uncovered, rules, policy, mode, rows, which))
    return _ordered(matcher)


def matches(tir: Tir, rule: Rule) -> tuple[Group, ...]:
    """What the rule alone takes of an instance, in any mode and under any setting; other nodes are in no group."""
    matcher = Matcher(tir)
    matcher.take(rule)
    return tuple(_group(tir, rule, chain) for _, chain in matcher.chains)


def _ordered(matcher: Matcher) -> tuple[Group, ...]:
    """Groups in topological order; of those that could come next, the one with the lowest node; section by section."""
    nodes = matcher.tir.nodes
    members = [tuple(sorted(chain)) for _, chain in matcher.chains]
    waits = [0] * len(members)
    following: list[set[int]] = [set() for _ in members]
    for place, later in enumerate(matcher.graph.after):
        source = matcher.owner[place]
        assert source is not None, "every node is owned"
        following[source].update(o for p in later if (o := matcher.owner[p]) is not None and o != source)
    for targets in following:
        for target in targets:
            waits[target] += 1
    ready: list[tuple[int, int, int]] = []

    def offer(group: int) -> None:
        first = members[group][0]
        heappush(ready, (SECTIONS.index(nodes[first].section), first, group))

    for group, count in enumerate(waits):
        if count == 0:
            offer(group)
    order = []
    while ready:
        _, _, group = heappop(ready)
        order.append(group)
        for target in sorted(following[group]):
            waits[target] -= 1
            if waits[target] == 0:
                offer(target)
    assert len(order) == len(members), "the groups depend on each other in a circle"
    return tuple(_group(matcher.tir, *matcher.chains[group]) for group in order)


def _group(tir: Tir, rule: Rule, chain: tuple[int, ...]) -> Group:
    return Group(
        rule=rule.id,
        family=rule.family,
        numerics=rule.numerics,
        nodes=tuple(sorted(chain)),
        rows=rule.rows,
        derived=_concatenated(tir, chain) if rule.derive == "concat" else (),
    )


def _concatenated(tir: Tir, chain: tuple[int, ...]) -> tuple[Weight, ...]:
    """For each weight of the chain's projections (weight, then bias), one that has the rows of all."""
    nodes = [tir.nodes[place] for place in chain if tir.nodes[place].op == "linear"]
    prefix = nodes[0].id.rpartition(".")[0]
    name = f"{prefix}.{'+'.join(node.id.rpartition('.')[2] for node in nodes)}"
    found = []
    for part, columns in zip(("weight", "bias"), zip(*(node.weights for node in nodes), strict=True), strict=False):
        weights = [tir.weights[w] for w in columns]
        found.append(
            Weight(
                name=f"{name}.{part}",
                shape=(sum(w.shape[0] for w in weights), *weights[0].shape[1:]),
                format=weights[0].format,
                recipe=Concat(parts=tuple(w.recipe for w in weights)),
            )
        )
    return tuple(found)


def _uncovered(
    matcher: Matcher,
    places: list[int],
    rules: tuple[Rule, ...],
    policy: Policy,
    mode: str,
    rows: tuple[int, int],
    which: Which,
) -> list[Problem]:
    """One problem for each kind of node that no rule took, with what each rule of its op has against it."""
    alike: dict[int, list[int]] = {}
    for place in places:
        alike.setdefault(id(matcher.kinds[place]), []).append(place)
    problems = []
    for same in alike.values():
        node = matcher.tir.nodes[same[0]]
        reasons = []
        for rule in rules:
            element = next((e for e in rule.pattern if e.op == node.op), None)
            if element is not None:
                against = [*why_not(rule, policy, mode, rows, which), *misfits(element, *matcher.kinds[same[0]])]
                why = ", ".join(against) or "its pattern finds no other member here"
                reasons.append(f"{rule.id} ({rule.file}:{rule.line}): {why}")
        others = f" and {len(same) - 1} more like it" if len(same) > 1 else ""
        op = node.op if node.role is None else f"{node.op}:{node.role}"
        message = f"{node.id}{others}: no rule computes this {op}; {'; '.join(reasons) or 'no rule has this op'}"
        problems.append(Problem(message=message, fix="add a rule that takes it, or change what the circuit asks for"))
    return problems
