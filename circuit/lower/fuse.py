"""Rules to groups: greedy by priority. What one launch computes is decided here and nowhere else.

A chain grows from an anchor node to nodes that read what a member writes, or to siblings that read what the anchor
reads. It is legal if nobody outside reads what a member writes (unless the rule keeps it) and no path leaves the group
and comes back.
"""

from heapq import heappop, heappush
from typing import Literal

from circuit.errors import PlanError, Problem
from circuit.load.policy import Policy, policy_value
from circuit.load.rules import Element, Rule
from circuit.lower.facts import Facts, facts_of, misfits
from circuit.lower.graph import Graph, graph_of
from circuit.lower.ir import Group
from circuit.tir.ir import Concat, Node, Tir, Weight

Which = Literal["reference", "all"]
"""`reference`: only rules of a single op, which define the numerics; `all`: every rule that applies."""

SECTIONS = ("main", "greedy", "sample")


def fuse(
    tir: Tir, rules: tuple[Rule, ...], policy: Policy, mode: str, rows: tuple[int, int], which: Which
) -> tuple[Group, ...]:
    """The groups of an instance, in an order that runs; a node that no rule takes is a PlanError that says why."""
    matcher = _Matcher(tir)
    for rule in sorted(rules, key=lambda rule: (-rule.priority, rule.id)):
        if not why_not(rule, policy, mode, rows, which):
            matcher.apply(rule)
    uncovered = [place for place, owner in enumerate(matcher.owner) if owner is None]
    if uncovered:
        raise PlanError(_uncovered(matcher, uncovered, rules, policy, mode, rows, which))
    return _ordered(matcher)


def matches(tir: Tir, rule: Rule) -> tuple[Group, ...]:
    """What the rule alone takes of an instance, in any mode and under any setting; other nodes are in no group."""
    matcher = _Matcher(tir)
    matcher.apply(rule)
    return tuple(_group(tir, rule, chain) for _, chain in matcher.chains)


def why_not(rule: Rule, policy: Policy, mode: str, rows: tuple[int, int], which: Which) -> tuple[str, ...]:
    """What keeps a rule from being used at all; empty if it applies."""
    reasons = []
    if which == "reference" and len(rule.pattern) > 1:
        reasons.append("it is no single-op rule")
    if mode not in rule.modes:
        reasons.append(f"it is not for mode {mode}")
    if rows[0] < rule.rows[0] or rows[1] > rule.rows[1]:
        reasons.append(f"it is for rows {rule.rows[0]}-{rule.rows[1]}")
    for key, values in rule.when:
        if policy_value(policy, key) not in values:
            reasons.append(f"it is for policy {key} = {' or '.join(values)}")
    return tuple(reasons)


class _Matcher:
    """The state of one matching: who owns each node."""

    def __init__(self, tir: Tir) -> None:
        self.tir = tir
        self.graph: Graph = graph_of(tir)
        self.owner: list[int | None] = [None] * len(tir.nodes)
        self.chains: list[tuple[Rule, tuple[int, ...]]] = []  # members in the order of the pattern
        self._crossing = [0] * (len(tir.nodes) + 1)  # how many groups have members on both sides of a place
        self._fits: dict[
            tuple[int, int], bool
        ] = {}  # element and kind, by identity, -> does it take the nodes of that kind
        kinds: dict[tuple[str, Facts], tuple[str, Facts]] = {}
        self.kinds = [kinds.setdefault(kind, kind) for kind in ((n.op, facts_of(tir, n)) for n in tir.nodes)]

    def apply(self, rule: Rule) -> None:
        """Take every chain that the rule matches, in execution order of the anchors."""
        for anchor in range(len(self.tir.nodes)):
            chain = self._grow(rule, anchor)
            if chain and self._closed(rule, chain) and not self._has_way_back(chain):
                for place in chain:
                    self.owner[place] = len(self.chains)
                self.chains.append((rule, chain))
                for place in range(min(chain), max(chain)):
                    self._crossing[place] += 1

    def _grow(self, rule: Rule, anchor: int) -> tuple[int, ...]:
        if self.owner[anchor] is not None or not self._fit(rule.pattern[0], anchor):
            return ()
        chain = [anchor]
        for element in rule.pattern[1:]:
            found = next((p for p in self._near(element, chain) if self._joins(rule, element, chain, p)), None)
            if found is None:
                return ()
            chain.append(found)
        return tuple(chain)

    def _near(self, element: Element, chain: list[int]) -> list[int]:
        """Nodes that could be the next member, lowest first."""
        nodes, readers = self.tir.nodes, self.graph.readers
        if element.sibling:
            own = nodes[chain[0]].inputs
            return [p for p in readers[own[0]] if nodes[p].inputs == own] if own else []
        return sorted({p for member in chain for edge in nodes[member].outputs for p in readers[edge]})

    def _joins(self, rule: Rule, element: Element, chain: list[int], place: int) -> bool:
        if self.owner[place] is not None or place in chain or not self._fit(element, place):
            return False
        first, node = self.tir.nodes[chain[0]], self.tir.nodes[place]
        if node.section != first.section:
            return False
        ours, theirs = dict(self.kinds[chain[0]][1]), dict(self.kinds[place][1])
        return all(ours.get(name) == theirs.get(name) for name in rule.same)

    def _fit(self, element: Element, place: int) -> bool:
        op, facts = kind = self.kinds[place]
        key = (id(element), id(kind))
        if key not in self._fits:
            self._fits[key] = not misfits(element, op, facts)
        return self._fits[key]

    def _closed(self, rule: Rule, chain: tuple[int, ...]) -> bool:
        """Whether nobody else reads what the chain does not write."""
        for element, place in zip(rule.pattern[:-1], chain[:-1], strict=True):
            if element.keep:
                continue
            for edge in self.tir.nodes[place].outputs:
                if edge in self.graph.outputs or any(p not in chain for p in self.graph.readers[edge]):
                    return False
        return True

    def _has_way_back(self, chain: tuple[int, ...]) -> bool:
        """Whether a path leaves the chain and comes back, through nodes or through whole groups."""
        if len(chain) == 1:
            return False
        last = max(chain)
        while self._crossing[last]:  # past a place that no group crosses, no path comes back
            last += 1
        seen = set(chain)
        todo = [p for member in chain for p in self.graph.after[member] if p not in seen]
        while todo:
            place = todo.pop()
            if place in seen or place > last:
                continue
            owner = self.owner[place]
            together = (place,) if owner is None else self.chains[owner][1]
            seen.update(together)
            following = [p for member in together for p in self.graph.after[member]]
            if any(p in chain for p in following):
                return True
            todo += following
        return False


def _ordered(matcher: _Matcher) -> tuple[Group, ...]:
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
        derived=_concatenated(tir, [tir.nodes[place] for place in chain]) if rule.derive == "concat" else (),
    )


def _concatenated(tir: Tir, nodes: list[Node]) -> tuple[Weight, ...]:
    """For each weight of the nodes (weight, then bias), one that has the rows of all."""
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
    matcher: _Matcher,
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
