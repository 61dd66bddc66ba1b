"""The body of POST /v1/completions."""

from typing import Annotated, ClassVar

from pydantic import Field

from circuit_exec.server.fields.base import COMMON, MOST_TOP_LOGPROBS, Sampled, TokenId, Unhonoured

MOST_PROMPTS = 256
Ids = Annotated[list[TokenId], Field(min_length=1)]


class CompletionFields(Sampled):
    """Continue texts. `prompt` is a text, several texts, the ids of one, or the ids of several."""

    unhonoured: ClassVar[Unhonoured] = COMMON | {
        "suffix": ((None, ""), "text is only continued, never filled in"),
        "best_of": ((None, 1), "every choice that is made is given; ask for more with n"),
    }
    prompt: (
        str
        | Annotated[list[str], Field(min_length=1, max_length=MOST_PROMPTS)]
        | Ids
        | Annotated[list[Ids], Field(min_length=1, max_length=MOST_PROMPTS)]
    )
    max_tokens: int | None = Field(default=None, ge=0, lt=2**31, description="16 where absent; 0 with echo alone.")
    logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP_LOGPROBS)
    echo: bool | None = None
