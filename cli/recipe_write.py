"""`met recipe write`: a complete, commented, checked recipe, and what the model gives under it."""

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from circuit.errors import LoadError, PlanError, Problem
from cli.circuits import checkpoint_of
from cli.models import ModelArgument, model_path
from cli.options import PolicyOption
from cli.planner import HardwareOption, ReservedOption, device_of
from cli.whole_file import write_whole

if TYPE_CHECKING:
    from circuit.load.devices import Device
    from circuit.load.policy import Policy
    from circuit.load.recipe import Expect, Output, Resources
    from circuit.plan.ir import Plan
    from circuit.report.recipe_choice import Choice, Wish
    from circuit_exec.checkpoint.records import Checkpoint
    from circuit_exec.recipe_run import Asked

EXAMPLES = """Examples:

\b
  met recipe write smollm2 --hardware this -o recipe.toml
  met recipe write ./my-model --hardware epyc_9654 --goal throughput
  met recipe write config.json --hardware h200 --goal memory --context 32768
"""
PROMPT = "What is the capital of France?"
N_TOKENS = 32
DRAWN = (0.8, 0.95, 7)
"""Temperature, top-p and seed of the second output: what is drawn is recorded too, not the likeliest tokens alone."""


def write(
    model: ModelArgument,
    hardware: HardwareOption,
    goal: Annotated[
        Literal["latency", "throughput", "memory"] | None,
        typer.Option("--goal", show_default="the default policy", help="Choose policy and resources for it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", show_default="stdout", help="Where it goes.")
    ] = None,
    policy: PolicyOption = None,
    sequences: Annotated[int | None, typer.Option("--sequences", metavar="N", min=1, help="Sequences at once.")] = None,
    context: Annotated[int | None, typer.Option("--context", metavar="N", min=1, help="Positions of each.")] = None,
    reserved: ReservedOption = 0,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", show_default="all of the device", min=1, help="Threads.")
    ] = None,
    prompt: Annotated[str, typer.Option("--prompt", metavar="TEXT", help="What the recorded output answers.")] = PROMPT,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="The most tokens to record.")] = N_TOKENS,
    no_chat: Annotated[bool, typer.Option("--no-chat", help="Continue the prompt as plain text.")] = False,
    date: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="For chat templates that write the date."),
    ] = None,
    no_output: Annotated[bool, typer.Option("--no-output", help="Record digests alone, run nothing.")] = False,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="For people.")] = None,
    why: Annotated[str | None, typer.Option("--why", metavar="TEXT", help="For people.")] = None,
    author: Annotated[str, typer.Option("--author", metavar="TEXT", help="For people.")] = "not stated",
) -> None:
    """Write a recipe with every policy key stated, its effect and its price, and with what the model gives.

    Keys that --policy states are kept; a goal chooses among the values of the others where that gains 5 % or more.
    """
    from circuit.load.families import load_families, panel_of
    from circuit.load.hardware import load_hardware
    from circuit.load.owners import load_owners, policy_keys
    from circuit.load.policy import load_policy, with_choices
    from circuit.load.recipe import Checkpoint as Stated
    from circuit.load.recipe import Metadata, load_recipe
    from circuit.report.memory import memory
    from circuit.report.recipe_choice import Wish, choose
    from circuit.report.recipe_text import Written, recipe_text
    from circuit.text import Source
    from circuit_exec.library import library
    from cli.recipe_opened import assessed_recipe, checked_checkpoint, relative

    if out is not None and not out.parent.is_dir():
        message = "the folder of the recipe does not exist"
        raise LoadError(Problem(message=message, fix=f"make it: mkdir -p {out.parent}", file=str(out)))
    device, files = device_of(hardware), library()
    _check_threads(device, threads, load_hardware(files, device.hardware_class).language)
    keys = policy_keys(load_owners(files))
    wish = Wish(
        goal=goal,
        policy=with_choices(load_policy(files), policy or ()),
        fixed=tuple(choice.partition("=")[0] for choice in policy or ()),
        sequences=sequences,
        context=context,
        reserved=reserved,
    )
    checkpoint = _opened(model)
    target = load_hardware(files, device.hardware_class)
    panel = panel_of(load_families(files, target))
    plans_of = _Plans(model, device.hardware_class)
    choice = choose(plans_of.of, keys, wish, panel, device, target)
    plans = plans_of.of(choice.policy)
    is_c = target.language == "c"
    resources = _resources(device, choice, wish, threads, is_c)
    asked = () if no_output or checkpoint.kind == "config" else _asked(prompt, n, no_chat, date)
    planned_class = device.hardware_class if is_c else None
    expect, ran_on = _expect(model, checkpoint, choice, plans, resources, planned_class, asked)
    reason = "the default policy" if goal is None else f"written for the goal {goal}"
    text = recipe_text(
        Written(
            metadata=Metadata(title=title or f"{_name(model)} on {device.name}", why=why or reason, author=author),
            checkpoint=Stated(source=relative(model, out.parent if out else Path()), files=_hashes(checkpoint)),
            choice=choice,
            keys=keys,
            goal=goal,
            resources=resources,
            device=device,
            held=memory(plans, panel),
            expect=expect,
            ran_on=ran_on,
        )
    )
    recipe = load_recipe(Source(path=str(out or "recipe.toml"), text=text), files)
    assessed_recipe(recipe, checked_checkpoint(recipe))
    if choice.moved:
        print(f"note: for {goal}, {', '.join(choice.moved)} left the default policy: other bytes", file=sys.stderr)
    if out is None:
        print(text, end="")
    else:
        write_whole(out, lambda file: file.write(text.encode("utf-8")), "the recipe", "-o")


class _Plans:
    """The plan sets of one model on a class, each made once."""

    def __init__(self, model: str, hardware_class: str) -> None:
        self._texts = checkpoint_of(model)
        self._class = hardware_class
        self._made: dict[object, tuple[Plan, ...]] = {}

    def of(self, policy: "Policy") -> "tuple[Plan, ...]":
        """Without schedules: nothing here depends on how fast a kernel was written."""
        from circuit.compiled import Goal
        from circuit.pipeline import compiled
        from circuit_exec.library import library

        if policy not in self._made:
            choices = tuple(f"{key}={value}" for key, value in policy.entries)
            goal = Goal(hardware_class=self._class, choices=choices, scheduled=False)
            self._made[policy] = compiled(self._texts, library(), goal).plans
        return self._made[policy]


def _check_threads(device: "Device", threads: int | None, language: str) -> None:
    if threads is not None and language != "c":
        message = f"--threads {threads} for {device.id}, which is no processor"
        raise PlanError(Problem(message=message, fix="leave out --threads"))
    if threads is not None and threads > device.units.value:
        message = f"--threads {threads}, {device.id} has {device.units.value:.0f} cores"
        raise PlanError(Problem(message=message, fix=f"give --threads {device.units.value:.0f} or less"))


def _resources(device: "Device", choice: "Choice", wish: "Wish", threads: int | None, is_c: bool) -> "Resources":
    from circuit.load.recipe import Resources

    return Resources(
        hardware=device.id,
        sequences=choice.sequences,
        context=choice.context,
        reserved_bytes=wish.reserved,
        threads=(threads or int(device.units.value)) if is_c else None,
    )


def _asked(prompt: str, n: int, no_chat: bool, date: datetime | None) -> "tuple[Asked, ...]":
    """The prompt with the likeliest tokens, and with drawn ones."""
    from circuit_exec.recipe_run import Asked

    today = None if date is None else date.date().isoformat()
    return tuple(
        Asked(prompt=prompt, chat=not no_chat, date=today, n=n, temperature=temperature, top_p=top_p, seed=seed)
        for temperature, top_p, seed in ((0.0, 1.0, 0), DRAWN)
    )


def _expect(
    model: str,
    checkpoint: "Checkpoint",
    choice: "Choice",
    plans: "tuple[Plan, ...]",
    resources: "Resources",
    planned_class: str | None,
    asked: "tuple[Asked, ...]",
) -> "tuple[Expect, str]":
    """What is recorded, and the class that the prompts ran on."""
    from circuit.load.recipe import Expect
    from circuit_exec.recipe_run import plan_digests

    policy = tuple(f"{key}={value}" for key, value in choice.policy.entries)
    digests = () if planned_class is None else plan_digests(checkpoint, policy, planned_class)
    outputs: tuple[Output, ...] = ()
    print_of, ran_on = None, ""
    if asked:
        outputs, print_of, ran_on = _outputs(model, policy, resources, asked)
    return Expect(
        bytes=dict(plans[0].parts)["bytes"],
        fingerprint=print_of,
        plans=tuple((planned_class or "", plan, digest) for plan, digest in digests),
        outputs=outputs,
    ), ran_on


def _outputs(
    model: str,
    policy: tuple[str, ...],
    resources: "Resources",
    asked: "tuple[Asked, ...]",
) -> "tuple[tuple[Output, ...], str, str]":
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.kv import pages_for
    from circuit_exec.model import fingerprint, load_model
    from circuit_exec.recipe_run import output_of
    from cli.progress import progress_bar

    with progress_bar() as progress:
        threads, n_pages = available_threads(), pages_for(resources.context)
        ready = load_model(model_path(model), user_cache(), threads, "all", policy, progress, n_pages=n_pages)
    try:
        found = tuple(output_of(ready, each) for each in asked)
        return found, fingerprint(ready), ready.planned.hardware_class
    finally:
        ready.close()


def _opened(model: str) -> "Checkpoint":
    from circuit_exec.cache import user_cache
    from circuit_exec.checkpoint.open import opened

    return opened(model_path(model), user_cache())


def _hashes(checkpoint: "Checkpoint") -> tuple[tuple[str, str], ...]:
    from circuit_exec.cache import user_cache
    from circuit_exec.recipe_run import file_hashes

    return file_hashes(checkpoint, user_cache())


def _name(model: str) -> str:
    return Path(model).name if Path(model).exists() else model
