"""How the loops of the families with integer rows run: act_quant, alone or behind what makes its row, and projections.

Ranges are named by the definitions: row, group and word where a row's codes are written, k_value, k_largest, k_code and
k_sum over the values of a group; row, out, g (groups of a chunk), g.term and g.k where they are read.
"""

from circuit.formats import GROUP
from circuit.load.families import Point, states, value
from circuit.uop.node import UOp
from circuit.uop.schedule import Block, Reorder, Schedule, Split, Step, Thread, Tile, Upcast, range_names


def group_lanes() -> Schedule:
    """Lanes over the values of a group, and over the words that are made of them."""
    return tuple(Upcast(range=name) for name in ("k_value", "k_largest", "k_code", "k_sum", "word"))


def act_quant(point: Point) -> Schedule:
    """Threads over rows; or over groups, a few a turn, so that one row is shared out too."""
    if not states(point, "turn"):
        return (*group_lanes(), Thread(range="row"))
    turn = Block(range="group", factor=value(point, "turn"), inner="group.turn")
    return (*group_lanes(), turn, Reorder(ranges=("group", "row", "group.turn")), Thread(range="group"))


def row_tiles(tile: int) -> Schedule:
    """Rows in tiles whose places are written out, so that what belongs to a weight is made once for all of them."""
    return (Tile(range="row", factor=tile, inner="row.tile"), Upcast(range="row.tile")) if tile > 1 else ()


def panel_codes(point: Point, effects: tuple[UOp, ...], outputs: int, unit: int) -> Schedule:
    """Threads over panels of outputs, then rows in tiles, lanes over the outputs; a group's inputs are written out.

    `unit`: inputs of a storage unit of the weight. Where it is two groups, their scales share a word: which half is
    known where the two are written out.
    """
    names, lanes, tile = range_names(effects), min(value(point, "lanes"), outputs), value(point, "row_tile")
    steps: list[Step] = [
        Split(range="out", factor=lanes, inner="out.lane"),
        Reorder(ranges=("out", "row", "out.lane")),
        Thread(range="out"),
    ]
    steps += [*row_tiles(tile), Upcast(range="out.lane")]
    if unit > GROUP:
        steps += [Split(range="g", factor=unit // GROUP, inner="g.unit"), Upcast(range="g.unit")]
    if "g.term" in names:
        steps += [Upcast(range="g.term")]
    return (*steps, Upcast(range="g.k"))
