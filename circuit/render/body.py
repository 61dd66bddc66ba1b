"""From a kernel in loops form to the lines of a C function body.

Values are asked for by the effects that need them and are written where the nest says. What has been computed in an
open block is not computed again. UPCAST ranges open no loop. The last UPCAST range of an END holds the lanes: a value
that depends on it becomes one C variable a piece of 16, 8 or 4 lanes (unless it fills local storage). Every other
UPCAST range is unrolled, in ascending order, by putting constants for it. In a REDUCE all work of one unrolled step
comes before the next; one that is exact in any order and the same in all lanes has lanes of its own (across.py).
"""

from collections.abc import Callable

from circuit.render.across import Writer as AcrossWriter
from circuit.render.across import along, write_across
from circuit.render.ahead import Ahead
from circuit.render.blocks import Block, Nest, Want, axis_of
from circuit.render.declared import Declared
from circuit.render.direct import Direct, direct
from circuit.render.dots import Quad, Writer, quads, same_codes, write_dots
from circuit.render.effects import first_thread_only, holds_loop, parts_of
from circuit.render.expr import c_type, expression, iota, literal, spread, step
from circuit.render.lanes import Lanes, Piece, pieces, storage
from circuit.render.memory import Memory
from circuit.render.unroll import Copies, fills_room, unroll
from circuit.uop.node import (
    Axis,
    DType,
    Fold,
    Loop,
    Op,
    Param,
    UOp,
    bound_ranges,
    const,
    range_size,
)
from circuit.uop.scalar import identity, is_alu

Values = tuple[UOp, ...]
Totals = list[tuple[int, Piece | None, str]]
"""Of a fold and its copies: which of them, the lanes, and the C variable."""


class Body:
    """Writes one kernel. A piece of None stands for a value that is the same in all lanes."""

    def __init__(self, lanes: int) -> None:
        self._width = lanes  # of a register
        self._nest = Nest()
        self._declared = Declared(self._nest.name)
        self._copies = Copies()
        self._lanes = Lanes()
        self._ahead = Ahead(self._nest, self._variable)
        self._memory = Memory(self._nest, self._declared, self._ahead, self._lanes, self._value)
        self._directs: dict[Want, Direct | None] = {}
        self._places: dict[tuple[UOp, Values], Values] = {}
        self._dot_products: dict[UOp, tuple[Quad, ...] | None] = {}
        self._variables: dict[UOp, str] = {}

    def lines(self, kernel: UOp) -> list[str]:
        """The lines of the body."""
        self._ahead.begin(kernel)
        self._effect(kernel)
        return [*self._declared.lines(), *self._nest.top()]

    # Effects

    def _effect(self, node: UOp) -> None:
        home = self._nest.home(node)
        if (node, None) in home.known:
            return
        match node.op:
            case Op.STACK:
                for part in node.src:
                    self._effect(part)
            case Op.BARRIER:
                assert not node.ranges, "a barrier inside a loop: threads would meet it different numbers of times"
                for part in node.src:
                    self._effect(part)
                home.lines.append("met_barrier(team);")
            case Op.END | Op.STORE if first_thread_only(node):
                with self._nest.inside(home, "if (tid == 0)", None) as guard:
                    self._loops(node, guard)
            case Op.END | Op.STORE:
                self._loops(node, home)
            case _:
                raise AssertionError(f"{node.op} is no effect")
        home.known[node, None] = ""

    def _loops(self, node: UOp, parent: Block) -> None:
        """The stores of an END in its loops, or a bare STORE."""
        outer = self._lanes.over
        ranges = node.src[1:] if node.op is Op.END else ()
        ups = tuple(r for r in ranges if axis_of(r) is Axis.UPCAST)
        rolled = tuple(r for r in ranges if axis_of(r) is not Axis.UPCAST)
        effect = node.src[0] if node.op is Op.END else node
        vector = bool(ups) and not fills_room(effect, ups[-1])
        self._lanes.over = ups[-1] if vector else None
        self._within(parent, rolled, lambda block: self._stores(block, effect, ups[:-1] if vector else ups))
        self._lanes.over = outer

    def _within(self, parent: Block, ranges: Values, inner: Callable[[Block], None]) -> None:
        """Runs `inner` in the innermost of nested loops."""
        if not ranges:
            inner(parent)
            return
        with self._nest.inside(parent, self._head(ranges[0]), ranges[0]) as block:
            self._within(block, ranges[1:], inner)

    def _head(self, r: UOp) -> str:
        name, size = self._variable(r), self._value(r.src[0])
        if axis_of(r) is Axis.THREAD:
            turns = f"{name} = met_first(team, {size}, tid, nt); {name} < {size}"
            return f"for (i32 {turns}; {name} = met_next(team, {name}, tid, nt))"
        return f"for (i32 {name} = 0; {name} < {size}; {name}++)"

    def _stores(self, block: Block, effect: UOp, unrolled: Values) -> None:
        for copy in unroll(parts_of(effect), unrolled, self._copies):
            for other in copy:
                if other.op is not Op.STORE:
                    self._effect(other)
            for piece in self._pieces():
                for node in copy:
                    if node.op is Op.STORE:
                        self._store(block, node, piece)

    def _pieces(self) -> tuple[Piece | None, ...]:
        return (None,) if self._lanes.over is None else pieces(range_size(self._lanes.over), self._width)

    def _store(self, block: Block, node: UOp, piece: Piece | None) -> None:
        at, value = node.src
        for effect in storage(at)[1]:
            self._effect(effect)
        width = piece.width if piece is not None else 1
        text = self._operand(value, piece, width)
        if value.dtype is DType.BOOL and width > 1:
            text = f"({text} & 1)"
        block.lines += self._memory.store(at, piece, text, value.dtype)

    # Values

    def _want(self, node: UOp, piece: Piece | None) -> Want:
        return (node, piece if self._lanes.hold(node) else None)

    def _value(self, node: UOp, piece: Piece | None = None) -> str:
        """C for a value; what it needs is written first, without recursion."""
        root = self._want(node, piece)
        stack = [root]
        while stack:
            want = stack[-1]
            missing = [] if self._known(want) else [need for need in self._needs(*want) if not self._known(need)]
            stack.extend(reversed(missing))
            if not missing:
                stack.pop()
                if not self._known(want):
                    self._write(*want)
        text = self._text(*root)
        assert text is not None, root
        return text

    def _known(self, want: Want) -> bool:
        return self._text(*want) is not None

    def _text(self, node: UOp, piece: Piece | None) -> str | None:
        """The name of a value that is in scope, or C that needs no name."""
        match node.op:
            case Op.CONST:
                return literal(node, 1)
            case Op.PARAM if node.shape == ():
                assert isinstance(node.arg, Param), node
                return f"s{node.arg.slot}"
            case Op.RANGE if axis_of(node) is Axis.UPCAST:
                assert node is self._lanes.over, f"lanes {node.arg} inside other lanes"
                assert piece is not None, node
                return iota(piece.start, piece.width)
            case Op.RANGE:
                return self._variable(node)
        return self._nest.find((node, piece))

    def _needs(self, node: UOp, piece: Piece | None) -> list[Want]:
        match node.op:
            case Op.REDUCE | Op.STORE | Op.END | Op.BARRIER | Op.STACK:
                return []
            case Op.LOAD:
                self._ready(node)
                return []
        found = self._direct(node, piece)
        if found is None:
            return [self._want(s, piece) for s in node.src]
        if isinstance(found.operand, UOp):
            return [self._want(found.operand, piece)]
        self._ready(found.operand.load)
        return []

    def _ready(self, load: UOp) -> None:
        """What is stored before a load is."""
        for effect in storage(load.src[0])[1]:
            self._effect(effect)

    def _write(self, node: UOp, piece: Piece | None) -> None:
        width = piece.width if piece is not None else 1
        if node.op is Op.REDUCE:
            self._reduce(node)
            return
        if node.op is Op.LOAD:
            text = self._memory.load(node, piece, width)
        elif (found := self._direct(node, piece)) is not None:
            text = self._at_once(found, piece, width)
        else:
            assert is_alu(node.op), f"{node.op} in a kernel in loops form"
            text = expression(node, width, [self._operand(s, piece, width) for s in node.src])
        home, name = self._nest.home(node), self._nest.name()
        home.lines.append(f"const {c_type(node.dtype, width)} {name} = {text};")
        home.known[node, piece] = name

    def _direct(self, node: UOp, piece: Piece | None) -> Direct | None:
        """What gives the lanes of a piece at once."""
        if piece is None or self._lanes.over is None:
            return None
        if (node, piece) not in self._directs:
            self._directs[node, piece] = direct(node, self._lanes.over, piece)
        return self._directs[node, piece]

    def _at_once(self, found: Direct, piece: Piece | None, width: int) -> str:
        table, of = self._declared.vector(found.table) if found.table else "", found.operand
        x = self._operand(of, piece, width) if isinstance(of, UOp) else self._memory.address(of)
        return found.text.format(x=x, table=table)

    def _operand(self, node: UOp, piece: Piece | None, width: int) -> str:
        """A value as an operand of `width` lanes."""
        text = self._value(node, piece)
        if width == 1 or self._lanes.hold(node):
            return text
        if node.op is Op.CONST:
            return literal(node, width)
        home, want = self._nest.home(node), (node, Piece(-1, width))
        if want not in home.known:
            home.known[want] = self._nest.name()
            text = spread(text, node.dtype, width)
            home.lines.append(f"const {c_type(node.dtype, width)} {home.known[want]} = {text};")
        return home.known[want]

    def _variable(self, r: UOp) -> str:
        """The C variable of a loop."""
        if r not in self._variables:
            assert isinstance(r.arg, Loop), r
            plain = "".join(c if c.isalnum() else "_" for c in r.arg.name)
            self._variables[r] = self._nest.name(f"{plain}_")
        return self._variables[r]

    # Reduces

    def _reduce(self, node: UOp) -> None:
        """A REDUCE and its copies, all in one loop."""
        assert isinstance(node.arg, Fold), node
        assert node.arg.order == "fold", f"expand_orders has not seen {node.arg}"
        home, ranges = self._nest.home(node), bound_ranges(node)
        group = [n for n in self._copies.of(node) if self._nest.home(n) is home and bound_ranges(n) == ranges]
        if self._dots(home, node, group) or self._across(home, node):
            return
        totals: Totals = []
        start = const(node.dtype, identity(node.arg.op, node.dtype))
        for which, copy in enumerate(group):
            for piece in self._pieces() if self._lanes.hold(copy) else (None,):
                width, name = piece.width if piece is not None else 1, self._nest.name("a")
                home.lines.append(f"{c_type(node.dtype, width)} {name} = {literal(start, width)};")
                totals.append((which, piece, name))
        parked = [name for _, piece, name in totals if piece is not None] if holds_loop(node) else []
        home.lines += [f"MET_PARK({name});" for name in parked]
        n = len(node.src) - len(ranges)
        values = tuple(s for copy in group for s in copy.src[:n])
        self._fold(home, node.arg.op, ranges, values, totals, parked)
        for which, piece, name in totals:
            home.known[group[which], piece] = name

    def _across(self, home: Block, node: UOp) -> bool:
        """A fold whose places are lanes; whether it is."""
        r = along(node)
        if r is None or self._lanes.hold(node):
            return False
        outer, self._lanes.over = self._lanes.over, r
        cut = pieces(range_size(r), self._width)
        writer = AcrossWriter(home.lines.append, self._nest.name, self._operand)
        home.known[node, None] = write_across(node, cut, writer)
        self._lanes.over = outer
        return True

    def _dots(self, home: Block, node: UOp, group: list[UOp]) -> bool:
        """A fold that is sums of products of bytes, with those of its copies that have the same codes; whether it is.

        What is made of a word of codes is made once for all of them.
        """
        first = self._quads(node)
        if first is None:
            return False
        found = {copy: self._quads(copy) for copy in group}
        alike = {copy: own for copy, own in found.items() if own is not None and same_codes(own, first)}
        pieces = self._pieces() if self._lanes.hold(node) else (None,)
        # rows share what the first one reads
        load = self._memory.load if len(alike) == 1 else self._memory.loaded
        home.known |= write_dots(alike, pieces, Writer(home.lines.append, self._nest.name, load, self._operand))
        return True

    def _quads(self, node: UOp) -> tuple[Quad, ...] | None:
        """What a fold is as products of bytes, if it is: its loop is written out, and codes and fold share lanes."""
        if node not in self._dot_products:
            ranges, found = bound_ranges(node), None
            if node.arg == Fold("mulacc", 0, "fold") and [axis_of(r) for r in ranges] == [Axis.UPCAST]:
                found = quads(list(zip(*(self._written_out(value, ranges) for value in node.src[:2]), strict=True)))
            words = (word for quad in found or () for word in quad.words)
            same = all(self._lanes.hold(word) == self._lanes.hold(node) for word in words)
            self._dot_products[node] = found if same else None
        return self._dot_products[node]

    def _written_out(self, value: UOp, ranges: Values) -> Values:
        """A value at every place of unrolled ranges; of copies of a fold, many have the same."""
        key = (value, ranges)
        if key not in self._places:
            self._places[key] = tuple(copy[0] for copy in unroll((value,), ranges, self._copies))
        return self._places[key]

    def _fold(self, block: Block, op: str, ranges: Values, values: Values, totals: Totals, parked: list[str]) -> None:
        if not ranges:
            n = 2 if op == "mulacc" else 1
            for which, piece, name in totals:
                width = piece.width if piece is not None else 1
                terms = [self._operand(v, piece, width) for v in values[which * n : which * n + n]]
                block.lines.append(step(op, values[0].dtype, width, name, terms))
            block.lines += [f"MET_PARK({name});" for name in parked]
            return
        if axis_of(ranges[0]) is Axis.UPCAST:
            for copy in unroll(values, ranges[:1], self._copies):
                self._fold(block, op, ranges[1:], copy, totals, parked)
            return
        with self._nest.inside(block, self._head(ranges[0]), ranges[0]) as inner:
            self._fold(inner, op, ranges[1:], values, totals, parked)
