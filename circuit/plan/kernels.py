"""The kernels of a plan: groups that mean the same program share one, which is built once."""

from collections.abc import Callable, Hashable, Mapping
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.load.families import Family, Point
from circuit.lower.graph import graph_of
from circuit.lower.ir import Group, Kernel
from circuit.lower.realize import Definition, Wiring, define
from circuit.lower.weights import weights_of
from circuit.plan.digest import instance_parts, meanings
from circuit.plan.wires import Wired, Wires, signature_of, wires_of
from circuit.text import listed
from circuit.tir.ir import Tir

Realize = Callable[[Tir, Group, Point, Definition], Kernel]
"""How a kernel is made of its definition: `lower.scheduled.realize`, or `lower.kernels.defined`; tests give others."""


class Shared(Struct, frozen=True, kw_only=True):
    """What the plans of one instance on a class have in common: its part digests, what its nodes mean, and what the
    first plan that needs it makes: the wires of groups, definitions and kernels.

    `numbers`: the signature of a group -> its number, which definitions and kernels are found by.
    """

    parts: dict[str, str]
    meanings: list[str]
    wired: dict[tuple[Group, ...], Wired] = field(default_factory=dict)
    numbers: dict[Hashable, int] = field(default_factory=dict)
    definitions: dict[tuple[int, int], Definition] = field(default_factory=dict)  # by rows and signature
    kernels: dict[tuple[str, int, int], Kernel] = field(default_factory=dict)  # by point too


def shared_by_plans(tir: Tir) -> Shared:
    """What all plans of the instance have in common."""
    return Shared(parts=instance_parts(tir), meanings=meanings(tir))


def wired_by(tir: Tir, groups: tuple[Group, ...], shared: Shared) -> Wired:
    """The wires of groups with what follows from them, which plans of the same groups share."""
    if groups not in shared.wired:
        wires = wires_of(tir, graph_of(tir), groups)
        found = (signature_of(tir, wires, group) for group in groups)
        signatures = tuple(shared.numbers.setdefault(each, len(shared.numbers)) for each in found)
        read = [weights_of(tir, group) for group in groups]
        weights = {weight.name: weight for each in read for weight in each}
        place_of = {name: at for at, name in enumerate(weights)}
        shared.wired[groups] = Wired(
            wires=wires,
            signatures=signatures,
            weights=tuple(weights.values()),
            reads=tuple(tuple(place_of[weight.name] for weight in each) for each in read),
        )
    return shared.wired[groups]


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
