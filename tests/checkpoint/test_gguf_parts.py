"""A model in several GGUF files: what it gives, and what is said of parts that are missing or do not fit."""

from pathlib import Path

import numpy as np
import pytest

from circuit.errors import LoadError
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.content_hash import content_hash
from circuit_exec.checkpoint.open import metadata_value, open_checkpoint
from circuit_exec.checkpoint.raw import raw
from circuit_exec.checkpoint.texts import checkpoint_texts
from circuit_exec.library import library
from circuit_exec.model import load_model
from circuit_exec.planned import planning_key
from tests import models
from tests.bytes.running import assert_equal_bytes, prefilled, tokens
from tests.checkpoint.files import GgufTensor, gguf, key

AGAIN = "download the file again; it is truncated or damaged"
TOGETHER = "use parts that were written together, or merge the parts with `llama-gguf-split --merge`"
NAME = key("general.name", "string", "tiny")


def values(name: str, first: int = 0) -> GgufTensor:
    data = np.arange(first, first + 8, dtype="<f4").tobytes()
    return GgufTensor(name=name, type=0, shape=(8,), data=data)


def part(no: int, count: int, n_tensors: int, *tensors: GgufTensor, keys: tuple[bytes, ...] = ()) -> bytes:
    of_split = (
        key("split.no", "u16", no),
        key("split.count", "u16", count),
        key("split.tensors.count", "i32", n_tensors),
    )
    return gguf([*keys, *of_split], tensors)


def written(folder: Path, *parts: bytes) -> list[str]:
    """The parts under the names that gguf-split gives them."""
    paths = []
    for at, data in enumerate(parts):
        path = folder / f"m-{at + 1:05}-of-{len(parts):05}.gguf"
        path.write_bytes(data)
        paths.append(str(path))
    return paths


def check(path: str, *expected: tuple[str, str, str]) -> None:
    """The problems: message, fix, file."""
    with pytest.raises(LoadError) as caught:
        open_checkpoint(path)
    assert [(p.message, p.fix, p.file) for p in caught.value.problems] == list(expected)


def test_the_parts_are_one_checkpoint_under_the_name_of_the_first(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        part(0, 3, 3, keys=(NAME,)),  # gguf-split --no-tensor-first-split
        part(1, 3, 3, values("a"), values("b", 10)),
        part(2, 3, 3, values("c", 20)),
    )
    found = open_checkpoint(paths[0])
    assert (found.path, found.kind, list(found.files)) == (paths[0], "gguf", paths)
    assert metadata_value(found, "general.name") == "tiny"
    assert [(name, stored.file) for name, stored in found.tensors.items()] == [
        ("a", paths[1]),
        ("b", paths[1]),
        ("c", paths[2]),
    ]
    for name, first in (("a", 0), ("b", 10), ("c", 20)):
        assert raw(found, name).view("<f4").tolist() == list(range(first, first + 8))


def test_a_file_of_one_part_is_a_whole_model(tmp_path: Path) -> None:
    path = tmp_path / "renamed.gguf"
    path.write_bytes(part(0, 1, 1, values("a")))
    assert list(open_checkpoint(str(path)).tensors) == ["a"]


def test_parts_that_the_gguf_package_wrote_are_read(tmp_path: Path) -> None:
    oracle = pytest.importorskip("gguf")
    writer = oracle.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=2)
    writer.add_string("general.name", "tiny")
    arrays = {f"t{i}": np.arange(i, i + 64, dtype=np.float32).reshape(2, 32) for i in range(5)}
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"m-{at + 1:05}-of-00003.gguf" for at in range(3)]
    found = open_checkpoint(str(tmp_path / names[0]))
    assert list(found.tensors) == list(arrays)
    for name, array in arrays.items():
        assert np.array_equal(raw(found, name).view("<f4").reshape(2, 32), array)


def test_a_later_part_names_the_first(tmp_path: Path) -> None:
    paths = written(tmp_path, part(0, 2, 2, values("a")), part(1, 2, 2, values("b")))
    check(paths[1], ("the file is part 2 of 2 of a model", f"give the first part, {paths[0]}", paths[1]))


def test_a_part_under_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(part(0, 3, 2, values("a")))
    message = "the file is one of 3 parts of a model, but its name does not end in -00001-of-00003.gguf"
    check(
        str(path),
        (message, "give every part its name back, or merge the parts with `llama-gguf-split --merge`", str(path)),
    )


@pytest.mark.parametrize(
    ("gone", "said"), [((1,), "m-00002-of-00004.gguf"), ((2, 3), "m-00003-of-00004.gguf and 1 more")]
)
def test_missing_parts_are_named(tmp_path: Path, gone: tuple[int, ...], said: str) -> None:
    paths = written(tmp_path, *(part(at, 4, 4, values(f"t{at}")) for at in range(4)))
    for at in gone:
        Path(paths[at]).unlink()
    fix = "download it too, or merge the parts with `llama-gguf-split --merge`"
    check(paths[0], (f"{said} of the 4 parts of the model is missing", fix, paths[0]))


def test_parts_that_do_not_fit_each_other_are_refused_all_at_once(tmp_path: Path) -> None:
    other_name = key("general.name", "string", "another")
    paths = written(
        tmp_path,
        part(0, 3, 3, values("a"), keys=(NAME,)),
        part(2, 3, 3, values("a"), keys=(NAME,)),
        part(2, 3, 3, values("c"), keys=(other_name,)),
    )
    check(
        paths[0],
        ("the file says that it is part 3 of 3, its name says part 2 of 3", AGAIN, paths[1]),
        ("tensor a: is also in m-00001-of-00003.gguf", AGAIN, paths[1]),
        ("key general.name: is not what the first part says, which has the metadata of all", TOGETHER, paths[2]),
    )


def test_a_tensor_too_few_is_refused(tmp_path: Path) -> None:
    paths = written(tmp_path, part(0, 2, 3, values("a")), part(1, 2, 3, values("b")))
    check(paths[0], ("the parts have 2 tensors, split.tensors.count says 3", AGAIN, paths[0]))


def test_a_part_that_does_not_say_what_it_is_is_refused(tmp_path: Path) -> None:
    paths = written(tmp_path, part(0, 2, 2, values("a")), gguf([], [values("b")]))
    check(paths[0], ("key split.no: is missing", TOGETHER, paths[1]))
    Path(paths[0]).write_bytes(gguf([key("split.count", "string", "two")]))
    check(paths[0], ("key split.count: is 'two', no count", TOGETHER, paths[0]))


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    paths = written(tmp_path, part(0, 2, 2, values("a")), part(1, 2, 2, values("b"))[:-8])
    with pytest.raises(LoadError) as caught:
        open_checkpoint(paths[0])
    assert [problem.file for problem in caught.value.problems] == [paths[1]]


def in_parts(whole: Path, folder: Path, n_parts: int) -> str:
    """The model of one file, its tensors dealt to several parts; gives the first."""
    found = open_checkpoint(str(whole))
    start = whole.read_bytes()
    reader = pytest.importorskip("gguf").GGUFReader(str(whole))
    keys = [
        bytes(b"".join(part.tobytes() for part in field.parts))
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
    ]
    assert all(entry in start for entry in keys)
    dealt: list[list[GgufTensor]] = [[] for _ in range(n_parts)]
    for at, (name, stored) in enumerate(found.tensors.items()):
        assert stored.format == "f32"
        tensor = GgufTensor(name=name, type=0, shape=stored.shape, data=raw(found, name).tobytes())
        dealt[at * n_parts // len(found.tensors)].append(tensor)
    n_tensors = len(found.tensors)
    folder.mkdir()
    parts = (part(at, n_parts, n_tensors, *own, keys=tuple(keys) if at == 0 else ()) for at, own in enumerate(dealt))
    return written(folder, *parts)[0]


def test_a_model_in_parts_says_the_same_to_the_compiler(tmp_path: Path) -> None:
    whole = models.write_gguf(tmp_path / "whole.gguf", models.tiny_config("llama"))
    one, parts = open_checkpoint(str(whole)), open_checkpoint(in_parts(whole, tmp_path / "parts", 3))
    texts = checkpoint_texts(one), checkpoint_texts(parts)
    assert texts[0].tensors == texts[1].tensors
    cache = Cache(root=tmp_path / "cache")
    assert content_hash(one, cache, lambda n: None) != content_hash(parts, cache, lambda n: None)
    assert len(parts.files) == 3


def test_the_planning_key_covers_the_metadata_of_the_first_part(tmp_path: Path) -> None:
    keys = []
    for name in ("tiny", "another"):
        (tmp_path / name).mkdir()
        paths = written(
            tmp_path / name,
            part(0, 2, 1, keys=(key("general.name", "string", name),)),
            part(1, 2, 1, values("a")),
        )
        keys.append(planning_key(open_checkpoint(paths[0]), library(), (), "all", "cpu"))
    assert keys[0] != keys[1]


@pytest.mark.slow
def test_a_model_in_parts_gives_the_bytes_of_the_model_in_one_file(tmp_path: Path) -> None:
    whole = models.write_gguf(tmp_path / "whole.gguf", models.tiny_config("llama"))
    cache = Cache(root=tmp_path / "cache")
    found = []
    for path in (str(whole), in_parts(whole, tmp_path / "parts", 3)):
        model = load_model(path, cache, 2, "all", (), lambda what, part: None)
        ids = tokens(model, 1, 24)
        found.append(prefilled(model, ids, 24))
        model.close()
    assert_equal_bytes(*found)
