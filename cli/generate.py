"""`met run`: a prompt in, text out as it is made, and how fast that was."""

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.models import ModelArgument
from cli.options import ChunkOption, PolicyOption, RulesOption, ThreadsOption

if TYPE_CHECKING:
    from circuit_exec.generate import Answer
    from circuit_exec.text.tokenizer import Tokenizer

MOST = 256
EXAMPLES = """Examples:

\b
  met run smollm2 "What is the capital of France?"
  met run smollm2 "Once upon a time" --no-chat -n 64
  met run ./my-model "Name a colour." --temperature 0.8 --top-p 0.9 --seed 7
"""


def run(
    model: ModelArgument,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to say to the model.")],
    n: Annotated[
        int | None,
        typer.Option("-n", metavar="N", show_default=f"{MOST}, or what fits", help="The most tokens to make."),
    ] = None,
    temperature: Annotated[float, typer.Option(metavar="T", help="0 takes the most likely token.")] = 0.0,
    top_p: Annotated[float, typer.Option(metavar="P", help="Draw from the likeliest tokens that hold P in all.")] = 1.0,
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed draws the same text.")] = 0,
    threads: ThreadsOption = None,
    no_chat: Annotated[bool, typer.Option("--no-chat", help="Continue the prompt as plain text.")] = False,
    date: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="For chat templates that write the date."),
    ] = None,
    rules: RulesOption = "all",
    chunk: ChunkOption = None,
    policy: PolicyOption = None,
) -> None:
    """Answer a prompt. The text goes to stdout as it is made, the figures to stderr."""
    started = time.perf_counter()
    from circuit_exec.generate import Sampling, generate
    from circuit_exec.text.load import all_stop_ids, load_tokenizer
    from circuit_exec.text.stream import continue_text, start_text
    from cli.loading import loaded

    with loaded(model, threads, rules, policy) as ready:
        tokenizer = load_tokenizer(ready.checkpoint)
        ids = _plain_ids(tokenizer, prompt) if no_chat else _chat_ids(tokenizer, prompt, date)
        text = continue_text(tokenizer) if no_chat else start_text(tokenizer)
        first: list[float] = []

        def show(token: int) -> None:
            first.append(time.perf_counter() - started)
            print(text.feed(token), end="", flush=True)

        room = ready.program.layout.context - len(ids) + 1
        answer = generate(
            ready.program,
            ready.pages,
            ids,
            min(MOST, max(room, 1)) if n is None else n,
            Sampling(temperature=temperature, top_p=top_p, seed=seed),
            ready.program.max_rows("prefill") if chunk is None else chunk,
            all_stop_ids(ready.checkpoint, tokenizer),
            show,
        )
        print(text.finish())
        print(_figures(len(ids), answer, first, ready.program.n_threads), file=sys.stderr)


def _plain_ids(tokenizer: "Tokenizer", prompt: str) -> list[int]:
    from circuit_exec.text.tokenizer import encode_prompt

    return encode_prompt(tokenizer, prompt)


def _chat_ids(tokenizer: "Tokenizer", prompt: str, date: datetime | None) -> list[int]:
    from circuit_exec.text.chat import Message, render_chat, require_template
    from circuit_exec.text.tokenizer import encode

    template = require_template(tokenizer.template, tokenizer.file)
    today = None if date is None else date.date()
    return encode(tokenizer, render_chat(template, tokenizer.named, [Message(role="user", content=prompt)], today))


def _figures(n_prompt: int, answer: "Answer", first: list[float], n_threads: int) -> str:
    """One line. A stop token was a step too; the first token belongs to the prefill."""
    n_steps = len(answer.ids) if answer.ended == "stop" else len(answer.ids) - 1
    parts = [f"prefill {n_prompt} tokens, {n_prompt / answer.prefill_s:.1f} tok/s"]
    if n_steps > 0:
        parts.append(f"decode {n_steps} tokens, {n_steps / answer.decode_s:.1f} tok/s")
    if first:
        parts.append(f"first token after {first[0]:.2f} s")
    ended = "end of text" if answer.ended == "stop" else "-n reached"
    return "; ".join([*parts, ended, f"{n_threads} thread{'s' if n_threads != 1 else ''}"])
