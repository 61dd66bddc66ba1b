"""The kernel of a group as its definition, under a name that says what it computes."""

import re

from circuit.load.families import Point
from circuit.lower.ir import Definition, Group, Kernel
from circuit.lower.weights import weights_of
from circuit.tir.ir import Tir, Weight


def defined(tir: Tir, group: Group, point: Point, definition: Definition) -> Kernel:
    """The kernel as its definition is written, without a schedule: what reports need, and all that a class can have
    whose language nothing renders.
    """
    return Kernel(
        name=kernel_name(tir, group),
        family=point.family,
        point=point.id,
        definition=definition.effects,
        effects=definition.effects,
        slots=definition.slots,
    )


def kernel_name(tir: Tir, group: Group) -> str:
    """A C identifier: the rule, then outputs x inputs and format of a projection, or the width of what is read."""
    last = tir.nodes[group.nodes[-1]]
    matrices = matrices_of(tir, group)
    if matrices:
        of = f"{matrices[0].shape[0]}x{matrices[0].shape[1]}_{matrices[0].format}"
    else:
        of = str(tir.edges[(last.inputs or last.outputs)[0]].dim)
    return re.sub(r"\W+", "_", f"{group.rule}_{of}")


def matrices_of(tir: Tir, group: Group) -> tuple[Weight, ...]:
    """The projection's weight, or none."""
    return tuple(w for w in weights_of(tir, group) if len(w.shape) == 2)
