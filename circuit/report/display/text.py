"""What is displayed, as text for a terminal and as Markdown: card, layers, totals, a diagram of each distinct part."""

from collections.abc import Iterator
from textwrap import wrap

from circuit.plan.text import ranges_text
from circuit.report.display.colour import PLAIN, Colours
from circuit.report.display.lines import ASCII, UNICODE, Glyphs, diagram_lines
from circuit.report.display.record import Diagram, Display, Part, Room
from circuit.report.sections import (
    WIDTH,
    Section,
    Table,
    bytes_text,
    count_text,
    not_rendered,
    operations_text,
    sections_markdown,
    sections_text,
    time_text,
)

TENS = 10
"""Layers between two gaps of the strip."""
GAP = "  "
MOST = 4
"""Ranges of layers that are told one by one."""


def display_text(
    report: Display,
    width: int = WIDTH,
    glyphs: Glyphs = UNICODE,
    only: Part | None = None,
    colours: Colours = PLAIN,
) -> str:
    """All of it within `width` columns; `only`: one part's diagram."""
    blocks = [] if only else [_text((card_section(report),), width), *_strip_lines(report, width, glyphs)]
    if only is None:
        blocks.append(_text((layers_section(report, glyphs), totals_section(report)), width))
    for at in _wanted(report, only):
        lines = diagram_lines(report.diagrams[at], width - len(GAP), glyphs, colours)
        blocks.append("\n".join([diagram_title(report, at, glyphs), *(GAP + line for line in lines)]) + "\n")
    blocks.append("\n".join(line for text in legend(glyphs) for line in wrap(text, width)) + "\n")
    return _plain("\n".join(blocks), glyphs)


def display_markdown(report: Display, glyphs: Glyphs = UNICODE, only: Part | None = None) -> str:
    """The same as Markdown, the diagrams as they stand in a terminal."""
    strip = "\n".join(["## layers", "", "```", *_strip(report, 2 * WIDTH, glyphs), "```"]) + "\n"
    blocks = [] if only else [sections_markdown((card_section(report),)), strip]
    if only is None:
        blocks.append(sections_markdown((layers_section(report, glyphs), totals_section(report))))
    for at in _wanted(report, only):
        lines = diagram_lines(report.diagrams[at], 2 * WIDTH, glyphs)
        blocks.append("\n".join([f"## {diagram_title(report, at, glyphs)}", "", "```", *lines, "```"]) + "\n")
    blocks.append("\n".join(["```", *legend(glyphs), "```"]) + "\n")
    return _plain("\n".join(blocks), glyphs)


def layer_glyphs(report: Display, glyphs: Glyphs) -> dict[int, str]:
    """A glyph for each diagram that a layer has, all of one width: more diagrams than glyphs are numbered."""
    used = tuple(dict.fromkeys(part.diagram for part in report.parts if part.layer is not None))
    if len(used) <= len(glyphs.layers):
        return dict(zip(used, glyphs.layers, strict=False))
    digits = len(str(len(used) - 1))
    return {diagram: f"{at:0{digits}}" for at, diagram in enumerate(used)}


def parts_like(report: Display, diagram: int) -> str:
    """`layers 0-28, 30`, `9 layers from 0 to 32`, or `head`: the parts that have a diagram; the strip says which."""
    found = [part for part in report.parts if part.diagram == diagram]
    layers = [part.layer for part in found if part.layer is not None]
    others = [part.name for part in found if part.layer is None]
    told = ranges_text(layers)
    if told.count(",") >= MOST:
        return ", ".join((f"{len(layers)} layers from {layers[0]} to {layers[-1]}", *others))
    named = [f"layer{'s' if len(layers) > 1 else ''} {told}"] if layers else []
    return ", ".join((*named, *others))


def card_section(report: Display) -> Section:
    """The model card."""
    card = report.card
    rows = [
        ("architecture", f"{card.model_type} ({card.arch})"),
        ("parameters", count_text(card.parameters)),
        ("layers", str(card.layers)),
        *(
            (
                f"weights in {each.format}",
                f"{_counted(each.tensors, 'tensor')}, {bytes_text(each.stored)}, baked {bytes_text(each.baked)}",
            )
            for each in card.formats
        ),
        ("context", f"{card.context:,} positions"),
        ("keys and values", f"{card.kv_format}, {card.kv_bytes:,} bytes a position"),
        *_device_rows(report),
    ]
    notes = (
        f"dims: {', '.join(f'{name} {value:,}' for name, value in card.widths)}",
        f"policy: {' '.join(f'{key}={value}' for key, value in card.policy)}",
        f"digest of what changes bytes: {card.bytes_digest}",
        *not_rendered(report.language, report.rendered),
    )
    return Section(title=card.name, table=Table(head=("figure", "value"), rows=tuple(rows)), notes=notes)


def _device_rows(report: Display) -> Iterator[tuple[str, str]]:
    if report.on_device is None:
        yield "class", report.hardware_class
        return
    yield "device", f"{report.on_device.device.name}, class {report.hardware_class}"
    yield "memory", room_text(report.on_device.room)


def target_text(report: Display) -> str:
    """The device, or the class where none is given."""
    return report.on_device.device.name if report.on_device else f"class {report.hardware_class}"


def room_text(room: Room) -> str:
    """What the step needs of the memory."""
    needed = room.weights + room.pages + room.arena + room.reserved
    said = f"{bytes_text(room.free)} free" if room.free >= 0 else f"{bytes_text(-room.free)} too little"
    return f"{bytes_text(needed)} of {bytes_text(room.memory)}, {said}"


def step_text(report: Display) -> str:
    """`decode, 1 row at position 4,095 (plan of rows 1-1)`."""
    work, (lo, hi) = report.work, report.rows
    if work.mode == "decode":
        rows = "1 row" if work.sequences == 1 else f"{work.sequences:,} rows of as many sequences"
        return f"decode, {rows} at position {work.context - 1:,}; plan of rows {lo}-{hi}"
    return f"prefill, {work.context:,} rows of one sequence; plan of rows {lo}-{hi}"


def layers_section(report: Display, glyphs: Glyphs) -> Section:
    """The legend of the strip: each distinct part once, with the figures of one of it."""
    marks = layer_glyphs(report, glyphs)
    head = ("part", "times", "ops", "launches", "moved", *(("share",) if report.on_device else ()))
    rows = []
    for at, diagram in enumerate(report.diagrams):
        times = sum(part.diagram == at for part in report.parts)
        figures = [frame.figures for frame in diagram.frames if frame.figures]
        moved = sum(each.weights + each.states + each.edges for each in figures)
        share = f"{times * sum(each.timed.share for each in figures if each.timed):.1%}"
        name = f"{marks.get(at, ' ')} {parts_like(report, at)}"
        cells = [name, str(times), str(len(diagram.ops)), str(len(diagram.frames)), bytes_text(moved), share]
        if not figures:
            cells[4:] = [""] * (len(head) - 5) + ["on request"]
        rows.append(tuple(cells[: len(head)]))
    title = "parts that differ, with launches and bytes of one of each"
    return Section(
        title=f"{title}, and the share of all" if report.on_device else title,
        table=Table(head=head, rows=tuple(rows)),
    )


def totals_section(report: Display) -> Section:
    """Launches, bytes and operations of a step."""
    totals, on_device = report.totals, report.on_device
    rows = [
        ("launches", f"{totals.launches:,} of {totals.kernels} kernels"),
        ("weights moved", bytes_text(totals.weights)),
        ("keys and values moved", bytes_text(totals.states)),
        ("edges moved", bytes_text(totals.edges)),
        ("moved in all", bytes_text(totals.weights + totals.states + totals.edges)),
        ("operations in f32", operations_text(totals.flops)),
        *([("products of codes", operations_text(totals.dots))] if totals.dots else []),
    ]
    if on_device:
        rows.append(("ceiling", _speed_text(totals.tokens, on_device.ceiling_s)))
    if on_device and on_device.launch_s is not None:
        rows.append(("with its launches", _speed_text(totals.tokens, on_device.ceiling_s + on_device.launch_s)))
    return Section(title=f"a step: {step_text(report)}", table=Table(head=("figure", "value"), rows=tuple(rows)))


def _speed_text(tokens: int, seconds: float) -> str:
    return f"{time_text(seconds)}, {count_text(tokens / seconds)} tok/s"


def legend(glyphs: Glyphs) -> tuple[str, ...]:
    """What the signs of a diagram mean."""
    same, own, other = glyphs.tags
    return (
        "a frame is one launch; left of it are wires in memory, in it those on the chip",
        f"{same} bit_identical: the bytes of its ops one by one   {own} reference: it says what they are",
        f"{other} differs: other bytes, by a lever of the policy",
        f"{glyphs.op} an op   {glyphs.weight} a weight, {glyphs.state} keys and values: bytes that the step moves",
        "arena: in memory, between launches   scratch: in memory, inside a launch",
    )


def _wanted(report: Display, only: Part | None) -> range | tuple[int]:
    return range(len(report.diagrams)) if only is None else (only.diagram,)


def diagram_title(report: Display, at: int, glyphs: Glyphs) -> str:
    """`▲ layers 1-28: 16 ops in 9 launches`."""
    mark = layer_glyphs(report, glyphs).get(at)
    diagram: Diagram = report.diagrams[at]
    counts = f"{_counted(len(diagram.ops), 'op')} in {_counted(len(diagram.frames), 'launch', 'es')}"
    return f"{f'{mark} ' if mark else ''}{parts_like(report, at)}: {counts}"


def _counted(count: int, what: str, more: str = "s") -> str:
    return f"{count} {what}{'' if count == 1 else more}"


def _strip_lines(report: Display, width: int, glyphs: Glyphs) -> Iterator[str]:
    lines = list(_strip(report, width - len(GAP), glyphs))
    if lines:
        yield "\n".join(["layers", *(GAP + line for line in lines)]) + "\n"


def _strip(report: Display, width: int, glyphs: Glyphs) -> Iterator[str]:
    """A glyph for each layer, ten between gaps; each line begins with the number of its first layer."""
    marks = layer_glyphs(report, glyphs)
    layers = [(part.layer, marks[part.diagram]) for part in report.parts if part.layer is not None]
    if not layers:
        return
    digits, wide = len(str(layers[-1][0])), len(layers[0][1])
    ten = TENS * wide + (TENS - 1 if wide > 1 else 0)
    each = max((width - digits - 1) // (ten + 1), 1) * TENS
    for first in range(0, len(layers), each):
        row = [mark for _, mark in layers[first : first + each]]
        tens = [(" " if wide > 1 else "").join(row[at : at + TENS]) for at in range(0, len(row), TENS)]
        yield f"{layers[first][0]:>{digits}} {' '.join(tens)}"


def _text(sections: tuple[Section, ...], width: int) -> str:
    return sections_text(sections, width)


def _plain(text: str, glyphs: Glyphs) -> str:
    """The text in ASCII alone where that is asked for: names of the model may have other letters."""
    if glyphs is not ASCII:
        return text
    return text.replace("…", "~").encode("ascii", "backslashreplace").decode("ascii")
