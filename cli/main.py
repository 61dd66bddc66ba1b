"""The console script `met`: its commands, and what becomes of every error.

Exit codes: 0 done, 1 a check failed, 2 wrong input, 3 refused by policy, 70 a bug in met, 130 interrupted.
"""

import re
import signal
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from circuit.errors import MetError, Problem, render
from cli import (
    bench,
    calibrate,
    chat,
    circuits,
    diff,
    display,
    emit,
    fetch,
    generate,
    lkb,
    logits,
    planner,
    recipe,
    record,
    serve,
    trace,
    venn,
    why,
)

HELP = """Turns a checkpoint into the exact list of kernel launches that runs it, and runs it.

MODEL is a directory with config.json and safetensors, a .gguf file, or the name of a fetched model; for the commands
under `met circuit` a bare config.json is enough.
"""
EXAMPLES = """Examples:

\b
  met fetch smollm2
  met run smollm2 "What is the capital of France?"
  met serve smollm2
  met circuit map smollm2
  met circuit show smollm2 --stage tir
"""

app = typer.Typer(
    name="met", help=HELP, epilog=EXAMPLES, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
app.command("fetch", epilog=fetch.EXAMPLES)(fetch.fetch)
app.command("run", epilog=generate.EXAMPLES)(generate.run)
app.command("chat", epilog=chat.EXAMPLES)(chat.chat)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("logits", epilog=logits.EXAMPLES)(logits.logits)
app.command("bench", epilog=bench.EXAMPLES)(bench.bench)
app.command("record", epilog=record.EXAMPLES)(record.record)
app.command("calibrate", epilog=calibrate.EXAMPLES)(calibrate.calibrate)
app.command("emit", epilog=emit.EXAMPLES)(emit.emit)
circuits.app.command("diff", epilog=diff.EXAMPLES)(diff.diff)
circuits.app.command("why", epilog=why.EXAMPLES)(why.why)
circuits.app.command("display", epilog=display.EXAMPLES)(display.display)
circuits.app.command("devices", epilog=planner.DEVICES_EXAMPLES)(planner.devices)
for report in planner.REPORTS:
    circuits.app.command(report.name, epilog=report.examples)(planner.command_of(report))
circuits.app.command("lkb", epilog=lkb.EXAMPLES)(lkb.lkb)
circuits.app.command("trace", epilog=trace.EXAMPLES)(trace.trace)
circuits.app.command("venn", epilog=venn.EXAMPLES)(venn.venn)
app.add_typer(circuits.app, name="circuit")
app.add_typer(recipe.app, name="recipe")


def main() -> None:
    """What the shell runs."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `met circuit show MODEL | head` ends quietly
    sys.exit(status(sys.argv[1:]))


def status(arguments: list[str]) -> int:
    """Runs one command line; gives the exit code, after the message that belongs to it."""
    try:
        code: object = app(arguments, prog_name="met", standalone_mode=False)
    except MetError as error:
        _say(render(error.problems))
        return error.exit_code
    except TyperException as error:
        _say(_usage(error, arguments))
        return 2
    except KeyboardInterrupt:
        code = 130
    except Exception:
        import traceback

        traceback.print_exc()
        _say("error: this is a bug in met, not in what you gave it\n  = fix: report it with the lines above")
        return 70
    if code == 130:
        _say("interrupted: nothing half-written was kept")
    return code if isinstance(code, int) else 0


def _say(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr)


def _usage(error: TyperException, arguments: list[str]) -> str:
    """A command line that does not parse, in the form of every other error; no arguments at all gives the help."""
    message = error.format_message()
    if message.startswith("Usage:"):
        return message
    names = (
        "fetch run chat serve logits bench record calibrate emit circuit map show diff display why prove lint".split()
    )
    names += ["devices", "lkb", "trace", "venn", *(report.name for report in planner.REPORTS)]
    names += "recipe write check verify".split()
    words = [word for word in arguments[:2] if word in names]
    text = re.sub(r" (\(Possible options|Did you mean).*", "", message[:1].lower() + message[1:]).rstrip(".")
    return render([Problem(message=text, fix=f"see `{' '.join(['met', *words])} --help`")])


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"met {version('met-circuit')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""
