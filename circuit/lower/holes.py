"""What can be said of rules on one class: what cannot be used there, what nobody computes, examples that are none."""

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.formats import INT8_G32
from circuit.load.families import Family
from circuit.load.hardware import HardwareClass
from circuit.load.ops import OPS
from circuit.load.policy import KEYS, Policy
from circuit.load.rules import Accepted, Rule, RuleValue
from circuit.lower.example import example_of
from circuit.lower.fuse import fuse
from circuit.lower.lint import overlaps, shadows
from circuit.sigma.storage import PANEL_FORMATS
from circuit.sigma.storage_coded import CODED_FORMATS
from circuit.text import listed

Rows = tuple[int, int]


def findings(
    rules: tuple[Rule, ...], families: tuple[Family, ...], hardware: HardwareClass, policy: Policy
) -> tuple[Problem, ...]:
    """All that `met circuit lint` says of the rules of a class, by kind."""
    found = [*overlaps(rules), *shadows(rules), *unreachable(rules, families, hardware)]
    return (*found, *holes(rules, families, hardware), *silent_examples(rules, policy))


def unreachable(rules: tuple[Rule, ...], families: tuple[Family, ...], hardware: HardwareClass) -> Iterator[Problem]:
    """Rules that nothing on this class can ask for."""
    planned = dict(hardware.rows)
    implemented = {key.name: key.implemented for key in KEYS}
    for rule in rules:
        family = next(family for family in families if family.id == rule.family)
        meets = [mode for mode in rule.modes if mode in planned and _meet(rule.rows, planned[mode])]
        pointed = [mode for mode in meets if any(mode in p.modes and _meet(p.rows, rule.rows) for p in family.points)]
        for key, values in rule.when:
            if not set(values) & set(implemented[key]):
                message = f"policy {key} = {listed(values)} is not implemented"
                yield _at(rule, f"rule `{rule.id}` is unreachable: {message}", "implement it, or remove the rule")
        if not meets:
            ranges = listed(f"{mode} {lo}-{hi}" for mode, (lo, hi) in hardware.rows)
            message = f"rule `{rule.id}` is unreachable: class {hardware.name} plans {ranges}"
            yield _at(rule, message, "widen its modes or rows, or remove it")
        elif not pointed:
            message = f"rule `{rule.id}` is unreachable: family {family.id} has no point for its modes and rows"
            yield _at(rule, message, f"add a point ({family.file}:{family.line}), or change the rule")


def holes(rules: tuple[Rule, ...], families: tuple[Family, ...], hardware: HardwareClass) -> Iterator[Problem]:
    """Uses of an op, by format, mode and rows, that no rule of that single op takes, or that have no point."""
    by_id = {family.id: family for family in families}
    for (op, facts), (mode, rows) in product(_uses(), hardware.rows):
        taken: list[Rows] = []
        for rule in rules:
            if len(rule.pattern) > 1 or rule.when or mode not in rule.modes or rule.pattern[0].op != op:
                continue
            accepts = dict(rule.pattern[0].accepts)
            if all(_takes(accepts.get(name, ()), value) for name, value in facts):
                points = [p.rows for p in by_id[rule.family].points if mode in p.modes]
                taken += [_common(rule.rows, point) for point in points if _meet(rule.rows, point)]
        for lo, hi in _gaps(rows, taken):
            told = [(name.removeprefix("param."), str(value).lower()) for name, value in facts]
            what = "".join(f" with {name} = {value}" for name, value in told if (name, value) != ("reads", "f32"))
            message = f"no rule computes {op}{what} in {mode} of rows {lo}-{hi}"
            files = dict.fromkeys(rule.file for rule in rules)
            yield Problem(message=message, fix=f"add a rule of that single op, or a point, for it ({listed(files)})")


def silent_examples(rules: tuple[Rule, ...], policy: Policy) -> Iterator[Problem]:
    """Rules whose example another rule takes, or nobody does."""
    for rule in rules:
        chosen = dict(policy.entries) | {key: values[0] for key, values in rule.when}
        asked = replace(policy, entries=tuple(chosen.items()))
        try:
            groups = fuse(
                example_of(rule), _with(rules, rule), asked, rule.modes[0], (rule.rows[0], rule.rows[0]), "all"
            )
        except PlanError as error:
            yield from error.problems
            continue
        fired = [group for group in groups if group.rule == rule.id and len(group.nodes) == len(rule.pattern)]
        if not fired:
            message = f"rule `{rule.id}` does not fire on its example; {listed(group.rule for group in groups)} did"
            yield _at(rule, message, "write an example that it takes, or give it a higher priority")


def _with(rules: tuple[Rule, ...], own: Rule) -> tuple[Rule, ...]:
    """The rules, `own` in use."""
    return tuple(replace(rule, used=True) if rule is own else rule for rule in rules)


def _uses() -> Iterator[tuple[str, tuple[tuple[str, RuleValue], ...]]]:
    """Each op with each storage format of its matrix, each value of its switches, and each row that it may read."""
    for op, use in OPS.items():
        switches = [(f"param.{name}", (False, True)) for name, kind in use.params if kind == "bool" and name == "bias"]
        facts: list[tuple[str, tuple[RuleValue, ...]]] = list(switches)
        matrices = {"embed": ((), PANEL_FORMATS), "linear": (("f32",), PANEL_FORMATS)}.get(op, ((), ()))
        for reads, formats in (matrices, *([((INT8_G32,), CODED_FORMATS)] if op == "linear" else [])):
            own = [*facts, *([("reads", reads)] if reads else []), *([("weight", formats)] if formats else [])]
            for values in product(*(values for _, values in own)):
                yield op, tuple(zip((name for name, _ in own), values, strict=True))


def _takes(accepted: Accepted, value: RuleValue) -> bool:
    return accepted == "any" or any(type(other) is type(value) and other == value for other in accepted)


def _meet(one: Rows, other: Rows) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def _common(one: Rows, other: Rows) -> Rows:
    return max(one[0], other[0]), min(one[1], other[1])


def _gaps(rows: Rows, taken: list[Rows]) -> Iterator[Rows]:
    """The parts of `rows` that nothing in `taken` covers."""
    following = rows[0]
    for lo, hi in sorted(taken):
        if lo > following:
            yield following, min(lo - 1, rows[1])
        following = max(following, hi + 1)
        if following > rows[1]:
            return
    yield following, rows[1]


def _at(rule: Rule, message: str, fix: str) -> Problem:
    return Problem(message=message, fix=fix, file=rule.file, line=rule.line)
