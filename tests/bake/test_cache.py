"""Cache entries are whole or absent, and a cache that cannot be written says so."""

import errno
import fcntl
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from circuit.errors import RunError
from circuit_exec.cache import Cache, entry_path, identity, key_of, recall, remember, write_entry


def test_an_entry_holds_what_was_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = entry_path(Cache(root=tmp_path / "new"), "weights", "x")
    write_entry(path, lambda file: put(file, b"one"))
    write_entry(path, lambda file: put(file, b"two"))
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["x"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bad")])
def test_an_interrupted_write_leaves_the_old_entry_and_no_other_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "x"
    write_entry(path, lambda file: put(file, b"old"))

    def stop(file: BinaryIO) -> None:
        file.write(b"half")
        raise error

    with pytest.raises(type(error)):
        write_entry(path, stop)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_what_a_killed_writer_left_is_removed_and_a_write_in_progress_is_not(tmp_path: Path) -> None:
    (tmp_path / ".x.dead.tmp").write_bytes(b"half")
    with (tmp_path / ".x.live.tmp").open("wb") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        write_entry(tmp_path / "x", lambda file: put(file, b"new"))
        assert sorted(os.listdir(tmp_path)) == [".x.live.tmp", "x"]


def test_two_writers_of_one_entry_both_end_well(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def outer(file: BinaryIO) -> None:
        file.write(b"outer")
        write_entry(path, lambda inner: put(inner, b"inner"))
        assert path.read_bytes() == b"inner"

    write_entry(path, outer)
    assert path.read_bytes() == b"outer"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_names_the_folder_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    def fill(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(number, os.strerror(number))

    with pytest.raises(RunError) as caught:
        write_entry(tmp_path / "weights" / "x", fill)
    assert str(caught.value) == (
        f"error: the cache is full: {os.strerror(number).lower()}\n"
        f" --> {tmp_path / 'weights'}\n"
        "  = fix: free space there, or delete the folder (it is made again)"
    )
    assert os.listdir(tmp_path / "weights") == []


def test_a_read_only_cache_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: int = 0, parents: bool = False, exist_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(RunError) as caught:
        write_entry(tmp_path / "weights" / "x", lambda file: put(file, b""))
    assert str(caught.value) == (
        "error: the cache cannot be written: read-only file system\n"
        f" --> {tmp_path / 'weights'}\n"
        "  = fix: make the folder writable, or set XDG_CACHE_HOME to one that is"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="the cache cannot be written: permission denied"):
        write_entry(tmp_path / "x", lambda file: put(file, b""))
    tmp_path.chmod(0o700)


def test_a_cache_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "met").write_bytes(b"")
    with pytest.raises(RunError, match="the cache cannot be written: not a directory"):
        write_entry(entry_path(Cache(root=tmp_path / "met"), "weights", "x"), lambda file: put(file, b""))


def test_a_fact_is_recalled_until_the_file_changes(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path / "cache")
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    seen = identity(file.stat())
    assert recall(cache, "hashes", file, seen) is None
    remember(cache, "hashes", file, seen, "fact")
    assert recall(cache, "hashes", file, identity(file.stat())) == "fact"
    assert recall(cache, "verified", file, seen) is None
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.write_bytes(b"two")
    os.utime(file, ns=times)
    assert recall(cache, "hashes", file, identity(file.stat())) is None


def test_a_damaged_fact_counts_as_none(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path / "cache")
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    seen = identity(file.stat())
    remember(cache, "hashes", file, seen, "fact")
    (note,) = (tmp_path / "cache" / "hashes").iterdir()
    for text in (b"", b"{", b"[]", b"\xff", note.read_bytes().replace(b'"fact"}', b"1}")):
        note.write_bytes(text)
        assert recall(cache, "hashes", file, seen) is None


def test_keys_keep_their_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("ab") != key_of("a", "b")
    assert key_of("a", "b") == key_of("a", "b")


def put(file: BinaryIO, data: bytes) -> None:
    file.write(data)
