"""On which instruction each projection's products run, and what of the device's faster ones stays unused."""

from dataclasses import dataclass

from circuit.load.devices import Device
from circuit.plan.ir import Plan
from circuit.report.roofline import PORTABLE
from circuit.uop.node import Fold, Op, toposort


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Products of weights of one storage format. `how`: what happens to the stored values before they are multiplied.

    `instruction` is what they run on under the plan's policy; `faster` are the device's instructions that could take
    the stored values as they are, with the parity that each gives up.
    """

    format: str
    launches: int
    instruction: str
    how: str
    faster: tuple[str, ...]


AS_THEY_ARE = {
    "bf16": ("mma.bf16",),
    "f16": ("mma.f16",),
    "f8_e4m3": ("mma.f8_e4m3",),
    "mxfp4": ("mma.f4_e2m1",),
    "q8_0": ("dot4.i8", "mma.i8"),
    "q4_0": ("dot4.i8", "mma.i8"),
    "q4_1": ("dot4.i8", "mma.i8"),
}
"""Instructions that multiply the stored codes of a format; those of integers need integer activations too."""


def ran(plans: tuple[Plan, ...], device: Device) -> tuple[Ran, ...]:
    """One entry for each storage format that a plan's products read, in order of appearance."""
    formats: dict[str, int] = {}
    for launch in plans[0].launches:
        kernel = plans[0].kernels[launch.kernel]
        folds = any(
            isinstance(node.arg, Fold) and node.arg.op == "mulacc"
            for node in toposort(*kernel.definition)
            if node.op is Op.REDUCE
        )
        for slot, target in zip(kernel.slots, launch.targets, strict=True):
            place = getattr(target, "weight", None)
            if slot.kind == "weight" and place is not None and folds and len(plans[0].weights[place].shape) == 2:
                format = plans[0].weights[place].format
                formats[format] = formats.get(format, 0) + 1
    rates = {name for name, _ in device.rates}
    return tuple(
        Ran(
            format=format,
            launches=count,
            instruction=PORTABLE,
            how="as stored" if format == "f32" else "decoded exactly to f32",
            faster=tuple(name for name in AS_THEY_ARE.get(format, ()) if name in rates),
        )
        for format, count in formats.items()
    )
