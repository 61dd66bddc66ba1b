"""Streamed text: whole characters only, and together exactly the decoded text."""

import codecs

from hypothesis import given
from hypothesis import strategies as st

from circuit_exec.text.stream import continue_text, start_text
from circuit_exec.text.tokenizer import decode, encode
from tests.text.vocabularies import digit_splitter, from_gguf, gguf_metadata, sentencepiece_metadata, trained

BYTES = from_gguf(gguf_metadata(trained(digit_splitter()), "smollm"))
PIECES = from_gguf(sentencepiece_metadata("\u2581", "a", "b", "ab", "\u2581ab"))


def check(tokenizer: object, ids: list[int], expected: list[str]) -> None:
    assert tokenizer in (BYTES, PIECES)
    stream = start_text(BYTES if tokenizer is BYTES else PIECES)
    assert [stream.feed(id) for id in ids] + [stream.finish()] == expected


@given(st.lists(st.integers(0, 410), max_size=30))
def test_the_streamed_parts_of_any_ids_are_the_decoded_text(ids: list[int]) -> None:
    stream = start_text(BYTES)
    assert "".join(stream.feed(id) for id in ids) + stream.finish() == decode(BYTES, ids)


@given(st.lists(st.integers(0, 270), max_size=30))
def test_the_streamed_parts_of_any_sentencepiece_ids_are_the_decoded_text(ids: list[int]) -> None:
    stream = start_text(PIECES)
    assert "".join(stream.feed(id) for id in ids) + stream.finish() == decode(PIECES, ids)


@given(st.text(max_size=20))
def test_no_part_of_a_text_shows_half_a_character(text: str) -> None:
    text = text.replace("\N{REPLACEMENT CHARACTER}", "")
    stream = start_text(BYTES)
    parts = [stream.feed(id) for id in encode(BYTES, text)]
    assert "".join(parts) == text
    assert stream.finish() == ""


def test_a_character_waits_for_its_last_byte() -> None:
    check(PIECES, [3 + byte for byte in "👍".encode()], ["", "", "", "👍", ""])


def test_a_character_that_never_ends_shows_at_the_end() -> None:
    check(PIECES, [3 + 0xF0, 3 + 0x9F], ["", "", "\N{REPLACEMENT CHARACTER}"])


def test_a_broken_character_shows_when_the_next_one_begins() -> None:
    check(PIECES, [3 + 0xF0, 3 + 0x41], ["", "\N{REPLACEMENT CHARACTER}A", ""])


def test_an_answer_loses_its_first_space_and_a_continuation_keeps_it() -> None:
    ids = encode(PIECES, "ab ab")
    check(PIECES, ids, ["ab", " ab", ""])
    stream = continue_text(PIECES)
    assert [stream.feed(id) for id in ids] == [" ab", " ab"]


def test_control_tokens_stream_as_nothing() -> None:
    check(BYTES, [0, 1, 2], ["", "", "", ""])


def test_the_decoder_is_the_incremental_one_of_utf_8() -> None:
    data = "aé€👍".encode() + b"\xff\xe2\x82" + b"z"
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    expected = [decoder.decode(bytes([byte])) for byte in data]
    stream = continue_text(PIECES)
    assert [stream.feed(3 + byte) for byte in data] == expected
    assert "".join(expected) == data.decode(errors="replace")
