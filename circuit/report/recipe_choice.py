"""What a recipe is written with: policy values and resources chosen for a goal by roofline and memory fit.

Every value that kernels exist for is priced, chosen or not, so that a reader sees what was passed over. Without a goal
nothing leaves the default policy; with one, a value does where that gains WORTH of what the goal measures.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from circuit.errors import PlanError
from circuit.load.devices import Device
from circuit.load.hardware import HardwareClass, rows_of
from circuit.load.policy import Key, Policy, policy_value
from circuit.plan.ir import Plan
from circuit.report.cost import Costs
from circuit.report.fit import AskedFit, check_asked
from circuit.report.memory import Memory, longest_context, memory, most_sequences, needed
from circuit.report.roofline import Work, roofline

GoalName = Literal["latency", "throughput", "memory"]

WORTH = 0.05
"""The least part of time or memory for which a goal changes bytes: less is within what a ceiling leaves open."""

PRICED_CONTEXT = 4096
"""Positions at which values are priced, and which throughput plans for, unless a context is asked for."""


class Price(Struct, frozen=True, kw_only=True):
    """One policy on the device: seconds of a decode step of one sequence, tokens a second of the `sequences` that give
    most, and bytes for one sequence; ceilings, at the same context.
    """

    decode_s: float
    sequences: int
    tokens_per_s: float
    needed: int


class Option(Struct, frozen=True, kw_only=True):
    """A value of a policy key with its price, all other keys as they are stated; or why the model cannot have it."""

    key: str
    value: str
    price: Price | None
    refused: str
    stated: bool


class Choice(Struct, frozen=True, kw_only=True):
    """What the recipe states, and what it was chosen from. `priced_context`: the positions at which options are priced.

    `moved` are the keys whose value the goal took away from the default.
    """

    policy: Policy
    options: tuple[Option, ...]
    moved: tuple[str, ...]
    priced_context: int
    sequences: int
    context: int
    model_context: int


class Wish(Struct, frozen=True, kw_only=True):
    """What is asked for. `fixed`: policy keys that the goal leaves alone; None leaves a resource to the goal."""

    goal: GoalName | None
    policy: Policy
    fixed: tuple[str, ...]
    sequences: int | None
    context: int | None
    reserved: int


PlansOf = Callable[[Policy], tuple[Plan, ...]]
"""The plan set of a policy; a PlanError where the model cannot have it."""

Priced = Callable[[Policy], tuple[Memory, Price]]


def choose(
    plans_of: PlansOf, keys: tuple[Key, ...], wish: Wish, panel: int, device: Device, hardware: HardwareClass
) -> Choice:
    """Policy and resources. The keys are gone through in their order, each with the best of those before it."""
    rows = rows_of(hardware, "decode")[1]
    usable = int(device.memory_bytes.value) - wish.reserved
    known: dict[Policy, tuple[Memory, Price]] = {}

    def priced(policy: Policy) -> tuple[Memory, Price]:
        if policy not in known:
            plans = plans_of(policy)
            known[policy] = _price(plans, memory(plans, panel), wish, device, usable, rows)
        return known[policy]

    policy, moved = wish.policy, list[str]()
    for key in keys:
        if wish.goal is None or key.name in wish.fixed:
            continue
        best = _best(priced, policy, key, wish.goal)
        if best != policy:
            moved.append(key.name)
            policy = best
    held, price = priced(policy)
    sequences = wish.sequences or (price.sequences if wish.goal == "throughput" else 1)
    context = wish.context or longest_context(held, usable, sequences)
    if wish.context is None and wish.goal == "throughput":
        context = min(PRICED_CONTEXT, held.context)
    check_asked(held, device, wish.reserved, AskedFit(sequences=sequences, context=context or None), (None, None))
    return Choice(
        policy=policy,
        options=tuple(_options(priced, keys, policy)),
        moved=tuple(moved),
        priced_context=_priced_context(held, wish),
        sequences=sequences,
        context=context,
        model_context=held.context,
    )


def _best(priced: Priced, policy: Policy, key: Key, goal: GoalName) -> Policy:
    """The policy with the value of `key` that the goal wants: another one than stated only where that is worth it."""
    best, least = policy, (1 - WORTH) * _cost(priced(policy)[1], goal)
    for value in key.implemented:
        other = _with(policy, key.name, value)
        try:
            cost = _cost(priced(other)[1], goal)
        except PlanError:
            continue  # `_options` says why
        if cost < least:
            best, least = other, cost
    return best


def _options(priced: Priced, keys: tuple[Key, ...], policy: Policy) -> Iterator[Option]:
    for key in keys:
        for value in key.implemented:
            stated = policy_value(policy, key.name) == value
            try:
                _, price = priced(_with(policy, key.name, value))
                yield Option(key=key.name, value=value, price=price, refused="", stated=stated)
            except PlanError as error:
                said = error.problems[0].message
                yield Option(key=key.name, value=value, price=None, refused=said, stated=stated)


def _price(
    plans: tuple[Plan, ...], held: Memory, wish: Wish, device: Device, usable: int, rows: int
) -> tuple[Memory, Price]:
    context, costs = _priced_context(held, wish), Costs()

    def step(sequences: int) -> float:
        work = Work(name=f"decode {sequences}", mode="decode", sequences=sequences, context=context)
        return roofline(plans, device, work, costs=costs).ceiling_s

    one = step(1)
    fitting = min(rows, most_sequences(held, usable, context))
    counts = [wish.sequences] if wish.sequences else sorted({*(n for n in _doubling(rows) if n <= fitting), fitting, 1})
    per_s = {n: n / (one if n == 1 else step(n)) for n in counts if 1 <= n <= rows}
    most = max(per_s, key=lambda n: (per_s[n], -n), default=1)
    return held, Price(
        decode_s=one, sequences=most, tokens_per_s=per_s.get(most, 1 / one), needed=needed(held, 1, context)
    )


def _priced_context(held: Memory, wish: Wish) -> int:
    return min(wish.context or PRICED_CONTEXT, held.context)


def _doubling(most: int) -> Iterator[int]:
    n = 1
    while n <= most:
        yield n
        n *= 2


def _cost(price: Price, goal: GoalName) -> float:
    match goal:
        case "latency":
            return price.decode_s
        case "throughput":
            return 1 / price.tokens_per_s
        case "memory":
            return float(price.needed)


def _with(policy: Policy, key: str, value: str) -> Policy:
    return Policy(entries=tuple((name, value if name == key else own) for name, own in policy.entries))
