"""An emitted program as named C files, in the order of a reader; paths are as the program's own folder has them."""

from circuit.text import Source

Sources = tuple[Source, ...]


def program_text(sources: Sources) -> str:
    """All files in one text, each under its name: for reading, not for a compiler."""
    return "\n".join(f"/* ==== {source.path} ==== */\n{source.text}" for source in sources)
