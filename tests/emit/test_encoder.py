"""The emitted tokenizer gives met's own ids, for every kind that it covers; what it does not cover is refused."""

import json
import unicodedata
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.decoders import ByteFallback, Decoder, Fuse, Metaspace, Replace, Strip
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import Sequence as Decoders
from tokenizers.models import BPE

from circuit.errors import LoadError
from circuit_exec.text.pattern_program import PatternError, Patterns, members
from circuit_exec.text.tables import Chat, encoder_rules
from circuit_exec.text.tokenizer import Tokenizer as Loaded
from circuit_exec.text.tokenizer import encode, encode_prompt
from tests.emit.encoder import compiled_encoder, encoded
from tests.fixtures.llama_cpp import texts
from tests.text.test_llama_cpp_ids import BYTE_LEVEL, PIECES, SMALL, _metadata
from tests.text.vocabularies import (
    from_folder,
    from_gguf,
    gguf_metadata,
    sentencepiece_metadata,
    split,
    trained,
    write_folder,
)

OFTEN = ("smollm", "llama-bpe")
ASKED = texts.texts(700) + texts.mixtures(300)
CHATML = Chat(before="<|im_start|>user\n", after="<|im_end|>\n<|im_start|>assistant\n", trims=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_encoder(tmp_path_factory.mktemp("encoder"))


def check(program: Path, tokenizer: Loaded, chat: Chat | None = None, asked: list[str] = ASKED) -> None:
    found = encoded(program, tokenizer, chat, asked)
    if chat is None:
        expected = [encode_prompt(tokenizer, text) for text in asked]
    else:
        messages = [text.strip() if chat.trims else text for text in asked]
        expected = [encode(tokenizer, chat.before + message + chat.after) for message in messages]
    wrong = [(a, e, f) for a, e, f in zip(asked, expected, found, strict=True) if e != f]
    assert not wrong, f"{len(wrong)} of {len(asked)} texts differ, first {wrong[0]!r}"


@pytest.mark.parametrize("pre", OFTEN)
def test_ids_of_bytes_equal_those_of_met(program: Path, pre: str) -> None:
    check(program, from_gguf(_metadata(SMALL["byte_level"] | {"tokenizer.ggml.pre": pre})))


@pytest.mark.slow
@pytest.mark.parametrize("pre", [pre for pre in BYTE_LEVEL if pre not in OFTEN])
def test_ids_of_every_pre_tokenizer_equal_those_of_met(program: Path, pre: str) -> None:
    tokenizer = from_gguf(_metadata(SMALL["byte_level"] | {"tokenizer.ggml.pre": pre}))
    check(program, tokenizer, asked=texts.texts(3000) + texts.mixtures(1000))


@pytest.mark.parametrize("name", PIECES)
def test_ids_of_scores_equal_those_of_met(program: Path, name: str) -> None:
    check(program, from_gguf(_metadata(SMALL["sentencepiece"][name])))


def test_a_score_that_two_tokens_share_prefers_the_left_one(program: Path) -> None:
    metadata = sentencepiece_metadata("ab", "bc", "cd", "abc", "\u2581a")
    scores = metadata["tokenizer.ggml.scores"]
    assert isinstance(scores, tuple)
    tokenizer = from_gguf(metadata | {"tokenizer.ggml.scores": (*scores[:259], -1.0, -1.0, -1.0, -2.0, -2.0)})
    check(program, tokenizer, asked=["abcd", "bcd abcabc", "aabbcc", "\x00\x7f", "é日本"])


@pytest.mark.parametrize("trims", [False, True])
def test_a_message_gets_the_texts_around_it(program: Path, trims: bool) -> None:
    tokenizer = from_gguf(gguf_metadata(trained(split(r"\s?\S+|\s+")), "gpt-2"))
    check(program, tokenizer, Chat(before=CHATML.before, after=CHATML.after, trims=trims))


def test_bytes_without_a_token_have_no_id_and_stop_merges(program: Path) -> None:
    metadata = gguf_metadata(trained(split(r"\S+|\s+")), "gpt-2")
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, tuple)
    gone = tuple("<none>" + str(place) if token in ("o", "Ð") else token for place, token in enumerate(tokens))
    merges = tuple(m for m in metadata["tokenizer.ggml.merges"] if not {"o", "Ð"} & set(str(m)))  # type: ignore[union-attr]
    whole = {token for merge in merges for token in (str(merge).replace(" ", ""), *str(merge).split(" "))}
    assert whole <= set(gone)
    check(program, from_gguf(metadata | {"tokenizer.ggml.tokens": gone, "tokenizer.ggml.merges": merges}))


CHARACTERS = [f"<0x{byte:02X}>" for byte in range(256)]


def by_characters(
    normalizer: normalizers.Normalizer | None, pre_tokenizer: pre_tokenizers.PreTokenizer | None, decoder: Decoder
) -> Tokenizer:
    """BPE over characters with byte fallback, as the folders of Llama 2 and Mistral have it."""
    letters = sorted({c for c in "▁ theandréo123日,.\n" if c != " "})
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("a", "n"), ("an", "d"), ("▁", "▁"), ("e", "▁"), ("1", "2")]
    tokens = ["<unk>", "<s>", "</s>", *CHARACTERS, *letters, *("".join(pair) for pair in merges)]
    vocab = {token: place for place, token in enumerate(tokens)}
    made = Tokenizer(BPE(vocab=vocab, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    if normalizer is not None:
        made.normalizer = normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    made.decoder = decoder
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in ("<s>", "</s>")])
    return made


def saved(folder: Path, made: Tokenizer) -> Loaded:
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}")
    return from_folder(folder)


LLAMA2 = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
FALLBACK = Decoders([Replace("▁", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)])
SPACED = ["the and", " the", "  the  and", "", "</s>the</s> and<s>", "naïve thé 日本", "▁the ▁▁", "12\n the"]


def test_characters_with_a_normalizer_give_the_ids_of_met(program: Path, tmp_path: Path) -> None:
    check(program, saved(tmp_path, by_characters(LLAMA2, None, FALLBACK)), asked=SPACED + ASKED)


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("splits", [True, False])
def test_characters_with_metaspace_give_the_ids_of_met(
    program: Path, tmp_path: Path, scheme: str, splits: bool
) -> None:
    step = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme, split=splits)
    decoder = Metaspace(replacement="▁", prepend_scheme=scheme, split=splits)
    check(program, saved(tmp_path, by_characters(None, step, decoder)), asked=SPACED + ASKED[:300])


QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def test_a_folder_with_patterns_and_normal_form_gives_the_ids_of_met(program: Path, tmp_path: Path) -> None:
    made = trained(split(QWEN))
    made.normalizer = normalizers.NFC()
    made.add_tokens([AddedToken("<tool>", normalized=True), AddedToken("<too", normalized=False)])
    write_folder(tmp_path, made, {})
    tokenizer = from_folder(tmp_path)
    unstable = encoder_rules(tokenizer).unstable
    asked = [*ASKED, "a<tool><too<<tool>", "it'\u017f IT'S"]
    taken = [text for text in asked if not any(low <= ord(c) <= high for c in text for low, high in unstable)]
    assert len(taken) > 500
    check(program, tokenizer, asked=taken)


def test_a_text_that_is_not_in_normal_form_is_refused_by_its_character(program: Path, tmp_path: Path) -> None:
    made = trained(split(QWEN))
    made.normalizer = normalizers.NFC()
    tokenizer = from_folder(write_folder(tmp_path, made, {}))
    with pytest.raises(AssertionError, match=r"has the character U\+0301, which this program does not normalize"):
        encoded(program, tokenizer, None, ["cafe\u0301"])


def test_a_folder_of_gpt_2_gives_the_ids_of_met(program: Path, tmp_path: Path) -> None:
    made = trained(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))
    check(program, from_folder(write_folder(tmp_path, made, {})))


def test_a_folder_with_runs_of_digits_gives_the_ids_of_met(program: Path, tmp_path: Path) -> None:
    steps = [pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split("=", "isolated")]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    check(program, from_folder(write_folder(tmp_path, trained(pre_tokenizers.Sequence(steps)), {})))


def refusal(folder: Path, made: Tokenizer, change: dict[str, object] | None = None) -> str:
    """What the user reads about a folder with this tokenizer; `change` replaces keys of its model."""
    write_folder(folder, made, {})
    path = folder / "tokenizer.json"
    found = json.loads(path.read_text())
    found["model"] |= change or {}
    path.write_text(json.dumps(found))
    with pytest.raises(LoadError) as caught:
        encoder_rules(from_folder(folder))
    (problem,) = caught.value.problems
    assert problem.fix == "emit with --ids-only, and give the program token ids with --ids"
    return problem.message.removeprefix("the emitted program has no rule for ")


def test_rules_that_the_program_does_not_have_are_named(tmp_path: Path) -> None:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    lower = trained(level)
    lower.normalizer = normalizers.Lowercase()
    assert refusal(tmp_path, lower) == 'normalizer {"type": "Lowercase"}'
    prefix = trained(pre_tokenizers.ByteLevel(add_prefix_space=True))
    assert refusal(tmp_path, prefix).startswith('pre_tokenizer {"type": "ByteLevel", "add_prefix_space": true')
    removed = trained(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\s"), "removed"), level]))
    assert refusal(tmp_path, removed).startswith('pre_tokenizer {"type": "Split"')
    late = trained(pre_tokenizers.Sequence([level, pre_tokenizers.Digits()]))
    assert refusal(tmp_path, late) == 'pre_tokenizer {"type": "Digits", "individual_digits": false}'
    after = trained(pre_tokenizers.Sequence([level, pre_tokenizers.Split(Regex("[xy]"), "isolated")]))
    assert refusal(tmp_path, after).startswith('pre_tokenizer {"type": "Split", "pattern": {"Regex": "[xy]"}')
    assert refusal(tmp_path, trained(split(r"a++"))) == "the pattern a++ has a repetition that ends in +"
    assert refusal(tmp_path, trained(level), {"dropout": 0.5}) == "model.dropout 0.5"
    no_bytes = trained(level)
    no_bytes.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s"), "isolated")
    assert refusal(tmp_path, no_bytes) == "model without byte_fallback, and without byte level"
    marked = trained(level)
    marked.normalizer = normalizers.Replace(" ", "▁")
    marked.add_tokens([AddedToken("<x>", normalized=True)])
    assert refusal(tmp_path, marked) == 'added token "<x>", which is normalized'
    stripped = trained(level)
    stripped.add_tokens([AddedToken("<y>", rstrip=True)])
    assert refusal(tmp_path, stripped) == 'added token "<y>" with rstrip'


def test_another_model_than_bpe_is_refused(tmp_path: Path) -> None:
    from tokenizers.models import WordLevel

    made = Tokenizer(WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    made.decoder = ByteLevelDecoder()
    assert refusal(tmp_path, made) == 'model "WordLevel"'


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("a*?", "a repetition that ends in ?"),
        ("(?=a)b", "the group (?=a"),
        ("(?!ab)c", "the lookahead (?!ab)"),
        ("^a", "the sign ^"),
        (r"\bx", r"the escape \b"),
        ("(a", "a group without an end"),
        ("[a", "a class without an end"),
        ("a)", ")"),
        ("a{x}", "the repetition {x}"),
        ("(a?)*", "a repetition of something that may be empty"),
    ],
)
def test_a_pattern_that_is_not_understood_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(PatternError) as caught:
        Patterns().add(pattern)
    assert str(caught.value) == f"the pattern {pattern} has {what}"


def test_classes_hold_what_the_engine_says() -> None:
    assert members(r"\s")[0] == (9, 13)
    assert members("(?i:s)") == ((83, 83), (115, 115), (383, 383))
    assert members(r"[^\p{L}]")[-1] == (0xE0200, 0x10FFFF)
    letters = [chr(code) for low, high in members(r"\p{L}") for code in (low, high)]
    assert all(unicodedata.category(letter) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Cn") for letter in letters)
