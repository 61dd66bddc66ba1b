"""What the executor is told of a program."""

import pytest

from circuit.emit.derive import layout
from circuit.emit.layout import Input, Layout, Output, Room, Step
from circuit.emit.layout_text import LayoutError, layout_text, parse_layout
from tests.emit.small import plan

MADE = Layout(
    context=150,
    table_width=3,
    arena_bytes=2688,
    read_bytes=160,
    steps=tuple(
        Step(
            mode=mode,
            rows=(1, 16),
            outputs=(
                Output(edge="head.logits", rows="m", columns=40, offset_bytes=64),
                Output(edge="head.token", rows="m", columns=1, offset_bytes=2624),
            ),
        )
        for mode in ("decode", "prefill")
    ),
    inputs=(
        Input(name="tokens", lo=0, hi=31),
        Input(name="positions", lo=0, hi=149),
        Input(name="sequences", lo=0, hi=3),
        Input(name="page_tables", lo=0, hi=7),
    ),
    states=(Room(name="kv", page_words=128, max_pages=8),),
)
TEXT = """\
layout context 150 pages 3 arena 2688 read 160
step decode 1 16
output head.logits m 40 at 64
output head.token m 1 at 2624
step prefill 1 16
output head.logits m 40 at 64
output head.token m 1 at 2624
input tokens from 0 to 31
input positions from 0 to 149
input sequences from 0 to 3
input page_tables from 0 to 7
state kv 128 words 8 pages
"""


def test_bounds_and_room_are_what_the_kernels_declare() -> None:
    assert layout((plan("decode"), plan("prefill"))) == MADE


def test_the_text_reads_back() -> None:
    assert layout_text(MADE) == TEXT
    assert parse_layout(TEXT) == MADE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the layout has no first line"),
        (TEXT + "room kv 3\n", "`room kv 3` is no line of a layout"),
        (TEXT.replace("context 150", "context -150"), "`-150` is no count"),
        (TEXT.replace("step decode 1 16\n", ""), "`output head.logits m 40 at 64` is no line of a layout"),
    ],
)
def test_another_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_layout(text)
    assert str(caught.value) == message
