"""How the loops of each family run: the schedule of a definition at a point's values.

Lanes go over outputs, threads over outputs or rows, so no step touches the order of a fold. Ranges are named by the
definitions: row, then out (one axis), h and d (two), h, half and i (three); k is a projection's fold; attention's loops
start with p_.
"""

from circuit.load.families import Point, value
from circuit.uop.node import Op, UOp, range_size, toposort
from circuit.uop.orders import CHUNK
from circuit.uop.schedule import Reorder, Schedule, Split, Stage, Step, Thread, Upcast, base_name, range_names

K_BLOCK = 32
"""Inputs that share one scale in the block formats: what belongs to a block is loaded once for it."""

STAGED_BYTES = 2**20
"""The most that a thread keeps of a panel's decoded weights; a wider panel is decoded again for each tile of rows."""


def schedule(point: Point, effects: tuple[UOp, ...], unit: int = K_BLOCK) -> Schedule:
    """The steps for a definition of the point's family. `unit`: inputs of a storage unit of the projection's weight."""
    names = range_names(effects)
    match point.family:
        case "gather" | "kv_write":
            return (Thread(range="row"),)
        case "row_norm":
            return (*_lanes(names, ("out", "d"), value(point, "lanes")), Thread(range="row"))
        case "elementwise":
            return (
                *_lanes(names, ("out",), value(point, "lanes")),
                Reorder(ranges=("out", "row")),
                Thread(range="out"),
            )
        case "panel_linear":
            return _panel_linear(point, effects, unit)
        case "rope_write":
            return (*_lanes(names, ("d_kept", "turn"), value(point, "lanes")), Thread(range="row"))
        case "rope":
            return (*_lanes(names, ("d_kept", "turn", "i"), value(point, "lanes")), Thread(range="row"))
        case "attention":
            return _attention(point)
        case "argmax":
            return (Thread(range="row"),)
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
    """Threads over panels of outputs, then rows in tiles, lanes over the outputs; k in blocks, unrolled.

    A projection of fewer outputs than lanes has that many lanes. With row tiles, a panel is decoded once.
    """
    names, outputs = range_names(effects), _size(effects, "out")
    steps: list[Step] = []
    if "column" in names:  # the phase that makes the projection's input
        steps += [*_lanes(names, ("column",), 8), Reorder(ranges=("column", "row")), Thread(range="column")]
    lanes, tile, unroll = min(value(point, "lanes"), outputs), value(point, "row_tile"), value(point, "unroll")
    steps += [
        Split(range="out", factor=lanes, inner="out.lane"),
        Reorder(ranges=("out", "row", "out.lane")),
        Thread(range="out"),
    ]
    if tile > 1:
        inputs = CHUNK * (_size(effects, "k.chunk") + 1)  # or up to a chunk less
        if 4 * lanes * inputs <= STAGED_BYTES:
            steps += [Stage(fold="k", across="row")]
        steps += [Split(range="row", factor=tile, inner="row.tile"), Upcast(range="row.tile")]
    steps += [Upcast(range="out.lane")]
    if unit > K_BLOCK:  # the scale of either block of a unit is in one word: which half is then known where it is read
        steps += [Split(range="k", factor=unit, inner="k.unit"), Split(range="k.unit", factor=K_BLOCK, inner="k.block")]
        steps += [Upcast(range="k.unit")]
    else:
        steps += [Split(range="k", factor=K_BLOCK, inner="k.block")]
    steps += [
        Split(range="k.block", factor=unroll, inner="k.unroll"),
        Upcast(range="k.unroll"),
    ]
    return tuple(steps)


def _attention(point: Point) -> Schedule:
    """Threads over heads; lanes over positions for scores, over the head's width for the sum of values."""
    wide, narrow = value(point, "positions"), value(point, "lanes")
    return (
        Thread(range="h"),
        Split(range="p_score", factor=wide, inner="p_score.lane"),
        Upcast(range="p_score.lane"),
        Split(range="p_score.tail", factor=narrow, inner="p_score.tail.lane"),
        Upcast(range="p_score.tail.lane"),
        Split(range="p_exp", factor=narrow, inner="p_exp.lane"),
        Upcast(range="p_exp.lane"),
        Upcast(range="d"),
    )
