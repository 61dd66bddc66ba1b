"""Baking: recipes, the file in the cache, its checks, and what happens when it cannot be written."""

import os
import resource
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from circuit.bake.manifest import Manifest, build_manifest
from circuit.errors import LoadError, RunError
from circuit.tir.ir import Concat, Key, Recipe, Unpermute, Weight
from circuit_exec import baked_file
from circuit_exec.bake import BakedWeights, bake, entry_words
from circuit_exec.baked_file import Identification, open_payload
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.content_hash import content_hash, unhashed_bytes
from circuit_exec.checkpoint.decode import decode
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.pack import Words, unpack_panels
from tests.checkpoint.files import GGML, GgufTensor, gguf

PANEL = 4
RNG = np.random.default_rng(3)
Q = RNG.integers(0, 256, (12, 40), dtype=np.uint8)  # 12 outputs of 64 values in q4_1
K = RNG.integers(0, 256, (4, 40), dtype=np.uint8)
BIAS = RNG.standard_normal(12).astype("<f4")
EMBED = RNG.integers(0, 256, (101, 68), dtype=np.uint8)  # 101 rows of 64 values in q8_0


def tensor(name: str, format: str, shape: tuple[int, ...], data: bytes) -> GgufTensor:
    return GgufTensor(name=name, type=GGML[format], shape=shape, data=data)


def weight(name: str, shape: tuple[int, ...], format: str, recipe: Recipe) -> Weight:
    return Weight(name=name, shape=shape, format=format, recipe=recipe)


QKV = Concat(parts=(Unpermute(of=Key(key="q"), heads=3), Key(key="k")))
MANIFEST = build_manifest(
    (
        weight("embed", (101, 64), "q8_0", Key(key="embed")),
        weight("qk", (16, 64), "q4_1", QKV),
        weight("bias", (12,), "f32", Unpermute(of=Key(key="bias"), heads=3)),
        weight("scale", (3,), "bf16", Key(key="scale")),
    ),
    PANEL,
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    tensors = [
        tensor("q", "q4_1", (12, 64), Q.tobytes()),
        tensor("k", "q4_1", (4, 64), K.tobytes()),
        tensor("bias", "f32", (12,), BIAS.tobytes()),
        tensor("scale", "bf16", (3,), np.array([0x3F80, 0xC000, 0x7FC1], dtype="<u2").tobytes()),
        tensor("embed", "q8_0", (101, 64), EMBED.tobytes()),
        tensor("head", "q8_0", (101, 64), EMBED.tobytes()),
    ]
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf([], tensors))
    return open_checkpoint(str(path))


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(root=tmp_path / "cache")


def silent(done: int, total: int) -> None:
    pass


def words_of(baked: BakedWeights, name: str) -> NDArray[np.uint32]:
    (entry,) = (entry for entry in baked.manifest.entries if entry.name == name)
    return entry_words(baked, entry)


def cache_files(cache: Cache) -> list[str]:
    return sorted(str(path.relative_to(cache.root)) for path in cache.root.rglob("*") if path.is_file())


def unpermuted(rows: NDArray[np.generic], heads: int) -> list[NDArray[np.generic]]:
    """Row 2*i + s of each head becomes row s*head_dim/2 + i, one by one."""
    dim = len(rows) // heads
    out: list[NDArray[np.generic]] = [rows[0]] * len(rows)
    for head in range(heads):
        for i in range(dim // 2):
            for s in range(2):
                out[head * dim + s * dim // 2 + i] = rows[head * dim + 2 * i + s]
    return out


def test_every_entry_holds_the_rows_that_its_recipe_names(checkpoint: Checkpoint, cache: Cache) -> None:
    baked = bake(MANIFEST, checkpoint, cache, silent)
    assert np.array_equal(unpack_panels(words_of(baked, "embed"), "q8_0", (101, 64), PANEL), EMBED)
    rows = np.concatenate((np.array(unpermuted(Q, 3)), K))
    assert np.array_equal(unpack_panels(words_of(baked, "qk"), "q4_1", (16, 64), PANEL), rows)
    assert words_of(baked, "bias").view("<f4").tolist() == [float(value) for value in unpermuted(BIAS, 3)]
    assert words_of(baked, "scale").tolist() == [0x3F800000, 0xC0000000, 0x7FC00000]
    assert baked.note is None


def test_the_payload_is_aligned_and_its_address_is_that_of_the_words(checkpoint: Checkpoint, cache: Cache) -> None:
    baked = bake(MANIFEST, checkpoint, cache, silent)
    assert baked.address % 64 == 0
    assert baked.words.nbytes == MANIFEST.n_bytes
    assert not baked.words.flags.writeable


def test_chunks_of_any_size_give_the_same_file(
    checkpoint: Checkpoint, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bake(MANIFEST, checkpoint, cache, silent).path.read_bytes()
    monkeypatch.setattr("circuit_exec.bake.CHUNK_BYTES", 1)
    pieces = bake(MANIFEST, checkpoint, Cache(root=tmp_path / "other"), silent).path.read_bytes()
    assert whole == pieces


def test_progress_ends_at_its_total_and_never_runs_back(checkpoint: Checkpoint, cache: Cache) -> None:
    seen: list[tuple[int, int]] = []
    bake(MANIFEST, checkpoint, cache, lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    (total,) = {total for _, total in seen}
    assert seen[-1][0] == total == os.path.getsize(checkpoint.path) + MANIFEST.n_bytes


def test_a_second_start_reads_no_weights_and_writes_nothing(checkpoint: Checkpoint, cache: Cache) -> None:
    first = bake(MANIFEST, checkpoint, cache, silent)
    status = first.path.stat()
    seen: list[int] = []
    second = bake(MANIFEST, checkpoint, cache, lambda done, total: seen.append(done))
    assert seen == []
    assert second.path.stat().st_mtime_ns == status.st_mtime_ns
    assert np.array_equal(first.words, second.words)


def test_other_weights_or_another_manifest_get_a_file_of_their_own(
    checkpoint: Checkpoint, cache: Cache, tmp_path: Path
) -> None:
    first = bake(MANIFEST, checkpoint, cache, silent)
    smaller = build_manifest((weight("qk", (16, 64), "q4_1", QKV),), PANEL)
    second = bake(smaller, checkpoint, cache, silent)
    data = bytearray(Path(checkpoint.path).read_bytes())
    data[-1] ^= 1
    changed = tmp_path / "changed.gguf"
    changed.write_bytes(data)
    third = bake(MANIFEST, open_checkpoint(str(changed)), cache, silent)
    assert len({first.path, second.path, third.path}) == 3
    assert first.content_hash == second.content_hash != third.content_hash


def test_the_content_hash_of_one_file_is_its_sha256(checkpoint: Checkpoint, cache: Cache) -> None:
    import hashlib

    expected = hashlib.sha256(Path(checkpoint.path).read_bytes()).hexdigest()
    assert bake(MANIFEST, checkpoint, cache, silent).content_hash == expected


def damages(whole: bytes) -> Iterator[tuple[bytes, str]]:
    payload_at = len(whole) - MANIFEST.n_bytes
    yield b"", "the file is empty"
    yield whole[:100], f"it has 100 bytes, not {len(whole)}"
    yield whole[:-1], f"it has {len(whole) - 1} bytes, not {len(whole)}"
    yield whole + b"\0", f"it has {len(whole) + 1} bytes, not {len(whole)}"
    for at in (0, 9, 33, 70, 100, 128, payload_at - 1):
        yield flipped(whole, at), "its header is damaged"
    for at in (payload_at, payload_at + MANIFEST.n_bytes // 2):
        yield flipped(whole, at), "piece 1 of 1 is damaged"


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def test_a_damaged_file_is_made_again_with_a_note(checkpoint: Checkpoint, cache: Cache) -> None:
    path = bake(MANIFEST, checkpoint, cache, silent).path
    whole = path.read_bytes()
    for damaged, why in damages(whole):
        path.write_bytes(damaged)
        baked = bake(MANIFEST, checkpoint, cache, silent)
        assert baked.note == f"the baked weights in {path} were made again: {why}"
        assert path.read_bytes() == whole
        assert bake(MANIFEST, checkpoint, cache, silent).note is None


def test_the_damaged_piece_of_several_is_named(
    checkpoint: Checkpoint, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baked_file, "PIECE_BYTES", 1000)
    path = bake(MANIFEST, checkpoint, cache, silent).path
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, len(whole) - MANIFEST.n_bytes + 2500))
    note = bake(MANIFEST, checkpoint, cache, silent).note
    assert note is not None
    assert note.endswith(f": piece 3 of {-(-MANIFEST.n_bytes // 1000)} is damaged")


def test_a_large_payload_is_checked_once_and_again_when_its_file_changes(
    checkpoint: Checkpoint, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baked_file, "VERIFY_ALWAYS_BYTES", 0)
    path = bake(MANIFEST, checkpoint, cache, silent).path
    checked: list[int] = []
    crc32 = zlib.crc32

    def counting(data: memoryview, value: int = 0) -> int:
        checked.append(len(data))
        return crc32(data, value)

    monkeypatch.setattr(zlib, "crc32", counting)
    assert bake(MANIFEST, checkpoint, cache, silent).note is None
    assert checked == []
    whole = path.read_bytes()
    status = path.stat()
    path.write_bytes(flipped(whole, len(whole) - 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert bake(MANIFEST, checkpoint, cache, silent).note is not None
    assert checked != []


def test_ctrl_c_while_baking_leaves_nothing(checkpoint: Checkpoint, cache: Cache) -> None:
    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bake(MANIFEST, checkpoint, cache, stop)
    assert [name for name in cache_files(cache) if name.startswith("weights")] == []


def test_a_full_disk_is_refused_and_leaves_nothing(checkpoint: Checkpoint, cache: Cache) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(RunError) as caught:
            bake(MANIFEST, checkpoint, cache, silent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (problem,) = caught.value.problems
    assert problem.message == "the cache is full: file too large"
    assert problem.fix == "free space there, or delete the folder (it is made again)"
    assert problem.file == str(cache.root / "weights")
    assert [name for name in cache_files(cache) if name.startswith("weights")] == []


def test_weights_that_do_not_read_back_are_refused(
    checkpoint: Checkpoint, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that gives back other bytes than it took."""

    def flipped(path: Path, belongs: Identification, n_bytes: int, cache: Cache) -> Words | str:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        return open_payload(path, belongs, n_bytes, cache)

    monkeypatch.setattr("circuit_exec.bake.open_payload", flipped)
    with pytest.raises(RunError) as caught:
        bake(MANIFEST, checkpoint, cache, silent)
    (problem,) = caught.value.problems
    assert problem.message.startswith("the baked weights do not read back as they were written: ")
    assert problem.fix == "check the disk, or set XDG_CACHE_HOME to a folder on another one"
    assert problem.file is not None
    assert problem.file.endswith(".weights")


def test_a_cache_that_cannot_be_written_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError) as caught:
        bake(MANIFEST, checkpoint, Cache(root=tmp_path / "file" / "met"), silent)
    (problem,) = caught.value.problems
    assert problem.message == "the cache cannot be written: not a directory"
    assert problem.fix == "make the folder writable, or set XDG_CACHE_HOME to one that is"
    assert problem.file == str(tmp_path / "file" / "met" / "weights")


def test_progress_ends_at_its_total_where_another_process_hashed_the_weights_meanwhile(
    checkpoint: Checkpoint, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted_too_early(checkpoint: Checkpoint, cache: Cache) -> int:
        before = unhashed_bytes(checkpoint, cache)
        content_hash(checkpoint, cache, lambda n_bytes: None)
        return before

    monkeypatch.setattr("circuit_exec.bake.unhashed_bytes", counted_too_early)
    told: list[tuple[int, int]] = []
    bake(MANIFEST, checkpoint, cache, lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > MANIFEST.n_bytes
    assert told == sorted(told)


def test_two_that_bake_at_once_both_end_well(checkpoint: Checkpoint, cache: Cache) -> None:
    meet = threading.Barrier(2, timeout=30)
    results: list[BakedWeights] = []

    def run() -> None:
        met: list[bool] = []

        def wait(done: int, total: int) -> None:
            if done > total - 200 and not met:
                met.append(True)
                meet.wait()

        results.append(bake(MANIFEST, checkpoint, cache, wait))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = results
    assert first.path == second.path
    assert np.array_equal(first.words, second.words)
    assert [name for name in cache_files(cache) if name.startswith("weights")] == [f"weights/{first.path.name}"]


def tied(first: str, second: str) -> Manifest:
    return build_manifest((weight("embed", (101, 64), "q8_0", Key(key="embed")),), PANEL, ((first, second),))


def test_a_tied_head_with_the_same_bytes_is_accepted(checkpoint: Checkpoint, cache: Cache) -> None:
    assert bake(tied("head", "embed"), checkpoint, cache, silent).note is None


def test_a_tied_head_that_differs_is_refused(checkpoint: Checkpoint, cache: Cache) -> None:
    with pytest.raises(LoadError) as caught:
        bake(tied("q", "embed"), checkpoint, cache, silent)
    assert str(caught.value) == (
        "error: tensor q: differs from embed, though the config ties the two\n"
        f" --> {checkpoint.path}\n"
        "  = fix: set tie_word_embeddings to false in config.json, or remove the tensor"
    )
    assert [name for name in cache_files(cache) if name.startswith("weights")] == []


def test_a_checkpoint_without_weights_is_refused(tmp_path: Path, cache: Cache) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RunError, match=r"has a config\.json but no weights"):
        bake(MANIFEST, open_checkpoint(str(tmp_path / "config.json")), cache, silent)


def test_baked_values_are_the_decoded_values_of_the_checkpoint(checkpoint: Checkpoint, cache: Cache) -> None:
    baked = bake(MANIFEST, checkpoint, cache, silent)
    stored = unpack_panels(words_of(baked, "embed"), "q8_0", (101, 64), PANEL)
    assert np.array_equal(
        decode(stored.reshape(-1), "q8_0").view(np.uint32), decode(EMBED.reshape(-1), "q8_0").view(np.uint32)
    )
