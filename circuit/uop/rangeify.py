"""Shaped form to loops form: every shape, movement op and STAGE becomes index arithmetic.

A shaped value is a function of its places. `Lowering.at(value, places)` applies it: movement ops change the places, a
STAGE binds them to its ranges, a REDUCE opens loops, storage becomes a LOAD. Nothing is substituted, so no range is
captured: bound ranges live in an environment, and every loop of the result has a name of its own.
"""

from collections.abc import Generator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from circuit.uop.affine import Forms
from circuit.uop.bounds import bounds
from circuit.uop.build import after, end, i32, index, load, store, where
from circuit.uop.node import ELEMENTWISE, Const, Fold, Loop, Op, Param, Space, Stage, Storage, UOp, bound_ranges
from circuit.uop.scalar import LIMITS
from circuit.uop.simplify import simplified, simplify

Places = tuple[UOp, ...]


class Env(Struct, frozen=True):
    """What bound ranges mean, and what the parameters of the CALL around mean."""

    ranges: Mapping[UOp, UOp] = field(default_factory=dict)
    args: Mapping[int, tuple[UOp, "Env"]] = field(default_factory=dict)


Request = tuple[UOp, Places | None, Env]  # places None: the storage of a local STAGE
Step = Generator[Request, UOp, UOp]
Key = tuple[UOp, Places | None, Places, int]


class Lowering:
    """One kernel's lowering: it names the loops and numbers the local storage that it makes."""

    def __init__(self) -> None:
        self._outer = Env()
        self._names: set[str] = set()
        self._allocs = 0
        self._forms = Forms()
        self._memo: dict[Key, UOp] = {}
        self._at_places: dict[tuple[Places, frozenset[tuple[UOp, UOp]], int], dict[UOp, UOp]] = {}
        self._called: list[Env] = []  # keeps them alive: the memo's keys tell them apart by identity

    def loop(self, name: str, size: UOp | int) -> UOp:
        """A loop that the caller closes; values may depend on it."""
        made = self._fresh(name, self._simple(size) if isinstance(size, UOp) else i32(size))
        self._outer = _bind(self._outer, (made,), (made,))
        return made

    def at(self, value: UOp, *places: UOp) -> UOp:
        """The element of a shaped value at `places`, in loops form."""
        assert len(places) == len(value.shape), f"{len(places)} places for shape {value.shape}"
        return self._run((value, tuple(self._simple(place) for place in places), self._outer))

    def write(self, storage: UOp, value: UOp, names: tuple[str, ...], base: UOp | int = 0) -> UOp:
        """An effect: `value` stored in row-major order from `base` on, one loop an axis, named as given."""
        loops = tuple(self.loop(name, size) for name, size in zip(names, value.shape, strict=True))
        place = simplify(flat_index(loops, value.shape) + base)
        return end(store(index(storage, place), self.at(value, *loops)), *loops)

    def _simple(self, node: UOp) -> UOp:
        return simplify(node, self._forms)

    def _fresh(self, name: str, size: UOp) -> UOp:
        """A loop of its own, named `name`, with apostrophes where that is taken."""
        while name in self._names:
            name += "'"
        self._names.add(name)
        return UOp(Op.RANGE, (size,), Loop(name))

    def _run(self, root: Request) -> UOp:
        """Answers requests with a stack of its own, so that no program is too deep."""
        stack: list[tuple[Key, Step]] = [(_key(root), self._step(*root))]
        answer: UOp | None = None
        while True:
            key, step = stack[-1]
            try:
                request = next(step) if answer is None else step.send(answer)
            except StopIteration as stop:
                answer = stop.value
                assert answer is not None
                self._memo[key] = answer
                stack.pop()
                if not stack:
                    return answer
                continue
            asked = _key(request)
            answer = self._memo.get(asked)
            if answer is None:
                stack.append((asked, self._step(*request)))

    def _step(self, node: UOp, places: Places | None, env: Env) -> Step:
        """Asks for lowered sources by yielding requests; returns the lowered node, in normal form as all places are."""
        if node.op in ELEMENTWISE:
            assert places is not None, f"{node} is no storage"
            return (yield from self._elementwise(node, places, env))
        if places is None:
            return (yield from (self._storage(node, env) if node.op is Op.STAGE else self._room(node, env)))
        match node.op, node.arg:
            case Op.RANGE, _:
                return self._simple(env.ranges[node])  # a loop that runs once is 0
            case Op.CONST, _:
                return node
            case Op.PARAM, Param(slot=slot, shape=shape):
                if slot in env.args:
                    value, around = env.args[slot]
                    return (yield (value, places, around))
                return self._simple(load(index(flat(node), flat_index(places, shape))) if shape else node)
            case Op.BUFFER, _:
                return self._simple(load(index(node, *places)))
            case ((Op.ALLOC | Op.AFTER), _):
                return self._simple(load(index((yield (node, None, env)), *places)))
            case Op.STORE, _:
                storage, *at = node.src[0].src
                own = yield from self._all(tuple(at), (), env)
                room = yield (storage, None, env)
                return self._simple(store(index(room, *own), (yield (node.src[1], (), env))))
            case Op.END, _:
                loops, inside = yield from self._open(node.src[1:], env)
                return self._simple(end((yield (node.src[0], (), inside)), *loops))
            case Op.INDEX, _:
                own = yield from self._all(node.src[1:], (), env)
                return (yield (node.src[0], (*own, *places), env))
            case Op.STAGE, Stage(where="inline"):
                n = len(node.src) - 1
                return (yield (node.src[0], places[n:], _bind(env, node.src[1:], places[:n])))
            case Op.STAGE, _:
                stored = yield (node, None, env)
                return self._simple(load(index(stored, flat_index(places, node.shape))))
            case Op.REDUCE, Fold():
                return (yield from self._reduce(node, places, env))
            case Op.CALL, _:
                called = Env(args={k: (a, env) for k, a in enumerate(node.src[1:])})
                self._called.append(called)
                return (yield (node.src[0], places, called))
            case Op.STACK, _:
                return (yield from self._stack(node, places, env))
            case Op.EXPAND, tuple() as sizes:
                return (yield (node.src[0], places[len(sizes) :], env))
            case Op.PERMUTE, tuple() as order:
                moved = tuple(places[order.index(axis)] for axis in range(len(order)))
                return (yield (node.src[0], moved, env))
            case Op.RESHAPE, _:
                moved = unflatten(flat_index(places, node.shape), node.src[0].shape)
                return (yield (node.src[0], tuple(map(self._simple, moved)), env))
            case Op.SHRINK, _:
                offsets = yield from self._all(node.src[1:], (), env)
                moved = tuple(self._simple(p + o) for p, o in zip(places, offsets, strict=True))
                return (yield (node.src[0], moved, env))
            case Op.DETACH, _:
                return (yield (node.src[0], places, env))
        raise AssertionError(f"{node} has no loops form")

    def _elementwise(self, root: UOp, places: Places, env: Env) -> Step:
        """A node with all elementwise ops below it at the same places, of which most programs consist."""
        bound = frozenset([(r, env.ranges[r]) for r in root.ranges])
        lowered = self._at_places.setdefault((places, bound, id(env.args) if env.args else 0), {})
        stack = [root]
        while stack:
            node = stack[-1]
            if node in lowered:
                stack.pop()
            elif node.op not in ELEMENTWISE or node.shape != root.shape:
                lowered[node] = yield (node, _of_stretched(places, node.shape), env)
            elif waiting := [s for s in node.src if s not in lowered]:
                stack += waiting[::-1]
            else:
                src = tuple([lowered[s] for s in node.src])
                lowered[node] = simplified(self._forms, node.op, src, node.arg)
        return lowered[root]

    def _all(self, nodes: Places, places: Places, env: Env) -> Generator[Request, UOp, Places]:
        lowered: list[UOp] = []
        for node in nodes:
            lowered.append((yield (node, places, env)))
        return tuple(lowered)

    def _open(self, ranges: Places, env: Env) -> Generator[Request, UOp, tuple[Places, Env]]:
        """Loops of their own for bound ranges, and the environment inside them."""
        loops: Places = ()
        for r in ranges:
            size = yield (r.src[0], (), env)
            loops = (*loops, self._fresh(loop_name(r), size))
            env = _bind(env, (r,), loops[-1:])
        return loops, env

    def _reduce(self, node: UOp, places: Places, env: Env) -> Step:
        assert isinstance(node.arg, Fold)
        n = len(node.src) - len(bound_ranges(node))
        if node.arg.pop:
            loops = tuple(self._fresh("k", i32(size)) for size in node.src[0].shape[: node.arg.pop])
            places = (*map(self._simple, loops), *places)
        else:
            loops, env = yield from self._open(bound_ranges(node), env)
        values = yield from self._all(node.src[:n], places, env)
        return self._simple(UOp(Op.REDUCE, (*values, *loops), Fold(node.arg.op, 0, node.arg.order)))

    def _storage(self, node: UOp, env: Env) -> Step:
        """The local array of a STAGE, after the loops that store it."""
        size = 1
        for n in node.shape:
            size *= n
        self._allocs += 1
        slot, name = self._allocs - 1, f"stage{self._allocs - 1}"
        loops, inner = yield from self._open(node.src[1:], env)
        lanes = tuple(self._fresh("lane", i32(n)) for n in node.src[0].shape)
        value = yield (node.src[0], tuple(map(self._simple, lanes)), inner)
        room = UOp(Op.ALLOC, (), Storage(slot, size, node.dtype, name, *_narrower(value)))
        place = flat_index((*loops, *lanes), node.shape)
        return self._simple(after(room, end(store(index(room, place), value), *loops, *lanes)))

    def _room(self, node: UOp, env: Env) -> Step:
        """Storage that a definition names: of an ALLOC, room of this kernel's own; storage in GLOBAL space stays."""
        if node.space is Space.GLOBAL:
            return node
        if node.op is Op.AFTER:
            room = yield (node.src[0], None, env)
            return self._simple(after(room, *(yield from self._all(node.src[1:], (), env))))
        assert isinstance(node.arg, Storage), node
        self._allocs += 1
        return UOp(Op.ALLOC, (), replace(node.arg, slot=self._allocs - 1))

    def _stack(self, node: UOp, places: Places, env: Env) -> Step:
        """The chosen part; parts are all computed unless the place is a constant, and constants make a table."""
        first = places[0]
        if isinstance(first.arg, Const):
            return (yield (node.src[first.arg.bits], places[1:], env))
        if all(s.op is Op.CONST for s in node.src):
            return self._simple(load(index(node, first)))
        parts = yield from self._all(node.src, places[1:], env)
        chosen = parts[-1]
        for k in reversed(range(len(parts) - 1)):
            chosen = where(first < k + 1, parts[k], chosen)
        return self._simple(chosen)


def _narrower(value: UOp) -> tuple[int | None, int | None]:
    """The bounds of what is stored, where they say more than its type."""
    return bounds(value) if value.dtype in LIMITS and bounds(value) != LIMITS[value.dtype] else (None, None)


def flat(node: UOp) -> UOp:
    """A PARAM array with one axis."""
    assert isinstance(node.arg, Param), node
    size = 1
    for n in node.shape:
        size *= n
    a = node.arg
    return UOp(Op.PARAM, (), Param(a.slot, a.dtype, (size,), a.name, a.lo, a.hi))


def flat_index(places: Places, shape: tuple[int, ...]) -> UOp:
    """The row-major place."""
    at: UOp = i32(0)
    for place, size in zip(places, shape, strict=True):
        at = place if isinstance(at.arg, Const) and at.arg.bits == 0 else at * size + place
    return at


def unflatten(at: UOp, shape: tuple[int, ...]) -> Places:
    """The places of a row-major index, one an axis."""
    places: Places = ()
    for axis in reversed(range(len(shape))):
        places = ((at % shape[axis]) if axis else at, *places)
        at = at // shape[axis]
    return places


def _of_stretched(places: Places, shape: tuple[int, ...]) -> Places:
    """The places in an operand of an elementwise op: an axis of one element is repeated."""
    assert len(places) == len(shape), f"{len(places)} places for shape {shape}"
    if 1 not in shape:
        return places
    return tuple(i32(0) if size == 1 else place for place, size in zip(places, shape, strict=True))


def loop_name(r: UOp) -> str:
    """The name of a RANGE."""
    assert isinstance(r.arg, Loop), r
    return r.arg.name


def _bind(env: Env, ranges: Places, places: Places) -> Env:
    return Env(ranges={**env.ranges, **dict(zip(ranges, places, strict=True))}, args=env.args)


def _key(request: Request) -> Key:
    node, places, env = request
    bound = tuple([env.ranges[r] for r in node.ranges])  # of one node always in the same order
    return (node, places, bound, id(env.args) if env.args else 0)
