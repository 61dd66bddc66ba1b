"""The JSON that `met circuit show --json` prints -> the launches of its plans."""

from typing import Annotated

from msgspec import Meta, field

from circuit.errors import LoadError
from circuit.load.edge import FileShape, validated
from circuit.load.json_text import read_json
from circuit.load.named_plan import NamedLaunch, NamedPlan
from circuit.load.ops import Mode
from circuit.load.shapes import RowRange
from circuit.load.source import Document, line_of
from circuit.text import Source, problem_at


def load_plans(source: Source) -> tuple[NamedPlan, ...]:
    """The plans of a file, one or all of a set; what is wrong with it is a LoadError with the line."""
    document = read_json(source)
    if "plans" in document.data:
        shapes = validated(document, _PlansFile).plans
        return tuple(_plan(document, shape, ("plans", place)) for place, shape in enumerate(shapes))
    return (_plan(document, validated(document, _PlanFile), ()),)


class _Kernel(FileShape, frozen=True, kw_only=True):
    name: str
    family: str
    point: str
    digest: str


class _Launch(FileShape, frozen=True, kw_only=True):
    rule: str
    numerics: str
    kernel: Annotated[int, Meta(ge=0)]
    members: list[str]
    section: str
    layer: int | None
    targets: list[object]


class _PlanFile(FileShape, frozen=True, kw_only=True):
    digest: str
    parts: dict[str, str]
    arch: str
    hardware_class: str = field(name="class")
    mode: Mode
    rows: RowRange
    context: int
    policy: dict[str, str]
    notes: list[str]
    settings: list[str]
    arena_bytes: int
    kernels: list[_Kernel]
    launches: Annotated[list[_Launch], Meta(min_length=1)]
    buffers: list[object]
    weights: list[object]
    states: list[object]
    outputs: dict[str, int]
    certificate: list[object]


class _PlansFile(FileShape, frozen=True, kw_only=True):
    plans: Annotated[list[_PlanFile], Meta(min_length=1)]


def _plan(document: Document, shape: _PlanFile, at: tuple[str | int, ...]) -> NamedPlan:
    for place, launch in enumerate(shape.launches):
        if launch.kernel >= len(shape.kernels):
            line = line_of(document, (*at, "launches", place, "kernel"))
            message = f"launch {place} is of kernel {launch.kernel}, the plan has {len(shape.kernels)}"
            raise LoadError(problem_at(document.source, line, message, "write the file with `met circuit show --json`"))
    return NamedPlan(
        arch=shape.arch,
        hardware_class=shape.hardware_class,
        mode=shape.mode,
        rows=(shape.rows[0], shape.rows[1]),
        launches=tuple(
            NamedLaunch(kernel=shape.kernels[launch.kernel].name, members=tuple(launch.members), section=launch.section)
            for launch in shape.launches
        ),
    )
