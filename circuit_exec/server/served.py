"""What a server serves: one model behind an engine, with all that turns requests into ids and ids into answers."""

from datetime import date

from msgspec import Struct

from circuit_exec.engine.interface import Description, Engine
from circuit_exec.launches import Shown
from circuit_exec.model import Model
from circuit_exec.server.grammar import Guides
from circuit_exec.server.tickets import Tickets
from circuit_exec.server.tools.formats import ToolFormat, format_of
from circuit_exec.text.load import all_stop_ids, load_tokenizer
from circuit_exec.text.tokenizer import Tokenizer, piece_of


class Options(Struct, frozen=True, kw_only=True):
    """What is stated when a server starts. `context`: the most tokens of a prompt and its answer. `today` is for chat
    templates that write the date; `timeout_s` is the most that a request may take, from its arrival; `drain_s` the most
    that running ones get when the server ends.
    """

    name: str
    created: int
    context: int
    today: date | None
    timeout_s: float
    drain_s: float
    most_body_bytes: int
    log_prompts: bool


class Served(Struct, frozen=True, kw_only=True, eq=False):
    """`stop_ids` is the union of the tokenizer's and of the configuration files'. `tools` is how the model writes
    calls, None where its template takes none, or writes them in a way that is not known.
    """

    options: Options
    engine: Engine
    description: Description
    tokenizer: Tokenizer
    stop_ids: frozenset[int]
    guides: Guides
    tools: ToolFormat | None
    tickets: Tickets
    launches: tuple[Shown, ...]


def served_model(options: Options, engine: Engine, model: Model, launches: tuple[Shown, ...]) -> Served:
    """The engine's model with its texts; `launches` are shown to those who ask what runs."""
    tokenizer = load_tokenizer(model.checkpoint)
    stops = all_stop_ids(model.checkpoint, tokenizer)
    return Served(
        options=options,
        engine=engine,
        description=engine.describe(),
        tokenizer=tokenizer,
        stop_ids=frozenset(stops),
        guides=Guides(tokenizer, stops),
        tools=None if tokenizer.template is None else format_of(tokenizer.template.text),
        tickets=Tickets(),
        launches=launches,
    )


def token_bytes(tokenizer: Tokenizer, id: int) -> bytes:
    """What a token is, alone: its bytes in a text, or a control token's name."""
    return tokenizer.controls[id].encode() if id in tokenizer.controls else piece_of(tokenizer, id)


def shown(data: bytes) -> str:
    """The text of a token's bytes; `bytes:` and their hex where they are part of a character only."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
