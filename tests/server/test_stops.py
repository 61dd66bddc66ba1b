"""Stop texts are found wherever tokens begin and end, and nothing that could be the beginning of one leaves early."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuit_exec.server.stops import StopText

TEXTS = st.text(alphabet="abc", max_size=30)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=4)


def expected(text: str, stops: list[str]) -> str:
    """The text before the stop text that ends first."""
    for end in range(1, len(text) + 1):
        ends = [stop for stop in stops if text[:end].endswith(stop)]
        if ends:
            return text[: end - max(map(len, ends))]
    return text


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[first:last] for first, last in pairwise(ends)]


@given(TEXTS, STOPS, st.lists(st.integers(0, 100), max_size=10))
def test_what_leaves_does_not_depend_on_how_the_text_is_cut(text: str, stops: list[str], places: list[int]) -> None:
    watch = StopText(stops)
    left = "".join(watch.feed(piece) for piece in cut(text, places))
    found = watch.found
    assert left + watch.finish() == expected(text, stops)
    assert found == any(stop in text for stop in stops)


@given(TEXTS, STOPS)
def test_nothing_that_could_begin_a_stop_text_leaves(text: str, stops: list[str]) -> None:
    watch = StopText(stops)
    left = ""
    for place, character in enumerate(text):
        left += watch.feed(character)
        rest = text[len(left) : place + 1]
        assert watch.found or all(not left.endswith(stop) for stop in stops)
        assert watch.found or rest == "" or any(stop.startswith(rest) for stop in stops)


@pytest.mark.parametrize(
    ("pieces", "left"),
    [(["a\n", "\nb"], "a"), (["a\n", "b"], "a\nb"), (["a", "\n\n", "b"], "a"), (["\n", "\n"], ""), ([], "")],
)
def test_a_stop_text_may_span_tokens(pieces: list[str], left: str) -> None:
    watch = StopText(["\n\n"])
    assert "".join(map(watch.feed, pieces)) + watch.finish() == left
