"""The registry of devices as sections."""

from circuit.load.devices import Device, Figure, rate
from circuit.report.sections import Section, Table, bytes_text, rate_text, time_text

UNITS = ("fma.f32", "mma.bf16")


def devices_sections(devices: tuple[Device, ...]) -> tuple[Section, ...]:
    """All devices, one a line."""
    rows = tuple(
        (
            device.id,
            device.hardware_class,
            bytes_text(device.memory_bytes.value),
            rate_text(device.bandwidth.value, "B"),
            *(_rate(device, unit) for unit in UNITS),
        )
        for device in devices
    )
    return (
        Section(
            title="devices",
            table=Table(head=("device", "class", "memory", "bandwidth", *UNITS), rows=rows),
            notes=("`met circuit devices DEVICE` prints all figures of one, and where each comes from",),
        ),
    )


def device_sections(device: Device) -> tuple[Section, ...]:
    """One device: every figure with its source."""
    figures: list[tuple[str, str, Figure]] = [
        ("memory", bytes_text(device.memory_bytes.value), device.memory_bytes),
        ("bandwidth", rate_text(device.bandwidth.value, "B"), device.bandwidth),
        ("units", f"{device.units.value:.0f}", device.units),
    ]
    if device.power_w is not None:
        figures.append(("power", f"{device.power_w.value:.0f} W", device.power_w))
    if device.launch_s is not None:
        figures.append(("launch", time_text(device.launch_s.value), device.launch_s))
    figures += [(name, rate_text(figure.value, "FLOP"), figure) for name, figure in device.rates]
    rows = tuple((name, text, "derived" if figure.derived else "stated") for name, text, figure in figures)
    return (
        Section(
            title=f"{device.name}: {device.id}, class {device.hardware_class}, compiled for {device.arch}",
            table=Table(head=("figure", "value", "of"), rows=rows),
            notes=tuple(f"{', '.join(names)}: {source}" for source, names in _sources(figures).items()),
        ),
    )


def _sources(figures: list[tuple[str, str, Figure]]) -> dict[str, list[str]]:
    """The figures of each source; a derived one says how."""
    found: dict[str, list[str]] = {}
    for name, _, figure in figures:
        found.setdefault(figure.source, []).append(f"{name} ({figure.derived})" if figure.derived else name)
    return found


def _rate(device: Device, unit: str) -> str:
    figure = rate(device, unit)
    return "-" if figure is None else rate_text(figure.value, "FLOP")
