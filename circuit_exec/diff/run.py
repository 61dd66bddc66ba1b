"""Runs a model in several ways on the same tokens and compares them with the first, element by element.

Two runs are always among them: a repeat of the first side, which must not differ, and a control with one token changed,
which must. Without them a comparison that sees nothing would look like equality.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from circuit_exec.checkpoint.records import require_weights
from circuit_exec.cpu import LOGITS
from circuit_exec.diff.against import Agreement, Logits, agreement, chosen_rows, read_logits
from circuit_exec.diff.compare import Comparison, compare
from circuit_exec.diff.sides import Made, Side, Sides, claims_equal
from circuit_exec.diff.stepping import steps


class Request(Struct, frozen=True, kw_only=True):
    """`sides`: the first is what the others are compared with. `asked`: positions whose logits are compared, rising,
    each once.

    `tokens` are ids, or how many pseudo-text ids to make. A `chunk` of None is the most rows of a prefill step.
    """

    tokens: tuple[int, ...] | int
    asked: tuple[int, ...]
    sides: tuple[Side, ...]
    see: Literal["logits", "groups"]
    against: Path | None = None
    tolerance: float = 0.0


Must = Literal["be equal", "differ", "nothing"]
Name = Literal["repeat", "control", "unwatched", "side"]
"""`unwatched`: the program whose every edge can be read, against the one that `met run` runs."""

Makes = Callable[[Side], Made]


class Pair(Struct, frozen=True, kw_only=True):
    """One comparison, and what must come out of it. `nothing`: no plan claims that the two are equal."""

    name: Name
    one: Side
    other: Side
    must: Must
    found: Comparison

    @property
    def holds(self) -> bool:
        """Whether it came out as it must."""
        match self.must:
            case "be equal":
                return self.found.n_different == 0
            case "differ":
                return self.found.n_different > 0
            case "nothing":
                return True


class Report(Struct, frozen=True, kw_only=True):
    """All comparisons. `changed` is the control's token: position, id, other id."""

    n_tokens: int
    asked: tuple[int, ...]
    changed: tuple[int, int, int]
    pairs: tuple[Pair, ...]
    against: Agreement | None

    @property
    def holds(self) -> bool:
        """Whether every comparison came out as it must."""
        return all(pair.holds for pair in self.pairs) and (self.against is None or self.against.holds)


def diff(request: Request, sides: Sides) -> Report:
    """Every comparison of the request."""
    require_weights(sides.checkpoint)
    assert list(request.asked) == sorted(set(request.asked)), "positions to compare rise, each once"
    length = request.tokens if isinstance(request.tokens, int) else len(request.tokens)
    base = request.sides[0]
    made = sides.running(base)
    vocabulary = next(given.hi for given in made.layout.inputs if given.name == "tokens") + 1
    given = request.tokens
    tokens = pseudo_tokens(given, vocabulary) if isinstance(given, int) else given
    rows, file = _rows_against(request, made, length)
    changed = (request.asked[-1], tokens[request.asked[-1]], (tokens[request.asked[-1]] + 1) % vocabulary)
    other = (*tokens[: changed[0]], changed[2], *tokens[changed[0] + 1 :])
    see = sides.watched if request.see == "groups" else sides.running

    def pair(name: Name, side: Side, makes: Makes, theirs: Sequence[int]) -> Pair:
        with sides.opened(base, see(base), length) as one, sides.opened(side, makes(side), length) as two:
            found = compare(steps(one, tokens, request.asked), steps(two, theirs, request.asked))
            claimed = claims_equal(one, two)
        must: Must = "differ" if name == "control" else "be equal" if claimed else "nothing"
        return Pair(name=name, one=base, other=side, must=must, found=found)

    wanted: list[tuple[Name, Side, Makes, Sequence[int]]] = [
        ("repeat", base, see, tokens),
        ("control", base, see, other),
    ]
    if request.see == "groups":
        wanted.append(("unwatched", base, sides.running, tokens))
    wanted += [("side", side, see, tokens) for side in request.sides[1:]]
    pairs: list[Pair] = []
    for each in wanted:
        sides.progress("comparing", len(pairs) / len(wanted))
        pairs.append(pair(*each))
    sides.progress("comparing", 1.0)
    against = None
    if request.against is not None and file is not None:
        with sides.opened(base, made, length) as opened:
            seen = steps(opened, tokens, request.asked)
            against = agreement(seen, LOGITS, file, str(request.against), rows, request.tolerance)
    return Report(n_tokens=length, asked=request.asked, changed=changed, pairs=tuple(pairs), against=against)


def pseudo_tokens(n: int, vocabulary: int) -> tuple[int, ...]:
    """Ids that depend on nothing: spread over the vocabulary, repeating after as many as it has."""
    return tuple((i * 7919 + 13) % vocabulary for i in range(n))


def _rows_against(request: Request, made: Made, length: int) -> tuple[dict[int, int], Logits | None]:
    """For each position that is asked for, the row of the file that has its logits; and the file's logits."""
    if request.against is None:
        return {}, None
    found = read_logits(request.against)
    width = next(each.columns for each in made.watched[0] if each.name == LOGITS)
    chosen = chosen_rows(found, str(request.against), length, request.asked, width)
    return dict(zip(request.asked, chosen, strict=True)), found
