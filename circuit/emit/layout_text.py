"""The text form of a layout, one line a thing; it reads back with `parse_layout`.

    layout context 8192 pages 129 arena 1310720 read 84934656
    step decode 1 64
    output head.logits m 49152 at 66048
    input tokens from 0 to 49151
    state l0.kv 24576 words 87381 pages

An output belongs to the step before it.
"""

from circuit.emit.layout import Input, Layout, Output, Room, Step


class LayoutError(ValueError):
    """The text is not a layout."""


def layout_text(layout: Layout) -> str:
    """The text of a layout."""
    room = f"pages {layout.table_width} arena {layout.arena_bytes} read {layout.read_bytes}"
    lines = [f"layout context {layout.context} {room}"]
    for step in layout.steps:
        lines.append(f"step {step.mode} {step.rows[0]} {step.rows[1]}")
        lines += [f"output {o.edge} {o.rows} {o.columns} at {o.offset_bytes}" for o in step.outputs]
    lines += [f"input {given.name} from {given.lo} to {given.hi}" for given in layout.inputs]
    lines += [f"state {state.name} {state.page_words} words {state.max_pages} pages" for state in layout.states]
    return "\n".join(lines) + "\n"


def parse_layout(text: str) -> Layout:
    """The layout of a text; LayoutError for anything else."""
    head: tuple[int, int, int, int] | None = None
    steps: list[Step] = []
    outputs: list[list[Output]] = []
    inputs: list[Input] = []
    states: list[Room] = []
    for line in text.splitlines():
        match line.split(" "):
            case ["layout", "context", context, "pages", pages, "arena", arena, "read", read] if head is None:
                head = (_count(context), _count(pages), _count(arena), _count(read))
            case ["step", mode, lo, hi]:
                steps.append(Step(mode=mode, rows=(_count(lo), _count(hi)), outputs=()))
                outputs.append([])
            case ["output", edge, ("n" | "m") as rows, columns, "at", offset] if steps:
                made = Output(edge=edge, rows=rows, columns=_count(columns), offset_bytes=_count(offset))
                outputs[-1].append(made)
            case ["input", name, "from", lo, "to", hi]:
                inputs.append(Input(name=name, lo=_count(lo), hi=_count(hi)))
            case ["state", name, words, "words", pages, "pages"]:
                states.append(Room(name=name, page_words=_count(words), max_pages=_count(pages)))
            case _:
                raise LayoutError(f"`{line}` is no line of a layout")
    if head is None:
        raise LayoutError("the layout has no first line")
    made_steps = zip(steps, outputs, strict=True)
    return Layout(
        context=head[0],
        table_width=head[1],
        arena_bytes=head[2],
        read_bytes=head[3],
        steps=tuple(Step(mode=s.mode, rows=s.rows, outputs=tuple(o)) for s, o in made_steps),
        inputs=tuple(inputs),
        states=tuple(states),
    )


def _count(word: str) -> int:
    if not word.isdecimal():
        raise LayoutError(f"`{word}` is no count")
    return int(word)
