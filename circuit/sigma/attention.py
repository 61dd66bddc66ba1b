"""kv_write, attention: paged keys and values, and softmax attention over them.

The pool of a state is pages (page.py); `page_tables` is [sequence][page]; a row's sequence stands in `sequences`, its
position in `positions`. Keys and values are the decoded ones of the pages.

Attention is two passes: s = scale * fold over head_dim of q*k; M = max over visible s; e = exp2((s - M) * log2 e);
both sums are fold:256 over absolute positions, visible ones only (an invisible one counts as +0, which changes no
partial sum: no sum here is -0); one product with 1/sum. Position j is visible from i where i - window < j <= i;
window 0 is none. Query heads that share a key head are computed together. Folds start at the chunk that holds the first
visible position: the chunks before it are +0. Source: Vaswani et al. 2017, arXiv:1706.03762.
"""

import math

from circuit.sigma.op import OpKind, Use, Values, Writes
from circuit.sigma.page import PAGE, Spot, key_at, page_words, pages_of, value_at, writes
from circuit.uop.build import after, f32, index, logical_and, logical_not, loop, reciprocal, reduce, stage, store, where
from circuit.uop.math import exp2
from circuit.uop.node import DType, Op, Storage, UOp
from circuit.uop.orders import CHUNK

LOG2_E = math.log2(math.e)
KEPT_BYTES = 4 << 20
"""The most that scores and weights of heads that are computed together take; one head alone may take more."""
BLOCK = 8
"""Positions whose scores are computed together. The last block may go beyond the row's position: those scores are of
whatever stands on the rest of its page, and nothing uses them.
"""


def _spot(use: Use, position: UOp) -> Spot:
    """Where a position of the row's sequence stands."""
    room = use.states[0]
    sequence = index(use.step["sequences"], use.row)
    last, number = pages_of(use.context) - 1, position // PAGE
    number = where(number < last, number, last)  # gone where the position is known to be in the context
    page = index(use.step["page_tables"], sequence, number)
    return Spot(page=page * page_words(room.format, room.heads, room.head_dim), inner=position % PAGE)


def _known(count: UOp, most: int, row: UOp) -> UOp:
    """A count, stored with bounds of its own: the proof of ranges need not relate position and base."""
    room = UOp(Op.ALLOC, (), Storage(0, 1, DType.I32, "count", lo=1, hi=most))
    inside = where(count < 1, 1, where(count < most, count, most))
    return index(after(room, store(index(after(room, row), 0), inside)), 0)


def _kv_write(use: Use) -> tuple[Writes, ...]:
    position = index(use.step["positions"], use.row)
    return writes(use.states[0], _spot(use, position), use.inputs[0], use.inputs[1])


def _together(group: int, size: int) -> int:
    """How many of the query heads of a key head are computed together: a part of them where the context is long."""
    return next(n for n in range(group, 0, -1) if group % n == 0 and (n == 1 or 2 * 4 * n * size <= KEPT_BYTES))


def _attention(use: Use) -> Values:
    heads, kv_heads, head_dim = use.count("heads"), use.count("kv_heads"), use.count("head_dim")
    window, scale = use.count("window"), f32(use.number("scale"))
    room, position = use.states[0], index(use.step["positions"], use.row)
    first = position + (1 - window) if window else position * 0
    first = where(first < 0, 0, first)
    base = first // CHUNK * CHUNK  # a whole chunk before the first visible position adds +0
    size, count = -(-use.context // CHUNK) * CHUNK, position + 1 - base
    if window:
        size = min(size, -(-(window + CHUNK) // CHUNK) * CHUNK)
        count = _known(count, size, use.row)
    blocks = (count + (BLOCK - 1)) // BLOCK
    group = _together(heads // kv_heads, size)
    h = loop("h", heads // group)
    sizes = (group, size // BLOCK, BLOCK)
    shared = h // (heads // group // kv_heads)

    def visible(p: UOp) -> UOp:
        return logical_and(p < count, logical_not(base + p < first)) if window else p < count

    i, b, lane, d = (
        loop("i_score", group),
        loop("b_score", blocks),
        loop("lane_score", BLOCK),
        loop("d_score", head_dim),
    )
    key = key_at(room, _spot(use, base + b * BLOCK + lane), shared, d)
    score = reduce("mulacc", index(use.inputs[0], (h * group + i) * head_dim + d), key, d) * scale
    scores = stage(score, i, b, lane, where="local", sizes=sizes)

    i, b, lane = loop("i_max", group), loop("b_max", blocks), loop("lane_max", BLOCK)
    seen = where(visible(b * BLOCK + lane), index(scores, i, b, lane), f32(-math.inf))
    highest = stage(reduce("max", seen, b), i, lane, where="local")

    i, b, lane, other = (
        loop("i_exp", group),
        loop("b_exp", blocks),
        loop("lane_exp", BLOCK),
        loop("lane_highest", BLOCK),
    )
    e = exp2((index(scores, i, b, lane) - reduce("max", index(highest, i, other), other)) * f32(LOG2_E))
    e = where(visible(b * BLOCK + lane), e, f32(0.0)) if window else e
    weights = stage(e, i, b, lane, where="local", sizes=sizes)

    i, p = loop("i_sum", group), loop("p_sum", count)
    total = reduce("add", index(weights, i, p // BLOCK, p % BLOCK), p, order="fold:256")
    inverse = stage(reciprocal(total), i, where="local")

    place, p = loop("d", group * head_dim), loop("p_value", count)
    i, d = place // head_dim, place % head_dim
    v = value_at(room, _spot(use, base + p), shared, d)
    v = where(visible(p), v, f32(0.0)) if window else v
    mixed = reduce("mulacc", index(weights, i, p // BLOCK, p % BLOCK), v, p, order="fold:256")
    return (stage(mixed * index(inverse, i), h, place),)


KV_WRITE = OpKind(
    name="kv_write",
    n_inputs=2,
    params=("head_dim", "heads"),
    step_inputs=("positions", "sequences", "page_tables"),
    state="write",
    steps=("cache",),
    writes=_kv_write,
)
ATTENTION = OpKind(
    name="attention",
    n_inputs=1,
    params=("causal", "head_dim", "heads", "kv_heads", "scale", "window"),
    step_inputs=("positions", "sequences", "page_tables"),
    state="read",
    steps=("cache", "scores", "softmax", "accumulate"),
    define=_attention,
)
