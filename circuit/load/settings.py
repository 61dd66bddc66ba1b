"""Settings: `fuse.RULE=on|off` for every relation. They choose among equal bytes, so none of them can change a byte.

Each relation has one, and nothing else does: that is why they need no part in the digest `bytes`. A relation is on
unless its rule says `opt_in = true`.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.load.rules import Rule
from circuit.text import listed

PREFIX = "fuse."
VALUES = {"on": True, "off": False}


def is_setting(choice: str) -> bool:
    """Whether a `KEY=VALUE` of the policy is a setting."""
    return choice.startswith(PREFIX)


def setting_of(rule: Rule) -> str:
    """`fuse.RULE=on`: the setting of a relation with its value in force."""
    return f"{PREFIX}{rule.id}={'on' if rule.used else 'off'}"


def with_settings(rules: tuple[Rule, ...], choices: Iterable[str]) -> tuple[Rule, ...]:
    """The rules with these settings in force; all that is wrong with them is one PlanError."""
    wanted: dict[str, bool] = {}
    problems: list[Problem] = []
    for choice in choices:
        name, _, value = choice.partition("=")
        id = name.removeprefix(PREFIX)
        wrong = list(_wrong(rules, name, id, value))
        if id in wanted:
            wrong.append(Problem(message=f"policy `{name}` is given twice", fix="give it once"))
        problems += wrong
        wanted[id] = VALUES.get(value, False)
    if problems:
        raise PlanError(problems)
    return tuple(replace(rule, used=wanted.get(rule.id, rule.used)) for rule in rules)


def changed(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The settings that are not as the rules state them, sorted."""
    return tuple(sorted(setting_of(rule) for rule in rules if rule.used == rule.opt_in))


def _wrong(rules: tuple[Rule, ...], name: str, id: str, value: str) -> Iterator[Problem]:
    rule = next((rule for rule in rules if rule.id == id), None)
    relations = listed(PREFIX + rule.id for rule in rules if rule.numerics == "bit_identical")
    if rule is None:
        yield Problem(message=f"policy `{name}`: there is no rule `{id}`", fix=f"use one of: {relations}")
    elif rule.numerics != "bit_identical":
        message = f"policy `{name}`: rule `{id}` is {rule.numerics}, and only relations have a setting"
        yield Problem(message=message, fix=f"use one of: {relations}")
    if value not in VALUES:
        message = f"policy {name} has no value `{value}`"
        yield Problem(message=message, fix=f"write {name}=on or {name}=off")
