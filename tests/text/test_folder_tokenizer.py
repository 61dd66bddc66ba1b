"""The tokenizer of a folder gives what transformers gives; files that contradict each other are refused."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.decoders import BPEDecoder, ByteFallback, Decoder, Fuse, Metaspace, Replace, Strip
from tokenizers.decoders import Sequence as Decoders
from tokenizers.models import BPE
from tokenizers.processors import PostProcessor, TemplateProcessing
from transformers import AutoTokenizer

from circuit.errors import LoadError
from circuit_exec.text.stream import continue_text
from circuit_exec.text.tokenizer import decode, encode, encode_prompt
from tests.text.vocabularies import digit_splitter, folder_error, from_folder, trained, write_folder

TEXTS = [
    "Hello 2024!",
    "  two  spaces\n\n\ttab",
    "日本語 👍🏽",
    "<|im_start|>user\nhi<|im_end|>\n",
    "",
    " ",
    "12 foxes",
]
NAMED: dict[str, object] = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "tokenizer_class": "PreTrainedTokenizerFast",
}
BOS = TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])
BOTH = TemplateProcessing(single="<|im_start|> $A <|im_end|>", special_tokens=[("<|im_start|>", 1), ("<|im_end|>", 2)])


def written(folder: Path, post: PostProcessor | None, config: Mapping[str, object]) -> Path:
    backend = trained(digit_splitter())
    if post is not None:
        backend.post_processor = post
    return write_folder(folder, backend, {**NAMED, **config})


@pytest.mark.parametrize("post", [None, BOS], ids=["bare", "bos"])
@pytest.mark.parametrize("names_it", [True, False])
def test_ids_and_beginning_equal_those_of_transformers(
    tmp_path: Path, post: PostProcessor | None, names_it: bool
) -> None:
    folder = written(tmp_path, post, {"add_bos_token": post is not None} if names_it else {})
    ours, theirs = from_folder(folder), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert encode(ours, text) == theirs(text, add_special_tokens=False)["input_ids"]
        assert encode_prompt(ours, text) == theirs(text)["input_ids"]


def test_decoding_equals_that_of_transformers(tmp_path: Path) -> None:
    ours, theirs = from_folder(written(tmp_path, None, {})), AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        ids = encode(ours, text)
        assert decode(ours, ids) == theirs.decode(ids, skip_special_tokens=True)


def test_the_end_token_of_the_config_stops(tmp_path: Path) -> None:
    tokenizer = from_folder(written(tmp_path, None, {"eos_token": {"content": "<|endoftext|>", "lstrip": False}}))
    assert tokenizer.stop_ids == (0,)
    assert tokenizer.named == {"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"}


def test_a_folder_without_a_tokenizer_config_has_a_tokenizer_without_names(tmp_path: Path) -> None:
    written(tmp_path, BOS, {})
    (tmp_path / "tokenizer_config.json").unlink()
    tokenizer = from_folder(tmp_path)
    assert (tokenizer.named, tokenizer.stop_ids, tokenizer.template) == ({}, (), None)
    assert encode_prompt(tokenizer, "a")[0] == tokenizer.bos_id == 1


def test_truncation_and_padding_of_the_file_do_not_touch_a_prompt(tmp_path: Path) -> None:
    backend = trained(digit_splitter())
    backend.enable_truncation(2)
    backend.enable_padding(length=9)
    assert len(encode(from_folder(write_folder(tmp_path, backend, NAMED)), "1 2 3 4 5 6")) == 11


@pytest.mark.parametrize(
    ("decoder", "first", "second"),
    [
        (Decoders([Replace("\u2581", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)]), "ab é ", " ab é "),
        (Decoders([Replace("\u2581", " "), ByteFallback(), Fuse()]), " ab é ", " ab é "),
        (Metaspace(), "ab<0xC3><0xA9> ", " ab<0xC3><0xA9> "),
        (Metaspace(prepend_scheme="never"), " ab<0xC3><0xA9> ", " ab<0xC3><0xA9> "),
    ],
    ids=["llama", "no strip", "metaspace", "metaspace never"],
)
def test_decoders_of_sentencepiece_kind_equal_those_of_the_package(
    tmp_path: Path, decoder: Decoder, first: str, second: str
) -> None:
    backend = Backend(BPE({"\u2581ab": 0, "\u2581": 1, "<0xC3>": 2, "<0xA9>": 3}, [], byte_fallback=True))
    backend.decoder = decoder
    ids = [0, 1, 2, 3, 1] if "é" in first else [0, 2, 3, 1]
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = from_folder(tmp_path)
    assert decode(tokenizer, ids) == backend.decode(ids) == first
    stream = continue_text(tokenizer)
    assert "".join(stream.feed(id) for id in ids) == second


def test_a_template_is_taken_from_the_config_or_from_its_own_file(tmp_path: Path) -> None:
    template = from_folder(written(tmp_path, None, {"chat_template": "{{ 1 }}"})).template
    assert template is not None
    assert (template.text, template.file, template.key) == ("{{ 1 }}", "tokenizer_config.json", "chat_template")
    (tmp_path / "chat_template.jinja").write_text("{{ 1 }}")
    template = from_folder(tmp_path).template
    assert template is not None
    assert (template.text, template.file, template.key) == ("{{ 1 }}", "chat_template.jinja", None)


def test_of_several_templates_the_default_one_is_taken(tmp_path: Path) -> None:
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    template = from_folder(written(tmp_path, None, {"chat_template": several})).template
    assert template is not None
    assert template.text == "d"


def test_two_templates_that_differ_are_refused(tmp_path: Path) -> None:
    written(tmp_path, None, {"chat_template": "a"})
    (tmp_path / "chat_template.jinja").write_text("b")
    assert folder_error(tmp_path) == (
        "error: chat_template differs from chat_template.jinja\n"
        " --> tokenizer_config.json\n  = fix: remove one of the two"
    )


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    assert folder_error(tmp_path) == (
        "error: the folder has no tokenizer.json, so text cannot become tokens\n --> model\n"
        "  = fix: download tokenizer.json too, or write it with AutoTokenizer.from_pretrained(…).save_pretrained(…)"
    )


def test_a_damaged_tokenizer_is_refused(tmp_path: Path) -> None:
    written(tmp_path, None, {})
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    assert folder_error(tmp_path).startswith("error: the tokenizers package cannot read the file: ")
    assert folder_error(tmp_path).endswith("\n --> tokenizer.json\n  = fix: download it again")


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "the file is not JSON: expecting property name"), ("[]", "the file is not a JSON object")],
)
def test_a_damaged_config_is_refused(tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, None, {})
    (tmp_path / "tokenizer_config.json").write_text(text)
    assert folder_error(tmp_path).startswith(f"error: {message}")
    assert folder_error(tmp_path).endswith("\n --> tokenizer_config.json\n  = fix: download it again")


@pytest.mark.parametrize(
    ("config", "message", "fix"),
    [
        ({"add_bos_token": "yes"}, "add_bos_token is not true or false", "write it as a bool"),
        ({"bos_token": 3}, "bos_token is not a token's text", "write it as a string"),
        (
            {"eos_token": "<eos>"},
            'eos_token is "<eos>", which is not a token of tokenizer.json',
            "correct eos_token, or download both files again",
        ),
        ({"chat_template": 3}, "chat_template is not a template's text", "write it as a string"),
        (
            {"chat_template": [{"name": "rag", "template": ""}]},
            "chat_template has no template named default, only rag",
            "name the one to use default",
        ),
        ({"added_tokens_decoder": []}, "added_tokens_decoder is not an object", "download the file again"),
        (
            {"added_tokens_decoder": {"2": {"content": "<eos>"}}},
            'added_tokens_decoder: token 2 is "<eos>", but tokenizer.json says "<|im_end|>"',
            "download both files again, or correct tokenizer_config.json",
        ),
    ],
)
def test_a_config_that_contradicts_is_refused(
    tmp_path: Path, config: dict[str, object], message: str, fix: str
) -> None:
    got = folder_error(written(tmp_path, None, config))
    assert got.startswith(f"error: {message}"), got
    assert f"\n --> tokenizer_config.json\n  = fix: {fix}" in got, got


def plain_error(folder: Path) -> str:
    tokenizer = from_folder(folder)
    assert encode(tokenizer, "1") == encode(from_folder(folder), "1")
    with pytest.raises(LoadError) as caught:
        encode_prompt(tokenizer, "1")
    return str(caught.value)


def test_a_post_processor_that_ends_the_text_is_refused_for_plain_text(tmp_path: Path) -> None:
    assert plain_error(written(tmp_path, BOTH, {})) == (
        "error: post_processor: puts <|im_start|> <|im_end|> around a text, which is not its beginning alone\n"
        " --> tokenizer.json\n  = fix: correct the post_processor, or use the chat template"
    )


@pytest.mark.parametrize(
    ("post", "name", "said", "does"),
    [
        (BOS, "add_bos_token", "false", "true"),
        (None, "add_bos_token", "true", "false"),
        (None, "add_eos_token", "true", "false"),
    ],
)
def test_a_config_and_a_post_processor_that_differ_are_refused_for_plain_text(
    tmp_path: Path, post: PostProcessor | None, name: str, said: str, does: str
) -> None:
    assert plain_error(written(tmp_path, post, {name: said == "true"})) == (
        f"error: {name} is {said}, but the post_processor of tokenizer.json does the opposite\n"
        " --> tokenizer_config.json\n"
        f"  = fix: set {name} to {does}, correct the post_processor, or use the chat template"
    )


def test_an_unknown_decoder_is_refused(tmp_path: Path) -> None:
    backend = trained(digit_splitter())
    backend.decoder = BPEDecoder()
    assert folder_error(write_folder(tmp_path, backend, NAMED)) == (
        'error: decoder: {"type": "BPEDecoder", "suffix": "</w>"} is unknown, so tokens cannot become text\n'
        " --> tokenizer.json\n"
        "  = fix: use a model whose decoder is ByteLevel, Metaspace, or Replace + ByteFallback + Fuse"
    )


def test_the_added_tokens_of_both_files_may_agree(tmp_path: Path) -> None:
    table = {"2": {"content": "<|im_end|>"}}
    assert from_folder(written(tmp_path, None, {"added_tokens_decoder": table})).stop_ids == (2,)
    assert "added_tokens_decoder" in json.loads((tmp_path / "tokenizer_config.json").read_text())
