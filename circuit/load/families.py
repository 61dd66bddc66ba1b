"""`kernels/<class>/common/KERNEL_FAMILIES.toml` -> the algorithms of a class, at the values they are used with."""

from typing import Literal

from msgspec import Struct

from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, once

FILE = "KERNEL_FAMILIES.toml"


class Point(Struct, frozen=True, kw_only=True):
    """A family at stated values. `claim`: whether it keeps the order of its definition; if not, `numerics` has it."""

    family: str
    id: str
    modes: tuple[str, ...]
    rows: tuple[int, int]
    values: tuple[tuple[str, int], ...]
    claim: Literal["keeps", "changes"]
    numerics: str | None
    file: str
    line: int | None


class Family(Struct, frozen=True, kw_only=True):
    """One algorithm, for the ops of Sigma that it computes alone or chained. Points are tried in order."""

    id: str
    why: str
    made: Literal["generated"]
    ops: tuple[str, ...]
    points: tuple[Point, ...]
    file: str
    line: int | None


def value(point: Point, name: str) -> int:
    """The point's value of `name`; asking for one it does not state is a broken invariant."""
    for key, found in point.values:
        if key == name:
            return found
    raise AssertionError(f"{point.family}.{point.id} ({point.file}:{point.line}) states no {name}")


def states(point: Point, name: str) -> bool:
    """Whether the point states a value of `name`."""
    return any(key == name for key, _ in point.values)


def load_families(library: Library, hardware: HardwareClass) -> tuple[Family, ...]:
    """The families of a class, sorted by id. A class's own family replaces an inherited one of the same id."""

    def read() -> tuple[Family, ...]:
        from circuit.load.families_file import read_families  # kept records need no reader

        return read_families(library, hardware)

    return once(library, ("families", hardware.lowered_by), read)


def panel_of(families: tuple[Family, ...]) -> int:
    """Outputs in a panel of the baked weights: all points that state a panel state the same."""
    values = [dict(point.values) for family in families for point in family.points]
    stated = {value["panel"] for value in values if "panel" in value}
    assert len(stated) == 1, f"points state panels of {sorted(stated)} outputs; weights are baked once"
    return stated.pop()
