"""The roofline of a step as SVG: each kernel's launches as a point under the device's roof, both scales logarithmic."""

import math
from collections.abc import Iterator

from msgspec import Struct

from circuit.report.display.markup import Markup, element, joined
from circuit.report.display.record import OnDevice, Spot
from circuit.report.display.svg import Drawing
from circuit.report.roofline import LOGIC
from circuit.report.sections import bytes_text, operations_text, rate_text, time_text

WIDTH, LEFT, RIGHT, BELOW, HEIGHT = 440.0, 54.0, 46.0, 40.0, 250.0
"""Of the picture, its margins, and the height of the field."""
LABEL, LABEL_ROW, PER_ROW = 17.0, 17.0, 22
"""The numbers of the points stand above the field, so that none hides another."""
APART = 12.0
"""The least height between the figures of two ceilings."""


class Ceiling(Struct, frozen=True, kw_only=True):
    """Instructions of one rate; `used` where the plan's unit is one of them."""

    rate: float
    names: tuple[str, ...]
    used: bool


def ceilings(report: OnDevice) -> tuple[Ceiling, ...]:
    """The device's rates, the highest first."""
    rates: dict[float, list[str]] = {}
    for name, figure in report.device.rates:
        if name != LOGIC:
            rates.setdefault(figure.value, []).append(name)
    return tuple(
        Ceiling(rate=rate, names=tuple(names), used=report.unit in names)
        for rate, names in sorted(rates.items(), reverse=True)
    )


def ceiling_text(ceiling: Ceiling) -> str:
    """`989.5 TFLOP/s`; operations on integers are not FLOP."""
    floats = any("f" in name.partition(".")[2] for name in ceiling.names)
    return rate_text(ceiling.rate, "FLOP" if floats else "OP")


def numbered(report: OnDevice) -> tuple[Spot, ...]:
    """The points in the order of their numbers: by share of the step."""
    return tuple(sorted(report.spots, key=lambda spot: -spot.timed.ceiling_s))


def intensity(spot: Spot) -> float:
    """Operations for each byte that is moved."""
    return (spot.flops + 2 * spot.dots) / spot.n_bytes


def speed(spot: Spot) -> float:
    """Operations a second at the ceiling."""
    return (spot.flops + 2 * spot.dots) / spot.timed.ceiling_s


def roof_drawing(report: OnDevice) -> Drawing:
    """The plot. A kernel that only moves bytes has no place in it."""
    return _Plot(report).drawing()


class _Scale(Struct, frozen=True, kw_only=True):
    """From a value to a coordinate, a decade always as long."""

    least: float
    most: float
    first: float
    last: float

    def at(self, value: float) -> float:
        part = (math.log10(value) - math.log10(self.least)) / (math.log10(self.most) - math.log10(self.least))
        return round(self.first + part * (self.last - self.first), 1)

    def decades(self) -> list[float]:
        return [10.0**n for n in range(round(math.log10(self.least)), round(math.log10(self.most)) + 1)]


class _Plot:
    def __init__(self, report: OnDevice) -> None:
        self._report = report
        self._points = [(n, spot) for n, spot in enumerate(numbered(report), 1) if spot.flops + spot.dots]
        self._bandwidth = report.device.bandwidth.value
        self._ceilings = ceilings(report)
        self._label_rows = max(-(-len(self._points) // PER_ROW), 1)
        top = LABEL_ROW * self._label_rows + 12
        xs = [intensity(spot) for _, spot in self._points]
        ridge = self._ceilings[0].rate / self._bandwidth
        self._x = _Scale(
            least=_decade(min((*xs, ridge)), up=False), most=_decade(max((*xs, ridge)), up=True),
            first=LEFT, last=WIDTH - RIGHT,
        )  # fmt: skip
        ys = [*(speed(spot) for _, spot in self._points), *(each.rate for each in self._ceilings)]
        self._y = _Scale(
            least=_decade(min(ys), up=False), most=_decade(max(ys), up=True), first=top + HEIGHT, last=top
        )  # fmt: skip

    def drawing(self) -> Drawing:
        spots = list(self._spots())
        parts = (*self._axes(), *(lead for lead, _ in spots), *self._roofs(), *(spot for _, spot in spots))
        return Drawing(markup=joined(*parts), width=WIDTH, height=self._y.first + BELOW)

    def _axes(self) -> Iterator[Markup]:
        x, y = self._x, self._y
        every = max(-(-len(y.decades()) // 9), 1)
        for value in y.decades()[::every]:
            at = y.at(value)
            yield element("line", x1=x.first, x2=x.last, y1=at, y2=at, class_="grid")
            yield element("text", _short(value), x=x.first - 5, y=at + 3.5, class_="tick right")
        every = max(-(-len(x.decades()) // 9), 1)
        for value in x.decades()[::every]:
            at = x.at(value)
            yield element("line", x1=at, x2=at, y1=y.last, y2=y.first, class_="grid")
            yield element("text", _short(value), x=at, y=y.first + 14, class_="tick middle")
        yield element("text", "operations a byte", x=(x.first + x.last) / 2, y=y.first + 31, class_="axis middle")
        yield element(
            "text",
            "operations a second",
            x=-(y.first + y.last) / 2,
            y=12,
            transform="rotate(-90)",
            class_="axis middle",
        )

    def _roofs(self) -> Iterator[Markup]:
        """The slope of the memory up to the highest ceiling; the ceilings, that of the plan's unit stronger, with their
        figures beside the field, where no line is.
        """
        x, y, width = self._x, self._y, self._bandwidth
        start, end = max(x.least, y.least / width), self._ceilings[0].rate / width
        slope = f"M{x.at(start):g} {y.at(start * width):g}L{x.at(end):g} {y.at(end * width):g}"
        memory = element("title", f"memory: {rate_text(width, 'B')}")
        yield element("g", memory, element("path", d=slope, class_="roof"))
        free = 0.0
        for each in self._ceilings:
            look, more = ("", "") if each.used else (" unused", ", which the plan does not use")
            said, at = f"{', '.join(each.names)} {ceiling_text(each)}", y.at(each.rate)
            line = element("line", x1=x.at(each.rate / width), x2=x.last, y1=at, y2=at, class_=f"roof{look}")
            free = max(at + 3.5, free)
            text = element(
                "text", rate_text(each.rate, "").removesuffix("/s"), x=x.last + 5, y=free, class_=f"tick{look}"
            )
            yield element("g", element("title", said + more), line, text)
            free += APART

    def _spots(self) -> Iterator[tuple[Markup, Markup]]:
        """Points, each with its number above the field, and the line between them; where points crowd, numbers move
        aside.
        """
        placed = sorted(self._points, key=lambda each: (intensity(each[1]), each[0]))
        xs = _spread([self._x.at(intensity(spot)) for _, spot in placed[:: self._label_rows]], self._x)
        for at, (number, spot) in enumerate(placed):
            x, y = self._x.at(intensity(spot)), self._y.at(speed(spot))
            label_x, label_y = xs[at // self._label_rows], LABEL_ROW * (at % self._label_rows) + 10
            yield (
                element("path", d=f"M{label_x:g} {label_y + 8:g}L{x:g} {y:g}", class_="lead"),
                element(
                    "g",
                    element("title", _tells(number, spot)),
                    element("circle", cx=x, cy=y, r=3 + 6 * math.sqrt(spot.timed.share), class_="spot"),
                    element("circle", cx=label_x, cy=label_y, r=8, class_="ball"),
                    element("text", number, x=label_x, y=label_y + 3.5, class_="number middle"),
                    class_="point",
                    data_spot=number,
                ),
            )


def _spread(xs: list[float], scale: _Scale) -> list[float]:
    """Rising places with LABEL between them, each as near to its own as the ones before it allow, all in the field."""
    found: list[float] = []
    for x in xs:
        found.append(max(x, found[-1] + LABEL) if found else max(x, scale.first))
    most = scale.last
    for at in reversed(range(len(found))):
        found[at] = min(found[at], most)
        most = found[at] - LABEL
    return found


def _tells(number: int, spot: Spot) -> str:
    launches = f"{spot.launches} launches" if spot.launches > 1 else "1 launch"
    work = f"{operations_text(spot.flops + 2 * spot.dots)} on {bytes_text(spot.n_bytes)}"
    takes = f"{time_text(spot.timed.ceiling_s)}, {spot.timed.share:.1%} of the step"
    return f"{number}: {spot.kernel}, {launches}, {work}, {takes}"


def _decade(value: float, *, up: bool) -> float:
    """The next power of ten; a value on it has room beside it."""
    return 10.0 ** (math.floor(math.log10(value)) + 1 if up else math.ceil(math.log10(value)) - 1)


def _short(value: float) -> str:
    """`10`, `1 k`, `100 G`: a power of ten."""
    if value < 1:
        return f"{value:g}"
    place = min(round(math.log10(value)) // 3, 5)
    return f"{value / 1000**place:g}{' kMGTP'[place].strip() and ' ' + ' kMGTP'[place]}"
