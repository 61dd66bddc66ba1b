"""The block circuit (`.bir`): a circuit at one point of its parameters, with no loops or symbols left.

Both front ends meet here. It depends on neither a target nor flags. Names stand for edges, weights and states;
`tir` replaces them by places.
"""

from dataclasses import dataclass

BirValue = bool | int | float | str | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BirEdge:
    """An edge where it is written: `rows` is "n" or "m"."""

    name: str
    format: str
    rows: str
    dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BirState:
    """A cache that a block owns."""

    name: str
    kind: str
    heads: int
    head_dim: int
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BirBlock:
    """One use of a block: its steps and binds follow it. `layer` is None outside the layers."""

    name: str
    layer: int | None
    states: tuple[BirState, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BirBind:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BirShare:
    """A tensor that the checkpoint may have too; it must then have the bytes of the weight read in its place."""

    key: str
    weight: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BirStep:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bir:
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
