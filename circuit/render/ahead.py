"""Asking the memory for weights before they are read.

Words that are read once are asked for a little ahead of where the kernel is. Words that every turn of a loop reads
again, as each tile of rows reads a panel, stay in a cache after the first turn, so the memory would be busy in that
turn and idle in all others. There, each turn asks for its part of what the thread reads later: whole turns of the
threads' loop ahead, as evenly as the words at hand are read.

How far ahead suits a processor is asked of the program (`met_ahead`), which knows its maker. Measured by two threads,
decode_1 of the demo model in each format, in turn. On a 2-core Zen 3 virtual machine (gcc 12, 2026-11-30), 768 bytes
against 2048: BF16 1.04 to 1.20 times as fast in five runs, F32 1.04 and 1.05, Q8_0 0.96, Q4_1 0.95, Q4_0 0.98; F16
18.6 and 16.9 ms a step against 20.1 and 18.9. On two virtual cores of Sapphire Rapids (gcc 12, 2026-12-01), 4096
bytes against those: F32 1.05, Q8_0 1.06, int8 activations on Q8_0 1.04, on Q4_1 1.03; 2304 and 6144 against 768: F16
1.08 and 1.09, BF16 1.08 and 1.09; 4096 against 768, in a quiet run: F16 1.17. Spread: 8 rows times 3072 x 576 weights
of f32 from memory, one Zen 3 thread, in tiles of 4 rows: 720 us without, 892 us with words asked for 2 KiB ahead in
each turn, 551 us spread.
"""

from collections.abc import Callable

from msgspec import Struct

from circuit.render.blocks import Block, Nest, axis_of
from circuit.render.expr import memory_type
from circuit.uop.bounds import bounds
from circuit.uop.build import u32
from circuit.uop.node import Axis, DType, Op, Param, UOp, toposort

LINE_BYTES = 64
TURNS_AHEAD = 2
"""Of the threads' loop. Two turns can share a panel, whose lines the first of them reads all."""


class Distance(Struct, frozen=True):
    """Bytes that words are asked for ahead of being read, on processors of Intel and on all others."""

    others: int
    intel: int


CODES_AHEAD, VALUES_AHEAD = Distance(2048, 4096), Distance(768, 4096)
"""Of words of codes and scales, and of words of whole values."""

MOST_TURNS = 4
"""Of the loop whose turns read the same, at most. With more the memory has time, and asking would only take some."""


class Loop(Struct, frozen=True):
    """A loop that is being written."""

    over: UOp
    block: Block


class Ahead:
    """The lines of C that ask, for one kernel. `turn` gives the C variable of a loop."""

    def __init__(self, nest: Nest, turn: Callable[[UOp], str]) -> None:
        self._nest = nest
        self._turn = turn
        self._pointers: dict[UOp, tuple[Block, str]] = {}  # into what is read, and where each is declared
        self._unasked: dict[tuple[UOp | None, UOp], int] = {}  # bytes that a loop read since the line it last asked for
        self._of_values: frozenset[UOp] = frozenset()
        self._begins: dict[tuple[UOp, Distance], str] = {}  # pointers to arrays, moved ahead by a distance

    def begin(self, kernel: UOp) -> None:
        """Looks at what the words are that the kernel reads."""
        self._of_values = _arrays_of_values(kernel)

    def lines(self, node: UOp, base: UOp, at: str, first: bool, n_bytes: int) -> list[str]:
        """What stands before a load of `n_bytes` of words from address `at` of `base`. `first`: of the loads of a line,
        whose asking is enough for all.
        """
        loops = self._loops(node)
        if loops is None:
            near = base in self._of_values and _in_order(node)
            if not first:
                return []
            return [f"MET_AHEAD{self._moved(base, at, VALUES_AHEAD if near else CODES_AHEAD)};"]
        shared, again = loops
        n_turns = _most_turns(again)
        reader = (self._nest.home(node).over, base)
        n_lines, self._unasked[reader] = divmod(self._unasked.get(reader, 0) + n_bytes, n_turns * LINE_BYTES)
        if n_lines == 0:
            return []
        if base not in self._pointers or self._pointers[base][0] is not shared.block:
            self._pointers[base] = (shared.block, self._pointer(shared, base))
        return [f"MET_LATER({self._pointers[base][1]});"] * n_lines

    def _moved(self, base: UOp, at: str, by: Distance) -> str:
        """An address of `base`, moved by a distance. One pointer is, for the whole kernel."""
        assert isinstance(base.arg, Param)
        own = f"p{base.arg.slot}"
        if (base, by) not in self._begins:
            self._begins[base, by] = self._nest.name("q")
            head = f"const {memory_type(base.dtype, 1)} *const {self._begins[base, by]}"
            moved = f"{head} = {own} + met_ahead({by.others // 4}, {by.intel // 4});"
            self._nest.home(base).lines.append(moved)
        return at.replace(own, self._begins[base, by], 1)

    def _loops(self, node: UOp) -> tuple[Loop, UOp] | None:
        """The loop that threads share, and the innermost in it of whose few turns each reads the same; None without
        both. What is read where another load says is in no order.
        """
        shared: Loop | None = None
        again: UOp | None = None
        for block in self._nest.around(node):
            if block.over is not None and axis_of(block.over) is Axis.THREAD:
                shared = Loop(block.over, block)
            elif block.over is not None and shared is not None and block.over not in node.ranges:
                again = block.over
        if shared is None or again is None or not _in_order(node) or shared.over not in node.ranges:
            return None
        return (shared, again) if 2 <= _most_turns(again) <= MOST_TURNS else None

    def _pointer(self, shared: Loop, base: UOp) -> str:
        """A pointer into what is read later, for each turn of the loop that threads share."""
        assert isinstance(base.arg, Param)
        turn_bytes = 4 * base.arg.shape[0] // _most_turns(shared.over)
        pointer, turn = self._nest.name("n"), f"(i64)({self._turn(shared.over)} + {TURNS_AHEAD})"
        start = f"(const char *)p{base.arg.slot} + ({turn} * {turn_bytes})"
        shared.block.lines.append(f"const char *{pointer} = {start};")
        return pointer


def _most_turns(r: UOp) -> int:
    return bounds(r.src[0])[1]


def _in_order(load: UOp) -> bool:
    """Whether no other load says where this one reads."""
    return not any(n.op is Op.LOAD for n in toposort(load.src[0].src[1]))


def _arrays_of_values(kernel: UOp) -> frozenset[UOp]:
    """The arrays of words that nothing is read of but the whole word, or its halves."""
    nodes = toposort(kernel)
    words = {n: n.src[0].src[0] for n in nodes if n.op is Op.LOAD and n.dtype is DType.U32}
    parts = {words[n.src[0]] for n in nodes if n.src and n.src[0] in words and _takes_a_part(n)}
    return frozenset(base for base in words.values() if base not in parts)


def _takes_a_part(node: UOp) -> bool:
    """Whether a value is some bits of its first operand, a word, other than one half."""
    if node.op in (Op.FLOORDIV, Op.FLOORMOD):
        return node.src[1] is not u32(1 << 16)
    return node.op is Op.SHL and node.src[1] is not u32(16)
