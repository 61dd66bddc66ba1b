"""This machine as a device: its memory bandwidth, its rates and the cost of a launch, measured, with how and when.

The entry is a text of the shape of kernels/DEVICES.toml, kept beside the user's data; `--hardware this` reads it.
"""

import os
import platform
import statistics
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from circuit.load.hardware import lanes_of
from circuit.text import quoted
from circuit_exec.build import Progress
from circuit_exec.cache import Cache, write_entry
from circuit_exec.host import arch_of, class_to_run, this_host
from circuit_exec.library import library
from circuit_exec.probe import BarrierProbe, FmaProbe, LogicProbe, Probe, ReadProbe

THIS = "this"
ROUNDS = 5


class Reading(Struct, frozen=True, kw_only=True):
    """The median of the rounds, and the lowest and highest."""

    name: str
    value: float
    low: float
    high: float


class Calibration(Struct, frozen=True, kw_only=True):
    """`readings`: bandwidth (bytes a second), fma.f32 and logic.u32 (operations a second), launch_s (seconds)."""

    hardware_class: str
    arch: str
    processor: str
    memory_bytes: int
    n_threads: int
    date: str
    readings: tuple[Reading, ...]


def calibrate(n_threads: int, date: str, cache: Cache, progress: Progress) -> Calibration:
    """Measures everything ROUNDS times, in turn, after one round that is not counted. `date`: as the entry has it."""
    host = this_host()
    hardware = class_to_run(library(), host)
    lanes, arch = lanes_of(hardware), arch_of(hardware, host)
    read, barrier = ReadProbe(cache, n_threads, progress), BarrierProbe(cache, n_threads, progress)
    fma = FmaProbe(cache, n_threads, progress, lanes, arch)
    logic = LogicProbe(cache, n_threads, progress, lanes, arch)
    probes: tuple[tuple[str, Probe, Callable[[], float]], ...] = (
        ("bandwidth", read, read.bytes_per_s),
        ("fma.f32", fma, fma.flop_per_s),
        ("logic.u32", logic, logic.op_per_s),
        ("launch_s", barrier, barrier.seconds_each),
    )
    found: dict[str, list[float]] = {name: [] for name, _, _ in probes}
    try:
        for round in range(ROUNDS + 1):
            progress("measuring", round / (ROUNDS + 1))
            for name, _, measure in probes:
                value = measure()
                if round:
                    found[name].append(value)
    finally:
        for _, probe, _ in probes:
            probe.close()
    progress("measuring", 1.0)
    return Calibration(
        hardware_class=hardware.name,
        arch=host.machine,
        processor=processor_name(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        n_threads=n_threads,
        date=date,
        readings=tuple(
            Reading(name=name, value=statistics.median(values), low=min(values), high=max(values))
            for name, values in found.items()
        ),
    )


def processor_name() -> str:
    """What Linux calls the processor; the kind of machine elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())


def device_text(found: Calibration) -> str:
    """The entry, with a comment line for each reading that says how far the rounds were apart."""
    values = {reading.name: reading for reading in found.readings}
    how = f"measured by met calibrate on {found.date}: medians of {ROUNDS} rounds, {found.n_threads} threads"
    ranges = [f"# {r.name}: {r.value:.4g}, between {r.low:.4g} and {r.high:.4g}" for r in found.readings]
    return "\n".join(
        [
            "# This machine as `--hardware this`; written by `met calibrate`, which writes it anew.",
            *ranges,
            "schema = 1",
            "",
            "[sources]",
            f"measured = {quoted(how)}",
            'system = "the number of pages of memory that the system tells"',
            "",
            "[[device]]",
            f"id = {quoted(THIS)}",
            f"name = {quoted(found.processor)}",
            f"class = {quoted(found.hardware_class)}",
            f"arch = {quoted(found.arch)}",
            f'memory_bytes = {{ value = {found.memory_bytes}, source = "system" }}',
            f'bandwidth = {{ value = {values["bandwidth"].value:.6e}, source = "measured" }}',
            f'units = {{ value = {found.n_threads}, source = "measured", derived = "threads" }}',
            f'launch_s = {{ value = {values["launch_s"].value:.6e}, source = "measured" }}',
            *(
                f'rates."{name}" = {{ value = {values[name].value:.6e}, source = "measured" }}'
                for name in ("fma.f32", "logic.u32")
            ),
            "",
        ]
    )


def write_device(found: Calibration, path: Path) -> None:
    """Writes the entry, all or nothing."""
    write_entry(path, lambda file: _put(file.write, device_text(found)))


def _put(write: Callable[[bytes], int], text: str) -> None:
    write(text.encode("utf-8"))
