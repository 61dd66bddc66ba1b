"""The arrays that the executor gives each step, as kernels see them: types, shapes, and bounds of what addresses."""

from circuit.sigma.op import Room
from circuit.sigma.page import page_words, pages_of
from circuit.tir.ir import State, Tir
from circuit.uop.build import param
from circuit.uop.node import DType, UOp

LARGEST_INDEX = 2**31 - 1
SEQUENCES = 4096
"""The most sequences a step can hold: a kernel's index into the page tables must fit an i32 for every context."""


def step_array(tir: Tir, rows_hi: int, name: str, slot: int) -> UOp:
    """The PARAM of a step array. Rows of `page_tables` are sequences; of the sampler's arrays, rows with logits."""
    context = tir.context
    match name:
        case "tokens":
            return param(slot, DType.I32, (rows_hi,), name, lo=0, hi=_vocabulary(tir) - 1)
        case "positions":
            return param(slot, DType.I32, (rows_hi,), name, lo=0, hi=context - 1)
        case "sequences":
            return param(slot, DType.I32, (rows_hi,), name, lo=0, hi=SEQUENCES - 1)
        case "page_tables":
            return param(slot, DType.I32, (SEQUENCES, pages_of(context)), name, lo=0, hi=pages_limit(tir) - 1)
        case "logit_rows":
            return param(slot, DType.I32, (rows_hi,), name, lo=0, hi=rows_hi - 1)
        case "temperature" | "top_p":
            return param(slot, DType.F32, (rows_hi,), name)
        case "seeds":
            return param(slot, DType.U32, (rows_hi, 2), name)
        case "choices":
            return param(slot, DType.U32, (rows_hi,), name)
        case "sample_positions":
            return param(slot, DType.I32, (rows_hi,), name, lo=0, hi=context)
    raise AssertionError(f"a step has no array {name}")


def pages_limit(tir: Tir) -> int:
    """The most pages a pool can have, so that every word of every state has an i32 index."""
    return min(LARGEST_INDEX // page_words(state.format, state.heads, state.head_dim) for state in tir.states)


def room_of(tir: Tir, state: State, slot: int) -> Room:
    """A state with its pool as the PARAM of a slot."""
    size = pages_limit(tir) * page_words(state.format, state.heads, state.head_dim)
    words = param(slot, DType.U32, (min(size, LARGEST_INDEX),), "state0")
    return Room(words=words, heads=state.heads, head_dim=state.head_dim, format=state.format)


def _vocabulary(tir: Tir) -> int:
    embed = next(node for node in tir.nodes if node.op == "embed")
    return tir.weights[embed.weights[0]].shape[0]
