"""The page of `met circuit display` in headless Chromium: nothing is clipped or too wide, and its table works."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from circuit.report.display.record import Display, Part
from circuit_exec.display_page import page, picture
from tests.browser import SIZES, chromium, opened
from tests.report.test_display import shown
from tests.report.test_display_page import hostile

pytestmark = pytest.mark.slow

TOO_WIDE = """() => {
  const scrolled = (e) => e.closest(".scroll") && !e.matches(".scroll");
  const wide = document.documentElement.clientWidth;
  return [...document.querySelectorAll("body *")]
    .filter((e) => !scrolled(e) && e.getBoundingClientRect().right > wide + 0.5)
    .map((e) => `${e.tagName} ${e.getAttribute("class") ?? ""} ${e.textContent.slice(0, 40)}`);
}"""
"""What reaches beyond the right side of the body; a table scrolls in a box of its own."""
SCROLLED = """() => {
  return [...document.querySelectorAll(".scroll")].map((box) => box.scrollWidth - box.clientWidth);
}"""
"""How much of each table one has to scroll aside to."""
CLIPPED = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text, rect, circle")].filter((e) => {
    const own = e.getBoundingClientRect();
    return own.left < box.left - 0.5 || own.right > box.right + 0.5
      || own.top < box.top - 0.5 || own.bottom > box.bottom + 0.5;
  }).map((e) => e.outerHTML.slice(0, 120));
})"""
"""What of a picture is beyond its box."""
COVERED = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
  return boxes.flatMap(([text, a], at) => boxes.slice(at + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 5 && b.top < a.bottom - 5)
    .map(([other]) => `${text} | ${other}`));
})"""
"""Texts of a picture that lie on each other."""
CONTRAST = """() => {
  const channel = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (!color.endsWith(", 0)")) return color;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("h1, h2, p, dt, dd, th, td, li, a, label, figcaption, svg text")]
    .filter((e) => e.textContent.trim())
    .map((e) => {
      const front = light(getComputedStyle(e)[e.tagName === "text" ? "fill" : "color"]), back = light(ground(e));
      const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
      return [ratio, `${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`];
    })
    .filter(([ratio]) => ratio < 4.5);
}"""
"""Texts with less contrast than WCAG 2.2, 1.4.3, asks for."""


SHOWN, VALUES = "#plan tbody tr:not([hidden])", "all => all.map((e) => Number(e.dataset.value))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def written(report: Display, folder: Path) -> str:
    """The address of the page of a report."""
    path = folder / "page.html"
    path.write_text(page(report), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("model_type", "mode"), [("llama", "decode"), ("qwen2", "prefill")])
def test_nothing_is_too_wide_clipped_covered_or_pale(
    browser: Any, tmp_path: Path, model_type: str, mode: str, size: str, scheme: str  # noqa: ANN401
) -> None:  # fmt: skip
    with opened(browser, written(shown(model_type, mode), tmp_path), size, scheme) as found:
        assert found.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        assert found.evaluate(TOO_WIDE) == []
        assert found.evaluate(SCROLLED) == [0, 0, 0]
        assert found.evaluate(CLIPPED) == []
        assert found.evaluate(COVERED) == []
        assert found.evaluate(CONTRAST) == []


@pytest.mark.parametrize("size", SIZES)
def test_the_table_of_the_layers_fits_with_long_names_and_large_figures(
    browser: Any, tmp_path: Path, size: str  # noqa: ANN401
) -> None:  # fmt: skip
    with opened(browser, written(_larger(shown("llama")), tmp_path), size, "light") as found:
        texts = found.locator("#layers td").all_text_contents()
        assert "▲ 90 layers from 1 to 119" in texts
        assert any(text.endswith(" GB") for text in texts)
        assert found.evaluate(SCROLLED) == [0, 0, 0]
        assert found.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]


def _larger(report: Display) -> Display:
    """120 layers of two kinds, here and there, which read a million times the weights."""
    diagrams = tuple(
        replace(
            diagram,
            frames=tuple(
                replace(frame, figures=frame.figures and replace(frame.figures, weights=10**6 * frame.figures.weights))
                for frame in diagram.frames
            ),
        )
        for diagram in report.diagrams
    )
    parts, first = [], 0
    for at in range(120):
        kind = 1 if at % 4 else 2
        last = first + len(diagrams[kind].frames)
        parts.append(Part(name=f"layer {at}", layer=at, launches=tuple(range(first, last)), diagram=kind))
        first = last
    return replace(report, parts=tuple(parts), diagrams=diagrams)


def test_the_plan_is_sorted_up_and_down_and_filtered(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    report = shown("qwen2")
    launches = sum(len(part.launches) for part in report.parts)
    with opened(browser, written(report, tmp_path), "desk", "light") as found:

        def column(at: int) -> list[str]:
            texts: list[str] = found.locator(f"{SHOWN} td:nth-child({at})").all_text_contents()
            return texts

        def values(at: int) -> list[float]:
            numbers: list[float] = found.eval_on_selector_all(f"{SHOWN} td:nth-child({at})", VALUES)
            return numbers

        assert column(1) == [str(at) for at in range(launches)]
        found.click("#plan th:nth-child(6) button")
        up = values(6)
        assert up == sorted(up)
        assert found.get_attribute("#plan th:nth-child(6)", "aria-sort") == "ascending"
        found.click("#plan th:nth-child(6) button")
        assert values(6) == sorted(up, reverse=True)
        assert found.locator("#plan th[aria-sort]").count() == 1
        found.click("#plan th:nth-child(3) button")
        rules = column(3)
        assert rules == sorted(rules)
        found.fill("#filter", "KV rope")
        assert column(2) == [f"layer {at}" for at in range(5)]
        found.select_option("#part", "layer 3")
        assert column(2) == ["layer 3"]
        found.fill("#filter", "rope")
        assert column(2) == ["layer 3", "layer 3"]
        assert found.text_content("#count") == f"2 of {launches} launches"
        found.fill("#filter", "nothing of the kind")
        assert column(1) == []
        found.fill("#filter", "")
        found.select_option("#part", "")
        assert len(column(1)) == launches


def test_a_point_and_its_row_are_shown_together(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with opened(browser, written(shown("llama"), tmp_path), "desk", "light") as found:
        found.hover("#spots tbody tr:nth-child(1)")
        assert found.locator(".point.on").count() == 1
        assert found.get_attribute(".point.on", "data-spot") == "1"
        found.click(".strip a:nth-child(2)")
        assert found.url.endswith("#d1")


def test_names_of_a_model_are_shown_as_text(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with opened(browser, written(hostile(shown("llama")), tmp_path), "phone", "dark") as found:
        assert found.text_content("h1").startswith('</title><script>alert("1")</script>&')
        assert found.locator("script").count() == 1
        assert found.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"][0]


def test_the_picture_stands_alone(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    path = tmp_path / "a.svg"
    path.write_text(picture(shown("qwen2")), encoding="utf-8")
    with opened(browser, path.as_uri(), "desk", "dark") as found:
        assert found.evaluate("getComputedStyle(document.querySelector('.ground')).fill") == "rgb(20, 23, 26)"
        assert found.locator("text.title").count() == len(shown("qwen2").diagrams)
