"""The plan (`.kir`): every launch of a step, the buffers, weights and states it touches, and what is claimed about
it.
"""

from msgspec import Struct

from circuit.lower.ir import Kernel
from circuit.tir.ir import State, Weight


class Buffer(Struct, frozen=True, kw_only=True):
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


class BufferAt(Struct, frozen=True, kw_only=True):
    """Columns of a buffer, from `column` on."""

    buffer: int
    column: int = 0


class WeightAt(Struct, frozen=True, kw_only=True):
    """A baked weight, by its place in `Plan.weights`."""

    weight: int


class StateAt(Struct, frozen=True, kw_only=True):
    """A state, by its place in `Plan.states`."""

    state: int


class StepInput(Struct, frozen=True, kw_only=True):
    """A value or an array that the executor gives each step; see `lower.ir.Slot` for the names."""

    name: str


Target = BufferAt | WeightAt | StateAt | StepInput


class Launch(Struct, frozen=True, kw_only=True):
    """One launch: a kernel, and what each of its slots is (in the order of `Kernel.slots`)."""

    rule: str
    numerics: str
    kernel: int
    members: tuple[str, ...]
    targets: tuple[Target, ...]
    section: str
    layer: int | None


class Axis(Struct, frozen=True, kw_only=True):
    """One line of the certificate. `holds`: yes | no | not checked; `evidence` names the test or proof."""

    axis: str
    holds: str
    evidence: str


class Plan(Struct, frozen=True, kw_only=True):
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
