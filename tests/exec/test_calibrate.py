"""The entry of this machine reads back as a device; the probes count what they run; every message."""

from pathlib import Path

import pytest

from circuit.errors import RunError
from circuit.load.devices import device_named, load_devices, rate
from circuit.load.hardware import lanes_of
from circuit_exec import probe
from circuit_exec.cache import Cache
from circuit_exec.calibrate import Calibration, Reading, device_text, write_device
from circuit_exec.host import arch_of, class_to_run, this_host
from circuit_exec.own_device import own_device
from tests.lower.library import own_library

LIBRARY = own_library()
FOUND = Calibration(
    hardware_class="avx2",
    arch="x86_64",
    processor='a "new" processor',
    memory_bytes=25_276_514_304,
    n_threads=2,
    date="2026-11-29",
    readings=(
        Reading(name="bandwidth", value=33.25e9, low=30e9, high=35e9),
        Reading(name="fma.f32", value=234e9, low=230e9, high=235e9),
        Reading(name="logic.u32", value=468e9, low=460e9, high=470e9),
        Reading(name="launch_s", value=3.5e-7, low=3e-7, high=9e-7),
    ),
)


def test_the_entry_reads_back_as_a_device(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "devices.toml"
    write_device(FOUND, path)
    device = device_named(load_devices(LIBRARY, own_device(path)), "this")
    assert (device.name, device.hardware_class, device.arch) == ('a "new" processor', "avx2", "x86_64")
    assert device.memory_bytes.value == FOUND.memory_bytes
    assert device.bandwidth.value == 33.25e9
    assert device.launch_s is not None
    assert device.launch_s.value == 3.5e-7
    assert [figure.value for _, figure in device.rates] == [234e9, 468e9]
    found = rate(device, "fma.f32")
    assert found is not None
    assert found.source == "measured by met calibrate on 2026-11-29: medians of 5 rounds, 2 threads"
    assert "# fma.f32: 2.34e+11, between 2.3e+11 and 2.35e+11" in device_text(FOUND)


def test_a_machine_that_was_not_measured_is_no_device(tmp_path: Path) -> None:
    with pytest.raises(RunError) as error:
        own_device(tmp_path / "devices.toml")
    assert str(error.value) == (
        "error: this machine has not been measured, so it is no device yet\n"
        "  = fix: run `met calibrate`, or name another device"
    )


def test_the_probes_run_on_the_class_of_this_host(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "COUNT", 1)
    monkeypatch.setattr(probe, "BARRIERS", 10)
    host = this_host()
    hardware = class_to_run(LIBRARY, host)
    lanes, arch = lanes_of(hardware), arch_of(hardware, host)
    fma = probe.FmaProbe(cache, 1, lambda what, part: None, lanes, arch)
    logic = probe.LogicProbe(cache, 1, lambda what, part: None, lanes, arch)
    barrier = probe.BarrierProbe(cache, 2, lambda what, part: None)
    try:
        assert 1e8 < fma.flop_per_s() < 1e13  # between a tenth of a gigaflop and ten teraflops, of one core
        assert 1e8 < logic.op_per_s() < 1e13
        assert 0 < barrier.seconds_each() < 1
    finally:
        for each in (fma, logic, barrier):
            each.close()
