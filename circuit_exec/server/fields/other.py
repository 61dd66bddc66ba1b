"""The bodies of POST /v1/embeddings, /tokenize and /detokenize."""

from typing import Annotated, Literal

from pydantic import Field

from circuit_exec.server.fields.base import Fields, TokenId
from circuit_exec.server.fields.chat import JsonObject, Message, Tool

MOST_INPUTS = 2048
Ids = Annotated[list[TokenId], Field(min_length=1)]


class EmbeddingFields(Fields):
    """Embed texts. `dimensions` must be the model's own."""

    model: str
    input: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=MOST_INPUTS)]
        | Ids
        | Annotated[list[Ids], Field(min_length=1, max_length=MOST_INPUTS)]
    )
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(default=None, ge=1)
    user: str | None = Field(default=None, description="Changes nothing here.")


class TokenizeFields(Fields):
    """The ids of a text (`prompt`) or of a conversation as the chat template writes it (`messages`)."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: Annotated[list[Tool], Field(min_length=1, max_length=128)] | None = None
    chat_template_kwargs: JsonObject | None = None
    add_special_tokens: bool | None = Field(
        default=None, description="Begins a text with the beginning token, where the tokenizer has one; absent is true."
    )
    return_token_strs: bool | None = None


class DetokenizeFields(Fields):
    """The text of ids, without control tokens."""

    model: str | None = None
    tokens: list[TokenId]
