"""What a comparison of kernels is for: a class, or a device, which has one."""

from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.planner import device_of

if TYPE_CHECKING:
    from circuit.load.devices import Device

DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        metavar="D",
        show_default="none, so no times",
        help="A device, as `met circuit devices` lists them; `this`: the machine at hand.",
    ),
]
ClassOption = Annotated[
    str | None, typer.Option("--class", metavar="C", show_default="cpu", help="The hardware class, without a device.")
]


def target(hardware: str | None, hardware_class: str | None) -> "tuple[str, Device | None]":
    """The class, and the device where one is named; both at once are refused."""
    if hardware is None:
        return hardware_class or "cpu", None
    device = device_of(hardware)
    if hardware_class is not None:
        message = f"--class {hardware_class} and --hardware {hardware} are given, and a device has a class"
        raise PlanError(Problem(message=message, fix="leave out --class"))
    return device.hardware_class, device
