"""`kernels/DEVICES.toml`: the shape of the file, and how it is read to the records of `devices.py`."""

from typing import Annotated

from msgspec import Meta, field

from circuit.errors import LoadError, Problem
from circuit.load.devices import FILE, Device, Figure
from circuit.load.edge import FileShape, validated
from circuit.load.hardware import HardwareClass, class_names, load_hardware
from circuit.load.inputs import Library, files_under
from circuit.load.instructions import Instruction, load_instructions
from circuit.load.shapes import Schema
from circuit.load.source import Document, Path, line_of
from circuit.load.toml_text import read_toml
from circuit.text import Source, listed, problem_at


def read_devices(library: Library, more: Source | None = None) -> tuple[Device, ...]:
    """Every device, read, with what is wrong with any of them."""
    sources = [*files_under(library, "kernels", FILE), *([] if more is None else [more])]
    instructions, known = load_instructions(library), class_names(library)
    classes: dict[str, HardwareClass] = {}
    found: dict[str, Device] = {}
    problems: list[Problem] = []
    for source in sources:
        document = read_toml(source)
        shape = validated(document, _DevicesFile)
        for place, each in enumerate(shape.device):
            at: Path = ("device", place)
            if each.hardware_class not in known:
                line = line_of(document, (*at, "class"))
                message = f"device `{each.id}` is of class `{each.hardware_class}`, which does not exist"
                problems.append(problem_at(source, line, message, f"use one of: {listed(known)}"))
                continue
            if each.hardware_class not in classes:
                classes[each.hardware_class] = load_hardware(library, each.hardware_class)
            problems += _wrong(document, at, each, classes[each.hardware_class], instructions, shape.sources)
            if each.id in found:
                message = f"device `{each.id}` is written twice"
                problems.append(problem_at(source, line_of(document, (*at, "id")), message, "rename one, or remove it"))
            elif not problems:
                found[each.id] = _device(document, at, each, shape.sources)
    if problems:
        raise LoadError(problems)
    return tuple(found.values())


class _Figure(FileShape, frozen=True, kw_only=True):
    value: Annotated[float, Meta(gt=0)]
    source: str
    derived: str = ""


class _Device(FileShape, frozen=True, kw_only=True):
    id: Annotated[str, Meta(pattern=r"^[a-z0-9_]+\Z")]
    name: str
    hardware_class: str = field(name="class")
    arch: str
    memory_bytes: _Figure
    bandwidth: _Figure
    units: _Figure
    power_w: _Figure | None = None
    launch_s: _Figure | None = None
    rates: dict[str, _Figure]


class _DevicesFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    sources: dict[str, str]
    device: list[_Device]


def _wrong(
    document: Document,
    at: Path,
    device: _Device,
    hardware: HardwareClass,
    instructions: tuple[Instruction, ...],
    sources: dict[str, str],
) -> list[Problem]:
    problems = []

    def wrong(path: Path, message: str, fix: str) -> None:
        problems.append(problem_at(document.source, line_of(document, (*at, *path)), message, fix))

    targets = dict(hardware.arch)
    if device.arch not in targets:
        message = f"device `{device.id}` is a {device.arch}, which class {hardware.name} does not compile for"
        wrong(("arch",), message, f"use one of: {listed(targets)}")
    known = {instruction.id: instruction for instruction in instructions}
    for name in device.rates:
        if name not in known:
            message = f"device `{device.id}` has a rate for `{name}`, which is no instruction"
            wrong(("rates", name), message, f"use one of: {listed(known)}")
        elif device.arch in targets and targets[device.arch] not in known[name].targets:
            message = f"device `{device.id}` has a rate for {name}, which {targets[device.arch]} does not have"
            wrong(("rates", name), message, "remove the rate, or correct the targets in kernels/INSTRUCTIONS.toml")
        elif name not in hardware.instructions:
            message = f"device `{device.id}` has a rate for {name}, which class {hardware.name} does not state"
            wrong(("rates", name), message, "remove the rate, or add the instruction to the class's `instructions`")
    for path, figure in _figures(device):
        if figure.source not in sources:
            wrong(path, f"there is no source `{figure.source}`", f"add it to [sources], or use: {listed(sources)}")
    return problems


def _figures(device: _Device) -> list[tuple[Path, _Figure]]:
    found: list[tuple[Path, _Figure]] = [
        (("memory_bytes",), device.memory_bytes),
        (("bandwidth",), device.bandwidth),
        (("units",), device.units),
    ]
    if device.power_w is not None:
        found.append((("power_w",), device.power_w))
    if device.launch_s is not None:
        found.append((("launch_s",), device.launch_s))
    return [*found, *((("rates", name), figure) for name, figure in device.rates.items())]


def _device(document: Document, at: Path, device: _Device, sources: dict[str, str]) -> Device:
    def figure(each: _Figure) -> Figure:
        return Figure(value=each.value, source=sources[each.source], derived=each.derived)

    return Device(
        id=device.id,
        name=device.name,
        hardware_class=device.hardware_class,
        arch=device.arch,
        memory_bytes=figure(device.memory_bytes),
        bandwidth=figure(device.bandwidth),
        units=figure(device.units),
        power_w=None if device.power_w is None else figure(device.power_w),
        launch_s=None if device.launch_s is None else figure(device.launch_s),
        rates=tuple((name, figure(device.rates[name])) for name in sorted(device.rates)),
        file=document.source.path,
        line=line_of(document, at),
    )
