"""What is compiled, and what comes out: the goal, and the result of each stage."""

from msgspec import Struct

from circuit.front.bir import Bir
from circuit.load.facts import Facts
from circuit.load.inputs import Library
from circuit.load.ledger import Ledger
from circuit.load.policy import Policy, load_policy, with_choices
from circuit.load.settings import is_setting
from circuit.lower.ir import Group, Which
from circuit.plan.ir import Plan
from circuit.plan.shared import Shared
from circuit.tir.ir import Bound, Tir


class Goal(Struct, frozen=True, kw_only=True):
    """What to compile for. `choices` are KEY=VALUE texts of the policy and of settings. `steps` are modes with their
    rows (inclusive); without rows, a mode has those of the class. `scheduled`: kernels are made to be rendered;
    without, they are definitions, which is all that a report reads."""

    hardware_class: str
    choices: tuple[str, ...] = ()
    rules: Which = "all"
    steps: tuple[tuple[str, tuple[int, int] | None], ...] = (("decode", None), ("prefill", None))
    scheduled: bool = True


COMPILED = "compiled"
"""What a kept `Compiled` is named by, with the checkpoint and the goal."""


class Mapped(Struct, frozen=True, kw_only=True):
    """What the checkpoint says, and what became of each key of its config."""

    facts: Facts
    ledger: Ledger


class Grouped(Struct, frozen=True, kw_only=True):
    """The groups of one plan, which covers `rows` of `mode`."""

    mode: str
    rows: tuple[int, int]
    groups: tuple[Group, ...]


class GroupedSet(Struct, frozen=True, kw_only=True):
    """The groups of every plan, in the order of the goal's steps."""

    tir: Tir
    sets: tuple[Grouped, ...]


class PlanSet(Struct, frozen=True, kw_only=True):
    """All plans of an instance on a class, in the order of the goal's steps, and what they have in common."""

    plans: tuple[Plan, ...]
    shared: Shared


Stage = Mapped | Bir | Bound | GroupedSet | PlanSet


class Compiled(Struct, frozen=True, kw_only=True):
    """The results of all stages."""

    mapped: Mapped
    bir: Bir
    bound: Bound
    groups: GroupedSet
    plans: tuple[Plan, ...]
    shared: Shared


def policy_of(library: Library, goal: Goal) -> Policy:
    """The policy of a goal: the default one, changed by its choices."""
    return with_choices(load_policy(library), (c for c in goal.choices if not is_setting(c)))
