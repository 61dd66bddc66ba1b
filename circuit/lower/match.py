"""The matcher: which chains of nodes a rule takes, and for each attempt that fails, why. Deciding is explaining.

A chain grows from an anchor node to nodes that read what a member writes, or to siblings that read what the anchor
reads. It is legal if nobody outside reads what a member writes (unless the rule keeps it) and no path leaves the group
and comes back.
"""

from collections.abc import Iterator

from msgspec import Struct

from circuit.load.policy import Policy, policy_value
from circuit.load.rules import Element, Rule
from circuit.lower.facts import Facts, facts_of, misfits
from circuit.lower.graph import Graph, graph_of
from circuit.lower.ir import Which
from circuit.tir.ir import Tir


class Taken(Struct, frozen=True, kw_only=True):
    """The node is a member of a chain that was taken before."""

    place: int
    chain: int


class Unfit(Struct, frozen=True, kw_only=True):
    """The element does not take the node: another op, or a fact that it does not accept."""

    place: int
    element: Element


class Apart(Struct, frozen=True, kw_only=True):
    """The node is already a member of this chain, runs in another section of the step, or differs from the anchor in a
    fact that all members must share."""

    place: int
    why: str


class NoMember(Struct, frozen=True, kw_only=True):
    """No node near the chain can be its next member; `tried` says of each what keeps it out."""

    element: Element
    tried: "tuple[Taken | Unfit | Apart, ...]"


class Escapes(Struct, frozen=True, kw_only=True):
    """A node outside the chain, or the step's own end (None), reads an edge that the rule does not keep."""

    place: int
    edge: int
    reader: int | None


class Returns(Struct, frozen=True, kw_only=True):
    """A path leaves the chain and comes back; the node is the last one on it outside the chain."""

    place: int


Refusal = Taken | Unfit | Apart | NoMember | Escapes | Returns


class Attempt(Struct, frozen=True, kw_only=True):
    """A rule tried from an anchor: the members found, in the order of the pattern, and why it failed, if it did."""

    rule: Rule
    chain: tuple[int, ...]
    refusal: Refusal | None


def why_not(rule: Rule, policy: Policy, mode: str, rows: tuple[int, int], which: Which) -> tuple[str, ...]:
    """What keeps a rule from being used at all; empty if it applies."""
    reasons = []
    if which == "reference" and len(rule.pattern) > 1:
        reasons.append("it is no single-op rule")
    if mode not in rule.modes:
        reasons.append(f"it is not for mode {mode}")
    if rows[0] < rule.rows[0] or rows[1] > rule.rows[1]:
        reasons.append(f"it is for rows {rule.rows[0]}-{rule.rows[1]}")
    if not rule.used:
        reasons.append(f"it is {'opt-in' if rule.opt_in else 'left out'}, and fuse.{rule.id} is off")
    for key, values in rule.when:
        if policy_value(policy, key) not in values:
            reasons.append(f"it is for policy {key} = {' or '.join(values)}")
    return tuple(reasons)


def applying(
    rules: tuple[Rule, ...], policy: Policy, mode: str, rows: tuple[int, int], which: Which
) -> tuple[Rule, ...]:
    """The rules that can be used, by priority. The groups of an instance follow from them."""
    used = (rule for rule in rules if not why_not(rule, policy, mode, rows, which))
    return tuple(sorted(used, key=lambda rule: (-rule.priority, rule.id)))


class Nodes(Struct, frozen=True, kw_only=True):
    """What rules ask of the nodes of an instance, which is the same for each of its plans. `of_op`: op -> its nodes."""

    graph: Graph
    kinds: tuple[tuple[str, Facts], ...]
    of_op: dict[str, list[int]]


def nodes_of(tir: Tir) -> Nodes:
    """The nodes of an instance; those that are alike have one kind, told apart by identity."""
    kinds: dict[tuple[str, Facts], tuple[str, Facts]] = {}
    of_op: dict[str, list[int]] = {}
    for place, node in enumerate(tir.nodes):
        of_op.setdefault(node.op, []).append(place)
    found = ((node.op, facts_of(tir, node)) for node in tir.nodes)
    return Nodes(graph=graph_of(tir), kinds=tuple(kinds.setdefault(kind, kind) for kind in found), of_op=of_op)


class Matcher:
    """The state of one matching: who owns each node."""

    def __init__(self, tir: Tir, nodes: Nodes | None = None) -> None:
        nodes = nodes or nodes_of(tir)
        self.tir, self.graph, self.kinds, self._of_op = tir, nodes.graph, nodes.kinds, nodes.of_op
        self.owner: list[int | None] = [None] * len(tir.nodes)
        self.chains: list[tuple[Rule, tuple[int, ...]]] = []  # members in the order of the pattern
        self._crossing = [0] * (len(tir.nodes) + 1)  # how many groups have members on both sides of a place
        self._fits: dict[
            tuple[int, int], bool
        ] = {}  # element and kind, by identity, -> does it take the nodes of that kind

    def run(
        self, rules: tuple[Rule, ...], policy: Policy, mode: str, rows: tuple[int, int], which: Which
    ) -> Iterator[Attempt]:
        """Every attempt of every rule that applies, by priority."""
        for rule in applying(rules, policy, mode, rows, which):
            for anchor in self._of_op.get(rule.pattern[0].op, ()):
                chain, refusal = self._attempt(rule, anchor)
                yield Attempt(rule=rule, chain=chain, refusal=refusal)

    def take(self, rule: Rule) -> None:
        """Take every chain that the rule matches, in execution order of the anchors of its first op."""
        for anchor in self._of_op.get(rule.pattern[0].op, ()):
            if self.owner[anchor] is None:
                self._attempt(rule, anchor)

    def _attempt(self, rule: Rule, anchor: int) -> tuple[tuple[int, ...], Refusal | None]:
        """Take the chain that begins at an anchor, if the rule matches it; else why not."""
        chain, refusal = self._grow(rule, anchor)
        if refusal is None:
            refusal = self._open_end(rule, chain) or self._way_back(chain)
        if refusal is None:
            for place in chain:
                self.owner[place] = len(self.chains)
            self.chains.append((rule, chain))
            for place in range(min(chain), max(chain)):
                self._crossing[place] += 1
        return chain, refusal

    def _grow(self, rule: Rule, anchor: int) -> tuple[tuple[int, ...], Refusal | None]:
        refusal = self._against(rule, rule.pattern[0], (), anchor)
        if refusal is not None:
            return (anchor,), refusal
        chain: tuple[int, ...] = (anchor,)
        for element in rule.pattern[1:]:
            tried = []
            for place in self._near(element, chain):
                refusal = self._against(rule, element, chain, place)
                if refusal is None:
                    chain = (*chain, place)
                    break
                tried.append(refusal)
            else:
                return chain, NoMember(element=element, tried=tuple(tried))
        return chain, None

    def _near(self, element: Element, chain: tuple[int, ...]) -> list[int]:
        """Nodes that could be the next member, lowest first."""
        nodes, readers = self.tir.nodes, self.graph.readers
        if element.sibling:
            own = nodes[chain[0]].inputs
            return [p for p in readers[own[0]] if nodes[p].inputs == own] if own else []
        return sorted({p for member in chain for edge in nodes[member].outputs for p in readers[edge]})

    def _against(
        self, rule: Rule, element: Element, chain: tuple[int, ...], place: int
    ) -> Taken | Unfit | Apart | None:
        """What keeps a node from being the next member."""
        owner = self.owner[place]
        if owner is not None:
            return Taken(place=place, chain=owner)
        if place in chain:
            return Apart(place=place, why="it is a member already")
        if not self._fit(element, place):
            return Unfit(place=place, element=element)
        if not chain:
            return None
        nodes = self.tir.nodes
        first, node = nodes[chain[0]], nodes[place]
        if node.section != first.section:
            return Apart(place=place, why=f"it runs in section {node.section}, {first.id} in {first.section}")
        alike = next((member for member in chain if nodes[member].op == node.op), place)
        ours, theirs = dict(self.kinds[alike][1]), dict(self.kinds[place][1])
        unlike = [name for name in rule.same if ours.get(name) != theirs.get(name)]
        return Apart(place=place, why=f"its {unlike[0]} is unlike that of {nodes[alike].id}") if unlike else None

    def _fit(self, element: Element, place: int) -> bool:
        op, facts = kind = self.kinds[place]
        key = (id(element), id(kind))
        if key not in self._fits:
            self._fits[key] = not misfits(element, op, facts)
        return self._fits[key]

    def _open_end(self, rule: Rule, chain: tuple[int, ...]) -> Escapes | None:
        """Somebody else who reads what the chain does not write."""
        for element, place in zip(rule.pattern[:-1], chain[:-1], strict=True):
            if element.keep:
                continue
            for edge in self.tir.nodes[place].outputs:
                if edge in self.graph.outputs:
                    return Escapes(place=place, edge=edge, reader=None)
                outside = next((p for p in self.graph.readers[edge] if p not in chain), None)
                if outside is not None:
                    return Escapes(place=place, edge=edge, reader=outside)
        return None

    def _way_back(self, chain: tuple[int, ...]) -> Returns | None:
        """A path that leaves the chain and comes back, through nodes or through whole groups."""
        if len(chain) == 1:
            return None
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
            for member in together:
                following = self.graph.after[member]
                if any(p in chain for p in following):
                    return Returns(place=member)
                todo += following
        return None
