"""Wrong input through the console entry: exit code 2, message with place and fix, no traceback, nothing left behind."""

from pathlib import Path

import pytest

from tests.cli.harness import leftovers, met, refused, unfinished
from tests.models import random_tensors, tiny_config, write_checkpoint, write_config, write_gguf, write_safetensors

A_MODEL = "give a directory that has config.json and *.safetensors, a .gguf file, or a config.json"
AGAIN = "download the file again; it is truncated or damaged"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "model", tiny_config("llama"))


def line_of(path: Path, text: str) -> int:
    """The line of the first occurrence, from 1."""
    return path.read_text(encoding="utf-8").partition(text)[0].count("\n") + 1


def test_an_unknown_key_is_refused_by_file_line_and_name(tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_config("llama", hidden_sise=64))
    refused(
        met("circuit", "map", "config.json", home=tmp_path),
        message="unknown key `hidden_sise` for model type llama",
        at=f"config.json:{line_of(config, 'hidden_sise')}",
        fix="remove it if it changes nothing, or classify it in kernels/circuits/dense_gqa.config.toml",
    )


def test_a_duplicate_key_is_refused_with_both_lines(tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_config("llama"))
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('"hidden_size": 64,', '"hidden_size": 64,\n  "hidden_size": 48,'), encoding="utf-8")
    first = line_of(config, "hidden_size")
    refused(
        met("circuit", "map", "config.json", home=tmp_path),
        message=f"key `hidden_size` is written twice, first on line {first}",
        at=f"config.json:{first + 1}",
        fix="remove one of the two `hidden_size`",
    )


def test_an_unknown_architecture_lists_what_exists(tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_config("llama") | {"model_type": "mamba"})
    refused(
        met("circuit", "show", "config.json", home=tmp_path),
        message='`model_type` is "mamba", which has no circuit',
        at=f"config.json:{line_of(config, 'model_type')}",
        fix="use a checkpoint with one of: llama, mistral, qwen2, qwen3",
    )


def test_a_directory_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(
        met("run", "empty", "hello", home=tmp_path),
        message="the directory is no model: looked for config.json and *.safetensors",
        at="empty",
        fix=A_MODEL,
    )


def test_a_name_that_is_nothing_is_refused(tmp_path: Path) -> None:
    refused(
        met("run", "nothing", "hello", home=tmp_path),
        message="there is no such file, directory or fetched model: nothing",
        fix="give a path, or a name to fetch: smollm2",
    )


def test_a_known_model_that_is_not_fetched_says_how_to_fetch_it(tmp_path: Path) -> None:
    refused(
        met("run", "smollm2", "hello", home=tmp_path),
        message="the model is not fetched yet: smollm2",
        fix="run `met fetch smollm2`",
    )


def test_a_truncated_safetensors_file_is_refused(model: Path, tmp_path: Path) -> None:
    file = model / "model.safetensors"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-100])
    refused(
        met("run", model, "hello", home=tmp_path),
        message=f"tensor lm_head.weight: ends at byte {size}, the file has {size - 100}",
        at=str(file),
        fix=AGAIN,
    )


def test_a_truncated_gguf_file_is_refused(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", tiny_config("llama"))
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-100])
    refused(
        met("run", "model.gguf", "hello", home=tmp_path),
        message=f"tensor output.weight: ends at byte {size}, the file has {size - 100}",
        at="model.gguf",
        fix=AGAIN,
    )


def test_a_gguf_file_cut_in_its_header_is_refused(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", tiny_config("llama"))
    file.write_bytes(file.read_bytes()[:500])
    refused(
        met("circuit", "show", "model.gguf", home=tmp_path),
        message="21 tensors and 21 keys cannot fit into 500 bytes",
        at="model.gguf",
        fix=AGAIN,
    )


def test_all_problems_of_a_config_come_at_once(tmp_path: Path) -> None:
    write_config(tmp_path, tiny_config("llama", hidden_sise=64, num_hidden_layer=2))
    ran = met("circuit", "map", "config.json", home=tmp_path)
    assert ran.code == 2
    assert ran.err.count("error: unknown key") == 2


def test_a_missing_tensor_is_refused_by_name_and_by_what_reads_it(model: Path, tmp_path: Path) -> None:
    tensors = random_tensors(tiny_config("llama"))
    del tensors["model.layers.1.mlp.up_proj.weight"]
    write_safetensors(model / "model.safetensors", tensors)
    refused(
        met("run", "model", "hello", home=tmp_path),
        message="tensor `model.layers.1.mlp.up_proj.weight` is missing; l1.mlp.up reads it",
        fix="use a complete checkpoint",
    )
    assert unfinished(tmp_path / "cache") == []


def test_a_surplus_tensor_is_refused_by_name(model: Path, tmp_path: Path) -> None:
    tensors = random_tensors(tiny_config("llama"))
    tensors["model.layers.1.mlp.extra.weight"] = tensors["model.norm.weight"]
    write_safetensors(model / "model.safetensors", tensors)
    refused(
        met("circuit", "show", "model", home=tmp_path),
        message="tensor `model.layers.1.mlp.extra.weight` is read by no node",
        fix="classify it in kernels/circuits/dense_gqa.config.toml, or remove it",
    )


def test_a_wrong_shape_is_refused_with_the_key_that_contradicts_it(model: Path, tmp_path: Path) -> None:
    tensors = random_tensors(tiny_config("llama"))
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:63]
    write_safetensors(model / "model.safetensors", tensors)
    refused(
        met("run", "model", "hello", home=tmp_path),
        message="tensor `model.norm.weight` is 63; the config asks for 64 = dim (hidden_size = 64)",
        fix="correct the config, or use the checkpoint that belongs to it",
    )


def test_a_bare_config_has_no_weights_to_run(tmp_path: Path) -> None:
    write_config(tmp_path, tiny_config("llama"))
    ran = met("run", "config.json", "hello", home=tmp_path)
    refused(
        ran,
        message="this checkpoint has a config.json but no weights, so it can be planned but not run",
        at="config.json",
    )
    assert leftovers(tmp_path) == ["config.json"]
