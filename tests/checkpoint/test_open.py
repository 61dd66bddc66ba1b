"""What is said of paths that are no model, and of files that cannot be read."""

from pathlib import Path

import pytest

from circuit.errors import LoadError, RunError
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.records import require_weights
from tests.checkpoint.files import Tensor, folder, gguf, safetensors

A_MODEL = "give a directory that has config.json and *.safetensors, a .gguf file, or a config.json"


def refuse(path: Path, message: str, fix: str) -> None:
    with pytest.raises(LoadError) as caught:
        open_checkpoint(str(path))
    assert [(p.message, p.fix, p.file) for p in caught.value.problems] == [(message, fix, str(path))]


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path / "none", "there is no such file or directory", A_MODEL)


def test_a_directory_that_is_no_model_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    refuse(tmp_path, "the directory is no model: looked for config.json and *.safetensors", A_MODEL)


def test_a_directory_with_a_gguf_file_points_to_it(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf())
    message = "the directory is no model: looked for config.json and *.safetensors; it has m.gguf"
    refuse(tmp_path, message, f"give the file, {tmp_path / 'm.gguf'}")


def test_a_weight_file_alone_points_to_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors([Tensor(name="a", dtype="F32", shape=(1,), data=bytes(4))]))
    refuse(path, "a weight file alone does not say which model it is", f"give its folder, {tmp_path}")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    refuse(path, "the file is no model: not GGUF and not a config.json", A_MODEL)


def test_a_gguf_file_is_known_by_its_first_bytes_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "0123abcd"
    path.write_bytes(gguf())
    assert open_checkpoint(str(path)).kind == "gguf"


def test_a_config_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a": "\xff"}')
    refuse(path, "the file is not UTF-8 text (byte 7)", "save it as UTF-8, or download it again")


def test_a_config_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.mkdir()
    with pytest.raises(LoadError) as caught:
        open_checkpoint(str(tmp_path))
    (problem,) = caught.value.problems
    assert problem.message == "the file cannot be read: is a directory"
    assert problem.fix == "check the path and its permissions"
    assert problem.file == str(path)


def test_a_checkpoint_without_weights_can_be_planned_but_not_run(tmp_path: Path) -> None:
    path = folder(tmp_path, {})
    with pytest.raises(RunError) as caught:
        require_weights(open_checkpoint(str(path)))
    assert str(caught.value) == (
        "error: this checkpoint has a config.json but no weights, so it can be planned but not run\n"
        f" --> {path}\n"
        "  = fix: give a directory that has config.json and *.safetensors, or a .gguf file"
    )
