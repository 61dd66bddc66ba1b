"""`met run`: a prompt in, text out as it is made, and how fast that was."""

import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.options import ChunkOption, PolicyOption, RecipeOption, RulesOption, ThreadsOption

if TYPE_CHECKING:
    from circuit_exec.generate import Answer
    from circuit_exec.text.tokenizer import Tokenizer
    from cli.recipe_given import Given

MOST = 256
EXAMPLES = """Examples:

\b
  met run smollm2 "What is the capital of France?"
  met run smollm2 "Once upon a time" --no-chat -n 64
  met run ./my-model "Name a colour." --temperature 0.8 --top-p 0.9 --seed 7
  met run --recipe recipe.toml "Name a colour."
"""


def run(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="As in every command; left out with --recipe, which states it."),
    ] = None,
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="What to say to the model.")] = None,
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
    recipe: RecipeOption = None,
) -> None:
    """Answer a prompt. The text goes to stdout as it is made, the figures to stderr."""
    started = time.perf_counter()
    from circuit_exec.generate import Sampling, check_room, generate
    from circuit_exec.kv import pages_for
    from circuit_exec.text.load import all_stop_ids, load_tokenizer
    from circuit_exec.text.stream import continue_text, start_text
    from cli.loading import loading, ready
    from cli.recipe_given import check_bytes

    given, prompt = _given(recipe, model, prompt, threads, policy)
    with loading(given.path, given.threads, rules, list(given.policy), given.hardware_class) as begun:
        check_bytes(given, begun.planned.bytes_digest)
        tokenizer = load_tokenizer(begun.checkpoint)
        ids = _plain_ids(tokenizer, prompt) if no_chat else _chat_ids(tokenizer, prompt, date)
        text = continue_text(tokenizer) if no_chat else start_text(tokenizer)
        first: list[float] = []

        def show(token: int) -> None:
            first.append(time.perf_counter() - started)
            print(text.feed(token), end="", flush=True)

        context = given.context or begun.planned.layout.context
        room = context - len(ids) + 1
        wanted = min(MOST, max(room, 1)) if n is None else n
        check_room(context, len(ids), wanted)
        with ready(begun, pages_for(min(len(ids) + wanted, context))) as running:
            answer = generate(
                running.program,
                running.pages,
                ids,
                wanted,
                Sampling(temperature=temperature, top_p=top_p, seed=seed),
                running.program.max_rows("prefill") if chunk is None else chunk,
                all_stop_ids(begun.checkpoint, tokenizer),
                show,
            )
            print(text.finish())
            print(_figures(len(ids), answer, first, running.program.n_threads), file=sys.stderr)


def _given(
    recipe: Path | None, model: str | None, prompt: str | None, threads: int | None, policy: list[str] | None
) -> "tuple[Given, str]":
    """What runs, and the prompt: with a recipe the one word is the prompt, without one MODEL comes first."""
    from cli.recipe_given import given_by_recipe, given_plainly

    words = [word for word in (model, prompt) if word is not None]
    names = ["PROMPT"] if recipe is not None else ["MODEL", "PROMPT"]
    if len(words) < len(names):
        missing = names[len(words)]
        raise PlanError(Problem(message=f"missing argument '{missing}'", fix="see `met run --help`"))
    if recipe is None:
        return given_plainly(words[0], threads, policy or []), words[1]
    if len(words) > 1:
        message = f"the recipe {recipe} states the checkpoint, and MODEL is given too: {words[0]}"
        raise PlanError(Problem(message=message, fix="leave out MODEL or --recipe"))
    return given_by_recipe(recipe, threads, policy or []), words[0]


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
