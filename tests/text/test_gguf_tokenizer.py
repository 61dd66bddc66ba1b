"""A vocabulary in GGUF form gives the ids of the tokenizer it came from; what is not understood is refused by key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer

from circuit.errors import LoadError, RunError
from circuit_exec.text.gguf_keys import Value
from circuit_exec.text.tokenizer import decode, encode, encode_prompt, piece_of, stop_ids
from tests.text.vocabularies import (
    CONTROLS,
    Metadata,
    digit_splitter,
    from_gguf,
    gguf_error,
    gguf_metadata,
    sentencepiece_metadata,
    split,
    trained,
)

SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
QWEN2 = LLAMA3.replace("{1,3}", "")
PUBLISHED: dict[str, PreTokenizer] = {
    "smollm": digit_splitter(),
    "gpt-2": ByteLevel(add_prefix_space=False, use_regex=True),
    "smaug-bpe": split(LLAMA3),
    "qwen2": split(QWEN2),
}
ORIGINALS = {pre: trained(pre_tokenizer) for pre, pre_tokenizer in PUBLISHED.items()}
LOADED = {pre: from_gguf(gguf_metadata(original, pre)) for pre, original in ORIGINALS.items()}
for original in ORIGINALS.values():
    original.add_special_tokens([AddedToken(token, normalized=False) for token in CONTROLS])

PLAIN = gguf_metadata(ORIGINALS["smollm"], "smollm")
TEXTS = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(
            ["12", "2024", "  ", "\n\n", "\r\n", "\t", " \n", "it's", "THEY'LL", "日本語", "👍🏽", *CONTROLS]
        ),
    ),
    max_size=8,
).map(lambda parts: "".join(parts).replace("\u017f", "s"))  # (?i:'s) takes a long s too, llama.cpp does not
SPM = sentencepiece_metadata("\u2581", "a", "b", "ab", "\u2581ab", "c", "aa", "aaa")


@pytest.mark.parametrize("pre", PUBLISHED)
@given(text=TEXTS)
def test_ids_equal_those_of_the_tokenizer_that_was_converted(pre: str, text: str) -> None:
    assert encode(LOADED[pre], text) == ORIGINALS[pre].encode(text, add_special_tokens=False).ids


@given(text=TEXTS)
def test_decoding_gives_the_text_back_without_its_control_tokens(text: str) -> None:
    bare = text
    for control in CONTROLS:
        bare = bare.replace(control, "")
    assert decode(LOADED["smollm"], encode(LOADED["smollm"], text)) == bare


def test_each_digit_is_a_token_for_smollm() -> None:
    ids = encode(LOADED["smollm"], "123")
    assert [piece_of(LOADED["smollm"], id) for id in ids] == [b"1", b"2", b"3"]
    assert len(encode(LOADED["gpt-2"], "123")) < 3


def test_control_tokens_are_matched_before_anything_is_split() -> None:
    assert encode(LOADED["qwen2"], "<|im_start|><|im_end|>") == [1, 2]
    assert encode(LOADED["qwen2"], " <|im_end|>\n")[1] == 2


def test_a_byte_without_a_token_vanishes_and_its_neighbours_stay_apart() -> None:
    tokens = list(_tuple(PLAIN, "tokenizer.ggml.tokens"))
    tokens[tokens.index("Ą")] = "!!"  # the character of byte 4
    tokenizer = from_gguf(PLAIN | {"tokenizer.ggml.tokens": tuple(tokens), "tokenizer.ggml.merges": ("! !",)})
    assert [piece_of(tokenizer, id) for id in encode(tokenizer, "!!")] == [b"!!"]
    assert [piece_of(tokenizer, id) for id in encode(tokenizer, "!\x04!")] == [b"!", b"!"]


def test_a_control_token_has_no_text() -> None:
    assert [piece_of(LOADED["smollm"], id) for id in range(3)] == [b"", b"", b""]


def test_a_user_defined_token_is_matched_and_has_its_text() -> None:
    types = (3, 4, 3, *(1,) * (len(_tuple(PLAIN, "tokenizer.ggml.tokens")) - 3))
    tokenizer = from_gguf(PLAIN | {"tokenizer.ggml.token_type": types})
    assert encode(tokenizer, "a<|im_start|>")[-1] == 1
    assert decode(tokenizer, [1]) == "<|im_start|>"


def test_an_id_beyond_the_vocabulary_shows_as_a_replacement_character() -> None:
    assert decode(LOADED["smollm"], [400]) == "\N{REPLACEMENT CHARACTER}"


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(RunError) as caught:
        encode(LOADED["smollm"], "ab\ud800")
    assert str(caught.value) == (
        "error: the text is not Unicode: character 2 is half of a surrogate pair\n  = fix: give the text as UTF-8"
    )


@pytest.mark.parametrize(
    ("pre", "said", "adds"),
    [("smollm", None, False), ("llama-bpe", None, True), ("llama-bpe", False, False), ("qwen2", True, True)],
)
def test_a_prompt_begins_with_bos_where_the_key_or_the_pre_tokenizer_says_so(
    pre: str, said: bool | None, adds: bool
) -> None:
    added: Metadata = {} if said is None else {"tokenizer.ggml.add_bos_token": said}
    tokenizer = from_gguf(PLAIN | {"tokenizer.ggml.pre": pre} | added)
    assert encode_prompt(tokenizer, "a") == [1] * adds + encode(tokenizer, "a")
    assert 1 not in encode(tokenizer, "a")


def test_stop_ids_are_the_union_of_end_of_text_turn_and_message() -> None:
    tokenizer = from_gguf(PLAIN | {"tokenizer.ggml.eot_token_id": 0, "tokenizer.ggml.eom_token_id": 1})
    assert tokenizer.stop_ids == (0, 1, 2)
    assert stop_ids(from_gguf(PLAIN), [7, 2, 5]) == (2, 5, 7)


def test_named_tokens_are_there_for_templates() -> None:
    assert from_gguf(PLAIN | {"tokenizer.ggml.unknown_token_id": 0}).named == {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
    }


def test_sentencepiece_merges_the_highest_score_and_falls_back_to_bytes() -> None:
    tokenizer = from_gguf(SPM)
    tokens = _tuple(SPM, "tokenizer.ggml.tokens")
    assert [tokens[id] for id in encode(tokenizer, "ab é")] == ["\u2581ab", "\u2581", "<0xC3>", "<0xA9>"]
    assert [tokens[id] for id in encode(tokenizer, "</s>ab")] == ["</s>", "\u2581ab"]


def test_sentencepiece_text_comes_back_without_the_space_that_was_put_in_front() -> None:
    tokenizer = from_gguf(SPM)
    assert decode(tokenizer, encode(tokenizer, "ab  c é")) == "ab  c é"
    assert encode_prompt(tokenizer, "ab")[0] == 1


def test_sentencepiece_keeps_a_text_as_it_is_where_no_space_is_put_in_front() -> None:
    tokenizer = from_gguf(SPM | {"tokenizer.ggml.add_space_prefix": False})
    assert decode(tokenizer, encode(tokenizer, " ab")) == " ab"


Change = Value | tuple[Value, ...] | None


@pytest.mark.parametrize(
    ("base", "key", "value", "message", "fix"),
    [
        (PLAIN, "model", None, " is missing", "convert the model again, with its tokenizer"),
        (PLAIN, "model", "rwkv", ': is "rwkv"; known are gpt2, llama', "use a model with one of these tokenizers"),
        (PLAIN, "model", 3, ": is not a string", "convert the model again"),
        (
            PLAIN,
            "pre",
            None,
            " is missing, so how digits and spaces are split is unknown",
            "convert the model again, or add tokenizer.ggml.pre with gguf-new-metadata",
        ),
        (PLAIN, "pre", "smolm", ': is "smolm"; known are a.x-4.0, bailingmoe,', "use a model with one of these, or"),
        (
            PLAIN,
            "pre",
            "kimi-k2",
            ': is "kimi-k2"; known are a.x-4.0, bailingmoe,',
            "use a model with one of these, or",
        ),
        (PLAIN, "tokens", None, " is missing", "convert the model again, with its tokenizer"),
        (PLAIN, "tokens", "a", ": is not an array", "convert the model again"),
        (PLAIN, "tokens", (1, 2), ": is not an array of strings", "convert the model again"),
        (PLAIN, "token_type", (1, 3), ": has 2 elements, but there are 400 tokens", "convert the model again"),
        (PLAIN, "token_type", ("a",), ": is not an array of integers", "convert the model again"),
        (PLAIN, "merges", None, " is missing", "convert the model again, with its tokenizer"),
        (PLAIN, "merges", ("ab",), ': "ab" is not two tokens', "convert the model again"),
        (
            PLAIN,
            "merges",
            ("q é",),
            ": does not fit tokenizer.ggml.tokens: Error while initializing BPE: Token `qé` out of",
            "convert the model again",
        ),
        (PLAIN, "bos_token_id", 400, ": is 400, but the vocabulary has 400 tokens", "convert the model again"),
        (PLAIN, "eos_token_id", "x", ": is not an integer", "convert the model again"),
        (
            PLAIN,
            "eos_token_id",
            7,
            ': names token 7, "%", but tokenizer.ggml.token_type says it is ordinary text',
            "convert the model again; its type should be 3, control",
        ),
        (PLAIN, "add_bos_token", 1, ": is not a bool", "convert the model again"),
        (
            PLAIN,
            "add_space_prefix",
            True,
            ": is true, but tokenizer.ggml.model = gpt2 has no rule for it",
            "set tokenizer.ggml.add_space_prefix to false with gguf-set-metadata",
        ),
        (
            PLAIN,
            "suppress_tokens",
            (1,),
            ": is unknown, so what it changes in the ids is unknown",
            "convert the model with a converter that does not write it, or remove it with gguf-new-metadata",
        ),
        (
            SPM,
            "pre",
            "llama-bpe",
            ': is "llama-bpe", but tokenizer.ggml.model = llama has no pre-tokenizer',
            "convert the model again",
        ),
        (SPM, "scores", None, " is missing", "convert the model again, with its tokenizer"),
        (SPM, "scores", ("a",), ": is not an array of numbers", "convert the model again"),
        (
            SPM,
            "bos_token_id",
            None,
            " is missing, but every text begins with it",
            "add tokenizer.ggml.bos_token_id with gguf-new-metadata",
        ),
        (
            SPM,
            "remove_extra_whitespaces",
            True,
            ": is true, and tokenizer.ggml.model = llama has no rule for it",
            "use the model's folder with a tokenizer.json",
        ),
    ],
)
def test_a_key_that_cannot_be_understood_is_named(
    base: Metadata, key: str, value: Change, message: str, fix: str
) -> None:
    name = f"tokenizer.ggml.{key}"
    changed = {held: stays for held, stays in base.items() if held != name}
    if value is not None:
        changed[name] = value
    got = gguf_error(changed)
    assert got.startswith(f"error: key {name}{message}"), got
    assert f"\n --> model.gguf\n  = fix: {fix}" in got, got


def test_an_end_behind_every_text_is_refused_for_plain_text() -> None:
    tokenizer = from_gguf(PLAIN | {"tokenizer.ggml.add_eos_token": True})
    assert encode(tokenizer, "1") == encode(LOADED["smollm"], "1")
    with pytest.raises(LoadError) as caught:
        encode_prompt(tokenizer, "1")
    assert str(caught.value) == (
        "error: key tokenizer.ggml.add_eos_token: is true, "
        "but a prompt that ends with the end of text cannot be continued"
        "\n --> model.gguf\n  = fix: set tokenizer.ggml.add_eos_token to false with gguf-set-metadata"
    )


def test_a_token_that_occurs_twice_is_refused() -> None:
    tokens = list(_tuple(PLAIN, "tokenizer.ggml.tokens"))
    tokens[9] = tokens[5]
    assert gguf_error(PLAIN | {"tokenizer.ggml.tokens": tuple(tokens)}).startswith(
        'error: key tokenizer.ggml.tokens: "#" is token 5 and 9\n'
    )


def test_an_empty_token_is_refused() -> None:
    tokens = ("", *_tuple(PLAIN, "tokenizer.ggml.tokens")[1:])
    assert gguf_error(PLAIN | {"tokenizer.ggml.tokens": tokens}).startswith(
        "error: key tokenizer.ggml.tokens: token 0 is empty\n"
    )


def test_an_unknown_token_type_is_refused() -> None:
    types = (9, *_tuple(PLAIN, "tokenizer.ggml.token_type")[1:])
    assert gguf_error(PLAIN | {"tokenizer.ggml.token_type": types}).startswith(
        "error: key tokenizer.ggml.token_type: token 0 has the unknown type 9\n"
    )


def test_a_sentencepiece_vocabulary_without_a_byte_is_refused() -> None:
    tokens = tuple("<0xAX>" if token == "<0xAB>" else token for token in _tuple(SPM, "tokenizer.ggml.tokens"))
    assert gguf_error(SPM | {"tokenizer.ggml.tokens": tokens}).startswith(
        "error: key tokenizer.ggml.tokens: has no byte token <0xAB>, so some texts would have no ids\n"
    )


def test_further_named_templates_are_no_unknown_keys() -> None:
    added: Metadata = {"tokenizer.chat_template.tool_use": "x", "tokenizer.chat_templates": ("tool_use",)}
    assert from_gguf(PLAIN | added).template is None


def _tuple(metadata: Metadata, key: str) -> tuple[Value, ...]:
    value = metadata[key]
    assert isinstance(value, tuple)
    return value


@pytest.mark.parametrize("name", ["Phi-3-mini-4k-instruct", "llamafied phi3"])
def test_a_model_whose_control_tokens_drop_spaces_by_its_name_is_refused(name: str) -> None:
    assert gguf_error(SPM | {"general.name": name}) == (
        f'error: key general.name: is "{name}", whose control tokens drop the spaces behind them, which no key '
        "says\n --> model.gguf\n  = fix: use the model's folder with a tokenizer.json"
    )
    assert from_gguf(SPM | {"general.name": "Mistral 7B"}).n_tokens
