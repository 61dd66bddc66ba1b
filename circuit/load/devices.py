"""`kernels/DEVICES.toml` -> products of the hardware classes with their figures, each with its source."""

from msgspec import Struct

from circuit.errors import PlanError, Problem
from circuit.load.inputs import Library, once
from circuit.text import Source, listed

FILE = "DEVICES.toml"


class Figure(Struct, frozen=True, kw_only=True):
    """A number of a product. `source`: who says so; `derived`: how it follows from what they say, "" where stated."""

    value: float
    source: str
    derived: str


class Device(Struct, frozen=True, kw_only=True):
    """A product of a class.

    `memory_bytes` as sold, `bandwidth` in bytes a second, `units` are its SMs, compute units or cores, `launch_s` what
    a launch costs beside its work, in seconds, where that was measured. `rates` are (instruction, operations a second),
    dense, a multiply-add counts two; sorted by instruction.
    """

    id: str
    name: str
    hardware_class: str
    arch: str
    memory_bytes: Figure
    bandwidth: Figure
    units: Figure
    power_w: Figure | None
    launch_s: Figure | None
    rates: tuple[tuple[str, Figure], ...]
    file: str
    line: int | None


def rate(device: Device, instruction: str) -> Figure | None:
    """How fast the device runs an instruction, or None where it does not have it."""
    return next((figure for name, figure in device.rates if name == instruction), None)


def load_devices(library: Library, more: Source | None = None) -> tuple[Device, ...]:
    """Every device of kernels/DEVICES.toml in its order, then those of `more`, a file of the same shape."""

    def read() -> tuple[Device, ...]:
        from circuit.load.devices_file import read_devices  # kept records need no reader

        return read_devices(library, more)

    return once(library, ("devices", more), read)


def device_named(devices: tuple[Device, ...], name: str) -> Device:
    """The device `name`; a PlanError that lists what exists."""
    for device in devices:
        if device.id == name:
            return device
    message = f"there is no device `{name}`"
    raise PlanError(Problem(message=message, fix=f"use one of: {listed(device.id for device in devices)}"))
