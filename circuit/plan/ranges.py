"""Where the rows of a step must be split, so that each plan has one set of rules and points for all of its rows."""

from circuit.errors import PlanError, Problem
from circuit.load.families import Family
from circuit.load.rules import Rule
from circuit.lower.ir import MOST_ROWS, Group
from circuit.plan.kernels import point_of


def row_ranges(
    rules: tuple[Rule, ...], families: tuple[Family, ...], mode: str, rows: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """The parts of `rows` (inclusive), split at each edge of a rule or a point of the mode."""
    lo, hi = rows
    if not 1 <= lo <= hi <= MOST_ROWS:
        message = f"rows {lo}-{hi} are no range"
        raise PlanError(Problem(message=message, fix=f"give LO-HI with 1 <= LO <= HI <= {MOST_ROWS}"))
    stated = [rule.rows for rule in rules if mode in rule.modes]
    stated += [point.rows for family in families for point in family.points if mode in point.modes]
    starts = sorted({lo} | {edge for a, b in stated for edge in (a, b + 1) if lo < edge <= hi})
    return tuple(zip(starts, [*(start - 1 for start in starts[1:]), hi], strict=True))


def alike(
    families: tuple[Family, ...],
    mode: str,
    one: tuple[tuple[int, int], tuple[Group, ...]],
    other: tuple[tuple[int, int], tuple[Group, ...]],
) -> bool:
    """Whether two parts, each with its groups, are one: at the edge between them only what they do not use differs."""
    (rows, groups), (more, others) = one, other
    return groups == others and all(
        point_of(families, group, mode, rows) == point_of(families, group, mode, more) for group in groups
    )
