"""`met serve`: a model behind an OpenAI-compatible server."""

import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from circuit.errors import LoadError, PlanError, Problem
from cli.engine_options import (
    MAX_SEQS,
    PROMPT_ROWS,
    Asked,
    ContextOption,
    KvPagesOption,
    MaxSeqsOption,
    NoPrefixCacheOption,
    PromptRowsOption,
    StepRowsOption,
    opened,
)
from cli.environment import check_environment
from cli.options import PolicyOption, RecipeOption, RulesOption, ThreadsOption

if TYPE_CHECKING:
    from circuit_exec.server.keys import Keys
    from circuit_exec.server.served import Served
    from cli.recipe_given import Given

EXAMPLES = """Examples:

\b
  met serve smollm2
  met serve --forward circuit smollm2 --port 8080 --max-num-seqs 16
  met serve --recipe recipe.toml
  met serve ./my-model --host 0.0.0.0 --api-key-file keys.txt
  curl localhost:8000/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"model": "smollm2", "messages": [{"role": "user", "content": "Hello"}]}'

A key file holds the SHA-256 of each key, one a line: printf %s KEY | sha256sum >> keys.txt
"""


def serve(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="As in every command; left out with --recipe, which states it."),
    ] = None,
    forward: Annotated[
        Literal["circuit"], typer.Option("--forward", help="What computes: the model's plan.")
    ] = "circuit",
    host: Annotated[str, typer.Option(metavar="H", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="P", min=0, max=65535, help="0 takes a free one.")] = 8000,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", show_default="of MODEL", help="What clients call the model.")
    ] = None,
    threads: ThreadsOption = None,
    max_num_seqs: MaxSeqsOption = None,
    context: ContextOption = None,
    kv_pages: KvPagesOption = None,
    step_rows: StepRowsOption = None,
    prompt_rows: PromptRowsOption = PROMPT_ROWS,
    max_queue: Annotated[
        int, typer.Option(metavar="N", min=1, help="Choices that may wait; more are answered with 429.")
    ] = 256,
    no_prefix_cache: NoPrefixCacheOption = False,
    timeout: Annotated[float, typer.Option(metavar="S", min=1, help="Seconds that an answer may take.")] = 600.0,
    drain: Annotated[
        float, typer.Option(metavar="S", min=0, help="Seconds that running answers get after SIGTERM.")
    ] = 30.0,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1024, help="The longest body of a request.")] = 4
    * 2**20,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SHA-256 hashes of the keys that are taken, one a line.")
    ] = None,
    allow_public_without_keys: Annotated[
        bool, typer.Option("--allow-public-without-keys", help="Listen beyond this machine without asking for a key.")
    ] = False,
    date: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="For chat templates that write the date."),
    ] = None,
    log_prompts: Annotated[bool, typer.Option("--log-prompts", help="Write prompts into the log too.")] = False,
    rules: RulesOption = "all",
    policy: PolicyOption = None,
    recipe: RecipeOption = None,
) -> None:
    """Serve a model behind an OpenAI-compatible API, until SIGTERM or Ctrl-C. The log goes to stderr, as JSON lines."""
    check_environment()
    from circuit_exec.server.keys import check_bind

    keys = None if api_key_file is None else _keys(api_key_file)
    check_bind(host, keys, allow_public_without_keys)
    from circuit_exec.cache import user_cache
    from circuit_exec.launches import decode_launches
    from circuit_exec.server.app import guarded, make_app
    from circuit_exec.server.guard import Access
    from circuit_exec.server.keys import is_loopback
    from circuit_exec.server.log import Log
    from circuit_exec.server.metrics import Metrics
    from circuit_exec.server.serve import bind
    from circuit_exec.server.serve import serve as run
    from circuit_exec.server.served import Options, served_model
    from cli.recipe_given import agreed, check_bytes

    given = _given(recipe, model, threads, policy)
    choices = list(given.policy)
    asked = Asked(
        max_seqs=agreed(given, "sequences", "--max-num-seqs", max_num_seqs) or MAX_SEQS,
        context=agreed(given, "context", "--context", context),
        kv_pages=kv_pages,
        step_rows=step_rows,
        prompt_rows=prompt_rows,
        max_queue=max_queue,
        prefix_cache=not no_prefix_cache,
    )
    metrics = Metrics()
    engine = opened(given.path, given.threads, rules, choices, asked, metrics, given.hardware_class)
    with bind(host, port) as bound, engine as ready:
        check_bytes(given, ready.model.planned.bytes_digest)
        options = Options(
            name=_name(given) if name is None else name,
            created=int(time.time()),
            context=ready.context,
            today=None if date is None else date.date(),
            timeout_s=timeout,
            drain_s=drain,
            most_body_bytes=max_body,
            log_prompts=log_prompts,
        )
        launches = decode_launches(ready.model.checkpoint, user_cache(), rules, given.policy, given.hardware_class)
        served = served_model(options, ready.engine, ready.model, launches)
        metrics.watch(ready.engine.stats)
        log = Log(sys.stderr.write)
        app = make_app(served, metrics)
        access = Access(keys=keys, names=(host,) if keys is None and is_loopback(host) else None)
        print(_ready(served, bound.getsockname(), keys), flush=True)
        run(app, guarded(app, access, log, metrics), bound, log, drain)


def _ready(served: "Served", address: tuple[object, ...], keys: "Keys | None") -> str:
    """What is served, for people: one thing a line."""
    runs = served.description
    host = f"[{address[0]}]" if ":" in str(address[0]) else str(address[0])
    lines = [
        ("serving", f"{served.options.name} on http://{host}:{address[1]}"),
        ("class", f"{runs.hardware_class}, {runs.n_threads} threads"),
        ("fingerprint", runs.fingerprint),
        ("context", f"{served.options.context} tokens"),
        ("KV pages", f"{runs.limits.n_pages} of 64 tokens, {runs.limits.max_seqs} choices together"),
        ("keys", "none is asked for" if keys is None else f"{len(keys.hashes)}"),
    ]
    return "\n".join(f"{what:12}{text}" for what, text in lines)


def _keys(path: Path) -> "Keys":
    from circuit.text import Source
    from circuit_exec.server.keys import HOW, parse_keys

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is not UTF-8").lower()
        message = f"the key file cannot be read: {reason}"
        raise LoadError(Problem(message=message, fix=HOW, file=str(path))) from error
    return parse_keys(Source(path=str(path), text=text))


def _given(recipe: Path | None, model: str | None, threads: int | None, policy: list[str] | None) -> "Given":
    """What is served: what the recipe says, or MODEL."""
    from cli.recipe_given import given_by_recipe, given_plainly

    if recipe is None and model is None:
        raise PlanError(Problem(message="missing argument 'MODEL'", fix="see `met serve --help`"))
    if recipe is None:
        assert model is not None
        return given_plainly(model, threads, policy or [])
    if model is not None:
        message = f"the recipe {recipe} states the checkpoint, and MODEL is given too: {model}"
        raise PlanError(Problem(message=message, fix="leave out MODEL or --recipe"))
    return given_by_recipe(recipe, threads, policy or [])


def _name(given: "Given") -> str:
    """The last part of a path, without .gguf; a fetched name as it is."""
    path = given.path if given.recipe is None else given.recipe.checkpoint.source
    return Path(path).resolve().name.removesuffix(".gguf") if Path(path).exists() else path
