"""What a plan set holds in memory, and how many sequences of which length fit a device.

One evaluator for every question: weights as baked, pages of every state for each sequence, and the largest arena of
the plans. Nothing else is held by a step; what a driver takes beside it is `reserved`, which the caller states.
"""

import math
import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from circuit.formats import FORMATS, STATE_FORMATS
from circuit.plan.ir import Plan
from circuit.sigma.page import PAGE, page_words
from circuit.sigma.storage import panel_words
from circuit.tir.ir import State, Weight

WORD_BYTES = 4


class Held(Struct, frozen=True, kw_only=True):
    """Bytes of weights of one kind: all layers' together. `stored` as in the checkpoint, `baked` as the program reads
    them, padded to whole panels.
    """

    name: str
    format: str
    count: int
    stored: int
    baked: int


class Memory(Struct, frozen=True, kw_only=True):
    """Of one plan set. `token_bytes`: of all states for one position; `page_bytes`: for a page of PAGE positions.

    `arenas` are (mode, rows, bytes) of each plan; of these bytes, `outputs` are logits and tokens, of the plan
    that has the most. `page_bytes_in`: `page_bytes` under each value of the policy `kv`, whatever the plan's is.
    """

    weights: tuple[Held, ...]
    states: tuple[tuple[str, str, int, int], ...]  # kind, format, how many, bytes of one position of all of them
    token_bytes: int
    page_bytes: int
    page_bytes_in: tuple[tuple[str, int], ...]
    arenas: tuple[tuple[str, tuple[int, int], int], ...]
    outputs: int
    context: int


def memory(plans: tuple[Plan, ...], panel: int) -> Memory:
    """The memory of a plan set; all its plans have the same weights and states. `panel`: outputs in a panel."""
    kinds: dict[tuple[str, str], list[Weight]] = {}
    for weight in plans[0].weights:
        kinds.setdefault((_kind(weight.name), weight.format), []).append(weight)
    states: dict[tuple[str, str], list[State]] = {}
    for state in plans[0].states:
        states.setdefault((state.kind, state.format), []).append(state)
    return Memory(
        weights=tuple(
            Held(
                name=name,
                format=format,
                count=len(found),
                stored=sum(map(stored_bytes, found)),
                baked=sum(baked_bytes(weight, panel) for weight in found),
            )
            for (name, format), found in kinds.items()
        ),
        states=tuple(
            (kind, format, len(found), sum(map(_page_bytes, found)) // PAGE) for (kind, format), found in states.items()
        ),
        token_bytes=sum(map(_page_bytes, plans[0].states)) // PAGE,
        page_bytes=sum(map(_page_bytes, plans[0].states)),
        page_bytes_in=tuple(
            (format, sum(_page_bytes(replace(state, format=format)) for state in plans[0].states))
            for format in STATE_FORMATS
        ),
        arenas=tuple((plan.mode, plan.rows, plan.arena_bytes) for plan in plans),
        outputs=max(sum(plan.buffers[place].n_bytes for _, place in plan.outputs) for plan in plans),
        context=plans[0].context,
    )


def weight_bytes(held: Memory) -> int:
    """All baked weights."""
    return sum(each.baked for each in held.weights)


def stored_bytes(weight: Weight) -> int:
    """Bytes of a weight as its checkpoint stores it."""
    rows = math.prod(weight.shape[:-1])
    return rows * FORMATS[weight.format].row_bytes(weight.shape[-1])


def baked_bytes(weight: Weight, panel: int) -> int:
    """Bytes of a weight as baked: a vector as f32, a projection in panels of whole words."""
    if len(weight.shape) == 1:
        return WORD_BYTES * weight.shape[0]
    return WORD_BYTES * panel_words(weight.format, weight.shape[0], weight.shape[1], panel)


def state_bytes(state: State) -> int:
    """Bytes of one position of a state."""
    return _page_bytes(state) // PAGE


def needed(held: Memory, sequences: int, context: int) -> int:
    """Bytes for that many sequences of that length: weights, pages, and the largest arena."""
    pages = sequences * -(-context // PAGE)
    return weight_bytes(held) + pages * held.page_bytes + max(n for _, _, n in held.arenas)


def most_sequences(held: Memory, usable: int, context: int) -> int:
    """The most sequences of a length that fit: they do, and one more does not."""
    return _largest(lambda n: needed(held, n, context) <= usable)


def longest_context(held: Memory, usable: int, sequences: int) -> int:
    """The longest context of that many sequences that fits, at most the model's."""
    return min(_largest(lambda n: needed(held, sequences, n) <= usable, held.context), held.context)


def _largest(fits: Callable[[int], bool], most: int = 1 << 40) -> int:
    """The largest n up to `most` that fits, by bisection; 0 where not even 1 does."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _page_bytes(state: State) -> int:
    return WORD_BYTES * page_words(state.format, state.heads, state.head_dim)


def _kind(name: str) -> str:
    """The name without its layer: `mlp.down.weight` for `l3.mlp.down.weight`."""
    return re.sub(r"^l[0-9]+\.", "", name)
