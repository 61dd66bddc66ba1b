"""What lowering makes: groups of nodes, and the kernel that one launch of a group runs."""

from typing import Literal

from msgspec import Struct

from circuit.tir.ir import Weight
from circuit.uop.node import UOp

MOST_ROWS = 65536
"""Of a step."""


Which = Literal["reference", "all"]
"""The rules that are used. `reference`: only rules of a single op, which define the numerics; `all`: every rule that
applies."""


class Group(Struct, frozen=True, kw_only=True):
    """The nodes that one launch computes, in execution order, and the rule that put them together.

    `numerics`: bit_identical | reference | differs. `rows`: those of a step that the rule takes. `derived` are weights
    that this group reads in place of its nodes' own: one concatenated weight (and bias) for a horizontal fusion, whose
    outputs then are columns of one buffer.
    """

    rule: str
    family: str
    numerics: str
    nodes: tuple[int, ...]
    rows: tuple[int, int] = (1, MOST_ROWS)
    derived: tuple[Weight, ...] = ()


class Slot(Struct, frozen=True, kw_only=True):
    """What a kernel's PARAM slot stands for.

    `kind`: in | out | scratch | weight | state | step. `place` counts within the kind, in order of first use in the
    group; a `step` slot is named: n, m, tokens, positions, sequences, page_tables, logit_rows, temperature, top_p,
    seeds, choices, sample_positions (a row that gets logits has one of each; seeds: two words). `rows`: "n" or "m"
    for in, out and scratch. `columns`: the row stride of in, out and scratch, in elements of 4 bytes.
    """

    slot: int
    kind: str
    place: int = 0
    name: str = ""
    rows: str = ""
    columns: int = 0


class Definition(Struct, frozen=True, kw_only=True):
    """The effects of a kernel before scheduling, and what its PARAM slots are."""

    effects: tuple[UOp, ...]
    slots: tuple[Slot, ...]


class Kernel(Struct, frozen=True, kw_only=True):
    """A scheduled loop program. `definition` is what it means before scheduling: the effects of the group's ops."""

    name: str  # unique in a plan, a C identifier: "linear_qkv_960x576_q4_1"
    family: str
    point: str
    definition: tuple[UOp, ...]
    effects: tuple[UOp, ...]
    slots: tuple[Slot, ...]
