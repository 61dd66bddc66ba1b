"""The GGUF reader: what it gives, and what it says of wrong files."""

import struct
import time
from pathlib import Path

import numpy as np
import pytest

from circuit.errors import LoadError
from circuit.formats import FORMATS
from circuit.load.source import Length
from circuit_exec.checkpoint.open import metadata_value, open_checkpoint
from circuit_exec.checkpoint.raw import raw
from circuit_exec.checkpoint.records import LongArray
from circuit_exec.checkpoint.texts import checkpoint_texts
from tests.checkpoint.files import GGML, GgufTensor, array_key, gguf, key, string
from tests.demo import demo_file

AGAIN = "download the file again; it is truncated or damaged"


def tensor(name: str, format: str, shape: tuple[int, ...], offset: int | None = None) -> GgufTensor:
    size = FORMATS[format].row_bytes(shape[-1]) * int(np.prod(shape[:-1]))
    data = np.random.default_rng(len(name)).integers(0, 256, size, dtype=np.uint8).tobytes()
    return GgufTensor(name=name, type=GGML[format], shape=shape, data=data, offset=offset)


def write(folder: Path, data: bytes) -> str:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return str(path)


def refuse(folder: Path, data: bytes, message: str, fix: str = AGAIN) -> None:
    path = write(folder, data)
    with pytest.raises(LoadError) as caught:
        open_checkpoint(path)
    problems = caught.value.problems
    assert [(p.message, p.fix, p.file) for p in problems] == [(message, fix, path)]


@pytest.mark.parametrize("version", [2, 3])
def test_every_format_is_read_with_its_row_major_shape(tmp_path: Path, version: int) -> None:
    tensors = [tensor(f"t.{format}", format, (3, 256)) for format in GGML]
    checkpoint = open_checkpoint(write(tmp_path, gguf([], tensors, version=version)))
    assert checkpoint.kind == "gguf"
    assert [(t.name, t.format, t.shape) for t in checkpoint.tensors.values()] == [
        (f"t.{format}", format, (3, 256)) for format in GGML
    ]
    for stored in tensors:
        assert raw(checkpoint, stored.name).tobytes() == stored.data


def test_metadata_keeps_key_type_and_value(tmp_path: Path) -> None:
    keys = [
        key("general.architecture", "string", "llama"),
        key("llama.block_count", "u32", 30),
        key("llama.rope.freq_base", "f32", 0.5),
        key("tokenizer.ggml.add_bos_token", "bool", True),
        array_key("general.languages", "string", ["en", "de"]),
    ]
    checkpoint = open_checkpoint(write(tmp_path, gguf(keys)))
    assert [(entry.key, entry.type, entry.value) for entry in checkpoint.metadata] == [
        ("general.architecture", "string", "llama"),
        ("llama.block_count", "u32", 30),
        ("llama.rope.freq_base", "f32", 0.5),
        ("tokenizer.ggml.add_bos_token", "bool", True),
        ("general.languages", "array of string", ("en", "de")),
    ]
    assert metadata_value(checkpoint, "no.such.key") is None


def test_a_long_array_is_decoded_when_it_is_asked_for(tmp_path: Path) -> None:
    tokens = [f"token {i}" for i in range(1025)]
    kinds = list(range(1025))
    keys = [array_key("tokens", "string", tokens), array_key("kinds", "i32", kinds), key("after", "u32", 7)]
    checkpoint = open_checkpoint(write(tmp_path, gguf(keys)))
    assert isinstance(checkpoint.metadata[0].value, LongArray)
    assert metadata_value(checkpoint, "tokens") == tuple(tokens)
    assert metadata_value(checkpoint, "kinds") == tuple(kinds)
    assert metadata_value(checkpoint, "tokens") is metadata_value(checkpoint, "tokens")
    assert metadata_value(checkpoint, "after") == 7


def test_the_compiler_gets_metadata_shapes_and_rope_factors(tmp_path: Path) -> None:
    factors = GgufTensor(
        name="rope_freqs.weight", type=GGML["f32"], shape=(2,), data=np.array([1.0, 8.0], dtype="<f4").tobytes()
    )
    keys = [array_key("tokens", "string", ["x"] * 1025)]
    texts = checkpoint_texts(open_checkpoint(write(tmp_path, gguf(keys, [factors, tensor("a", "q4_1", (2, 32))]))))
    assert not hasattr(texts, "config")
    assert texts.rope_factors == (1.0, 8.0)
    assert [(t.name, t.format, t.shape) for t in texts.tensors] == [
        ("rope_freqs.weight", "f32", (2,)),
        ("a", "q4_1", (2, 32)),
    ]
    assert texts.metadata[0].value == Length(1025)
    assert checkpoint_texts(open_checkpoint(write(tmp_path, gguf()))).rope_factors is None  # type: ignore[union-attr]


def test_the_alignment_that_the_file_states_is_used(tmp_path: Path) -> None:
    stored = tensor("a", "f32", (3,))
    keys = [key("general.alignment", "u32", 128)]
    checkpoint = open_checkpoint(write(tmp_path, gguf(keys, [stored], alignment=128)))
    assert raw(checkpoint, "a").tobytes() == stored.data
    assert checkpoint.tensors["a"].offset == 128


@pytest.mark.parametrize("value", [0, 24])
def test_an_alignment_that_is_no_power_of_two_is_refused(tmp_path: Path, value: int) -> None:
    data = gguf([key("general.alignment", "u32", value)])
    refuse(tmp_path, data, f"general.alignment is {value} (u32), not a power of two (u32)")


def test_a_file_cut_anywhere_in_its_head_is_refused_and_names_what_is_cut(tmp_path: Path) -> None:
    keys = [
        key("a.key", "string", "value"),
        array_key("b.key", "i32", [1, 2]),
        array_key("c.key", "string", ["x", "y"]),
    ]
    whole = gguf(keys, [tensor("t.name", "f32", (4,))])
    path = tmp_path / "model.gguf"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(LoadError) as caught:
            open_checkpoint(str(path))
        (problem,) = caught.value.problems
        assert problem.file == str(path)
        assert problem.fix in (AGAIN, "give a GGUF file, or download it again")
        assert any(word in problem.message for word in ("ends", "cannot fit", "reach behind", "begin with")), problem


def test_a_cut_key_is_named(tmp_path: Path) -> None:
    whole = gguf([key("a.key", "u32", 1), key("pad.key", "string", "x" * 100)])
    cut = whole.index(b"pad.key") + 7 + 4 + 8 + 50
    refuse(tmp_path, whole[:cut], f"the file ends inside key pad.key (byte {cut - 50} of {cut})")


def test_a_cut_tensor_is_named(tmp_path: Path) -> None:
    whole = gguf([], [tensor("a", "f32", (8,)), tensor("b.weight", "q8_0", (2, 32))])
    refuse(tmp_path, whole[:-1], f"tensor b.weight: ends at byte {len(whole)}, the file has {len(whole) - 1}")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, b"", "the file is empty", "download it again")


def test_a_git_lfs_pointer_is_refused_as_one(tmp_path: Path) -> None:
    refuse(
        tmp_path,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "the file is a Git LFS pointer, not the weights themselves",
        "run `git lfs pull` in the checkpoint's folder",
    )


def test_a_wrong_magic_is_refused(tmp_path: Path) -> None:
    message = "the file does not begin with GGUF but with b'GGML'"
    refuse(tmp_path, b"GGML" + bytes(40), message, "give a GGUF file, or download it again")


def test_version_1_and_big_endian_files_are_refused(tmp_path: Path) -> None:
    message = "the file is GGUF version 1, only 2 and 3 can be read"
    refuse(tmp_path, gguf(version=1), message, "convert the model again")
    fix = "convert it to little-endian with gguf_convert_endian.py"
    refuse(tmp_path, gguf(version=3 << 24), "the file is big-endian GGUF", fix)


@pytest.mark.parametrize(("n_tensors", "n_keys"), [(2**63, 0), (0, 2**60), (3, 0)])
def test_counts_beyond_the_file_are_refused(tmp_path: Path, n_tensors: int, n_keys: int) -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_keys) + bytes(40)
    refuse(tmp_path, data, f"{n_tensors} tensors and {n_keys} keys cannot fit into 64 bytes")


@pytest.mark.parametrize("element", ["i32", "string"])
def test_an_array_longer_than_the_file_is_refused(tmp_path: Path, element: str) -> None:
    whole = gguf([array_key("long", element, ["a"] if element == "string" else [1])])
    at = whole.index(b"long") + 4 + 8
    data = whole[:at] + struct.pack("<Q", 2**61) + whole[at + 8 :]
    refuse(tmp_path, data, f"key long: {2**61} elements reach behind the end of the file")


@pytest.mark.parametrize("length", [10**6, 2**63, 2**64 - 1])
def test_a_string_of_an_array_that_leaves_the_file_is_refused(tmp_path: Path, length: int) -> None:
    whole = gguf([array_key("words", "string", ["aaa", "bbb"]), key("after", "u32", 1)])
    at = whole.index(b"aaa") - 8
    data = whole[:at] + struct.pack("<Q", length) + whole[at + 8 :]
    refuse(tmp_path, data, "key words: its strings reach behind the end of the file")


def test_keys_and_tensors_that_occur_twice_are_refused(tmp_path: Path) -> None:
    fix = "convert the model again, or download it again"
    refuse(tmp_path, gguf([key("a", "u32", 1), key("a", "u32", 2)]), "key a occurs twice", fix)
    refuse(tmp_path, gguf([], [tensor("t", "f32", (1,)), tensor("t", "f32", (1,))]), "tensor t occurs twice", fix)


def test_unknown_value_types_bad_bools_and_nested_arrays_are_refused(tmp_path: Path) -> None:
    refuse(tmp_path, gguf([string("k") + struct.pack("<IQ", 13, 0)]), "key k: has the unknown value type 13")
    refuse(tmp_path, gguf([key("k", "bool", 2)]), "key k: the bool is 2, not 0 or 1")
    nested = string("k") + struct.pack("<IIQ", 9, 9, 0)
    refuse(tmp_path, gguf([nested]), "key k: is an array of arrays", "convert the model again without this key")


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    fix = "convert the model again, or download it again"
    bad = string("k") + struct.pack("<I", 8) + string(b"\xff")
    refuse(tmp_path, gguf([bad]), "key k is not UTF-8 text", fix)
    words = string("k") + struct.pack("<IIQ", 9, 8, 2) + string("fine") + string(b"\xff")
    refuse(tmp_path, gguf([words]), "key k: element 1 is not UTF-8 text", fix)


def test_types_without_a_decoder_are_refused_once_a_type(tmp_path: Path) -> None:
    tensors = [
        GgufTensor(name="a", type=16, shape=(1, 256), data=bytes(144)),
        tensor("b", "f32", (4,)),
        GgufTensor(name="c", type=16, shape=(1, 256), data=bytes(144)),
        GgufTensor(name="d", type=99, shape=(1, 256), data=bytes(144)),
    ]
    with pytest.raises(LoadError) as caught:
        open_checkpoint(write(tmp_path, gguf([], tensors)))
    assert [p.message for p in caught.value.problems] == [
        "tensor a and 1 more: stored as IQ2_XXS, which cannot be decoded",
        "tensor d: stored as the unknown ggml type 99, which cannot be decoded",
    ]
    fix = (
        "use a file whose tensors are stored as F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, "
        "IQ4_NL, BF16, MXFP4"
    )
    assert {p.fix for p in caught.value.problems} == {fix}


def test_wrong_tensor_tables_are_refused_by_tensor(tmp_path: Path) -> None:
    flat = GgufTensor(name="t", type=0, shape=(), data=b"")
    refuse(tmp_path, gguf([key("k", "string", "x" * 40)], [flat]), "tensor t: has 0 dimensions, 1 to 4 are possible")
    five = GgufTensor(name="t", type=0, shape=(1,) * 5, data=bytes(4))
    refuse(tmp_path, gguf([], [five]), "tensor t: has 5 dimensions, 1 to 4 are possible")
    none = GgufTensor(name="t", type=0, shape=(4, 0), data=b"")
    refuse(tmp_path, gguf([], [none]), "tensor t: has a dimension of 0")
    ragged = GgufTensor(name="t", type=8, shape=(2, 33), data=bytes(72))
    refuse(tmp_path, gguf([], [ragged]), "tensor t: rows of 33 values are not whole blocks of 32 (q8_0)")
    odd = GgufTensor(name="t", type=0, shape=(4,), data=bytes(32), offset=8)
    refuse(tmp_path, gguf([], [odd]), "tensor t: its offset 8 is not a multiple of 32")


def test_huge_dimensions_do_not_overflow(tmp_path: Path) -> None:
    huge = GgufTensor(name="t", type=0, shape=(2**62, 2**62), data=bytes(64))
    data = gguf([], [huge])
    refuse(tmp_path, data, f"tensor t: ends at byte {len(data) - 64 + 2**126}, the file has {len(data)}")


def test_overlapping_tensors_are_refused(tmp_path: Path) -> None:
    tensors = [tensor("a", "f32", (16,), offset=0), tensor("b", "f32", (16,), offset=32)]
    refuse(tmp_path, gguf([], tensors), "tensor b: overlaps tensor a")


def test_the_reader_agrees_with_the_gguf_package(tmp_path: Path) -> None:
    oracle = pytest.importorskip("gguf")
    keys = [key("general.architecture", "string", "llama"), array_key("tokens", "string", ["a", "", "ü"])]
    path = write(tmp_path, gguf(keys, [tensor(f"t.{format}", format, (3, 256)) for format in GGML]))
    checkpoint = open_checkpoint(path)
    theirs = oracle.GGUFReader(path)
    assert theirs.fields["tokens"].contents() == list(metadata_value(checkpoint, "tokens") or ())  # type: ignore[arg-type]
    for stored in theirs.tensors:
        ours = checkpoint.tensors[stored.name]
        assert ours.shape == tuple(int(dim) for dim in reversed(stored.shape))
        assert ours.offset == stored.data_offset
        assert raw(checkpoint, stored.name).tobytes() == stored.data.tobytes()


@pytest.mark.slow
def test_the_demo_model_opens_in_under_50_ms() -> None:
    path = demo_file()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        checkpoint = open_checkpoint(str(path))
        times.append(time.perf_counter() - start)
    assert len(checkpoint.tensors) == 272
    assert min(times) < 0.05
