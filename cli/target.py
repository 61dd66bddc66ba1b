"""What a comparison of kernels is for: a class, or a device, which has one."""

from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.answer import Option
from cli.planner import device_of, device_words

if TYPE_CHECKING:
    from circuit.load.devices import Device
    from circuit.load.inputs import Library

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


def target_words(hardware: str | None, hardware_class: str | None) -> dict[str, Option]:
    """What was asked for, and what `this` stands for, as options of a question."""
    own = device_words(hardware) if hardware is not None else {}
    return {"class": hardware_class, "hardware": hardware} | own


def target(
    hardware: str | None, hardware_class: str | None, library: "Library | None" = None
) -> "tuple[str, Device | None]":
    """The class, and the device where one is named; both at once are refused."""
    if hardware is None:
        return hardware_class or "cpu", None
    device = device_of(hardware, library)
    if hardware_class is not None:
        message = f"--class {hardware_class} and --hardware {hardware} are given, and a device has a class"
        raise PlanError(Problem(message=message, fix="leave out --class"))
    return device.hardware_class, device
