"""How the loops of each family run: the schedule of a definition at a point's values.

Lanes go over outputs, threads over outputs or rows, so no step touches the order of a fold. Ranges are named by the
definitions: row, then out (one axis), h and d (two), h, half and i (three); k is a projection's fold; attention's loops
start with p_.
"""

from circuit.load.families import Point, states, value
from circuit.lower.code_schedules import act_quant, group_lanes, panel_codes, row_tiles
from circuit.sigma.page import PAGE
from circuit.uop.node import Op, UOp, range_size, toposort
from circuit.uop.schedule import (
    Block,
    Carry,
    Deal,
    Join,
    Reorder,
    Schedule,
    Split,
    Stage,
    Step,
    Thread,
    Tile,
    Upcast,
    base_name,
    range_names,
)

K_BLOCK = 32
"""Inputs that share one scale in the block formats: what belongs to a block is loaded once for it."""

TURN_VECTORS = 8
"""Vectors of a row that a thread takes at once where threads share its columns out, since taking a turn costs time.

Measured on two virtual cores of an Intel server (Sapphire Rapids, gcc 12, 2026-12-01): of a step of one row of Q4_0 the
threads spend 1.9 % on taking turns where a turn is one vector, 0.8 % where it is eight.
"""


def schedule(point: Point, effects: tuple[UOp, ...], unit: int = K_BLOCK) -> Schedule:
    """The steps for a definition of the point's family. `unit`: inputs of a storage unit of the
    projection's weight, or words of a head of the state.
    """
    names = range_names(effects)
    match point.family:
        case "gather" | "kv_write":
            return (Thread(range="row"),)
        case "row_norm":
            groups = group_lanes() if "group" in names else ()
            kept = ("out", "d", "d_kept")
            return (*_lanes(names, kept, value(point, "lanes")), *groups, Thread(range="row"))
        case "elementwise":
            return (
                *_lanes(names, ("out",), value(point, "lanes")),
                Block(range="out", factor=TURN_VECTORS, inner="out.turn"),
                Reorder(ranges=("out", "row", "out.turn")),
                Thread(range="out"),
            )
        case "panel_linear":
            return _panel_linear(point, effects, unit)
        case "act_quant":
            return act_quant(point)
        case "panel_codes":
            return panel_codes(point, effects, _size(effects, "out"), unit)
        case "rope_write":
            return (*_lanes(names, ("d_kept", "turn"), value(point, "lanes")), Thread(range="row"))
        case "rope":
            return (*_lanes(names, ("d_kept", "turn", "i"), value(point, "lanes")), Thread(range="row"))
        case "attention":
            return _attention(point, effects, unit)
        case "argmax":
            return (Thread(range="row"),)
        case "log_sum_exp":
            return (*_lanes(names, ("i_mass",), value(point, "lanes")), Thread(range="row"))
        case "sample":
            return (*_lanes(names, ("i_log", "i_mass", "i_noise"), value(point, "lanes")), Thread(range="row"))
    raise AssertionError(f"family {point.family} has no schedule")


def _lanes(names: tuple[str, ...], ranges: tuple[str, ...], lanes: int) -> Schedule:
    """Vector lanes over those of the ranges that the kernel has."""
    steps: list[Step] = []
    for name in ranges:
        if name in names:
            steps += [Split(range=name, factor=lanes, inner=f"{name}.lane"), Upcast(range=f"{name}.lane")]
    return tuple(steps)


def _size(effects: tuple[UOp, ...], name: str) -> int:
    """How often a range of the definition runs at most; 0 where it has no such range."""
    found = (range_size(n) for n in toposort(*effects) if n.op is Op.RANGE and base_name(n) == name)
    return next(found, 0)


def _panel_linear(point: Point, effects: tuple[UOp, ...], unit: int) -> Schedule:
    """Threads over panels of outputs, lanes over the outputs; a weight serves a tile of rows."""
    lanes, staged = min(value(point, "lanes"), _size(effects, "out")), states(point, "row_block")
    names = range_names(effects)
    return (
        *_made_input(names, "column.row" if staged else "column"),
        *_lanes(names, ("d_own",), 8),
        Split(range="out", factor=lanes, inner="out.lane"),
        Reorder(ranges=("out", "row", "out.lane")),
        Thread(range="out"),
        *(_staged(point, effects, unit) if staged else _streamed(point, effects, unit)),
    )


def _made_input(names: tuple[str, ...], shared: str) -> Schedule:
    """The phase that makes the projection's input, if there is one: threads over its columns, or over its rows."""
    if "column" not in names:
        return ()
    lanes = _lanes(names, ("column",), 8)
    if shared == "column.row":
        return (*lanes, Reorder(ranges=("column.row", "column")), Thread(range=shared))
    turn = Block(range="column", factor=TURN_VECTORS, inner="column.turn")
    return (*lanes, turn, Reorder(ranges=("column", "column.row", "column.turn")), Thread(range=shared))


def _streamed(point: Point, effects: tuple[UOp, ...], unit: int) -> Schedule:
    """Weights decoded where they are read, for all rows of a tile, k in blocks, unrolled.

    `chunk_rows` go through a chunk of k before the next one begins, so that the tiles after the first read its weights
    from the first-level cache.
    """
    tile, carried = value(point, "row_tile"), states(point, "chunk_rows") and "k.chunk" in range_names(effects)
    return (
        *(_chunk_by_chunk(value(point, "chunk_rows"), tile) if carried else row_tiles(tile)),
        Upcast(range="out.lane"),
        *_decoded("k", value(point, "unroll"), unit),
    )


def _chunk_by_chunk(rows: int, tile: int) -> Schedule:
    return (
        Block(range="row", factor=rows, inner="row.block"),
        Tile(range="row.block", factor=tile, inner="row.tile"),
        Carry(fold="k.chunk", across="row.block"),
        Upcast(range="row.tile"),
    )


def _staged(point: Point, effects: tuple[UOp, ...], unit: int) -> Schedule:
    """A block of rows takes one chunk of k after the other: its weights are decoded once, all tiles of rows read them.

    A panel's chunk stays in the first-level cache, the totals of the block in the second.
    """
    unroll = value(point, "unroll")
    return (
        Block(range="row", factor=value(point, "row_block"), inner="row.block"),
        Tile(range="row.block", factor=value(point, "row_tile"), inner="row.tile"),
        *([Carry(fold="k.chunk", across="row.block")] if "k.chunk" in range_names(effects) else []),
        Stage(fold="k", across="row.block"),
        Upcast(range="row.tile"),
        Upcast(range="out.lane"),
        Split(range="k", factor=unroll, inner="k.unroll"),
        Upcast(range="k.unroll"),
        Upcast(range="out.lane.fill"),
        *_decoded("k.fill", unroll, unit),
    )


def _decoded(k: str, unroll: int, unit: int) -> Schedule:
    """The loop over the inputs of weights that are decoded, so that what belongs to a block is loaded once for it."""
    steps: list[Step] = []
    if unit > K_BLOCK:  # the scale of either block of a unit is in one word: which half is then known where it is read
        steps += [
            Split(range=k, factor=unit, inner=f"{k}.unit"),
            Split(range=f"{k}.unit", factor=K_BLOCK, inner=f"{k}.block"),
            Upcast(range=f"{k}.unit"),
        ]
    else:
        steps += [Split(range=k, factor=K_BLOCK, inner=f"{k}.block")]
    steps += [
        Split(range=f"{k}.block", factor=unroll, inner=f"{k}.unroll"),
        Upcast(range=f"{k}.unroll"),
    ]
    return tuple(steps)


def _attention(point: Point, effects: tuple[UOp, ...], words: int) -> Schedule:
    """Threads over rows and key heads, or over rows dealt out; the query heads of a key head are unrolled, so that what
    is loaded serves them all.

    Lanes go over positions for scores and over a head's width for the sum of values; both are cut so that the totals
    of all unrolled heads fill `totals` registers at most. The sum of values goes page by page, each looked up once.
    `words`: those of one head, which its values share out.
    """
    lanes, totals, hands = value(point, "lanes"), value(point, "totals"), value(point, "row_hands")
    group, head_dim = _size(effects, "i_score"), _size(effects, "d_score")
    heads = min(group, totals)
    vectors = 2 ** (max(totals // heads, 1).bit_length() - 1)
    words = min(words, head_dim)
    wide = min(vectors * lanes, words)
    steps: list[Step] = [
        Split(range="i_score", factor=heads, inner="i_score.head"),
        Split(range="b_score", factor=vectors, inner="b_score.block"),
        Reorder(ranges=("b_score.block", "i_score.head")),
        Upcast(range="i_score.head"),
        Upcast(range="b_score.block"),
        Upcast(range="lane_score"),
        Split(range="d_score", factor=4, inner="d_score.part"),
        Upcast(range="d_score.part"),
        Upcast(range="i_max"),
        Upcast(range="lane_max"),
        Upcast(range="lane_exp"),
        Upcast(range="i_sum"),
        Block(range="p_value", factor=PAGE, inner="p_value.page"),
        Split(range="d", factor=head_dim, inner="d.field"),
        Split(range="d", factor=heads, inner="d.head"),
        Split(range="d.field", factor=words, inner="d.word"),
        Split(range="d.word", factor=wide, inner="d.vector"),
        Split(range="d.vector", factor=min(lanes, wide), inner="d.lane"),
        Split(range="d.field", factor=vectors * lanes // wide, inner="d.part"),
        Reorder(ranges=("d.part", "d.vector", "d.head")),
        *(Upcast(range=f"d.{part}") for part in ("part", "vector", "head", "lane")),
    ]
    if hands == 1:
        return (*steps, Join(outer="row", inner="h"), Thread(range="row"))
    dealt = Deal(range="row", factor=hands, inner="row.turn")
    return (*steps, dealt, Reorder(ranges=("row", "h", "row.turn")), Thread(range="row"))
