"""Classes differ in how they compute, not in what comes out."""

import pytest

from circuit.load.hardware import against_host, class_names, load_hardware
from circuit_exec.host import this_host
from circuit_exec.library import library
from tests.bytes.running import Running, assert_equal_bytes, decoded, prefilled, tokens, whole

CLASSES = [name for name in class_names(library()) if name != "cpu" and load_hardware(library(), name).language == "c"]


@pytest.mark.parametrize("dtype", ["F16", *(pytest.param(d, marks=pytest.mark.slow) for d in ("F32", "BF16"))])
@pytest.mark.parametrize("name", CLASSES)
def test_a_class_gives_the_bytes_of_class_cpu(running: Running, name: str, dtype: str) -> None:
    host, hardware = this_host(), load_hardware(library(), name)
    against = against_host(hardware, host.machine, host.features)
    if against is not None:
        pytest.skip(f"this host does not run it: {against}")
    path = running.path("qwen3", dtype)
    base, other = running.fresh(path, hardware="cpu"), running.fresh(path, hardware=name)
    assert (base.planned.hardware_class, other.planned.hardware_class) == ("cpu", name)
    assert other.planned.bytes_digest == base.planned.bytes_digest
    ids = tokens(base, 23)
    assert_equal_bytes(prefilled(other, ids, whole(other)), prefilled(base, ids, whole(base)))
    one = [ids[:300]]
    for found, want in zip(decoded(other, one, [0], 3), decoded(base, one, [0], 3), strict=True):
        assert_equal_bytes(found, want)
    base.close()
    other.close()
