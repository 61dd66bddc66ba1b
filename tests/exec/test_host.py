"""Which class a host runs, and what it says where it runs none."""

import platform

import pytest

from circuit.errors import PlanError, RunError
from circuit.load.hardware import class_names, class_of_host, load_hardware
from circuit_exec.host import Host, arch_of, class_to_run, described, processor_features, this_host
from circuit_exec.library import library

V3 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"))
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"}
LIBRARY = library()


@pytest.mark.parametrize(
    ("machine", "features", "name", "arch"),
    [
        ("x86_64", V4 | {"amx_tile"}, "avx512", "x86-64-v4+avx512vnni"),
        ("x86_64", V4 - {"avx512bw"}, "avx2", "x86-64-v3"),
        ("x86_64", V4 - {"avx512_vnni"}, "avx2", "x86-64-v3"),
        ("x86_64", V3, "avx2", "x86-64-v3"),
    ],
)
def test_a_host_runs_the_narrowest_class_that_it_has_the_features_of(
    machine: str, features: frozenset[str], name: str, arch: str
) -> None:
    hardware = class_of_host(LIBRARY, machine, features)
    assert (hardware.name, arch_of(hardware, Host(machine=machine, features=features))) == (name, arch)


def test_a_processor_without_fma_is_refused_by_name() -> None:
    with pytest.raises(PlanError) as caught:
        class_of_host(LIBRARY, "x86_64", V3 - {"fma", "movbe"})
    assert str(caught.value) == (
        "error: class cpu is compiled for x86-64-v3, and this processor lacks fma, movbe\n"
        "  = fix: run it on a processor that has what the class needs"
    )


def test_a_class_that_the_host_lacks_features_of_is_refused_by_name() -> None:
    with pytest.raises(RunError) as caught:
        class_to_run(LIBRARY, Host(machine="x86_64", features=V3 | {"avx512f"}), "avx512")
    assert str(caught.value) == (
        "error: class avx512 is compiled for x86-64-v4+avx512vnni, and this processor lacks avx512bw, avx512cd, "
        "avx512dq, avx512vl, avx512_vnni\n  = fix: name another class, or none"
    )


def test_a_class_of_another_machine_is_refused_by_name() -> None:
    with pytest.raises(RunError, match="class avx512 is for x86_64, not for aarch64"):
        class_to_run(LIBRARY, Host(machine="aarch64", features=frozenset(("fp", "asimd"))), "avx512")


def test_an_unknown_system_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    with pytest.raises(RunError) as caught:
        this_host()
    assert str(caught.value) == (
        "error: no class runs on Windows AMD64\n"
        "  = fix: run it on one of these: Linux x86_64, Linux aarch64, Darwin arm64"
    )


def test_every_class_says_what_it_needs_of_each_machine_that_it_is_for() -> None:
    for name in class_names(LIBRARY):
        hardware = load_hardware(LIBRARY, name)
        if hardware.language == "c":
            assert [machine for machine, _ in hardware.arch] == [machine for machine, _ in hardware.features], name


def test_this_processor_says_what_it_has() -> None:
    assert processor_features()
    host = this_host()
    assert class_to_run(LIBRARY, host).name in class_names(LIBRARY)
    assert described(host).split(" ") == [host.machine, *sorted(host.features)]
