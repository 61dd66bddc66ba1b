"""The parts of the page as markup, by the names that its template has for them, and the picture of diagrams alone."""

import re
from collections.abc import Iterator

from circuit.report.display.lines import UNICODE, tag
from circuit.report.display.markup import Inside, Markup, element, escaped, joined
from circuit.report.display.record import Display, Frame, OnDevice, Part, Room
from circuit.report.display.roof import ceiling_text, ceilings, intensity, numbered, roof_drawing, speed
from circuit.report.display.svg import LETTER, MARGIN, Drawing, drawing
from circuit.report.display.text import (
    card_section,
    diagram_title,
    layer_glyphs,
    layers_section,
    step_text,
    target_text,
    totals_section,
)
from circuit.report.sections import Section, bytes_text, operations_text, rate_text, time_text

COLOURS = 8
"""Classes of the strip's colours; a glyph tells apart what shares one."""
TITLE = 26.0


def page_parts(report: Display) -> dict[str, str]:
    """Every part of the page; without a device, those that take its figures are missing."""
    on_class = f", class {report.hardware_class}" if report.on_device else ""
    made: dict[str, Inside] = {
        "title": f"{report.card.name} on {target_text(report)}",
        "name": report.card.name,
        "step": f"{target_text(report)}{on_class}: {step_text(report)}",
        "card": _facts(card_section(report)),
        "totals": _facts(totals_section(report)),
        "strip": _strip(report),
        "layers": _table(layers_section(report, UNICODE), "layers"),
        "diagrams": joined(*_diagrams(report)),
        "parts": _choice(report),
        "plan": _plan(report),
    }
    if report.on_device:
        made["room"] = _room(report.on_device.room)
        made["roof"] = _svg(roof_drawing(report.on_device), "roofline", "Roofline of the step")
        made["ceilings"] = _ceilings(report.on_device)
        made["spots"] = _spots(report.on_device)
    return {name: element("b", part).text[len("<b>") : -len("</b>")] for name, part in made.items()}


def picture_parts(report: Display, only: Part | None) -> tuple[Markup, float, float]:
    """The diagrams, each with a heading, in columns that are no taller than the tallest: markup, width, height."""
    places = range(len(report.diagrams)) if only is None else (only.diagram,)
    drawn = [(diagram_title(report, at, UNICODE), drawing(report.diagrams[at])) for at in places]
    tallest = max(each.height for _, each in drawn) + TITLE
    made, x, y, wide = [element("title", f"{report.card.name}: {step_text(report)}")], MARGIN, 0.0, 0.0
    for title, each in drawn:
        if y and y + TITLE + each.height > tallest:
            x, y, wide = x + wide + 2 * MARGIN, 0.0, 0.0
        heading = element("text", title, x=MARGIN, y=TITLE - 8, class_="title")
        body = element("g", each.markup, transform=f"translate(0 {TITLE:g})")
        made.append(element("g", heading, body, transform=f"translate({x:g} {y:g})"))
        y, wide = y + TITLE + each.height + MARGIN, max(wide, each.width, LETTER * len(title) + 2 * MARGIN)
    return joined(*made), x + wide + MARGIN, tallest + 2 * MARGIN


def _svg(drawn: Drawing, look: str, label: str) -> Markup:
    return element(
        "svg",
        drawn.markup,
        class_=look,
        viewbox=f"0 0 {drawn.width:g} {drawn.height:g}",
        width=drawn.width,
        role="img",
        aria_label=label,
    )


def _facts(section: Section) -> Markup:
    """A section of two columns as a list of terms, with its notes."""
    assert section.table is not None
    rows = (element("div", element("dt", name), element("dd", value)) for name, value in section.table.rows)
    notes = (element("p", note, class_="quiet") for note in section.notes)
    return joined(element("dl", *rows, class_="facts"), *notes)


def _table(section: Section, id_: str) -> Markup:
    assert section.table is not None
    head = element("tr", *(element("th", text, scope="col") for text in section.table.head))
    rows = (element("tr", *(element("td", text) for text in row)) for row in section.table.rows)
    return element("table", element("thead", head), element("tbody", *rows), id=id_)


def _broken(name: str) -> Markup:
    """A name that may go on in the next line behind each `_`."""
    return Markup(text="<wbr>".join(map(escaped, re.split("(?<=_)", name))))


def _room(room: Room) -> Markup:
    """The bar of the device's memory to scale, and its legend."""
    needed = room.weights + room.pages + room.arena + room.reserved
    whole = max(room.memory, needed)
    parts = (
        ("weights", "weights, as baked", room.weights),
        ("pages", "keys and values of the step", room.pages),
        ("arena", "arena", room.arena),
        ("reserved", "reserved for others", room.reserved),
        ("free", "free" if room.free >= 0 else "too little", abs(room.free)),
    )
    shown = [each for each in parts if each[2]]
    bar = [
        element("span", class_=look, style=f"flex-basis:{100 * n / whole:.3f}%", title=f"{what}: {bytes_text(n)}")
        for look, what, n in shown
        if look != "free" or room.free > 0
    ]
    legend = [
        element("li", element("i", class_=look), f"{what} ", element("b", bytes_text(n)), f" {n / whole:.1%}")
        for look, what, n in shown
    ]
    says = f"of {bytes_text(room.memory)}; {room.most_sequences:,} sequences of that length fit"
    return joined(
        element("div", *bar, class_="bar", role="img", aria_label=f"Memory: {bytes_text(needed)} {says}"),
        element("ul", *legend, class_="legend"),
        element("p", f"{bytes_text(needed)} {says}", class_="quiet"),
    )


def _strip(report: Display) -> Markup:
    """A cell for each part, in the plan's order, that leads to its diagram."""
    marks = layer_glyphs(report, UNICODE)
    cells = []
    for part in report.parts:
        mark = marks.get(part.diagram)
        look = "outside" if mark is None else f"k{list(marks).index(part.diagram) % COLOURS}"
        cells.append(
            element(
                "a",
                part.name if mark is None else mark,
                href=f"#d{part.diagram}",
                class_=look,
                title=part.name,
                aria_label=part.name,
            )
        )
    return element("nav", *cells, class_="strip", aria_label="Layers")


def _diagrams(report: Display) -> Iterator[Markup]:
    for at, diagram in enumerate(report.diagrams):
        title = diagram_title(report, at, UNICODE)
        drawn = _svg(drawing(diagram), "diagram", title)
        yield element("figure", element("figcaption", title), drawn, id=f"d{at}")


def _ceilings(report: OnDevice) -> Markup:
    """What the lines of the roofline stand for."""
    memory = element("li", element("i"), element("b", rate_text(report.device.bandwidth.value, "B")), " memory")
    units = (
        element(
            "li",
            element("i", class_=None if each.used else "unused"),
            element("b", ceiling_text(each)),
            f" {', '.join(each.names)}",
        )
        for each in ceilings(report)
    )
    return element("ul", memory, *units, class_="legend ceilings")


def _spots(report: OnDevice) -> Markup:
    head = ("", "kernel", "launches", "op/B", "speed", "share", "bound by")
    rows = []
    for number, spot in enumerate(numbered(report), 1):
        ops = spot.flops + 2 * spot.dots
        cells: tuple[Inside, ...] = (
            str(number),
            _broken(spot.kernel),
            f"{spot.launches:,}",
            f"{intensity(spot):.2f}" if ops else "0",
            rate_text(speed(spot), "OP") if ops else "moves bytes",
            f"{spot.timed.share:.1%}",
            spot.timed.bound,
        )
        named = zip(head, cells, strict=True)
        rows.append(element("tr", *(element("td", each, data_head=name) for name, each in named), data_spot=number))
    top = element("tr", *(element("th", text, scope="col") for text in head))
    return element("table", element("thead", top), element("tbody", *rows), id="spots")


PLAN = (
    "#",
    "part",
    "rule",
    "numerics",
    "ops",
    "weights",
    "states",
    "edges",
    "operations",
)
TIMES = ("time", "bound by")
"""Its columns on a device."""
TEXTS = ("part", "rule", "numerics", "ops", "bound by")
"""Columns of the plan that are sorted as text; `part` has the number of its layer beside it."""


def _plan(report: Display) -> Markup:
    """Every launch of the plan in its order."""
    head = [
        element("th", element("button", name, type="button"), scope="col", class_=None if name in TEXTS else "number")
        for name in (*PLAN, *(TIMES if report.on_device else ()))
    ]
    launches: dict[int, Markup] = {}
    for part in report.parts:
        diagram = report.diagrams[part.diagram]
        for place, frame in zip(part.launches, diagram.frames, strict=True):
            ops = " ".join(diagram.ops[at].name for at in frame.ops)
            launches[place] = element("tr", *_launch(place, part, frame, ops), *_does(frame, report))
    rows = (launches[place] for place in sorted(launches))
    return element("table", element("thead", element("tr", *head)), element("tbody", joined(*rows)), id="plan")


def _choice(report: Display) -> Markup:
    """Which part's launches are listed."""
    options = (element("option", part.name, value=part.name) for part in report.parts)
    return element("select", element("option", "every part", value=""), *options, id="part")


def _launch(place: int, part: Part, frame: Frame, ops: str) -> Iterator[Markup]:
    yield _number(place, str(place))
    yield element("td", part.name, data_value=-1 if part.layer is None else part.layer)
    yield element("td", frame.rule, element("small", _broken(frame.kernel)))
    yield element("td", f"{tag(frame, UNICODE)} {frame.numerics}", class_=frame.numerics)
    yield element("td", ops, class_="ops")


def _does(frame: Frame, report: Display) -> Iterator[Markup]:
    """What a launch moves and computes, and how long; of one on request, nothing."""
    if frame.figures is None:
        yield from (_number(0, "") for _ in range(5 if report.on_device else 3))
        yield element("td", "on request") if report.on_device else _number(0, "on request")
        return
    each = frame.figures
    weights, states, edges, operations = PLAN[-4:]
    for name, n in ((weights, each.weights), (states, each.states), (edges, each.edges)):
        yield _number(n, bytes_text(n) if n else "–", name)
    ops_count = each.flops + 2 * each.dots
    yield _number(ops_count, operations_text(ops_count) if ops_count else "–", operations)
    if each.timed:
        time, bound = TIMES
        yield _number(each.timed.ceiling_s, time_text(each.timed.ceiling_s), time)
        yield element("td", each.timed.bound, data_head=bound)


def _number(value: float, text: str, head: str | None = None) -> Markup:
    """A cell that is sorted by its value; `head` stands above it where a row is no line."""
    return element("td", text, data_value=repr(value), data_head=head, class_="number")
