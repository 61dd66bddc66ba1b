"""On which instruction each projection's products run, and what of the device's faster ones stays unused."""

from msgspec import Struct

from circuit.load.devices import Device
from circuit.load.hardware import HardwareClass
from circuit.plan.ir import Plan, WeightAt
from circuit.report.audit import runs_on
from circuit.report.cost import multiplies
from circuit.report.operands import ROUNDED
from circuit.uop.node import DType, toposort


class Ran(Struct, frozen=True, kw_only=True):
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


def ran(plans: tuple[Plan, ...], device: Device, hardware: HardwareClass) -> tuple[Ran, ...]:
    """One entry for each storage format and way to multiply that a plan has, in order of appearance."""
    found: dict[tuple[str, bool], int] = {}
    folds_of = [list(filter(multiplies, toposort(*kernel.definition))) for kernel in plans[0].kernels]
    for launch in plans[0].launches:
        kernel, folds = plans[0].kernels[launch.kernel], folds_of[launch.kernel]
        on_codes = any(node.dtype is DType.I32 for node in folds)
        for slot, target in zip(kernel.slots, launch.targets, strict=True):
            if slot.kind == "weight" and isinstance(target, WeightAt) and folds:
                weight = plans[0].weights[target.weight]
                if len(weight.shape) == 2:
                    found[weight.format, on_codes] = found.get((weight.format, on_codes), 0) + 1
    rates = {name for name, _ in device.rates}
    return tuple(
        _ran(format, runs_on(on_codes, hardware), on_codes, count, rates) for (format, on_codes), count in found.items()
    )


def _ran(format: str, instruction: str, on_codes: bool, launches: int, rates: set[str]) -> Ran:
    if on_codes:
        how = "codes, with codes of the row"
    else:
        rounds = "decoded to f32, rounded once" if format in ROUNDED else "decoded exactly to f32"
        how = "as stored" if format == "f32" else rounds
    faster = tuple(name for name in AS_THEY_ARE.get(format, ()) if name in rates and name != instruction)
    return Ran(format=format, launches=launches, instruction=instruction, how=how, faster=faster)
