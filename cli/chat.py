"""`met chat`: a conversation in the terminal, by the same engine and templates as the server's."""

import queue
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.engine_options import PROMPT_ROWS, Asked, ContextOption, opened
from cli.environment import check_environment
from cli.models import ModelArgument
from cli.options import PolicyOption, RulesOption, ThreadsOption

if TYPE_CHECKING:
    from circuit_exec.engine.request import Event
    from circuit_exec.server.served import Served

EXAMPLES = """Examples:

\b
  met chat smollm2
  met chat smollm2 --system "Answer in one sentence." --temperature 0.7 --seed 1

Ctrl-C stops an answer. /clear begins anew, /exit or Ctrl-D ends.
"""
PROMPT = "> "


def chat(
    model: ModelArgument,
    system: Annotated[str | None, typer.Option("--system", metavar="TEXT", help="Instructions for the model.")] = None,
    temperature: Annotated[float, typer.Option(metavar="T", help="0 takes the most likely token.")] = 0.0,
    top_p: Annotated[float, typer.Option(metavar="P", help="Draw from the likeliest tokens that hold P in all.")] = 1.0,
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed draws the same answers.")] = 0,
    n: Annotated[
        int | None, typer.Option("-n", metavar="N", show_default="what fits", help="The most tokens of an answer.")
    ] = None,
    threads: ThreadsOption = None,
    context: ContextOption = None,
    date: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="For chat templates that write the date."),
    ] = None,
    rules: RulesOption = "all",
    policy: PolicyOption = None,
) -> None:
    """Talk with a model. Answers appear as they are made; Ctrl-C stops one, /exit ends."""
    check_environment()
    from circuit_exec.server.errors import Refused
    from circuit_exec.server.served import Options, served_model

    asked = Asked(
        max_seqs=1,
        context=context,
        kv_pages=None,
        step_rows=None,
        prompt_rows=PROMPT_ROWS,
        max_queue=0,
        prefix_cache=True,
    )
    with opened(model, threads, rules, policy, asked) as ready:
        options = Options(
            name=model,
            created=int(time.time()),
            context=ready.context,
            today=None if date is None else date.date(),
            timeout_s=float("inf"),
            drain_s=0.0,
            most_body_bytes=0,
            log_prompts=False,
        )
        served = served_model(options, ready.engine, ready.model, ())
        first: list[dict[str, object]] = [] if system is None else [{"role": "system", "content": system}]
        messages = list(first)
        while (said := _read()) not in (None, "/exit"):
            if said == "/clear":
                messages = list(first)
            elif said:
                turns: list[dict[str, object]] = [*messages, {"role": "user", "content": said}]
                fields = {"model": model, "messages": turns, "temperature": temperature, "top_p": top_p, "seed": seed}
                try:
                    text = _answer(served, fields if n is None else fields | {"max_tokens": n})
                except Refused as error:
                    print(f"error: {error.refusal.message}\n  = fix: {error.refusal.fix}", file=sys.stderr)
                else:
                    messages = [*turns, {"role": "assistant", "content": text}]


def _read() -> str | None:
    """What the user says; None at the end of the input. An interrupted line is empty."""
    try:
        return input(PROMPT if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None
    except KeyboardInterrupt:
        print()
        return ""


def _answer(served: "Served", fields: dict[str, object]) -> str:
    """The answer, printed while it is made; what came of it where Ctrl-C stops it."""
    from pydantic import ValidationError

    from circuit_exec.engine.request import Ended, Token
    from circuit_exec.server.chat import Choice, prepare
    from circuit_exec.server.errors import Refused
    from circuit_exec.server.fields.chat import ChatFields
    from circuit_exec.server.running import failure_of
    from circuit_exec.server.validation import details_of, refusal_of

    try:
        parsed = ChatFields.model_validate(fields)
    except ValidationError as error:
        raise Refused(refusal_of(details_of(error.errors(), outside=0), fields)) from error
    prepared = prepare(served, parsed)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    ticket = served.engine.submit(prepared.request, events.put)
    choice, parts, stopped = Choice(prepared), [], False
    while True:
        try:
            match events.get():
                case Token() as token:
                    parts.append(choice.feed(token).text)
                    print(parts[-1], end="", flush=True)
                case Ended() as ended:
                    parts.append(choice.finish(ended)[0].text)
                    print(parts[-1])
                    if not stopped and (failure := failure_of(ended)) is not None:
                        raise failure
                    return "".join(parts)
        except KeyboardInterrupt:
            stopped = True
            ticket.cancel()
