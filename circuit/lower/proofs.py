"""Whether a relation holds: both sides of each case of its rule, element by element, as nodes of one scalar DAG."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from circuit.load.rules import Rule
from circuit.lower.cases import Case, cases_of
from circuit.lower.realize import FORMATS
from circuit.lower.sides import Memory, Side, chain, computed, fused, stored_edges
from circuit.sigma import OPS
from circuit.tir.ir import row_words
from circuit.uop.node import DType
from circuit.uop.prove import Dag, Expression, Scalar, difference

Sides = Callable[[Case], Side]
"""How a side is made of a case; tests give wrong ones."""


class Equal(Struct, frozen=True, kw_only=True):
    """Every element that the fused side stores is the same node on both sides."""

    elements: int
    expressions: int


class Differs(Struct, frozen=True, kw_only=True):
    """The first element that is not: where it is, and how each side computes the part in which they differ."""

    where: str
    fused: str
    chain: str


def compared(case: Case, one: Sides = fused, other: Sides = chain) -> Equal | Differs:
    """Both sides of one case."""
    dag = Dag()
    ours, theirs = computed(dag, case, one(case)), computed(dag, case, other(case))
    count = 0
    for where, dtype, a, b in _elements(case, ours, theirs):
        if a is b and not _unwritten(a, where):
            count += 1
            continue
        if a is b:
            return Differs(where=where, fused="not written", chain="not written")
        apart = difference(dag, a, b, dtype)
        if apart is not None:
            return Differs(where=where, fused=apart[0], chain=apart[1])
        count += 1
    writes = any(OPS[case.tir.nodes[place].op].state == "write" for place in case.group.nodes)
    if writes and not any(a is not b for a, b in _states(case, ours, dag)):
        return Differs(where=case.tir.states[0].name, fused="not written", chain="not written")
    return Equal(elements=count, expressions=len(dag))


def holds(rule: Rule) -> Iterator[tuple[Case, Equal | Differs]]:
    """Each case of the rule with its verdict."""
    for case in cases_of(rule):
        yield case, compared(case)


def _elements(case: Case, ours: Memory, theirs: Memory) -> Iterator[tuple[str, DType, Scalar, Scalar]]:
    """What the fused side stores: an edge's value by row and column, a state's words."""
    for edge in stored_edges(case, case.group):
        record, width = case.tir.edges[edge], row_words(case.tir.edges[edge])
        for place, (a, b) in enumerate(zip(ours.edges[edge], theirs.edges[edge], strict=True)):
            yield f"{record.name}[{place // width}, {place % width}]", FORMATS[record.format], a, b
    for state, room in enumerate(case.tir.states):
        for place, (a, b) in enumerate(zip(ours.states[state], theirs.states[state], strict=True)):
            yield f"{room.name} word {place}", DType.U32, a, b


def _unwritten(value: Scalar, where: str) -> bool:
    """Whether an edge's element still is what stood there before."""
    return isinstance(value, Expression) and value.name in (where.partition("[")[0], "unwritten")


def _states(case: Case, memory: Memory, dag: Dag) -> Iterator[tuple[Scalar, Scalar]]:
    for state, record in enumerate(case.tir.states):
        words = memory.states[state]
        yield from zip(words, dag.leaves(record.name, len(words), DType.U32), strict=True)
