"""What all requests share: unknown fields are refused, types are exact, fields of OpenAI's that do nothing here may
have their neutral value only."""

import json
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MOST_CHOICES = 128
MOST_STOPS = 16
MOST_TOP_LOGPROBS = 20

Unhonoured = dict[str, tuple[tuple[object, ...], str]]
"""Fields of the API that are not honoured: the values that ask for nothing, and why others are refused."""


class Fields(BaseModel):
    """Base of every request and of its parts."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    unhonoured: ClassVar[Unhonoured] = {}

    @model_validator(mode="before")
    @classmethod
    def _neutral(cls, body: object) -> object:
        """Takes fields away that ask for nothing, and refuses those that ask for what is not done here."""
        if not isinstance(body, dict):
            return body
        for name, (neutral, reason) in cls.unhonoured.items():
            if name in body and not any(_same(body[name], value) for value in neutral):
                shown = " or ".join(_shown(value) for value in neutral)
                raise PydanticCustomError(
                    "unhonoured",
                    "{reason}: leave the field out, or send {shown}",
                    {"field": name, "reason": reason, "shown": shown},
                )
        return {name: value for name, value in body.items() if name not in cls.unhonoured}


def _same(value: object, other: object) -> bool:
    """Equal and of one type: false is not 0."""
    return type(value) is type(other) and value == other


def _shown(value: object) -> str:
    return json.dumps(value)


NOTHING_STORED = "nothing is stored here"
TEXT_ONLY = "the models take and make text only"

COMMON: Unhonoured = {
    "store": ((False, None), NOTHING_STORED),
    "metadata": (({}, None), NOTHING_STORED),
    "service_tier": (("auto", "default", None), "there is one tier of service"),
    "prompt_cache_retention": ((None,), "the prefix cache keeps what fits, for as long as it fits"),
}

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Stop = Annotated[str, Field(min_length=1, max_length=256)]
Bias = Annotated[float, Field(ge=-100, le=100)]
BiasedId = Annotated[str, Field(pattern="^[0-9]{1,9}$")]


class StreamOptions(Fields):
    """`stream_options`."""

    unhonoured: ClassVar[Unhonoured] = {"include_obfuscation": ((False, None), "streams are not padded")}
    include_usage: bool | None = None


class Sampled(Fields):
    """What every request has that makes tokens. `top_k`, `min_p`, `repetition_penalty` and `ignore_eos` are named as
    other servers name them; OpenAI has none of them."""

    model: str = Field(description="The served model; GET /v1/models lists it.")
    n: int | None = Field(default=None, ge=1, le=MOST_CHOICES, description="Choices; 1 where absent.")
    temperature: float | None = Field(default=None, ge=0, le=2, description="0 takes the likeliest token; absent is 1.")
    top_p: float | None = Field(default=None, ge=1e-6, le=1)
    top_k: int | None = Field(default=None, ge=0, lt=2**31, description="0 is no limit.")
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(
        default=None, ge=0, lt=2**64, description="The same seed and request give the same bytes; absent draws a seed."
    )
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=10)
    logit_bias: dict[BiasedId, Bias] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    min_tokens: int | None = Field(default=None, ge=0, lt=2**31, description="End tokens may not come before.")
    ignore_eos: bool | None = Field(default=None, description="Makes tokens up to the limit, also past an end token.")
    user: str | None = Field(default=None, description="Changes nothing here.")
    safety_identifier: str | None = Field(default=None, description="Changes nothing here.")
    prompt_cache_key: str | None = Field(default=None, description="Changes nothing here: prefixes are found by ids.")
