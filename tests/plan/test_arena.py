"""First fit: buffers that are alive together never share a byte."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from circuit.plan.arena import ALIGN_BYTES, Span, place

SPANS = st.lists(
    st.builds(
        lambda n_bytes, first, length: Span(n_bytes=n_bytes, first=first, last=first + length),
        st.integers(1, 1000),
        st.integers(0, 20),
        st.integers(0, 6),
    ),
    max_size=30,
).map(tuple)


def check(spans: tuple[Span, ...]) -> None:
    """Offsets are aligned, nothing that is alive together overlaps, and all fits in the total."""
    offsets, total = place(spans)
    for offset, span in zip(offsets, spans, strict=True):
        assert offset % ALIGN_BYTES == 0
        assert offset + span.n_bytes <= total
    for i, j in combinations(range(len(spans)), 2):
        a, b = spans[i], spans[j]
        if a.first <= b.last and b.first <= a.last:
            assert offsets[i] + a.n_bytes <= offsets[j] or offsets[j] + b.n_bytes <= offsets[i], (a, b)


@given(SPANS)
def test_what_is_alive_together_never_shares_a_byte(spans: tuple[Span, ...]) -> None:
    check(spans)


def test_room_is_used_again_once_its_buffer_is_read_for_the_last_time() -> None:
    spans = tuple(Span(n_bytes=100, first=i, last=i + 1) for i in range(5))
    assert place(spans) == ((0, 128, 0, 128, 0), 256)


def test_a_launch_never_writes_over_what_it_reads() -> None:
    assert place((Span(n_bytes=64, first=0, last=3), Span(n_bytes=64, first=3, last=4))) == ((0, 64), 128)


def test_the_lowest_gap_that_is_wide_enough_is_taken() -> None:
    spans = (
        Span(n_bytes=256, first=0, last=1),
        Span(n_bytes=64, first=0, last=9),
        Span(n_bytes=128, first=2, last=9),
        Span(n_bytes=192, first=3, last=9),
    )
    assert place(spans) == ((0, 256, 0, 320), 512)


def test_nothing_takes_no_room() -> None:
    assert place(()) == ((), 0)
