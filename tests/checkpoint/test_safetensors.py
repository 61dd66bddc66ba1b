"""The safetensors reader and the folder with shards: what they give, and what they say of wrong files."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from circuit.errors import LoadError
from circuit.load.inputs import HfTexts
from circuit_exec.checkpoint.open import open_checkpoint, text
from circuit_exec.checkpoint.raw import raw
from circuit_exec.checkpoint.texts import checkpoint_texts
from tests.checkpoint.files import Tensor, folder, safetensors, with_header

AGAIN = "download the file again; it is truncated or damaged"
CHECKPOINT_AGAIN = "download the checkpoint again, or keep only the files that belong to it"
INDEX = "model.safetensors.index.json"

A = Tensor(name="a", dtype="F32", shape=(2, 2), data=bytes(range(16)))
B = Tensor(name="b", dtype="BF16", shape=(3,), data=bytes(range(6)))
C = Tensor(name="c", dtype="F16", shape=(), data=bytes(range(2)))


def problems(path: Path) -> list[tuple[str, str, str | None]]:
    with pytest.raises(LoadError) as caught:
        open_checkpoint(str(path))
    return [(p.message, p.fix, p.file) for p in caught.value.problems]


def refuse(at: Path, data: bytes, message: str, fix: str = AGAIN) -> None:
    path = folder(at, {"model.safetensors": data})
    assert problems(path) == [(message, fix, str(path / "model.safetensors"))]


def entry(dtype: str = "F32", shape: list[int] | None = None, offsets: list[int] | None = None) -> dict[str, object]:
    return {"dtype": dtype, "shape": [1] if shape is None else shape, "data_offsets": offsets or [0, 4]}


def header(**entries: object) -> bytes:
    return with_header(json.dumps(entries))


def index(**files: str) -> bytes:
    return json.dumps({"metadata": {"total_size": 0}, "weight_map": files}).encode()


def test_a_single_file_gives_formats_shapes_and_bytes(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(folder(tmp_path, {"model.safetensors": safetensors([A, B, C])})))
    assert checkpoint.kind == "safetensors"
    assert [(t.name, t.format, t.shape) for t in checkpoint.tensors.values()] == [
        ("a", "f32", (2, 2)),
        ("b", "bf16", (3,)),
        ("c", "f16", ()),
    ]
    for tensor in (A, B, C):
        assert raw(checkpoint, tensor.name).tobytes() == tensor.data


def test_files_of_the_safetensors_package_read_back(tmp_path: Path) -> None:
    from safetensors.numpy import save

    values: dict[str, NDArray[np.generic]] = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3),
        "y": np.ones(5, dtype=np.float16),
    }
    checkpoint = open_checkpoint(str(folder(tmp_path, {"model.safetensors": save(values)})))
    for name, value in values.items():
        assert checkpoint.tensors[name].shape == value.shape
        assert raw(checkpoint, name).tobytes() == value.tobytes()


def test_shards_are_read_by_their_index(tmp_path: Path) -> None:
    files = {
        INDEX: index(a="model-1.safetensors", b="model-2.safetensors"),
        "model-1.safetensors": safetensors([A]),
        "model-2.safetensors": safetensors([B]),
        "consolidated.safetensors": safetensors([A, B]),
    }
    checkpoint = open_checkpoint(str(folder(tmp_path, files)))
    assert sorted(checkpoint.tensors) == ["a", "b"]
    assert raw(checkpoint, "b").tobytes() == B.data
    assert [Path(file).name for file in checkpoint.files] == ["model-1.safetensors", "model-2.safetensors"]


def test_the_compiler_gets_the_texts_and_the_table(tmp_path: Path) -> None:
    path = folder(tmp_path, {"model.safetensors": safetensors([B]), "generation_config.json": b'{"x": 1}'}, '{"y": 2}')
    texts = checkpoint_texts(open_checkpoint(str(path)))
    assert isinstance(texts, HfTexts)
    assert (texts.config.path, texts.config.text) == (str(path / "config.json"), '{"y": 2}')
    assert texts.generation_config is not None
    assert texts.generation_config.text == '{"x": 1}'
    assert texts.quantization is None
    assert [(t.name, t.format, t.shape) for t in texts.tensors or ()] == [("b", "bf16", (3,))]


def test_a_bare_config_or_a_folder_with_only_one_has_no_table(tmp_path: Path) -> None:
    path = folder(tmp_path, {"tokenizer.json": b"{}"})
    for given in (path, path / "config.json"):
        checkpoint = open_checkpoint(str(given))
        texts = checkpoint_texts(checkpoint)
        assert checkpoint.kind == "config"
        assert isinstance(texts, HfTexts)
        assert texts.tensors is None
        assert texts.config.text == "{}"
        found = text(checkpoint, "tokenizer.json")
        assert found is not None
        assert found.text == "{}"
        assert text(checkpoint, "tokenizer_config.json") is None


def test_a_type_without_a_decoder_keeps_its_name(tmp_path: Path) -> None:
    ids = Tensor(name="position_ids", dtype="I64", shape=(2,), data=bytes(16))
    checkpoint = open_checkpoint(str(folder(tmp_path, {"model.safetensors": safetensors([A, ids])})))
    assert checkpoint.tensors["position_ids"].format == "I64"


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = safetensors([A, B])
    path = folder(tmp_path, {})
    for size in range(len(whole)):
        (path / "model.safetensors").write_bytes(whole[:size])
        for message, _, file in problems(path):
            assert file == str(path / "model.safetensors")
            assert any(word in message for word in ("bytes", "ends at byte", "is empty")), message


def test_a_truncated_file_names_the_tensors_that_are_cut(tmp_path: Path) -> None:
    whole = safetensors([A, B])
    refuse(tmp_path, whole[:-1], f"tensor b: ends at byte {len(whole)}, the file has {len(whole) - 1}")


def test_files_too_short_for_their_header_are_refused(tmp_path: Path) -> None:
    refuse(tmp_path, b"abc", "the file has 3 bytes, a safetensors file at least 8")
    data = (500).to_bytes(8, "little") + bytes(100)
    refuse(tmp_path, data, "the header says it is 500 bytes long, but the file has 100 bytes after it")
    fix = "give a safetensors file, or download it again; this one is damaged or of another kind"
    data = (2**60).to_bytes(8, "little") + bytes(100)
    refuse(tmp_path, data, f"the header says it is {2**60} bytes long, 100000000 are possible", fix)


@pytest.mark.parametrize("text", ["{", '{"a": }', "\x00\x00"])
def test_a_header_that_is_not_json_is_refused(tmp_path: Path, text: str) -> None:
    refuse(tmp_path, with_header(text), "the header is not JSON")


def test_a_header_that_is_not_an_object_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, with_header("[1]"), "the header is not a JSON object")


def test_a_tensor_named_twice_in_one_header_is_refused(tmp_path: Path) -> None:
    one = json.dumps(entry())
    data = with_header(f'{{"a": {one}, "a": {one}}}') + bytes(4)
    refuse(tmp_path, data, "the header names a twice", "write the file again without it")


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0]},
    ],
)
def test_an_incomplete_entry_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    message = "tensor a: its header entry needs dtype, shape and two data_offsets"
    refuse(tmp_path, header(a=wrong) + bytes(4), message)


def test_an_entry_that_is_no_object_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, header(a=1) + bytes(4), "tensor a: its header entry is not an object")


def test_offsets_that_contradict_the_shape_are_refused(tmp_path: Path) -> None:
    data = header(a=entry(shape=[2, 3], offsets=[0, 20])) + bytes(20)
    refuse(tmp_path, data, "tensor a: [2, 3] of F32 takes 24 bytes, its offsets 0 to 20 span 20")
    data = header(a=entry(shape=[1], offsets=[8, 4])) + bytes(20)
    refuse(tmp_path, data, "tensor a: [1] of F32 takes 4 bytes, its offsets 8 to 4 span -4")


def test_overlaps_holes_and_surplus_bytes_are_refused(tmp_path: Path) -> None:
    data = header(a=entry(shape=[2], offsets=[0, 8]), b=entry(shape=[2], offsets=[4, 12])) + bytes(12)
    refuse(tmp_path, data, "tensor b: overlaps the one before it")
    data = header(a=entry(offsets=[0, 4]), b=entry(offsets=[8, 12])) + bytes(12)
    refuse(tmp_path, data, "4 bytes before tensor b belong to none")
    refuse(tmp_path, header(a=entry()) + bytes(9), "5 bytes at the end belong to no tensor")


def test_a_missing_shard_is_refused_by_name(tmp_path: Path) -> None:
    files = {INDEX: index(a="one.safetensors", b="two.safetensors"), "one.safetensors": safetensors([A])}
    path = folder(tmp_path, files)
    message = "the index names two.safetensors, which is missing"
    assert problems(path) == [(message, "download two.safetensors into this folder", str(path))]


def test_an_index_and_a_single_file_contradict_each_other(tmp_path: Path) -> None:
    files = {
        INDEX: index(a="one.safetensors"),
        "one.safetensors": safetensors([A]),
        "model.safetensors": safetensors([A]),
    }
    path = folder(tmp_path, files)
    message = "there is model.safetensors and also an index that names other files"
    assert problems(path) == [(message, "keep one of the two", str(path))]


def test_several_files_without_an_index_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, {"one.safetensors": safetensors([A]), "two.safetensors": safetensors([B])})
    message = f"2 safetensors files, but no {INDEX} that says which belong to the model"
    fix = f"download {INDEX} too, or keep one file named model.safetensors"
    assert problems(path) == [(message, fix, str(path))]


def test_index_and_shards_must_agree_in_both_directions(tmp_path: Path) -> None:
    files = {
        INDEX: index(a="one.safetensors", lost="one.safetensors", b="one.safetensors"),
        "one.safetensors": safetensors([A, C]),
        "two.safetensors": safetensors([B]),
    }
    path = folder(tmp_path, files)
    one = str(path / "one.safetensors")
    assert problems(path) == [
        ("tensor lost: the index says it is in one.safetensors, but it is not", CHECKPOINT_AGAIN, one),
        ("tensor b: the index says it is in one.safetensors, but it is not", CHECKPOINT_AGAIN, one),
        (f"tensor c: is not in {INDEX}", CHECKPOINT_AGAIN, one),
    ]


def test_a_tensor_in_another_shard_than_the_index_says_is_refused(tmp_path: Path) -> None:
    files = {
        INDEX: index(a="two.safetensors", b="two.safetensors", c="one.safetensors"),
        "one.safetensors": safetensors([A, C]),
        "two.safetensors": safetensors([B]),
    }
    path = folder(tmp_path, files)
    message = "tensor a: the index says it is in two.safetensors"
    assert problems(path) == [(message, CHECKPOINT_AGAIN, str(path / "one.safetensors"))]


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    files = {
        INDEX: index(a="one.safetensors", b="two.safetensors"),
        "one.safetensors": safetensors([A]),
        "two.safetensors": safetensors([A, B]),
    }
    path = folder(tmp_path, files)
    message = "tensor a: is also in one.safetensors"
    assert problems(path) == [(message, CHECKPOINT_AGAIN, str(path / "two.safetensors"))]


def test_all_damaged_shards_are_reported_at_once(tmp_path: Path) -> None:
    files = {
        INDEX: index(a="one.safetensors", b="two.safetensors"),
        "one.safetensors": safetensors([A])[:-1],
        "two.safetensors": safetensors([B])[:-1],
    }
    path = folder(tmp_path, files)
    assert [Path(file or "").name for _, _, file in problems(path)] == ["one.safetensors", "two.safetensors"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "the index is not JSON"),
        (b"[]", "the index has no weight_map"),
        (b'{"weight_map": {}}', "the index has no weight_map"),
        (b'{"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}}', "the index names a twice"),
        (
            index(a="../x.safetensors"),
            'tensor a: the index gives "../x.safetensors", not a safetensors file of this folder',
        ),
        (index(a="x.bin"), 'tensor a: the index gives "x.bin", not a safetensors file of this folder'),
    ],
)
def test_a_malformed_index_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = folder(tmp_path, {INDEX: data, "x.safetensors": safetensors([A])})
    assert problems(path) == [(message, CHECKPOINT_AGAIN, str(path / INDEX))]
