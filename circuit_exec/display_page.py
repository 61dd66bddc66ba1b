"""What is displayed of a model as one page for the browser, and its diagrams as one picture: nothing is fetched."""

import re
from importlib.resources import files

from circuit.report.display.page import page_parts, picture_parts
from circuit.report.display.record import Display, Part

PLACE = re.compile(r"\{\{ (\w+) \}\}")
"""Where the template has a part."""
ON_DEVICE = re.compile(r" *<!-- on a device -->\n(.*?) *<!-- end -->\n", re.DOTALL)
"""What of the template stands only where a device is given."""


def page(report: Display) -> str:
    """A whole HTML document with its looks and its script inside."""
    looks = {"looks": _read("diagram.css") + _read("page.css"), "script": _read("page.js")}
    parts = page_parts(report) | looks
    template = ON_DEVICE.sub(r"\1" if report.on_device else "", _read("page.html"))
    return PLACE.sub(lambda found: parts[found[1]], template)


def picture(report: Display, only: Part | None = None) -> str:
    """A whole SVG document with the diagrams, or with one part's."""
    inside, width, height = picture_parts(report, only)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">\n<style>\n{_read("diagram.css")}</style>\n'
        f'<rect class="ground" width="100%" height="100%"/>\n{inside.text}\n</svg>\n'
    )


def _read(name: str) -> str:
    return (files("circuit_exec") / "display" / name).read_text(encoding="utf-8")
