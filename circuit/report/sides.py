"""A model's plans on a class, as one side of a comparison."""

from msgspec import Struct

from circuit.load.families import Family
from circuit.load.hardware import HardwareClass
from circuit.load.rules import Rule
from circuit.plan.digest import Run
from circuit.plan.ir import Plan
from circuit.report.computed import Computed
from circuit.tir.ir import Tir


class Side(Struct, frozen=True, kw_only=True):
    """One plan set, what each of its plans computes, and what it was made from.

    `rules` and `families` are those of the class, `which` the set of rules that was asked for.
    """

    model_type: str
    tir: Tir
    run: Run
    hardware: HardwareClass
    rules: tuple[Rule, ...]
    families: tuple[Family, ...]
    which: str
    plans: tuple[Plan, ...]
    computed: tuple[tuple[Computed, ...], ...]


def point_text(side: Side, family: str, point: str) -> str:
    """A point with its values, which classes state for themselves: `p48_r1 lanes=48 panel=48`."""
    points = next(each.points for each in side.families if each.id == family)
    values = next(each.values for each in points if each.id == point)
    return " ".join([point, *(f"{name}={value}" for name, value in values)])


def class_of_file(path: str) -> str:
    """The class that a file of `kernels/<class>/common/` is of."""
    return path.replace("\\", "/").split("/")[-3]
