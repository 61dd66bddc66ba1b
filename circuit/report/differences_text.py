"""Differences of kernels as rows of a table, and names of groups, as comparisons show them."""

from itertools import zip_longest

from circuit.report.computed import Difference, numberless

WIDTH = 18
"""Of a value in a cell; a longer one is cut, and the cut is marked."""


def difference_rows(differs: tuple[Difference, ...]) -> list[tuple[str, ...]]:
    """A row for each; one for ops of a kind that differ in the same way."""
    alike: dict[tuple[str, ...], int] = {}
    for each in differs:
        key = (numberless(each.name), each.kind, *cells_of(each.own, each.other))
        alike[key] = alike.get(key, 0) + 1
    return [(f"  {name}{f' ({n}x)' if n > 1 else ''}", *cells) for (name, *cells), n in alike.items()]


def cells_of(own: str, other: str) -> tuple[str, str]:
    """Both values, cut so that what differs is seen."""
    if short(own) != short(other):
        return short(own), short(other)
    start = next(at for at, (a, b) in enumerate(zip_longest(own, other)) if a != b)
    return short(f"…{own[start:]}"), short(f"…{other[start:]}")


def short(text: str) -> str:
    """What a cell shows of a value."""
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def members_text(members: tuple[str, ...]) -> str:
    """`l{i}.attn.norm+q+k+v` for nodes of one block."""
    parts: list[str] = []
    block = ""
    for member in members:
        prefix, _, name = member.rpartition(".")
        if parts and prefix == block:
            parts[-1] += f"+{name}"
        else:
            parts.append(member)
            block = prefix
    return " ".join(parts)
