"""What would make one kernel of several: facts in which kernels of a family differ, by the share of a step."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from circuit.report.computed import Difference, FactKind, numberless


class Promotion(Struct, frozen=True, kw_only=True):
    """A fact in which kernels of a family differ from the nearest ones: as a parameter, it makes one kernel of two.

    `values` are those of both sides, `kernels` and `share` of the model that is asked about: of its decode work.
    """

    family: str
    fact: str
    kind: FactKind
    values: tuple[str, ...]
    kernels: int
    share: float | None


class Differing(Struct, frozen=True, kw_only=True):
    """A kernel with all in which it differs from another of its family; `share` is None where it is not known."""

    family: str
    kernel: str
    differs: tuple[Difference, ...]
    share: float | None


def promotions(kernels: Iterable[Differing]) -> tuple[Promotion, ...]:
    """The largest share first; those without one by how many kernels they would serve. A kernel counts once a fact."""
    found: dict[tuple[str, str], Promotion] = {}
    counted: dict[tuple[str, str], set[str]] = {}
    for own in kernels:
        for each in own.differs:
            key = (own.family, numberless(each.name))
            known = found.get(key) or Promotion(
                family=own.family, fact=key[1], kind=each.kind, values=(), kernels=0, share=None
            )
            values = dict.fromkeys((*known.values, *filter(None, (each.own, each.other))))
            known = replace(known, values=tuple(values))
            if own.kernel not in counted.setdefault(key, set()):
                counted[key].add(own.kernel)
                known = replace(known, kernels=len(counted[key]), share=more_share(known.share, own.share))
            found[key] = known
    return tuple(sorted(found.values(), key=lambda p: (-(p.share or 0.0), -p.kernels, p.family, p.fact)))


def more_share(share: float | None, more: float | None) -> float | None:
    """The sum of two shares, of which either can be unknown."""
    return share if more is None else (share or 0.0) + more
