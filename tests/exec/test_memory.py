"""Memory for weights: a copy on huge pages where there are some and there is room, else the bytes as they are."""

from pathlib import Path
from threading import Event

import numpy as np
import pytest
from numpy.typing import NDArray

from circuit.errors import Problem, RunError
from circuit_exec import memory
from circuit_exec.checkpoint.mapped import map_file
from circuit_exec.checkpoint.raw import as_array
from circuit_exec.memory import Move, has_huge_pages

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
    found: list[NDArray[np.uint8]] = []
    Move(data, "a test", found.append).wait()
    assert len(found) == copied
    assert all(np.array_equal(each, data) and each.ctypes.data % 4096 == 0 for each in found)


def test_a_move_that_is_ended_or_has_no_room_leaves_the_bytes_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(n_bytes: int, purpose: str) -> NDArray[np.uint8]:
        raise RunError(Problem(message=f"there is no memory for {purpose}: {n_bytes} bytes", fix="none"))

    def slow(n_bytes: int, purpose: str) -> NDArray[np.uint8]:
        allowed.wait()
        return np.empty(n_bytes, np.uint8)

    monkeypatch.setattr(memory, "has_huge_pages", lambda *of: True)
    data, allowed, found = np.zeros(1000, np.uint8), Event(), list[NDArray[np.uint8]]()
    monkeypatch.setattr(memory, "allocate", no_room)
    Move(data, "a test", found.append).wait()
    monkeypatch.setattr(memory, "allocate", slow)
    move = Move(data, "a test", found.append)
    move._ends.set()
    allowed.set()
    move.end()
    assert found == []


def test_what_is_copied_from_a_file_is_not_held_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "has_huge_pages", lambda *of: True)
    monkeypatch.setattr(memory, "PIECE_BYTES", 1 << 20)
    path = tmp_path / "weights"
    path.write_bytes(np.random.default_rng(5).integers(0, 256, (32 << 20) + 4096, np.uint8).tobytes())
    file = as_array(map_file(str(path)))
    data, before = file[4096:], _mapped_from_files()
    assert int(data.sum(dtype=np.int64)) > 0
    assert _mapped_from_files() - before >= 24 << 20
    found: list[NDArray[np.uint8]] = []
    Move(data, "a test", found.append).wait()
    assert _mapped_from_files() - before <= 8 << 20  # the count of Linux is not exact
    assert np.array_equal(found[0], data)


def test_other_memory_than_a_file_is_kept() -> None:
    data = memory.allocate(1 << 16, "a test")
    data.fill(7)
    memory._let_go(data)
    assert data.min() == 7


def _mapped_from_files() -> int:
    """Bytes that this process holds of mapped files."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssFile:")]
    return 1024 * int(line.split()[1])
