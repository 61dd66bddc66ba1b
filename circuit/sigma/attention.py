"""kv_write, attention: paged keys and values, and softmax attention over them.

The pool of a state is pages of PAGE positions; a page holds keys as [head][head_dim][PAGE], then values as
[head][PAGE][head_dim], so that lanes may run over positions for scores and over the head's width for the sum.
`page_tables` is [sequence][page]; a row's sequence stands in `sequences`, its position in `positions`.

Attention is two passes: s = scale * fold over head_dim of q*k; M = max over visible s; e = exp2((s - M) * log2 e);
both sums are fold:256 over absolute positions, visible ones only (an invisible one counts as +0, which changes no
partial sum: no sum here is -0); one product with 1/sum. Position j is visible from i where i - window < j <= i;
window 0 is none. Folds start at the chunk that holds the first visible position: the chunks before it are +0. Source:
Vaswani et al. 2017, arXiv:1706.03762.
"""

import math

from circuit.sigma.op import OpKind, Room, Use, Values, Writes
from circuit.uop.build import after, f32, index, logical_not, loop, reciprocal, reduce, stage, store, where
from circuit.uop.math import exp2
from circuit.uop.node import DType, Op, Storage, UOp
from circuit.uop.orders import CHUNK

PAGE = 64
LOG2_E = math.log2(math.e)


def page_words(heads: int, head_dim: int) -> int:
    """f32 words of one page of a state."""
    return 2 * heads * PAGE * head_dim


def pages_of(context: int) -> int:
    """The row length of a page table: pages of `context` positions, and one more that a loop's end may look up
    unused.
    """
    return context // PAGE + 1


def _place(use: Use, position: UOp, head: UOp, d: UOp) -> tuple[UOp, UOp]:
    """Where key and value d of a head stand, for a position of the row's sequence."""
    room: Room = use.states[0]
    sequence = index(use.step["sequences"], use.row)
    last, number = pages_of(use.context) - 1, position // PAGE
    number = where(number < last, number, last)  # gone where the position is known to be in the context
    page = index(use.step["page_tables"], sequence, number)
    base = page * page_words(room.heads, room.head_dim)
    key = base + (head * room.head_dim + d) * PAGE + position % PAGE
    value = base + room.heads * PAGE * room.head_dim + (head * PAGE + position % PAGE) * room.head_dim + d
    return key, value


def _known(count: UOp, most: int, row: UOp) -> UOp:
    """A count, stored with bounds of its own: the proof of ranges need not relate position and base."""
    room = UOp(Op.ALLOC, (), Storage(0, 1, DType.I32, "count", lo=1, hi=most))
    inside = where(count < 1, 1, where(count < most, count, most))
    return index(after(room, store(index(after(room, row), 0), inside)), 0)


def _kv_write(use: Use) -> tuple[Writes, ...]:
    position = index(use.step["positions"], use.row)
    h, d = loop("h", use.count("heads")), loop("d", use.count("head_dim"))
    key, value = _place(use, position, h, d)
    at = h * use.count("head_dim") + d
    return (
        Writes(loops=(h, d), place=key, value=index(use.inputs[0], at)),
        Writes(loops=(h, d), place=value, value=index(use.inputs[1], at)),
    )


def _attention(use: Use) -> Values:
    heads, kv_heads, head_dim = use.count("heads"), use.count("kv_heads"), use.count("head_dim")
    window, scale = use.count("window"), f32(use.number("scale"))
    position = index(use.step["positions"], use.row)
    h = loop("h", heads)
    group = heads // kv_heads
    first = position + (1 - window) if window else position * 0
    first = where(first < 0, 0, first)
    base = first // CHUNK * CHUNK  # a whole chunk before the first visible position adds +0
    size, count = -(-use.context // CHUNK) * CHUNK, position + 1 - base
    if window:
        size = min(size, -(-(window + CHUNK) // CHUNK) * CHUNK)
        count = _known(count, size, use.row)

    def over(name: str) -> UOp:
        return loop(name, count)

    def visible(p: UOp) -> UOp:
        return logical_not(base + p < first)

    d = loop("d_score", head_dim)
    p = over("p_score")
    key, _ = _place(use, base + p, h // group, d)
    q = index(use.inputs[0], h * head_dim + d)
    score = reduce("mulacc", q, index(use.states[0].words, key), d) * scale
    scores = stage(score, p, where="local", sizes=(size,))
    p = over("p_max")
    seen = index(scores, p) if not window else where(visible(p), index(scores, p), f32(-math.inf))
    highest = reduce("max", seen, p)
    p = over("p_exp")
    e = exp2((index(scores, p) - highest) * f32(LOG2_E))
    weights = stage(e if not window else where(visible(p), e, f32(0.0)), p, where="local", sizes=(size,))
    p = over("p_sum")
    total = reduce("add", index(weights, p), p, order="fold:256")
    p, d = over("p_value"), loop("d", head_dim)
    _, value = _place(use, base + p, h // group, d)
    v = index(use.states[0].words, value)
    if window:
        v = where(visible(p), v, f32(0.0))
    mixed = reduce("mulacc", index(weights, p), v, p, order="fold:256")
    return (stage(mixed * reciprocal(total), h, d),)


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
