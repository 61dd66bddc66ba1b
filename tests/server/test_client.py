"""The official client of the API: chat, streams, log-probabilities, JSON, tools, completions, embeddings, errors."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.server.harness import Server

USER: Any = [{"role": "user", "content": "the cat"}]
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "point",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}, "on": {"type": "boolean"}},
            "required": ["x", "on"],
            "additionalProperties": False,
        },
    },
}
TOOLS: Any = [
    {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
        "type": "object", "properties": {"at": {"enum": ["here", "there"]}}, "required": ["at"],
        "additionalProperties": False}}},
    {"type": "function", "function": {"name": "wait"}},
]  # fmt: skip


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_the_model_is_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["model"]
    assert client.models.retrieve("model").id == "model"


def test_a_stream_is_the_answer_in_pieces(client: openai.OpenAI, server: Server) -> None:
    whole = client.chat.completions.create(model="model", messages=USER, max_tokens=24, seed=5)
    pieces = list(
        client.chat.completions.create(
            model="model", messages=USER, max_tokens=24, seed=5, stream=True, stream_options={"include_usage": True}
        )
    )
    assert pieces[0].choices[0].delta.role == "assistant"
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces[:-1])
    assert text == whole.choices[0].message.content != ""
    assert pieces[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert whole.usage is not None
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert whole.system_fingerprint == pieces[0].system_fingerprint == server.get("/forward").json()["fingerprint"]
    assert len({piece.id for piece in pieces}) == 1


def test_the_same_seed_gives_the_same_choices_and_each_choice_is_another(client: openai.OpenAI) -> None:
    def texts(seed: int) -> list[str | None]:
        made = client.chat.completions.create(model="model", messages=USER, max_tokens=12, seed=seed, n=3)
        assert [choice.index for choice in made.choices] == [0, 1, 2]
        return [choice.message.content for choice in made.choices]

    first = texts(1)
    assert texts(1) == first
    assert len(set(first)) == 3
    assert texts(2) != first


def test_without_a_seed_answers_differ(client: openai.OpenAI) -> None:
    made = [client.chat.completions.create(model="model", messages=USER, max_tokens=12) for _ in range(2)]
    assert made[0].choices[0].message.content != made[1].choices[0].message.content


def test_log_probabilities_come_with_their_alternatives(client: openai.OpenAI) -> None:
    def of(stream: bool) -> list[Any]:
        made: Any = client.chat.completions.create(
            model="model", messages=USER, max_tokens=8, temperature=0, logprobs=True, top_logprobs=3, stream=stream
        )
        parts = made if stream else [made]
        return [token for part in parts for c in part.choices if c.logprobs for token in c.logprobs.content]

    whole = of(False)
    assert len(whole) == 8
    for token in whole:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token, "temperature 0 takes the likeliest"
        assert [top.logprob for top in token.top_logprobs] == sorted(t.logprob for t in token.top_logprobs)[::-1]
        assert token.logprob <= 0
    assert [t.model_dump() for t in of(True)] == [t.model_dump() for t in whole]


@pytest.mark.parametrize("seed", range(3))
def test_a_schema_holds(client: openai.OpenAI, seed: int) -> None:
    made = client.chat.completions.create(
        model="model", messages=USER, seed=seed, temperature=2, max_tokens=300, response_format=SCHEMA
    )
    assert made.choices[0].finish_reason == "stop"
    value = json.loads(made.choices[0].message.content or "")
    assert set(value) == {"x", "on"}
    assert 0 <= value["x"] <= 9


def test_any_object_is_json(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(
        model="model", messages=USER, seed=1, max_tokens=300, response_format={"type": "json_object"}
    )
    text = made.choices[0].message.content or ""
    assert text.lstrip().startswith("{")
    assert made.choices[0].finish_reason == "length" or isinstance(json.loads(text), dict)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
def test_a_tool_is_called_and_its_result_goes_back(client: openai.OpenAI, choice: Any) -> None:  # noqa: ANN401
    asked: Any = {
        "model": "model", "messages": USER, "tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False,
        "max_tokens": 400, "seed": 3,
    }  # fmt: skip
    made = client.chat.completions.create(**asked)
    message = made.choices[0].message
    assert made.choices[0].finish_reason == "tool_calls"
    assert message.content is None
    (call,) = message.tool_calls or []
    assert call.type == "function"
    if choice != "required":
        assert call.function.name == "look"
    if call.function.name == "look":
        assert json.loads(call.function.arguments)["at"] in ("here", "there")
    streamed = [
        piece
        for part in client.chat.completions.create(**asked, stream=True)
        for piece in part.choices[0].delta.tool_calls or []
    ]
    assert [(piece.index, piece.function.name, piece.function.arguments) for piece in streamed if piece.function] == [
        (0, call.function.name, call.function.arguments)
    ]
    turn: Any = [
        *USER, message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "nothing to see"}
    ]  # fmt: skip
    after = client.chat.completions.create(model="model", messages=turn, tools=TOOLS, max_tokens=4, seed=3)
    assert after.choices[0].finish_reason == "length"


def test_tools_may_stay_unused(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(model="model", messages=USER, tools=TOOLS, max_tokens=6, seed=1)
    assert made.choices[0].message.tool_calls is None
    none = client.chat.completions.create(
        model="model", messages=USER, tools=TOOLS, tool_choice="none", max_tokens=6, seed=1
    )
    plain = client.chat.completions.create(model="model", messages=USER, max_tokens=6, seed=1)
    assert none.choices[0].message.content == plain.choices[0].message.content


def test_echo_scores_the_prompt(client: openai.OpenAI) -> None:
    def choice(**changes: Any) -> Any:  # noqa: ANN401
        asked: Any = {"model": "model", "prompt": "on the mat", "temperature": 0, "logprobs": 1} | changes
        return client.completions.create(**asked).choices[0]

    echoed = choice(echo=True, max_tokens=3)
    assert echoed.text.startswith("on the mat")
    tokens = echoed.logprobs
    n_prompt = len(tokens.tokens) - 3
    assert "".join(tokens.tokens[:n_prompt]) == "on the mat"
    assert tokens.token_logprobs[0] is None
    assert tokens.top_logprobs[0] is None
    assert all(logprob <= 0 for logprob in tokens.token_logprobs[1:])
    assert tokens.text_offset[:2] == [0, len(tokens.tokens[0])]
    assert tokens.text_offset[n_prompt] == len("on the mat")
    made = choice(max_tokens=3)
    assert made.logprobs.tokens == tokens.tokens[n_prompt:]
    assert made.logprobs.token_logprobs == tokens.token_logprobs[n_prompt:]
    alone = choice(echo=True, max_tokens=0)
    assert alone.text == "on the mat"
    assert alone.logprobs.token_logprobs == tokens.token_logprobs[:n_prompt]


def test_prompts_and_choices_are_numbered_prompt_by_prompt(client: openai.OpenAI) -> None:
    def texts(prompt: Any) -> list[str]:  # noqa: ANN401
        made = client.completions.create(model="model", prompt=prompt, n=2, max_tokens=6, seed=9)
        assert [choice.index for choice in made.choices] == list(range(len(made.choices)))
        return [choice.text for choice in made.choices]

    assert texts(["the cat", "on the"]) == texts("the cat") + texts("on the")


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_text_ends_an_answer_before_itself(client: openai.OpenAI, stream: bool) -> None:
    def text(stop: Any) -> tuple[str, str | None, int]:  # noqa: ANN401
        made: Any = client.completions.create(
            model="model", prompt="the cat", max_tokens=40, seed=2, stop=stop, stream=stream, logprobs=0
        )
        choices = [choice for part in (made if stream else [made]) for choice in part.choices]
        tokens = sum(len(choice.logprobs.tokens) for choice in choices if choice.logprobs)
        return "".join(choice.text for choice in choices), choices[-1].finish_reason, tokens

    whole, _, n = text(None)
    stop = whole[10:13]
    cut, reason, fewer = text(["never here", stop])
    assert cut == whole[: whole.index(stop)]
    assert reason == "stop"
    assert fewer < n


def test_a_biased_token_comes_and_a_banned_one_does_not(client: openai.OpenAI) -> None:
    made = client.completions.create(model="model", prompt="the", max_tokens=5, temperature=0, logit_bias={"65": 100})
    assert made.choices[0].text == "AAAAA"
    assert made.choices[0].finish_reason == "length"
    other = client.completions.create(
        model="model", prompt="the", max_tokens=5, temperature=0, logit_bias={"65": 100}, presence_penalty=2,
        frequency_penalty=2, extra_body={"repetition_penalty": 1.5, "top_k": 5, "min_p": 0.1},
    )  # fmt: skip
    assert other.choices[0].text.startswith("A")


def test_embeddings_are_vectors_of_length_one(client: openai.OpenAI) -> None:
    inputs = ["the cat", "on the mat"]
    made = client.embeddings.create(model="model", input=inputs)  # the client asks for base64
    plain = client.embeddings.create(model="model", input=inputs, encoding_format="float")
    for one, other in zip(made.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-7)
        assert sum(value * value for value in other.embedding) == pytest.approx(1, abs=1e-5)
    assert len(made.data[0].embedding) == 64
    alone = client.embeddings.create(model="model", input="the cat", encoding_format="float")
    assert alone.data[0].embedding == plain.data[0].embedding
    assert plain.usage.prompt_tokens > 0


def test_refusals_are_the_clients_own_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="other", messages=USER)
    assert missing.value.code == "model_not_found"
    assert missing.value.param == "model"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="model", prompt="x" * 1100)
    assert long.value.code == "context_length_exceeded"
    assert "the prompt has 1100 tokens, the context is 1024; shorten it to 1024 tokens or fewer" in str(long.value)
    with pytest.raises(openai.BadRequestError) as unknown:
        client.chat.completions.create(model="model", messages=USER, extra_body={"foo": 1})
    assert (unknown.value.param, unknown.value.code) == ("foo", "unknown_parameter")
