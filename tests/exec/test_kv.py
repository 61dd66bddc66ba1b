"""The page allocator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuit.errors import RunError
from circuit_exec.kv import Pages, pages_for


def test_a_sequence_gets_pages_as_it_grows_and_gives_them_back() -> None:
    pages = Pages(4)
    pages.grow(7, 64)
    pages.grow(9, 1)
    pages.grow(7, 65)
    assert pages.tables((9, 7), 3).tolist() == [[1, 0, 0], [0, 2, 0]]
    pages.release(7)
    assert pages.free() == 3


def test_a_pool_that_is_full_takes_nothing_and_says_so() -> None:
    pages = Pages(4)
    pages.grow(1, 65)
    with pytest.raises(RunError) as caught:
        pages.grow(2, 129)
    assert str(caught.value) == (
        "error: the KV pool has 2 of its 4 pages left, 3 more are needed for 129 positions\n"
        "  = fix: end other sequences first, or open the model with a larger pool"
    )
    assert pages.free() == 2


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 400)), max_size=30))
def test_no_page_is_held_twice_and_none_is_lost(actions: list[tuple[int, int]]) -> None:
    """Length 0 releases the sequence."""
    pages, lengths = Pages(12), dict[int, int]()
    for sequence, length in actions:
        if length == 0:
            pages.release(sequence)
            lengths.pop(sequence, None)
            continue
        try:
            pages.grow(sequence, length)
        except RunError:
            assert pages_for(length) - pages_for(lengths.get(sequence, 0)) > pages.free()
            continue
        lengths[sequence] = max(length, lengths.get(sequence, 0))
    held = [page for s, n in lengths.items() for page in pages.tables((s,), 12)[0, : pages_for(n)].tolist()]
    assert len(set(held)) == len(held) == 12 - pages.free()
