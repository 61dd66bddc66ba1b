"""Memory for weights: a copy on huge pages where there are some and there is room, else the bytes as they are."""

import numpy as np
import pytest

from circuit_exec import memory
from circuit_exec.memory import has_huge_pages, on_huge_pages

MEMINFO = "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:     200 kB\n"


@pytest.mark.parametrize(
    ("enabled", "text", "n_bytes", "want"),
    [
        ("always [madvise] never", MEMINFO, 100 << 10, True),
        ("[always] madvise never", MEMINFO, 100 << 10, True),
        ("always madvise [never]", MEMINFO, 100 << 10, False),
        ("always [madvise] never", MEMINFO, (100 << 10) + 1, False),
        ("always [madvise] never", "", 1, False),
        ("", MEMINFO, 1, False),
    ],
)
def test_a_copy_is_made_where_there_are_huge_pages_and_twice_the_room(
    enabled: str, text: str, n_bytes: int, want: bool
) -> None:
    assert has_huge_pages(enabled, text, n_bytes) == want


@pytest.mark.parametrize("copied", [True, False])
def test_the_bytes_are_the_same_on_either_pages(monkeypatch: pytest.MonkeyPatch, copied: bool) -> None:
    monkeypatch.setattr(memory, "has_huge_pages", lambda *of: copied)
    data = np.random.default_rng(5).integers(0, 256, 100_000, np.uint8)
    found = on_huge_pages(data, "a test")
    assert (found is data) != copied
    assert np.array_equal(found, data)
    assert found.ctypes.data % 4096 == 0 or not copied
