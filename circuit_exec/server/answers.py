"""Responses, as pydantic models: OpenAI's objects, with the fields that are filled here."""

from typing import ClassVar, Literal

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer

Finish = Literal["stop", "length", "tool_calls"]


class Sparse(BaseModel):
    """An object whose absent fields are left out, but those that are `kept`, as OpenAI's API does in a few."""

    kept: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _present(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = dump(self)
        return {name: value for name, value in fields.items() if value is not None or name in self.kept}


class ErrorFields(BaseModel):
    """What went wrong, and what to change."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """Every response that is no success."""

    error: ErrorFields


class PromptDetails(BaseModel):
    """Of the prompt's tokens: those that the prefix cache had."""

    cached_tokens: int


class Usage(BaseModel):
    """Tokens of a request. Those that were made count an end token."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class TopLogprob(BaseModel):
    """An alternative of a token; `bytes` are exact also where they are no text alone."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """A token of an answer."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """The tokens of a choice."""

    content: list[TokenLogprob]
    refusal: None = None


class FunctionText(BaseModel):
    """A called function; `arguments` is the JSON text of an object."""

    name: str
    arguments: str


class CallAnswer(BaseModel):
    """A call to make."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionText


class CallDelta(CallAnswer):
    """A call in a stream: it comes whole."""

    index: int


class ChatMessage(Sparse):
    """An answer."""

    kept: ClassVar[tuple[str, ...]] = ("content", "refusal")
    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    tool_calls: list[CallAnswer] | None = None


class ChatChoice(BaseModel):
    """One answer of `n`."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Finish


class ChatAnswer(BaseModel):
    """A response of /v1/chat/completions."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class ChatDelta(Sparse):
    """What a stream adds to an answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    tool_calls: list[CallDelta] | None = None


class ChatDeltaChoice(BaseModel):
    """Of one choice."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: Finish | None = None


class ChatChunk(BaseModel):
    """An event of a stream of /v1/chat/completions."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatDeltaChoice]
    usage: Usage | None = None


class TextLogprobs(BaseModel):
    """The tokens of a completion, in four lists; with `echo` the first token has no probability."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class TextChoice(BaseModel):
    """One completion, or in a stream what is added to it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Finish | None


class TextAnswer(BaseModel):
    """A response of /v1/completions, or an event of its stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage | None = None


class EmbeddingItem(BaseModel):
    """One embedding: numbers, or the base64 of little-endian f32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Tokens of all inputs."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingAnswer(BaseModel):
    """A response of /v1/embeddings."""

    object: Literal["list"] = "list"
    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingUsage


class ModelItem(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["met"] = "met"
    max_model_len: int


class ModelsAnswer(BaseModel):
    """A response of /v1/models."""

    object: Literal["list"] = "list"
    data: list[ModelItem]


class TokenizeAnswer(BaseModel):
    """A response of /tokenize."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeAnswer(BaseModel):
    """A response of /detokenize."""

    prompt: str


class HealthAnswer(BaseModel):
    """A response of /health."""

    status: Literal["ok", "draining"]
