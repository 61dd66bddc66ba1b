"""Memory for weights: on huge pages where there are some and there is room, else as they are."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from numpy.typing import NDArray

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


@pytest.fixture
def file(tmp_path: Path) -> NDArray[np.uint8]:
    """A map of 9 MiB and a bit that no page of 2 MiB begins or ends with."""
    path = tmp_path / "weights"
    path.write_bytes(np.random.default_rng(5).integers(0, 256, (9 << 20) + 5000, np.uint8).tobytes())
    return as_array(map_file(str(path)))[4096:]


@pytest.mark.parametrize("copied", [True, False])
def test_the_bytes_are_the_same_at_the_same_place_on_either_pages(
    monkeypatch: pytest.MonkeyPatch, file: NDArray[np.uint8], copied: bool
) -> None:
    monkeypatch.setattr(memory, "has_huge_pages", lambda *of: copied)
    monkeypatch.setattr(memory, "PIECE_BYTES", 4 << 20)
    before, at = file.tobytes(), file.ctypes.data
    held = _mapped_from_files()
    Move(file).wait()
    assert (file.tobytes(), file.ctypes.data) == (before, at)
    assert (_kind(at + (4 << 20)) == "anonymous") == copied
    assert (held - _mapped_from_files() >= 4 << 20) == copied  # the count of Linux is not exact


def test_who_reads_while_pages_are_replaced_reads_the_same(
    monkeypatch: pytest.MonkeyPatch, file: NDArray[np.uint8]
) -> None:
    monkeypatch.setattr(memory, "has_huge_pages", lambda *of: True)
    monkeypatch.setattr(memory, "PIECE_BYTES", 2 << 20)
    want = int(file.sum(dtype=np.int64))
    for _ in range(10):
        move = Move(file)
        assert all(int(file.sum(dtype=np.int64)) == want for _ in range(5))
        move.wait()


@pytest.mark.parametrize("refuses", ["mmap", "mremap"])
def test_where_the_system_refuses_the_bytes_stay_where_they_are(
    monkeypatch: pytest.MonkeyPatch, file: NDArray[np.uint8], refuses: str
) -> None:
    class Refusing:
        def __init__(self, name: None) -> None:
            self._system = real(name)

        def __getattr__(self, name: str) -> object:
            if name != refuses:
                return getattr(self._system, name)
            refused: Callable[..., int] = lambda *of: 2**64 - 1  # noqa: E731
            return type("Refused", (), {"__call__": staticmethod(refused)})()

    real = ctypes.CDLL
    monkeypatch.setattr(memory, "has_huge_pages", lambda *of: True)
    monkeypatch.setattr(ctypes, "CDLL", Refusing)
    before = file.tobytes()
    Move(file).wait()
    assert file.tobytes() == before
    assert _kind(file.ctypes.data + (4 << 20)) == "of a file"


def test_a_move_that_is_ended_leaves_the_rest(monkeypatch: pytest.MonkeyPatch, file: NDArray[np.uint8]) -> None:
    allowed, pieces = Event(), list[int]()

    def slow(at: int, n_bytes: int) -> bool:
        pieces.append(at)
        return allowed.wait()

    monkeypatch.setattr(memory, "has_huge_pages", lambda *of: True)
    monkeypatch.setattr(memory, "PIECE_BYTES", 2 << 20)
    monkeypatch.setattr(memory, "_replace", slow)
    move = Move(file)
    move._ends.set()
    allowed.set()
    move.end()
    assert len(pieces) <= 1


def _mapped_from_files() -> int:
    """Bytes that this process holds of mapped files."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssFile:")]
    return 1024 * int(line.split()[1])


def _kind(address: int) -> str:
    """What the pages at an address are."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return "of a file" if len(line.split()) > 5 else "anonymous"
    raise AssertionError(f"nothing is at {address:#x}")
