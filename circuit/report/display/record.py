"""What `met circuit display` shows of a model: a card, its layers, a diagram of each distinct one, and the figures."""

from typing import Literal

from msgspec import Struct

from circuit.load.devices import Device
from circuit.report.roofline import Bound, Work

Where = Literal["on chip", "scratch", "arena", "step"]
"""`on chip`: inside a launch; `scratch`: inside a launch, through its room in the arena; `arena`: in memory, between
launches; `step`: what the step is given."""


class Wire(Struct, frozen=True, kw_only=True):
    """An edge as a diagram has it. `n_bytes` is of all its rows in the step shown, `rows` how many these are.

    `maker` and `readers` are ops of the diagram by their places: None is outside. `leaves`: somebody outside reads it.
    """

    name: str
    rows: int
    dim: int
    format: str
    n_bytes: int
    where: Where
    maker: int | None
    readers: tuple[int, ...]
    leaves: bool


class Kept(Struct, frozen=True, kw_only=True):
    """A weight or a state that a launch touches; `op` is the first op that does. `n_bytes`: of a weight as its
    checkpoint stores it, of a state for one position. `moved`: read and written in the step shown.
    """

    name: str
    kind: Literal["weight", "state"]
    op: int
    shape: tuple[int, ...]
    format: str
    n_bytes: int
    moved: int


class DrawnOp(Struct, frozen=True, kw_only=True):
    """A node of the circuit: `op` with its role, and the wires that it reads and makes. `apart`: those of its `params`
    that a node of the same name has otherwise in another diagram.
    """

    name: str
    op: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    params: tuple[tuple[str, str], ...]
    apart: tuple[str, ...]


class Timed(Struct, frozen=True, kw_only=True):
    """The least time of launches on the device, its part of all launches', and what it is the time of."""

    ceiling_s: float
    share: float
    bound: Bound


class Figures(Struct, frozen=True, kw_only=True):
    """Of one launch in the step shown. `flops`: a multiply-add counts two; `dots` are integer multiply-adds. `timed` is
    None without a device.
    """

    weights: int
    states: int
    edges: int
    flops: int
    dots: int
    timed: Timed | None


class Frame(Struct, frozen=True, kw_only=True):
    """One launch: the rule that fused its ops, and what it touches. `figures` is None where a step of answering has no
    such launch: it is made on request.
    """

    rule: str
    numerics: str
    kernel: str
    family: str
    point: str
    ops: tuple[int, ...]
    kept: tuple[Kept, ...]
    figures: Figures | None


class Diagram(Struct, frozen=True, kw_only=True):
    """The launches of one part, with names relative to its layer: parts with equal diagrams are the same."""

    wires: tuple[Wire, ...]
    ops: tuple[DrawnOp, ...]
    frames: tuple[Frame, ...]


class Part(Struct, frozen=True, kw_only=True):
    """A layer, or what stands before or behind them. `launches` are places in the plan; `diagram` is a place in
    `Display.diagrams`.
    """

    name: str
    layer: int | None
    launches: tuple[int, ...]
    diagram: int


class Stored(Struct, frozen=True, kw_only=True):
    """Weights of one storage format: tensors, numbers in them, bytes in the checkpoint and as baked."""

    format: str
    tensors: int
    parameters: int
    stored: int
    baked: int


class Card(Struct, frozen=True, kw_only=True):
    """What is known of the model as a whole. `kv_bytes`: of all states, for one position."""

    name: str
    model_type: str
    arch: str
    parameters: int
    layers: int
    widths: tuple[tuple[str, int], ...]
    formats: tuple[Stored, ...]
    context: int
    kv_format: str
    kv_bytes: int
    policy: tuple[tuple[str, str], ...]
    bytes_digest: str


class Totals(Struct, frozen=True, kw_only=True):
    """Of one step of answering."""

    launches: int
    kernels: int
    weights: int
    states: int
    edges: int
    flops: int
    dots: int
    tokens: int


class Spot(Struct, frozen=True, kw_only=True):
    """All launches of one kernel under one rule, as a point under the roof: `flops` and `n_bytes` of them together."""

    rule: str
    kernel: str
    launches: int
    flops: int
    dots: int
    n_bytes: int
    timed: Timed


class Room(Struct, frozen=True, kw_only=True):
    """The device's memory in the step shown: weights as baked, pages of its sequences, the largest arena of the plans,
    what is reserved for others, and the rest, which is negative where all that does not fit.
    """

    memory: int
    weights: int
    pages: int
    arena: int
    reserved: int
    free: int
    most_sequences: int


class OnDevice(Struct, frozen=True, kw_only=True):
    """What the step takes on a device. `unit`: what its products run on; `launch_s`: of all launches beside their work,
    where the device states it.
    """

    device: Device
    unit: str
    ceiling_s: float
    launch_s: float | None
    spots: tuple[Spot, ...]
    room: Room


class Display(Struct, frozen=True, kw_only=True):
    """The whole of it: one step, `work`, of the plan that covers `rows`. `rendered`: whether anything writes the
    language of the class. `on_device` is None where no device is given.
    """

    card: Card
    hardware_class: str
    language: str
    rendered: bool
    work: Work
    rows: tuple[int, int]
    parts: tuple[Part, ...]
    diagrams: tuple[Diagram, ...]
    totals: Totals
    on_device: OnDevice | None
