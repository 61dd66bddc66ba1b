"""The machine that runs: its type, what its processor has, and which hardware class that is."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from circuit.errors import Problem, RunError
from circuit.load.inputs import Library

if TYPE_CHECKING:
    from circuit.load.hardware import HardwareClass

MACHINES = {
    ("Linux", "x86_64"): "x86_64",
    ("Linux", "aarch64"): "aarch64",
    ("Darwin", "arm64"): "aarch64",
}
"""The machine types of HARDWARE.toml, by system and by what it calls them."""

APPLE = frozenset(("fp", "asimd"))
"""What every 64-bit Arm processor of Apple has; macOS lists no features. Source: Arm ARM, ARMv8-A, section A1.5."""


class Host(Struct, frozen=True, kw_only=True):
    """A machine type, and what its processor has, as Linux names it."""

    machine: str
    features: frozenset[str]


def this_host() -> Host:
    """The machine of this process."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) not in MACHINES:
        known = ", ".join(f"{s} {m}" for s, m in MACHINES)
        raise RunError(Problem(message=f"no class runs on {system} {machine}", fix=f"run it on one of these: {known}"))
    features = APPLE if system == "Darwin" else processor_features()
    return Host(machine=MACHINES[system, machine], features=features)


def described(host: Host) -> str:
    """The host in one line, as a part of a key."""
    return " ".join((host.machine, *sorted(host.features)))


def class_to_run(library: Library, host: Host, name: str | None = None) -> "HardwareClass":
    """The class that the host runs, or the class `name`; one that the host cannot run is refused by name."""
    from circuit.load.hardware import against_host, class_of_host, load_hardware

    if name is None:
        return class_of_host(library, host.machine, host.features)
    hardware = load_hardware(library, name)
    reason = against_host(hardware, host.machine, host.features)
    if reason is not None:
        raise RunError(Problem(message=reason, fix="name another class, or none"))
    return hardware


def arch_of(hardware: "HardwareClass", host: Host) -> str:
    """What the compiler is to compile for."""
    return dict(hardware.arch)[host.machine]


def processor_features() -> frozenset[str]:
    """The features that Linux lists for the first processor; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
