"""The kernels of a plan: groups that mean the same program share one, which is built once."""

from collections.abc import Callable, Hashable, Mapping
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.load.families import Family, Point
from circuit.lower.ir import Group, Kernel
from circuit.lower.realize import Definition, Wiring, define
from circuit.plan.digest import instance_parts, meanings
from circuit.plan.wires import Wires
from circuit.text import listed
from circuit.tir.ir import Tir

Realize = Callable[[Tir, Group, Point, Definition], Kernel]
"""How a kernel is made of its definition: `lower.scheduled.realize`, or `lower.kernels.defined`; tests give others."""


class Shared(Struct, frozen=True, kw_only=True):
    """What the plans of one instance have in common: its part digests, what its nodes mean, and definitions and kernels
    by the signature of a group, which the first plan that needs one makes.
    """

    parts: dict[str, str]
    meanings: list[str]
    definitions: dict[Hashable, Definition] = field(default_factory=dict)
    kernels: dict[Hashable, Kernel] = field(default_factory=dict)


def shared_by_plans(tir: Tir) -> Shared:
    """What all plans of the instance have in common."""
    return Shared(parts=instance_parts(tir), meanings=meanings(tir))


class Kernels(Struct):
    """Kernels in order of first use. A signature has all that the program of a group can depend on in the plans of one
    instance, so that a kernel in `shared` serves plans of other rows too.

    `class_rows`: mode -> the rows that the class plans for. `scheduled`: a kernel is made for rows and a point;
    without, it is a definition, and one for the most rows of the class serves all of its plans.
    """

    tir: Tir
    wires: Wires
    families: tuple[Family, ...]
    class_rows: Mapping[str, tuple[int, int]]
    mode: str
    rows: tuple[int, int]
    realize: Realize
    scheduled: bool
    shared: Shared
    made: list[Kernel] = field(default_factory=list)
    places: dict[Hashable, int] = field(default_factory=dict)
    points: dict[str, Point] = field(default_factory=dict)  # of each family

    def of(self, group: Group) -> int:
        """The place of the group's kernel."""
        if group.family not in self.points:
            self.points[group.family] = point_of(self.families, group, self.mode, self.rows)
        point = self.points[group.family]
        rows_hi = self._most_rows(group, point)
        defined = (rows_hi, self._signature(group))
        signature = (point.id, defined)
        if signature not in self.places:
            if signature not in self.shared.kernels:
                definition = self._definition(group, rows_hi, defined)
                self.shared.kernels[signature] = self.realize(self.tir, group, point, definition)
            self.places[signature] = len(self.made)
            self.made.append(self._named(self.shared.kernels[signature]))
        return self.places[signature]

    def _definition(self, group: Group, rows_hi: int, signature: Hashable) -> Definition:
        """The definition of the group, which kernels at several points can share."""
        if signature not in self.shared.definitions:
            wiring = Wiring(
                stored=self.wires.stored, columns=self.wires.columns, rows_hi=rows_hi, panel=panel_of(self.families)
            )
            self.shared.definitions[signature] = define(self.tir, group, wiring)
        return self.shared.definitions[signature]

    def _most_rows(self, group: Group, point: Point) -> int:
        """The most rows that the kernel is defined for: as many as its point, its rule and the class take. Plans whose
        rows meet in a point so have one kernel, which is made, rendered and compiled once.
        """
        of_class = {mode: most for mode, (_, most) in self.class_rows.items()}
        of_point = max(of_class[mode] for mode in point.modes if mode in of_class)
        most = max(self.rows[1], min(point.rows[1], group.rows[1], of_point))
        selects = any(self.tir.nodes[place].op == "index_select" for place in group.nodes)
        if self.scheduled or (selects and most == 1):  # of one row there is none to select, and no number is read
            return most
        return max(most, *of_class.values())

    def _named(self, kernel: Kernel) -> Kernel:
        """The kernel under a name that no other of the plan has."""
        taken = {other.name for other in self.made}
        names = (kernel.name if at == 1 else f"{kernel.name}_{at}" for at in count(1))
        return replace(kernel, name=next(name for name in names if name not in taken))

    def _signature(self, group: Group) -> Hashable:
        tir, local = self.tir, dict[int, int]()

        def edge(place: int) -> Hashable:
            if place in local:
                return local[place]
            local[place] = len(local)
            record = tir.edges[place]
            given = record.name if place in tir.inputs else None
            stored = place in self.wires.stored
            return (record.rows, record.dim, record.format, self.wires.columns[place], stored, given)

        def weight(place: int) -> Hashable:
            return (tir.weights[place].shape, tir.weights[place].format)

        def state(place: int) -> Hashable:
            record = tir.states[place]
            return (record.kind, record.heads, record.head_dim, record.format)

        nodes = [tir.nodes[place] for place in group.nodes]
        members = tuple(
            (
                node.op,
                node.params,
                tuple(edge(place) for place in node.inputs),
                tuple(edge(place) for place in node.outputs),
                tuple(weight(place) for place in node.weights),
                tuple(state(place) for place in node.states),
            )
            for node in nodes
        )
        return (group.family, members, tuple((weight.shape, weight.format) for weight in group.derived))


def panel_of(families: tuple[Family, ...]) -> int:
    """Outputs in a panel of the baked weights: all points that state a panel state the same."""
    values = [dict(point.values) for family in families for point in family.points]
    stated = {value["panel"] for value in values if "panel" in value}
    assert len(stated) == 1, f"points state panels of {sorted(stated)} outputs; weights are baked once"
    return stated.pop()


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
