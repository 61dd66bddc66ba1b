"""evaluate(root): runs a program in loops form, one element at a time: slow, and the definition of what is right.

A node runs once for every value of its free ranges, after its sources. So a LOAD or a STORE that belongs into a loop
must depend on the loop's RANGE: through its index, its value, or an AFTER that names the RANGE. Ranges of a THREAD or
GPU axis run in ascending order like any other. An ALLOC starts poisoned: reading what nothing wrote is an error.
"""

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct, field

from circuit.errors import Problem, RunError
from circuit.uop.node import DType, Fold, Op, Param, Storage, UOp, bound_ranges, const_value, toposort
from circuit.uop.scalar import Value, function_of, identity, is_alu, operand_type

Step = Callable[[], None]
Cell = TypeVar("Cell")  # what is computed with: values, or expressions (prove.py)


class Domain(Struct, Generic[Cell], frozen=True, kw_only=True):
    """What a run computes with. `constant`: a value of a type; `function`: of an op, its type and its operands' type;
    `number`: what a place or the end of a loop counts to.
    """

    constant: Callable[[Value, DType], Cell]
    function: Callable[[Op, DType, DType], Callable[..., Cell]]
    number: Callable[[Cell], int]


VALUES: Domain[Value] = Domain(constant=lambda value, _: value, function=function_of, number=int)


def evaluate(
    root: UOp, buffers: dict[int, list[Value]] | None = None, params: dict[int, Value] | None = None
) -> Value | None:
    """Runs an effect and writes into `buffers` (by slot), or gives a value. `params` are scalars by slot.

    Values are ints for i32 and u32, 0 or 1 for bool, and floats that float32 holds exactly.
    """
    return run(VALUES, root, buffers or {}, params or {})


def run(domain: Domain[Cell], root: UOp, buffers: dict[int, list[Cell]], params: dict[int, Cell]) -> Cell | None:
    """`evaluate` in any domain. What a buffer holds is what loads give, and stores put back."""
    assert not root.ranges, f"{root} is used outside its loops {sorted(str(r.arg) for r in root.ranges)}"
    machine = _Machine(domain=domain, buffers=buffers, params=params)
    for step in _steps(machine, [node for node in toposort(root) if not node.ranges]):
        step()
    return machine.value.get(root)


def storage_of(place: UOp) -> UOp:
    """The PARAM, BUFFER or ALLOC behind an INDEX or AFTER."""
    while place.op in (Op.INDEX, Op.AFTER):
        place = place.src[0]
    assert place.op in (Op.PARAM, Op.BUFFER, Op.ALLOC, Op.STACK), f"{place} is no storage"
    return place


def storage_name(storage: UOp) -> str:
    """What messages call a storage: its name, else its op and slot."""
    if storage.op is Op.STACK:
        return "table"
    assert isinstance(storage.arg, Param | Storage), storage
    return storage.arg.name or f"{storage.op} {storage.arg.slot}"


class _Machine(Struct, Generic[Cell], frozen=True, kw_only=True):
    domain: Domain[Cell]
    buffers: dict[int, list[Cell]]
    params: dict[int, Cell]
    value: dict[UOp, Cell] = field(default_factory=dict)
    local: dict[UOp, list[Cell | None]] = field(default_factory=dict)  # None: never written


def _steps(machine: _Machine[Cell], nodes: Sequence[UOp]) -> list[Step]:
    return [step for node in nodes if (step := _step(machine, node)) is not None]


def _step(machine: _Machine[Cell], node: UOp) -> Step | None:
    """What the node does when its turn comes; None where its sources, or its loop, have done it all."""
    match node.op:
        case Op.CONST:
            machine.value[node] = machine.domain.constant(const_value(node), node.dtype)
            return None
        case Op.PARAM if node.shape == ():
            assert isinstance(node.arg, Param)
            machine.value[node] = machine.params[node.arg.slot]
            return None
        case Op.PARAM | Op.BUFFER | Op.ALLOC | Op.AFTER | Op.BARRIER | Op.RANGE:
            return None
        case Op.STACK if node.shape == () or all(part.op is Op.CONST for part in node.src):
            return None  # a group of effects, or a table
        case Op.INDEX:
            return _index(machine, node)
        case Op.LOAD:
            return _load(machine, node)
        case Op.STORE:
            return _store(machine, node)
        case Op.END:
            return _loops(machine, node, None)
        case Op.REDUCE:
            return _reduce(machine, node)
    assert is_alu(node.op), f"{node} is not in loops form"
    assert node.shape == (), f"{node} is not in loops form"
    return _alu(machine, node)


def _alu(machine: _Machine[Cell], node: UOp) -> Step:
    value, f = machine.value, machine.domain.function(node.op, node.dtype, operand_type(node.op, node.src))
    a, b, c = (*node.src, node, node)[:3]

    def one() -> None:
        value[node] = f(value[a])

    def two() -> None:
        value[node] = f(value[a], value[b])

    def three() -> None:
        value[node] = f(value[a], value[b], value[c])

    return (one, two, three)[len(node.src) - 1]


def _index(machine: _Machine[Cell], node: UOp) -> Step:
    """The value of an INDEX is the flat place in its storage."""
    value, number, constant, storage = machine.value, machine.domain.number, machine.domain.constant, node.src[0]
    while storage.op is Op.AFTER:
        storage = storage.src[0]
    inner = storage if storage.op is Op.INDEX else None
    axes = [(place, size) for place, size in zip(node.src[1:], storage.shape, strict=False)]
    below = math.prod(node.shape)

    def step() -> None:
        flat = 0
        for place, size in axes:
            at = number(value[place])
            if not 0 <= at < size:
                raise _wrong(storage_of(node), f"index {at} is outside 0 .. {size - 1}")
            flat = flat * size + at
        value[node] = constant(flat * below + (number(value[inner]) if inner is not None else 0), DType.I32)

    return step


def _load(machine: _Machine[Cell], node: UOp) -> Step:
    value, number, place = machine.value, machine.domain.number, node.src[0]
    storage = storage_of(place)
    cells = _cells(machine, storage)

    def step() -> None:
        found = cells[_given(storage, len(cells), number(value[place]))]
        if found is None:
            raise _wrong(storage, f"element {value[place]} is read before anything wrote it")
        value[node] = found

    return step


def _store(machine: _Machine[Cell], node: UOp) -> Step:
    value, number, (place, stored) = machine.value, machine.domain.number, node.src
    storage = storage_of(place)
    cells = _cells(machine, storage)

    def step() -> None:
        cells[_given(storage, len(cells), number(value[place]))] = value[stored]

    return step


def _cells(machine: _Machine[Cell], storage: UOp) -> list[Cell] | list[Cell | None]:
    match storage.op, storage.arg:
        case Op.ALLOC, Storage(size=size):
            return machine.local.setdefault(storage, [None] * size)
        case _, Param(slot=slot) | Storage(slot=slot):
            return machine.buffers[slot]
        case Op.STACK, _:
            return [machine.domain.constant(const_value(part), part.dtype) for part in storage.src]
    raise AssertionError(storage)


def _given(storage: UOp, n_cells: int, at: int) -> int:
    """A buffer may be given shorter than it is declared: for fewer rows, or fewer pages."""
    if at >= n_cells:
        raise _wrong(storage, f"element {at} is used, the buffer given has {n_cells}")
    return at


def _wrong(storage: UOp, message: str) -> RunError:
    fix = "correct the program, or the buffers and parameters that it was given"
    return RunError(Problem(message=f"{storage_name(storage)}: {message}", fix=fix))


def _loops(machine: _Machine[Cell], node: UOp, last: Step | None) -> Step:
    """Runs the loops that a node closes; `last` comes at the end of the innermost body."""
    ranges = bound_ranges(node)
    inside = node.ranges.union(ranges)  # nodes with other free ranges belong to loops further in
    bodies: list[list[UOp]] = [[] for _ in ranges]
    for below in toposort(*node.src):
        depths = [depth for depth, r in enumerate(ranges) if r in below.ranges]
        if depths and below.ranges <= inside:
            bodies[depths[-1]].append(below)
    step = last or _nothing
    for r, body in zip(reversed(ranges), reversed(bodies), strict=True):
        step = _loop(machine, r, _steps(machine, body), step)
    return step


def _loop(machine: _Machine[Cell], r: UOp, body: list[Step], last: Step) -> Step:
    value, number, constant, end = machine.value, machine.domain.number, machine.domain.constant, r.src[0]

    def step() -> None:
        for i in range(number(value[end])):
            value[r] = constant(i, DType.I32)
            for inner in body:
                inner()
            last()

    return step


def _nothing() -> None:
    pass


def _reduce(machine: _Machine[Cell], node: UOp) -> Step:
    assert isinstance(node.arg, Fold), node
    assert node.arg.pop == 0, f"{node} is not in loops form"
    value, domain, op, order = machine.value, machine.domain, node.arg.op, node.arg.order
    start = domain.constant(identity(op, node.dtype), node.dtype)
    join = domain.function(_JOIN[op], node.dtype, node.dtype)
    take = domain.function(Op.MULACC, node.dtype, node.dtype) if op == "mulacc" else join
    sources = node.src[:2] if op == "mulacc" else node.src[:1]
    elements: list[tuple[Cell, ...]] = []  # of a mulacc, the two factors

    def collect() -> None:
        elements.append(tuple([value[s] for s in sources]))

    def fold(chosen: Sequence[tuple[Cell, ...]]) -> Cell:
        total = start
        for element in chosen:
            total = take(*element, total) if op == "mulacc" else take(total, *element)
        return total

    loops = _loops(machine, node, collect)

    def step() -> None:
        elements.clear()
        loops()
        value[node] = _ordered(order, elements, fold, join)

    return step


_JOIN = {"add": Op.ADD, "mulacc": Op.ADD, "mul": Op.MUL, "max": Op.MAX}

FoldPart = Callable[[Sequence[tuple[Cell, ...]]], Cell]
Join = Callable[[Cell, Cell], Cell]


def _ordered(order: str, elements: Sequence[tuple[Cell, ...]], fold: FoldPart[Cell], join: Join[Cell]) -> Cell:
    match order:
        case "fold":
            return fold(elements)
        case "fold:256":
            return _chunks(elements, fold, join)
        case "lanes:128":
            return _lanes(elements, fold, join)
    raise AssertionError(f"there is no reduction order {order}")


def _chunks(elements: Sequence[tuple[Cell, ...]], fold: FoldPart[Cell], join: Join[Cell]) -> Cell:
    """Each 256 elements from the identity; the total from the identity, every chunk joined in ascending order."""
    total = fold(())
    for first in range(0, len(elements), 256):
        total = join(total, fold(elements[first : first + 256]))
    return total


def _lanes(elements: Sequence[tuple[Cell, ...]], fold: FoldPart[Cell], join: Join[Cell]) -> Cell:
    """Element i goes to lane i % 128; then lane i joins lane i+64, i+32, ... i+1."""
    lanes = [fold(elements[lane::128]) for lane in range(128)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [join(lanes[i], lanes[i + half]) for i in range(half)]
    return lanes[0]
