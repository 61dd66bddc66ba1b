"""An op of Sigma: its signature, and its one definition as a UOp program for one row of a step.

The row loop belongs to the kernel that runs the op, not to the op: a definition is given the row's RANGE and reads
what belongs to that row. So no definition can let one row's result depend on another row, other than through a state.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from circuit.uop.node import UOp

Value = bool | int | float | str | tuple[float, ...]
"""A node's parameter. Rope frequencies are a tuple of floats, each exactly a float32."""


class Room(Struct, frozen=True, kw_only=True):
    """A paged state: `words` is its pool, [pages * page_words]; `heads` x `head_dim` values a position and side, in
    `format`.
    """

    words: UOp
    heads: int
    head_dim: int
    format: str


class Coded(Struct, frozen=True, kw_only=True):
    """A projection's weight as integers: its values are (codes - zero) * scales [+ minima].

    codes: [outputs, inputs] i32; scales, minima: [outputs, inputs / 32] f32.
    """

    codes: UOp
    scales: UOp
    minima: UOp | None
    zero: int


class Use(Struct, frozen=True, kw_only=True):
    """What a definition is given.

    `row` is the RANGE of the row; `inputs` have shape [dim], f32 (token ids: i32); `weights` are f32, in the op's
    order: [out, in] or [dim]; a projection's matrix is `coded` instead where its input is a row of integers. `step` are
    the step's arrays by name (tokens, positions, ...), [rows] or as their definition says.
    """

    row: UOp
    inputs: tuple[UOp, ...]
    weights: tuple[UOp, ...]
    states: tuple[Room, ...]
    step: Mapping[str, UOp]
    params: Mapping[str, Value]
    context: int
    coded: Coded | None = None

    def count(self, name: str) -> int:
        """An integer parameter."""
        value = self.params[name]
        assert isinstance(value, int), f"{name} = {value!r} is no count"
        return value

    def number(self, name: str) -> float:
        """A number parameter."""
        value = self.params[name]
        assert isinstance(value, int | float), f"{name} = {value!r} is no number"
        return float(value)


Values = tuple[UOp, ...]
"""Outputs of one row; the product of an output's shape is its dim."""


class Writes(Struct, frozen=True, kw_only=True):
    """Where a row is stored in a state: `value` at `place` of the state's words, for each value of the `loops`."""

    loops: tuple[UOp, ...]
    place: UOp
    value: UOp


class OpKind(Struct, frozen=True, kw_only=True):
    """A member of Sigma. `params` and `weights` are the names of what a node states, in order.

    Exactly one of `define` and `writes` is given. `steps` is the op's vocabulary of precision steps. `step_inputs`
    are the step's arrays that it reads.
    """

    name: str
    n_inputs: int
    params: tuple[str, ...]
    weights: tuple[str, ...] = ()
    step_inputs: tuple[str, ...] = ()
    state: str = ""  # "" | "read" | "write"
    steps: tuple[str, ...] = ("compute",)
    define: Callable[[Use], Values] | None = None
    writes: Callable[[Use], tuple[Writes, ...]] | None = None
