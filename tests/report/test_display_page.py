"""The parts of the page and the pictures: markup that a parser reads, nothing of a model that is not escaped."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from circuit.load.devices import device_named, load_devices
from circuit.report.display.build import part_named
from circuit.report.display.markup import element, escaped
from circuit.report.display.page import page_parts
from circuit.report.display.record import Display
from circuit.report.display.roof import LABEL, intensity, numbered, roof_drawing, speed
from circuit.report.display.svg import LETTER, SMALL, drawing
from circuit.report.sections import bytes_text
from circuit_exec.display_page import page, picture
from tests.report.test_display import CASES, LIBRARY, of_device, shown, without

HOSTILE = '</title><script>alert("1")</script>&\'\x00'


def hostile(report: Display) -> Display:
    """A report in which every name that a model gives is markup."""
    diagrams = tuple(
        replace(
            diagram,
            ops=tuple(replace(op, name=HOSTILE) for op in diagram.ops),
            wires=tuple(replace(wire, name=HOSTILE) for wire in diagram.wires),
            frames=tuple(
                replace(frame, kernel=HOSTILE, kept=tuple(replace(kept, name=HOSTILE) for kept in frame.kept))
                for frame in diagram.frames
            ),
        )
        for diagram in report.diagrams
    )
    card = replace(report.card, name=HOSTILE, model_type=HOSTILE, arch=HOSTILE)
    on_device = of_device(report)
    spots = tuple(replace(spot, kernel=HOSTILE) for spot in on_device.spots)
    return replace(report, card=card, diagrams=diagrams, on_device=replace(on_device, spots=spots))


def test_what_is_no_element_is_escaped() -> None:
    assert escaped('<a href="x">&\'') == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;"
    assert element("p", "a<b", element("i", "x"), class_='"', data_n=1.25).text == (
        '<p class="&quot;" data-n="1.2">a&lt;b<i>x</i></p>'
    )
    assert element("rect", x=2.0, y=None).text == '<rect x="2"/>'
    assert element("td", "").text == "<td></td>"
    assert escaped("\x00\x1b[") == "\ufffd\ufffd["


def test_the_names_of_a_model_are_text_on_the_page_and_in_the_picture() -> None:
    report = hostile(shown("llama"))
    text = page(report)
    assert text.count("<script>") == text.count("</script>") == 1
    assert text.count("</title><script") == 0
    assert "&lt;/title&gt;&lt;script&gt;" in text
    drawn = ElementTree.fromstring(picture(report))
    assert HOSTILE.replace("\x00", "\ufffd") in {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_the_picture_is_xml_and_no_text_of_a_row_meets_another(model_type: str, mode: str) -> None:
    report = shown(model_type, mode)
    whole = ElementTree.fromstring(picture(report))
    assert float(whole.attrib["height"]) < max(drawing(diagram).height for diagram in report.diagrams) + 60
    assert len(picture(report, part_named(report, "0"))) < len(picture(report))
    for diagram in report.diagrams:
        drawn = drawing(diagram)
        lines: dict[str, list[tuple[float, float]]] = {}
        for found in re.finditer(r'<text x="([\d.]+)" y="([\d.]+)" class="([^"]*)">([^<]*)<', drawn.markup.text):
            x, count = float(found[1]), len(found[4])
            letter = SMALL if "small" in found[3] else LETTER
            span = (x - letter * count, x) if "right" in found[3] else (x, x + letter * count)
            assert span[0] >= 0
            assert span[1] <= drawn.width
            lines.setdefault(found[2], []).append(span)
        for spans in lines.values():
            ordered = sorted(spans)
            assert all(one[1] <= other[0] for one, other in pairwise(ordered)), ordered


def test_the_page_is_one_file_that_asks_nobody() -> None:
    text = page(shown("qwen2"))
    assert [
        found for found in re.findall(r'(?:src|href)="([^"]*)"', text) if found[:1] != "#" and found != "data:,"
    ] == []
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "{{" not in text
    assert "default-src 'none'" in text
    assert text == page(shown("qwen2"))


def test_the_template_has_a_place_for_every_part() -> None:
    report = replace(shown("llama"), card=replace(shown("llama").card, name="{{ plan }}"))
    assert page(report).count('id="plan"') == 1  # what is filled in is no template
    text = page(shown("llama"))
    for name, part in page_parts(shown("llama")).items():
        assert part in text, name


@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_without_a_device_the_page_has_no_place_for_its_figures(model_type: str, mode: str) -> None:
    own, text = page(shown(model_type, mode)), page(without(model_type, mode))
    assert re.findall("<h2>(.*?)</h2>", own) == [
        "Model", "A step", "Memory of the device", "Layers", "One of each", "Under the roof", "Plan",
    ]  # fmt: skip
    assert re.findall("<h2>(.*?)</h2>", text) == ["Model", "A step", "Layers", "One of each", "Plan"]
    assert "<title>tiny on class hopper</title>" in text
    assert "<!--" not in own + text
    assert "{{" not in text
    body = text.partition("<body>")[2].partition("<script>")[0]
    assert re.search(r"ceiling|roof|memory of|tok/s|share|H200|%|\d [um]s\b", body) is None
    assert (
        re.search(
            r"ceiling|%|\d [um]s\b", picture(without(model_type, mode)).partition("</style>")[2].partition(">")[2]
        )
        is None
    )
    head, *rows = re.findall("<tr>(.*?)</tr>", page_parts(without(model_type, mode))["plan"])
    assert {row.count("<td") for row in rows} == {head.count("<th")} == {9}


@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_the_table_of_the_plan_has_every_launch_in_order(model_type: str, mode: str) -> None:
    report = shown(model_type, mode)
    table = page_parts(report)["plan"]
    numbers = [int(found) for found in re.findall(r'<tr><td data-value="(\d+)" class="number">', table)]
    assert numbers == list(range(sum(len(part.launches) for part in report.parts)))


@pytest.mark.parametrize(("model_type", "mode"), CASES)
@pytest.mark.parametrize("device", ["h200", "epyc_9654"])
def test_a_point_is_under_the_roof_and_no_number_hides_another(model_type: str, mode: str, device: str) -> None:
    own = device_named(load_devices(LIBRARY), device)
    report = replace(of_device(shown(model_type, mode)), device=own)
    peak = max(figure.value for name, figure in own.rates if name == report.unit)
    if device == "h200":
        for spot in (spot for spot in report.spots if spot.flops):
            assert speed(spot) <= min(peak, intensity(spot) * own.bandwidth.value) * (1 + 1e-9)
    text = roof_drawing(report).markup.text
    balls = sorted(
        (float(y), float(x)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="8" class="ball"', text)
    )
    assert len(balls) == sum(spot.flops > 0 for spot in report.spots)
    for (y, x), (other_y, other_x) in pairwise(balls):
        assert y != other_y or other_x - x >= LABEL - 0.11
    assert [spot.timed.ceiling_s for spot in numbered(report)] == sorted(
        (spot.timed.ceiling_s for spot in report.spots), reverse=True
    )


def test_the_bar_of_the_memory_is_to_scale() -> None:
    report = shown("llama", "decode", 16)
    room, memory = page_parts(report)["room"], of_device(report).room
    shares = [float(found) for found in re.findall(r"flex-basis:([\d.]+)%", room)]
    assert sum(shares) == pytest.approx(100.0, abs=0.01)
    assert f"{bytes_text(memory.free)}" in room
    assert f"{memory.most_sequences:,} sequences of that length fit" in room
