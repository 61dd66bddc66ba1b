"""The body of POST /v1/chat/completions."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from circuit_exec.server.fields.base import (
    COMMON,
    MOST_TOP_LOGPROBS,
    TEXT_ONLY,
    Fields,
    Sampled,
    Unhonoured,
)

JsonObject = dict[str, object]


class TextPart(Fields):
    """A part of a message; parts of other types are refused."""

    type: Literal["text"]
    text: str


Content = str | Annotated[list[TextPart], Field(min_length=1)]


class System(Fields):
    """Instructions. `developer` is the newer name of `system`; templates know the older one."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class User(Fields):
    """What the user says."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class CalledFunction(Fields):
    """Which function was called; `arguments` is the JSON text of an object."""

    name: str
    arguments: str


class ToolCall(Fields):
    """A call as an answer gave it."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class Assistant(Fields):
    """What the model said before."""

    unhonoured: ClassVar[Unhonoured] = {
        "audio": ((None,), TEXT_ONLY),
        "function_call": ((None,), "functions are called as tools"),
        "annotations": (([], None), TEXT_ONLY),
        "refusal": ((None,), "templates have no place for it"),
    }
    role: Literal["assistant"]
    content: Content | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1)] | None = None


class ToolResult(Fields):
    """What a called function gave."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str
    name: str | None = None


Message = Annotated[System | User | Assistant | ToolResult, Field(discriminator="role")]

Name = Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class Function(Fields):
    """A function that the model may call; `parameters` is a JSON schema of its arguments."""

    name: Name
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class Tool(Fields):
    """An entry of `tools`."""

    type: Literal["function"]
    function: Function


class ChosenFunction(Fields):
    """The name in a `tool_choice`."""

    name: Name


class ChosenTool(Fields):
    """A `tool_choice` that names the function to call."""

    type: Literal["function"]
    function: ChosenFunction


class PlainText(Fields):
    """Any text."""

    type: Literal["text"]


class AnyObject(Fields):
    """A JSON object."""

    type: Literal["json_object"]


class NamedSchema(Fields):
    """A JSON schema with its name; `strict` changes nothing, since the schema always holds."""

    name: Name
    description: str | None = None
    schema_: JsonObject | None = Field(default=None, alias="schema")
    strict: bool | None = None


class OfSchema(Fields):
    """JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[PlainText | AnyObject | OfSchema, Field(discriminator="type")]


class ChatFields(Sampled):
    """Answer a conversation. `chat_template_kwargs` is named as other servers name it; OpenAI has nothing like it."""

    unhonoured: ClassVar[Unhonoured] = COMMON | {
        "audio": ((None,), TEXT_ONLY),
        "modalities": ((["text"], None), TEXT_ONLY),
        "prediction": ((None,), "no answer is predicted"),
        "reasoning_effort": (
            (None,),
            "how a model reasons is stated in chat_template_kwargs, as its template names it",
        ),
        "verbosity": ((None, "medium"), "the models know no verbosity"),
        "web_search_options": ((None,), "nothing is searched"),
        "functions": ((None,), "functions are given as tools"),
        "function_call": ((None,), "functions are chosen with tool_choice"),
    }
    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: int | None = Field(default=None, ge=1, lt=2**31, description="The older name of the next.")
    max_completion_tokens: int | None = Field(default=None, ge=1, lt=2**31, description="Absent is what fits.")
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP_LOGPROBS)
    response_format: ResponseFormat | None = None
    tools: Annotated[list[Tool], Field(min_length=1, max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: JsonObject | None = Field(
        default=None, description="Names for the chat template, such as enable_thinking."
    )
