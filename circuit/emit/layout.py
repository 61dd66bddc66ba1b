"""What the executor must know of an emitted program: room, inputs and their bounds, outputs.

These are records alone: a warm start reads them back from the cache and must not wait for the compiler to be imported.
"""

from msgspec import Struct

PAGE = 64
"""Positions in a page, as in circuit/sigma/page.py: `derive` holds it to that, and a warm start imports no op."""

SCALARS = ("n", "m")
ARRAYS = (
    "tokens",
    "positions",
    "sequences",
    "page_tables",
    "logit_rows",
    "temperature",
    "top_p",
    "seeds",
    "choices",
    "sample_positions",
)
"""The arrays of `met_args`, in its order."""

BOUNDED = ("tokens", "positions", "sequences", "page_tables", "sample_positions")
"""Those whose elements address something outside the step; `logit_rows` address the step's own rows."""


class Input(Struct, frozen=True, kw_only=True):
    """A step array whose elements address something outside the step: their inclusive bounds."""

    name: str
    lo: int
    hi: int


class Output(Struct, frozen=True, kw_only=True):
    """An edge that a step leaves in the arena: `rows` is "n" or "m", `columns` elements of 4 bytes a row."""

    edge: str
    rows: str
    columns: int
    offset_bytes: int


class Step(Struct, frozen=True, kw_only=True):
    """One plan of the program: its place in the set, the rows it takes (inclusive) and what it leaves."""

    mode: str
    rows: tuple[int, int]
    outputs: tuple[Output, ...]


class Room(Struct, frozen=True, kw_only=True):
    """A state's storage: words of 4 bytes a page, and the most pages that its kernels can address."""

    name: str
    page_words: int
    max_pages: int


class Layout(Struct, frozen=True, kw_only=True):
    """All of it. `steps` are in the order of `met_args.plan`, `states` in that of `met_args.states`.

    `table_width` is the row length of the page tables. `read_bytes` are the bytes of weights that a step of one row
    reads: not the tables that token ids pick rows of.
    """

    context: int
    table_width: int
    arena_bytes: int
    read_bytes: int
    steps: tuple[Step, ...]
    inputs: tuple[Input, ...]
    states: tuple[Room, ...]
