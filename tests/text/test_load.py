"""The tokenizer of an opened checkpoint, from either kind of file, and the union of its stop ids."""

import json
from pathlib import Path

import pytest

from circuit.errors import LoadError
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.text.chat import Message, render_chat, require_template
from circuit_exec.text.load import all_stop_ids, load_tokenizer
from circuit_exec.text.tokenizer import decode, encode
from tests.models import tiny_config, write_checkpoint, write_gguf

END = 274


def folder_with(path: Path, **files: object) -> Path:
    write_checkpoint(path, tiny_config("llama"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return path


def stops(path: Path) -> tuple[int, ...]:
    checkpoint = open_checkpoint(str(path))
    return all_stop_ids(checkpoint, load_tokenizer(checkpoint))


def test_a_gguf_file_and_a_folder_give_the_same_ids_and_chat(tmp_path: Path) -> None:
    folder = load_tokenizer(open_checkpoint(str(write_checkpoint(tmp_path / "m", tiny_config("llama")))))
    file = load_tokenizer(open_checkpoint(str(write_gguf(tmp_path / "m.gguf", tiny_config("llama")))))
    chat = [Message(role="user", content="the weather in 2024 is\n\n fine 👍🏽")]
    texts = [render_chat(require_template(t.template, t.file), t.named, chat, None) for t in (folder, file)]
    assert texts[0] == texts[1]
    assert texts[0].endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert encode(folder, texts[0]) == encode(file, texts[0])
    assert decode(folder, encode(folder, texts[0])) == decode(file, encode(file, texts[0]))


def test_stop_ids_come_from_the_tokenizer_the_config_and_the_generation_config(tmp_path: Path) -> None:
    config = tiny_config("llama", eos_token_id=[7, END])
    assert stops(folder_with(tmp_path, generation_config={"eos_token_id": [9, 8]}, config=config)) == (7, 8, 9, END)


def test_a_gguf_file_stops_at_its_own_ids(tmp_path: Path) -> None:
    assert stops(write_gguf(tmp_path / "m.gguf", tiny_config("llama"))) == (END,)


def test_a_checkpoint_that_never_stops_is_refused(tmp_path: Path) -> None:
    config = {key: value for key, value in tiny_config("llama").items() if key != "eos_token_id"}
    folder = folder_with(tmp_path, config=config, tokenizer_config={"bos_token": "<|endoftext|>"})
    with pytest.raises(LoadError) as caught:
        stops(folder)
    assert str(caught.value) == (
        "error: no file names a token that ends the text, so the model would never stop\n"
        f" --> {folder / 'tokenizer.json'}\n"
        "  = fix: add eos_token_id to the model's generation_config.json, or to its metadata"
    )


@pytest.mark.parametrize("value", ["<eos>", -1, [1, True], {"a": 1}])
def test_stop_ids_that_are_no_ids_are_refused(tmp_path: Path, value: object) -> None:
    folder = folder_with(tmp_path, generation_config={"eos_token_id": value})
    with pytest.raises(LoadError) as caught:
        stops(folder)
    assert str(caught.value) == (
        f"error: eos_token_id is {json.dumps(value)}, not a token id or a list of them\n"
        f" --> {folder / 'generation_config.json'}\n  = fix: write the ids as integers"
    )
