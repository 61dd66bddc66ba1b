"""What a command that runs a model is given: by its own arguments, or by a recipe, which they must not contradict."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from circuit.errors import LoadError, PlanError, Problem

if TYPE_CHECKING:
    from circuit.load.recipe import Recipe


class Given(Struct, frozen=True, kw_only=True):
    """A checkpoint's path, threads, policy and settings as KEY=VALUE; class and context where a recipe states them."""

    path: str
    threads: int | None
    policy: tuple[str, ...]
    hardware_class: str | None = None
    context: int | None = None
    sequences: int = 1
    recipe: "Recipe | None" = None


def given_plainly(model: str, threads: int | None, policy: list[str]) -> Given:
    """What the arguments alone say."""
    return Given(path=model, threads=threads, policy=tuple(policy))


def given_by_recipe(file: Path, threads: int | None, policy: list[str]) -> Given:
    """What the recipe says, its checkpoint's hashes compared. Settings may be added: they change no byte."""
    from circuit.load.hardware import against_host, load_hardware
    from circuit.load.recipe import choices, problem_of
    from circuit.load.settings import is_setting
    from circuit_exec.host import this_host
    from circuit_exec.library import library
    from cli.planner import device_of
    from cli.recipe_opened import checked_checkpoint, opened

    recipe = opened(file)
    stated = dict(recipe.policy.entries)
    problems: list[Problem] = []
    if threads is not None and threads != recipe.resources.threads:
        message = f"--threads {threads} contradicts the recipe, which states {recipe.resources.threads}"
        fix = "leave out --threads, or change the recipe"
        problems.append(problem_of(recipe, ("resources", "threads"), message, fix))
    for choice in policy:
        name, _, value = choice.partition("=")
        if not is_setting(choice) and stated.get(name) != value:
            message = f"--policy {choice} contradicts the recipe, which states {stated.get(name, 'no such key')}"
            fix = "leave out --policy, or change the recipe"
            problems.append(problem_of(recipe, ("policy", name), message, fix))
    name = device_of(recipe.resources.hardware).hardware_class
    host = this_host()
    against = against_host(load_hardware(library(), name), host.machine, host.features)
    if against is not None:
        fix = "write a recipe for this machine, or see `met recipe verify`, which runs on another class"
        problems.append(problem_of(recipe, ("resources", "hardware"), against, fix))
    if problems:
        raise PlanError(problems)
    return Given(
        path=checked_checkpoint(recipe).path,
        threads=recipe.resources.threads,
        policy=(*choices(recipe), *(choice for choice in policy if is_setting(choice))),
        hardware_class=name,
        context=recipe.resources.context,
        sequences=recipe.resources.sequences,
        recipe=recipe,
    )


def agreed(given: Given, resource: str, option: str, value: int | None) -> int | None:
    """A resource: as the recipe states it, which the option must not contradict, or else what the option says."""
    if given.recipe is None:
        return value
    from circuit.load.recipe import problem_of

    stated: int = getattr(given.recipe.resources, resource)
    if value is not None and value != stated:
        message = f"{option} {value} contradicts the recipe, which states {stated}"
        fix = f"leave out {option}, or change the recipe"
        raise PlanError(problem_of(given.recipe, ("resources", resource), message, fix))
    return stated


def check_bytes(given: Given, found: str) -> None:
    """Refuses a plan that may give other bytes than the recipe records."""
    recipe = given.recipe
    if recipe is None or recipe.expect is None or recipe.expect.bytes == found:
        return
    from circuit.load.recipe import problem_of

    message = f"the plan has the digest {found} of what changes bytes, not the recorded one"
    fix = "see `met recipe verify`; where met itself changed, write the recipe anew"
    raise LoadError(problem_of(recipe, ("expect", "bytes"), message, fix))
