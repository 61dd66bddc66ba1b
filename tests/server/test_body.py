"""What is wrong with a body before any field is looked at is refused by its reason."""

import time

import pytest

from circuit_exec.server.body import parse_body
from circuit_exec.server.errors import Refused

JSON = "application/json"


def refusal(data: bytes, content_type: str = JSON) -> Refused:
    with pytest.raises(Refused) as caught:
        parse_body(data, content_type)
    return caught.value


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the body is not JSON at line 1, column 1: expecting value; send one JSON object"),
        (b'{"a":1,}', "the body is not JSON at line 1, column 8: "),
        (b'{"a":NaN}', "the body is not JSON: NaN is no number of JSON; send one JSON object"),
        (b'{"a":1,"a":2}', "the body is not JSON: the key `a` stands twice in one object; send one JSON object"),
        (b"\xff", "the body is not UTF-8: byte 0 begins no character; send JSON as UTF-8"),
        (
            b'{"a":["\\ud800"]}',
            "a string of the body has half of a surrogate pair, which is no character; send characters, or both halves",
        ),
        (b'{"\\udc00":1}', "a string of the body has half of a surrogate pair, "),
        (b"[" * 65 + b"]" * 65, "the body nests deeper than 64 levels; send a flatter object"),
        (b"[" * 100_000, "the body nests deeper than 64 levels; send a flatter object"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "the body nests deeper than 64 levels; "),
    ],
)
def test_a_malformed_body_is_refused(data: bytes, said: str) -> None:
    error = refusal(data)
    assert str(error).startswith(said)
    assert (error.refusal.status, error.refusal.code) == (400, "invalid_json")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_of_another_type_is_refused(kind: str) -> None:
    error = refusal(b"{}", kind)
    assert str(error) == "the body is not declared as JSON; send JSON with the header `Content-Type: application/json`"
    assert error.refusal.status == 415


def test_what_is_json_is_taken() -> None:
    assert parse_body(b'{"a":"\\ud83d\\ude00"}', "application/json; charset=utf-8") == {"a": "\U0001f600"}
    assert parse_body(b"[" * 64 + b"]" * 64, "Application/JSON") is not None


def test_a_body_of_many_small_parts_takes_no_long_time() -> None:
    data = b"[" + b'[],{"a":1},' * 300_000 + b"1]"
    started = time.process_time()
    parse_body(data, JSON)
    assert time.process_time() - started < 10
