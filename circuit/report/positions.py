"""The rows of a step, and what the ends of loops are in it."""

from collections.abc import Callable
from dataclasses import dataclass

from circuit.uop.node import Op, UOp, const_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The rows of one step: each of `sequences` has `rows` of them, at positions `first`, `first + 1`, ...

    `logit_rows` are those that get logits, over all sequences.
    """

    sequences: int
    rows: int
    first: int
    logit_rows: int


def formula(end: UOp, part: int = 1) -> Callable[[int], int]:
    """The end of a loop in parts of some size, rounded up, as a function of the row's position."""
    order = [node for node in below(end) if node.op is not Op.CONST]
    constants = {node: int(const_value(node)) for node in below(end) if node.op is Op.CONST}

    def at(position: int) -> int:
        value: dict[UOp, int] = dict(constants)
        for node in order:
            src = [value[s] for s in _value_sources(node)]
            match node.op:
                case Op.LOAD if not src:
                    value[node] = position
                case Op.LOAD:
                    value[node] = src[0]
                case Op.ADD:
                    value[node] = src[0] + src[1]
                case Op.MUL:
                    value[node] = src[0] * src[1]
                case Op.MAX:
                    value[node] = max(src)
                case Op.FLOORDIV:
                    value[node] = src[0] // src[1]
                case Op.FLOORMOD:
                    value[node] = src[0] % src[1]
                case Op.CMPLT:
                    value[node] = int(src[0] < src[1])
                case Op.XOR:
                    value[node] = src[0] ^ src[1]
                case Op.WHERE:
                    value[node] = src[1] if src[0] else src[2]
                case _:
                    raise AssertionError(f"the end of a loop has {node.op}")
        return -(-value[end] // part)

    return at


def _value_sources(node: UOp) -> tuple[UOp, ...]:
    """What a node's integer value is made of: a LOAD from local storage has the value that was stored there."""
    if node.op is not Op.LOAD:
        return node.src
    base = node.src[0].src[0]
    if base.op is Op.AFTER and base.src[0].op in (Op.ALLOC, Op.AFTER):
        for effect in base.src[1:]:
            if effect.op is Op.STORE:
                return (effect.src[1],)
    return ()


def below(root: UOp) -> list[UOp]:
    """The nodes that an integer's value is made of, each after what it is made of."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [s for s in _value_sources(node) if s not in seen] if node not in seen else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
    return order
