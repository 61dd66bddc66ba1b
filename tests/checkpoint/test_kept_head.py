"""The head of a GGUF file that was read before: the same as when it is read, and never of another file."""

import os
from pathlib import Path

import pytest

from circuit.errors import LoadError
from circuit_exec.cache import Cache, write_checked
from circuit_exec.checkpoint import gguf_parts
from circuit_exec.checkpoint import open as opening
from circuit_exec.checkpoint.open import metadata_value, open_checkpoint, opened
from tests.checkpoint.files import array_key, gguf, key
from tests.checkpoint.test_gguf import tensor, write

WORDS = [f"word {n} é" for n in range(2000)]
KEYS = [
    key("general.architecture", "string", "llama"),
    key("a.float", "f32", 1.0),
    key("a.int", "u64", 2**64 - 1),
    key("a.bool", "bool", True),
    array_key("a.list", "i32", [-1, 2]),
    array_key("a.words", "string", WORDS),
    array_key("a.numbers", "i32", range(2000)),
]
DATA = gguf(KEYS, [tensor("t.f16", "f16", (3, 256)), tensor("t.q4_1", "q4_1", (2, 64))])


def never(*of: object) -> None:
    raise AssertionError(f"read again: {of}")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(root=tmp_path / "cache")


def test_a_head_is_read_once(tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, DATA)
    plain, first = open_checkpoint(path), opened(path, cache)
    assert metadata_value(first, "a.words") == tuple(WORDS)
    monkeypatch.setattr(gguf_parts, "read_gguf", never)
    again = opened(path, cache)
    for found in (first, again):
        assert (found.metadata, found.tensors) == (plain.metadata, plain.tensors)
        assert list(found.tensors) == list(plain.tensors)
    assert [type(entry.value) for entry in again.metadata] == [type(entry.value) for entry in plain.metadata]
    assert metadata_value(again, "a.numbers") == tuple(range(2000))
    monkeypatch.setattr(opening, "read_array", never)
    assert metadata_value(again, "a.words") == tuple(WORDS)


def test_another_file_in_its_place_is_read(tmp_path: Path, cache: Cache) -> None:
    path = write(tmp_path, DATA)
    assert metadata_value(opened(path, cache), "a.words") == tuple(WORDS)
    status = os.stat(path)
    write(tmp_path, DATA.replace(b"word 7 ", b"sord 7 "))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = metadata_value(opened(path, cache), "a.words")
    assert isinstance(found, tuple)
    assert found[7] == "sord 7 é"


def test_the_same_file_by_another_path_has_its_own_entry(tmp_path: Path, cache: Cache) -> None:
    path = write(tmp_path, DATA)
    opened(path, cache)
    linked = tmp_path / "linked.gguf"
    linked.symlink_to(path)
    assert {tensor.file for tensor in opened(str(linked), cache).tensors.values()} == {str(linked)}


def test_what_is_refused_is_not_kept(tmp_path: Path, cache: Cache) -> None:
    path = write(tmp_path, DATA[:-100])
    for _ in range(2):
        with pytest.raises(LoadError, match=r"tensor t\.q4_1"):
            opened(path, cache)


def test_a_damaged_entry_is_as_good_as_none(tmp_path: Path, cache: Cache) -> None:
    path = write(tmp_path, DATA)
    opened(path, cache)
    (entry,) = (cache.root / "heads").iterdir()
    whole = entry.read_bytes()
    for damaged in (whole[:-1], whole[:70] + b"x" + whole[71:], b"", b"x"):
        entry.write_bytes(damaged)
        assert list(opened(path, cache).tensors) == ["t.f16", "t.q4_1"]
    assert entry.read_bytes() == whole


def test_an_entry_of_other_fields_is_as_good_as_none(tmp_path: Path, cache: Cache) -> None:
    path = write(tmp_path, DATA)
    opened(path, cache)
    (entry,) = (cache.root / "heads").iterdir()
    write_checked(entry, b"\x81\xa8metadata\x01")
    assert list(opened(path, cache).tensors) == ["t.f16", "t.q4_1"]


def test_a_cache_that_cannot_be_written_costs_time_and_no_more(tmp_path: Path) -> None:
    path = write(tmp_path, DATA)
    (tmp_path / "file").write_text("")
    found = opened(path, Cache(root=tmp_path / "file" / "cache"))
    assert metadata_value(found, "a.words") == tuple(WORDS)
