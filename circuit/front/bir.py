"""The block circuit (`.bir`): a circuit at one point of its parameters, with no loops or symbols left.

Both front ends meet here. It depends on neither a target nor flags. Names stand for edges, weights and states;
`tir` replaces them by places.
"""

from msgspec import Struct

BirValue = bool | int | float | str | tuple[float, ...]


class BirEdge(Struct, frozen=True, kw_only=True):
    """An edge where it is written: `rows` is "n" or "m"."""

    name: str
    format: str
    rows: str
    dim: int


class BirState(Struct, frozen=True, kw_only=True):
    """A cache that a block owns."""

    name: str
    kind: str
    heads: int
    head_dim: int
    format: str


class BirBlock(Struct, frozen=True, kw_only=True):
    """One use of a block: its steps and binds follow it. `layer` is None outside the layers."""

    name: str
    layer: int | None
    states: tuple[BirState, ...]
    outputs: tuple[str, ...]


class BirBind(Struct, frozen=True, kw_only=True):
    """A weight and the tensor it is read from. `heads` is not 0 where the rows are stored in interleaved order.

    `axes` are the shape's sides as the circuit writes them: for messages, never for decisions.
    """

    name: str
    block: str
    format: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    key: str
    heads: int


class BirShare(Struct, frozen=True, kw_only=True):
    """A tensor that the checkpoint may have too; it must then have the bytes of the weight read in its place."""

    key: str
    weight: str


class BirStep(Struct, frozen=True, kw_only=True):
    """One use of an op."""

    id: str
    block: str
    op: str
    role: str | None
    inputs: tuple[str, ...]
    outputs: tuple[BirEdge, ...]
    weights: tuple[str, ...]
    state: str | None
    params: tuple[tuple[str, BirValue], ...]
    section: str


class Bir(Struct, frozen=True, kw_only=True):
    """A model as blocks. `inputs` are the edges that a step is given; `consts` the parameters, sorted by name."""

    arch: str
    context: int
    dims: tuple[tuple[str, int], ...]
    consts: tuple[tuple[str, BirValue], ...]
    inputs: tuple[BirEdge, ...]
    blocks: tuple[BirBlock, ...]
    shares: tuple[BirShare, ...]
    binds: tuple[BirBind, ...]
    steps: tuple[BirStep, ...]
