"""The plan (`.kir`): every launch of a step, the buffers, weights and states it touches, and what is claimed about
it.
"""

from dataclasses import dataclass

from circuit.lower.ir import Kernel
from circuit.tir.ir import State, Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Room in the arena: `rows` ("n" or "m", or "1" for what no row has) x `columns` elements of 4 bytes.

    `offset_bytes` is a multiple of 64; two buffers whose launches overlap never share a byte. `first` and `last` are
    the launches that first write and last read it (an output of the step lives to the end).
    """

    name: str
    rows: str
    columns: int
    offset_bytes: int
    n_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAt:
    """Columns of a buffer, from `column` on."""

    buffer: int
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightAt:
    """A baked weight, by its place in `Plan.weights`."""

    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAt:
    """A state, by its place in `Plan.states`."""

    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """A value or an array that the executor gives each step; see `lower.ir.Slot` for the names."""

    name: str


Target = BufferAt | WeightAt | StateAt | StepInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch: a kernel, and what each of its slots is (in the order of `Kernel.slots`)."""

    rule: str
    numerics: str
    kernel: int
    members: tuple[str, ...]
    targets: tuple[Target, ...]
    section: str
    layer: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One line of the certificate. `holds`: yes | no | not checked; `evidence` names the test or proof."""

    axis: str
    holds: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The realized lowering of one instance on one class, for one mode and a range of rows.

    `rows` is inclusive. `policy` and `parts` are sorted by name; `notes` say what the policy came to here. `digest`
    hashes the parts except `bytes`. `weights` are those that launches read, in the order they first read them, after
    horizontal fusion: the manifest's order.
    """

    arch: str
    hardware_class: str
    vector_lanes: int | None  # of the class's registers, in f32; None where it has none
    mode: str
    rows: tuple[int, int]
    context: int
    policy: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    settings: tuple[str, ...] = ()  # `fuse.RULE=on|off`, those that are not as the rules state them
    buffers: tuple[Buffer, ...]
    arena_bytes: int
    weights: tuple[Weight, ...]
    states: tuple[State, ...]
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    outputs: tuple[tuple[str, int], ...]  # edge name -> buffer: logits, greedy and sampled tokens
    certificate: tuple[Axis, ...]
    parts: tuple[tuple[str, str], ...]
    digest: str
