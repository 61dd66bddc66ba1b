"""The kernels of a plan: groups that mean the same program share one, which is built once."""

from collections.abc import Callable, Mapping
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.load.families import Family, Point, panel_of
from circuit.lower.ir import Definition, Group, Kernel
from circuit.lower.realize import Wiring, define
from circuit.plan.digest import instance_parts, meanings
from circuit.plan.shared import Shared
from circuit.plan.wires import Wires
from circuit.text import listed
from circuit.tir.ir import Tir

Realize = Callable[[Tir, Group, Point, Definition], Kernel]
"""How a kernel is made of its definition: `lower.scheduled.realize`, or `lower.kernels.defined`; tests give others."""


def shared_by_plans(tir: Tir) -> Shared:
    """What all plans of the instance have in common."""
    return Shared(parts=instance_parts(tir), meanings=meanings(tir))


class Kernels(Struct):
    """Kernels in order of first use. A signature has all that the program of a group can depend on in the plans of one
    instance, so that a kernel in `shared` serves plans of other rows too.

    `most_rows`: mode -> the most rows that the class plans for. `scheduled`: a kernel is made for rows and a point;
    without, it is a definition, and one for the most rows of the class serves all of its plans.
    """

    tir: Tir
    wires: Wires
    families: tuple[Family, ...]
    most_rows: Mapping[str, int]
    mode: str
    rows: tuple[int, int]
    realize: Realize
    scheduled: bool
    shared: Shared
    made: list[Kernel] = field(default_factory=list)
    places: dict[tuple[str, int, int], int] = field(default_factory=dict)
    known: dict[tuple[tuple[int, int], int], int] = field(default_factory=dict)  # rows of a rule, and signature
    points: dict[str, Point] = field(default_factory=dict)  # of each family

    def of(self, group: Group, signature: int) -> int:
        """The place of the group's kernel."""
        if (group.rows, signature) not in self.known:
            self.known[group.rows, signature] = self._place(group, signature)
        return self.known[group.rows, signature]

    def _place(self, group: Group, signature: int) -> int:
        if group.family not in self.points:
            self.points[group.family] = point_of(self.families, group, self.mode, self.rows)
        point = self.points[group.family]
        rows_hi = self._most_rows(group, point)
        key = (point.id, rows_hi, signature)
        if key not in self.places:
            if key not in self.shared.kernels:
                definition = self._definition(group, rows_hi, signature)
                self.shared.kernels[key] = self.realize(self.tir, group, point, definition)
            self.places[key] = len(self.made)
            self.made.append(self._named(self.shared.kernels[key]))
        return self.places[key]

    def _definition(self, group: Group, rows_hi: int, signature: int) -> Definition:
        """The definition of the group, which kernels at several points can share."""
        key = (rows_hi, signature)
        if key not in self.shared.definitions:
            stored, columns = self.wires.stored, self.wires.columns
            wiring = Wiring(stored=stored, columns=columns, rows_hi=rows_hi, panel=panel_of(self.families))
            self.shared.definitions[key] = define(self.tir, group, wiring)
        return self.shared.definitions[key]

    def _most_rows(self, group: Group, point: Point) -> int:
        """The most rows that the kernel is defined for: as many as its point, its rule and the class take. Plans whose
        rows meet in a point so have one kernel, which is made, rendered and compiled once.
        """
        of_class = max(most for mode, most in self.most_rows.items() if mode in point.modes)
        most = max(self.rows[1], min(point.rows[1], group.rows[1], of_class))
        selects = any(self.tir.nodes[place].op == "index_select" for place in group.nodes)
        if self.scheduled or (selects and most == 1):  # of one row there is none to select, and no number is read
            return most
        return max(most, *self.most_rows.values())

    def _named(self, kernel: Kernel) -> Kernel:
        """The kernel under a name that no other of the plan has."""
        taken = {other.name for other in self.made}
        names = (kernel.name if at == 1 else f"{kernel.name}_{at}" for at in count(1))
        return replace(kernel, name=next(name for name in names if name not in taken))


def point_of(families: tuple[Family, ...], group: Group, mode: str, rows: tuple[int, int]) -> Point:
    """The first point of the group's family that covers the mode and the rows."""
    family = next(family for family in families if family.id == group.family)
    for point in family.points:
        if not against_point(point, mode, rows):
            return point
    stated = listed(f"{p.id} ({', '.join(p.modes)}; rows {p.rows[0]}-{p.rows[1]})" for p in family.points)
    message = f"family {family.id} has no point for {mode} of rows {rows[0]}-{rows[1]}; it has {stated}"
    fix = "add a point, or ask for other rows"
    raise PlanError(Problem(message=message, fix=fix, file=family.file, line=family.line))


def against_point(point: Point, mode: str, rows: tuple[int, int]) -> tuple[str, ...]:
    """What keeps a point from computing a plan's rows; empty if it does."""
    reasons = []
    if mode not in point.modes:
        reasons.append(f"it is not for mode {mode}")
    if rows[0] < point.rows[0] or rows[1] > point.rows[1]:
        reasons.append(f"it is for rows {point.rows[0]}-{point.rows[1]}")
    return tuple(reasons)
