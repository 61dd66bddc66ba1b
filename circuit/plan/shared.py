"""What the plans of one instance on a class have in common."""

from collections.abc import Hashable

from msgspec import Struct, field

from circuit.lower.graph import graph_of
from circuit.lower.ir import Definition, Group, Kernel
from circuit.lower.weights import weights_of
from circuit.plan.wires import Wired, signature_of, wires_of
from circuit.tir.ir import Tir


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
