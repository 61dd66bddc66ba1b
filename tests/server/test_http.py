"""Whatever is sent, the answer is OpenAI's error object with a code and what to change, and never a 5xx."""

import http.client
import json
import socket
from typing import Any

import pytest

from tests.server.harness import Answered, Server

USER = {"role": "user", "content": "the cat"}
CHAT: dict[str, Any] = {"model": "model", "messages": [USER], "max_tokens": 1}
TEXT: dict[str, Any] = {"model": "model", "prompt": "the cat", "max_tokens": 1}
TOOL = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
POSTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize")


def refused(answered: Answered, status: int, code: str) -> dict[str, Any]:
    error = answered.error()
    assert (answered.status, error["code"]) == (status, code), error
    return error


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b'{"model": "\xff"}', 400, "invalid_json"),
        (b"[" * 50_000, 400, "invalid_json"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 400, "invalid_json"),
        (b'{"model": "model", "model": "model"}', 400, "invalid_json"),
        (b"[]", 400, "invalid_type"),
        (b"null", 400, None),
        (b'"model"', 400, "invalid_type"),
        (b" " * (10 * 2**20), 413, "too_large"),
    ],
)
def test_a_malformed_body_is_refused(server: Server, path: str, body: bytes, status: int, code: str | None) -> None:
    answered = server.request("POST", path, body)
    error = answered.error()
    assert answered.status == status, error
    assert code is None or error["code"] == code
    assert error["type"] == "invalid_request_error"


def test_a_body_whose_length_is_not_announced_is_limited_too(server: Server) -> None:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    parts = iter([b" " * 0x10000] * 160)
    connection.request("POST", "/tokenize", parts, {"Content-Type": "application/json"}, encode_chunked=True)
    answered = connection.getresponse()
    error = json.loads(answered.read())["error"]
    connection.close()
    assert (answered.status, error["code"]) == (413, "too_large")
    assert error["message"] == (
        "the body is longer than 4194304 bytes; send less, or start the server with a larger --max-body"
    )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_that_a_page_of_another_origin_could_send_is_refused(server: Server, kind: str) -> None:
    answered = server.request("POST", "/v1/completions", json.dumps(TEXT).encode(), {"Content-Type": kind})
    refused(answered, 415, "unsupported_media_type")


@pytest.mark.parametrize("sent", [b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"])
def test_what_is_no_http_gets_an_error_object(server: Server, sent: bytes) -> None:
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.sendall(sent + b"\r\n")
        said = b""
        while part := client.recv(65536):
            said += part
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    error = json.loads(body)["error"]
    assert error["code"] == "invalid_http"
    assert error["message"] == (
        "the request is no HTTP/1.1, or its headers are longer than 32768 bytes; send a shorter header, or use another "
        "client"
    )


def test_long_headers_are_refused(server: Server) -> None:
    error = refused(server.request("GET", "/health", headers={"X": "a" * 40_000}), 431, "headers_too_long")
    assert error["message"] == "the headers are longer than 32768 bytes; send fewer or shorter ones"
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        said = b""
        try:
            for _ in range(100):
                client.sendall(b"X: " + b"a" * 10_000 + b"\r\n")
            while part := client.recv(65536):
                said += part
        except OSError:
            pass  # the server has closed
    assert said == b"" or said.startswith(b"HTTP/1.1 4")


def test_unknown_paths_and_methods_are_refused(server: Server) -> None:
    error = refused(server.get("/v1/nothing"), 404, "no_such_route")
    assert error["message"] == "there is no such path; GET /openapi.json lists the paths"
    answered = server.request("PUT", "/v1/models")
    error = refused(answered, 405, "no_such_method")
    assert error["message"] == "the path takes no PUT; GET /openapi.json lists the methods of each path"
    assert answered.headers["allow"] == "GET"


def test_a_name_that_is_not_this_machine_is_refused(server: Server) -> None:
    answered = server.request("GET", "/v1/models", headers={"Host": "evil.example"})
    error = refused(answered, 403, "host_not_allowed")
    assert error["message"] == (
        "the Host header does not name this machine; use the address that the server printed, or start it with "
        "--api-key-file"
    )


@pytest.mark.parametrize(
    ("path", "body", "param", "said"),
    [
        ("/v1/completions", TEXT | {"prompt": ""}, "prompt", "a prompt is empty: it has no tokens; give a prompt with"),
        (
            "/v1/completions",
            TEXT | {"prompt": [290]},
            "prompt",
            "290 is no token id, the vocabulary has 290; give ids ",
        ),
        (
            "/v1/completions",
            TEXT | {"max_tokens": 0},
            "max_tokens",
            "max_tokens is 0, so nothing would be made; ask for 1 or more, or for echo",
        ),
        (
            "/v1/completions",
            TEXT | {"max_tokens": 1022},
            "prompt",
            "the prompt has 4 tokens and 1022 more are asked for, the context is 1024; shorten the prompt, or ask for ",
        ),
        (
            "/v1/completions",
            TEXT | {"prompt": ["x"] * 100, "n": 100},
            "prompt",
            "100 prompts with 100 choices each are 10000 choices; ask for 1024 or fewer together",
        ),
        (
            "/v1/completions",
            TEXT | {"stream_options": {}},
            "stream_options",
            "stream_options is given without a stream; set stream to true, or leave stream_options out",
        ),
        (
            "/v1/completions",
            TEXT | {"temperature": 1e-6},
            "temperature",
            "the temperature 1e-06 is too close to 0; give 0, or at least 0.0001",
        ),
        ("/v1/completions", TEXT | {"logit_bias": {"290": 1}}, "logit_bias", "290 is no token id, the vocabulary has "),
        (
            "/v1/completions",
            TEXT | {"min_tokens": 5},
            "prompt",
            "at least 5 tokens and at most 1 are asked for; ask for no more at least than at most",
        ),
        ("/v1/completions", TEXT | {"model": "x"}, "model", "the model x is not served here; ask for model"),
        (
            "/v1/chat/completions",
            CHAT | {"max_completion_tokens": 2},
            "max_tokens",
            "max_tokens is 1, but max_completion_tokens is 2; give one of the two",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"tool_choice": "auto"},
            "tool_choice",
            "tool_choice is given without tools; give tools, or leave it out",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"tools": [TOOL, TOOL]},
            "tools",
            "two tools are called f; give each another name",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice",
            "tool_choice names g, which is none of the tools; name one of f",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"tools": [TOOL], "response_format": SCHEMA},
            "response_format",
            "response_format restricts the answer to JSON, so no tool could be called; leave one out, or set tool",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format",
            "response_format has no schema; give json_schema.schema",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"top_logprobs": 2},
            "top_logprobs",
            "top_logprobs is given without logprobs; set logprobs to true, or leave it out",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"messages": [USER, {"role": "assistant"}]},
            "messages",
            "a message of the assistant has neither content nor tool_calls; give one of them",
        ),
        (
            "/v1/chat/completions",
            CHAT
            | {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "[]"}}],
                    }
                ]
            },
            "messages",
            "the arguments of the call c1 are not the JSON text of an object; send them back as the answer gave them",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"chat_template_kwargs": {"messages": []}},
            "chat_template_kwargs",
            "the name messages is given by other fields or by the tokenizer; leave it out of chat_template_kwargs",
        ),
        (
            "/v1/embeddings",
            {"model": "model", "input": "x", "dimensions": 3},
            "dimensions",
            "3 dimensions are asked for, the model has 64; ask for 64, or leave dimensions out",
        ),
        (
            "/v1/embeddings",
            {"model": "model", "input": "x" * 1100},
            "input",
            "the prompt has 1100 tokens, the context ",
        ),
        ("/tokenize", {}, "prompt", "a text is given by one of prompt and messages; give one of the two"),
        (
            "/tokenize",
            {"messages": [USER], "add_special_tokens": True},
            "add_special_tokens",
            "the chat template writes the beginning of a conversation; leave add_special_tokens out",
        ),
        (
            "/tokenize",
            {"prompt": "x", "tools": [TOOL]},
            "tools",
            "tools is for the chat template; leave it out, or give messages",
        ),
    ],
)
def test_a_request_that_cannot_be_answered_says_what_to_change(
    server: Server, path: str, body: dict[str, Any], param: str, said: str
) -> None:
    answered = server.post(path, body)
    error = answered.error()
    assert answered.status == (404 if error["code"] == "model_not_found" else 400)
    assert error["param"] == param
    assert error["message"].startswith(said)
    assert error["type"] == "invalid_request_error"


WRONG: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], ["x"], [[]], {}, {"a": {}}, 2**70, 1e308]
FIELDS = {
    "/v1/chat/completions": (
        "model messages n temperature top_p top_k min_p seed presence_penalty frequency_penalty repetition_penalty "
        "logit_bias stop stream stream_options min_tokens ignore_eos user max_tokens max_completion_tokens logprobs "
        "top_logprobs response_format tools tool_choice parallel_tool_calls chat_template_kwargs store metadata"
    ).split(),
    "/v1/completions": "model prompt n max_tokens logprobs echo stop stream best_of suffix logit_bias seed".split(),
    "/v1/embeddings": "model input encoding_format dimensions user".split(),
    "/tokenize": "model prompt messages tools add_special_tokens return_token_strs".split(),
    "/detokenize": "model tokens".split(),
}
WHOLE: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": TEXT,
    "/v1/embeddings": {"model": "model", "input": "x"},
    "/tokenize": {"prompt": "x"},
    "/detokenize": {"tokens": [1]},
}


@pytest.mark.parametrize("path", POSTS)
def test_a_wrong_type_in_any_field_is_refused_or_answered(server: Server, path: str) -> None:
    for name in FIELDS[path]:
        for value in WRONG:
            answered = server.post(path, WHOLE[path] | {name: value})
            assert answered.status in (200, 400, 404), (name, value, answered.body)
            if answered.status != 200:
                error = answered.error()
                assert error["param"] is not None, (name, value, error)


def test_tokens_and_texts_become_each_other(server: Server) -> None:
    found = server.post("/tokenize", {"prompt": "the cat<|im_end|>", "return_token_strs": True}).json()
    assert found["token_strs"] == ["t", "he", " c", "at", "<|im_end|>"]
    assert (found["count"], found["max_model_len"]) == (5, 1024)
    assert server.post("/detokenize", {"tokens": found["tokens"]}).json() == {"prompt": "the cat"}
    chat = server.post("/tokenize", {"messages": [USER], "return_token_strs": True}).json()
    assert "".join(chat["token_strs"]) == "<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n"
    styled = {"messages": [USER], "return_token_strs": True, "chat_template_kwargs": {"style": "!"}}
    assert server.post("/tokenize", styled).json()["token_strs"][-1] == "!"


def test_the_state_of_the_server_can_be_read(server: Server) -> None:
    assert server.get("/health").json() == {"status": "ok"}
    server.post("/v1/completions", TEXT | {"max_tokens": 3, "ignore_eos": True})
    page = server.get("/metrics")
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for name in ("met_time_to_first_token_seconds_count", "met_inter_token_seconds_bucket", "met_kv_pages "):
        assert name in page.body.decode(), name
    for name in (
        "met_queue_choices",
        "met_step_rows_sum",
        "met_prefix_cache_hit_tokens_total",
        "met_made_tokens_total",
    ):
        assert name in page.body.decode(), name
    runs = server.get("/forward").json()
    assert runs["fingerprint"] in server.printed[2]
    assert runs["plans"][0]["name"].startswith("decode:")
    assert len(runs["plans"][0]["digest"]) == 64
    launches = server.get("/forward/launches").json()["launches"]
    assert len(launches) == runs["plans"][0]["launches"]
    assert {each["layer"] for each in launches} == {None, 0, 1}
    assert {axis["holds"] for axis in runs["certificate"]} <= {"yes", "no", "not checked"}


def test_the_log_has_a_line_a_request_and_no_prompt(server: Server) -> None:
    chat = CHAT | {"messages": [{"role": "user", "content": "xyzzy plugh"}]}
    text = TEXT | {"prompt": "xyzzy plugh"}
    bodies = (("/v1/completions", text), ("/v1/chat/completions", chat), ("/v1/completions", text | {"foo": 1}))
    last = [server.logged(server.post(path, body).headers["x-request-id"]) for path, body in bodies]
    assert [line["status"] for line in last] == [200, 200, 400]
    assert last[2]["failed"] == "unknown_parameter"
    assert last[0]["route"] == "/v1/completions"
    assert last[0]["completion_tokens"] == 1
    assert "xyzzy" not in server.log.read_text("utf-8")


def test_answers_carry_no_more_of_the_server_than_they_need(server: Server) -> None:
    headers = {name.lower() for name in server.get("/").headers}
    assert "server" not in headers
    assert {"content-security-policy", "x-content-type-options", "x-frame-options", "x-request-id"} <= headers
    assert "access-control-allow-origin" not in headers
