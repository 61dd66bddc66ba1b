"""The layout of a program with one state, for what only reads sizes."""

from circuit.emit.layout import Layout, Room


def layout(page_words: int, max_pages: int) -> Layout:
    """A context of 1024 tokens, which 16 pages hold."""
    return Layout(
        context=1024,
        table_width=16,
        arena_bytes=0,
        read_bytes=0,
        steps=(),
        inputs=(),
        states=(Room(name="kv", page_words=page_words, max_pages=max_pages),),
    )
