"""What is displayed of tiny models: every launch once, wires as the plan has them, layers that differ told apart."""

import json
import re
from functools import cache

import pytest
from msgspec.structs import replace

from circuit.compiled import Compiled, Goal
from circuit.errors import PlanError
from circuit.load.devices import device_named, load_devices
from circuit.load.source import Plain
from circuit.lower.graph import graph_of
from circuit.pipeline import compiled
from circuit.plan.wires import wires_of
from circuit.report.as_json import record_json, record_schema
from circuit.report.display.build import Shown, part_named
from circuit.report.display.colour import TERMINAL
from circuit.report.display.lines import ASCII, UNICODE, Glyphs, diagram_lines
from circuit.report.display.parts import name_in
from circuit.report.display.record import Diagram, Display, OnDevice, Part
from circuit.report.display.rows import rows_of
from circuit.report.display.text import display_markdown, display_text, layer_glyphs, parts_like
from circuit.report.memory import memory, needed
from circuit.report.roofline import Work, roofline
from circuit.reports import displayed_on
from tests.cases.texts import case, texts
from tests.lower.library import own_library
from tests.report.test_planner import conforms

LIBRARY = own_library()
H200 = device_named(load_devices(LIBRARY), "h200")
GOAL = Goal(hardware_class="hopper", scheduled=False)
MODES = ("decode", "prefill")


@cache
def made(model_type: str) -> Compiled:
    """A tiny model: llama has two layers that are the same, qwen2 slides in its last ones."""
    changes: dict[str, Plain] = {"num_hidden_layers": 5, "max_window_layers": 3} if model_type == "qwen2" else {}
    return compiled(texts(case(model_type, **changes)), LIBRARY, GOAL)


@cache
def shown(model_type: str, mode: str = "decode", rows: int | None = None) -> Display:
    return displayed_on(made(model_type), LIBRARY, GOAL, H200, "tiny", Shown(mode=mode, rows=rows))


@cache
def without(model_type: str, mode: str = "decode") -> Display:
    """The same plans without a device."""
    return displayed_on(made(model_type), LIBRARY, GOAL, None, "tiny", Shown(mode=mode))


def of_device(report: Display) -> OnDevice:
    assert report.on_device is not None
    return report.on_device


CASES = [(model_type, mode) for model_type in ("llama", "qwen2") for mode in MODES]


@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_every_launch_of_the_plan_is_shown_once_with_its_ops(model_type: str, mode: str) -> None:
    report, of = shown(model_type, mode), made(model_type)
    plan = next(plan for plan in of.plans if (plan.mode, plan.rows) == (mode, report.rows))
    found = {}
    for part in report.parts:
        diagram = report.diagrams[part.diagram]
        for place, frame in zip(part.launches, diagram.frames, strict=True):
            assert place not in found
            found[place] = (frame.rule, frame.numerics, tuple(diagram.ops[at].name for at in frame.ops))
    assert found == {
        place: (launch.rule, launch.numerics, tuple(name_in(name, launch.layer) for name in launch.members))
        for place, launch in enumerate(plan.launches)
    }


@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_a_wire_is_in_memory_where_the_plan_stores_it_and_on_the_chip_where_not(model_type: str, mode: str) -> None:
    report, of = shown(model_type, mode), made(model_type)
    (grouped,) = (each for each in of.groups.sets if (each.mode, each.rows) == (mode, report.rows))
    tir, stored = of.groups.tir, wires_of(of.groups.tir, graph_of(of.groups.tir), grouped.groups).stored
    places = {edge.name: place for place, edge in enumerate(tir.edges)}
    for part in report.parts:
        for wire in report.diagrams[part.diagram].wires:
            if wire.maker is None:
                assert wire.where in ("arena", "step")
            else:
                name = wire.name if part.layer is None else _absolute(wire.name, part.layer)
                edge = tir.edges[places[name]]
                assert (wire.where == "arena") == (places[name] in stored), name
                assert (wire.dim, wire.format) == (edge.dim, edge.format)
                assert wire.n_bytes == wire.rows * 4 * edge.dim


def _absolute(name: str, layer: int) -> str:
    inside = name.startswith("l{i+1}.")
    return f"l{layer + 1}.{name[7:]}" if inside else f"l{layer}.{name}"


def test_a_row_that_waits_in_scratch_is_not_called_on_chip() -> None:
    layer = shown("llama").diagrams[1]
    where = {wire.name: wire.where for wire in layer.wires}
    assert where["mlp.p"] == "scratch"  # every thread waits for it: in circuit/lower/realize.py, a phase
    assert where["attn.h"] == "on chip"
    assert where["attn.q"] == "arena"
    assert shown("llama").diagrams[0].wires[0].where == "step"


@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_a_lane_begins_is_read_by_its_ops_and_ends(model_type: str, mode: str) -> None:
    """The rows alone give the wires back: what each op reads is what the lanes that it joins have."""
    for diagram in shown(model_type, mode).diagrams:
        lanes: dict[tuple[str, int], int] = {}
        entered: dict[int, set[int]] = {}
        for row in rows_of(diagram):
            read = set()
            for side, touches in (("outer", row.outer), ("inner", row.inner)):
                for lane, touch in enumerate(touches):
                    held = lanes.get((side, lane))
                    assert (held is None) == (touch in ("none", "begin")), row
                    if touch == "begin":
                        lanes[side, lane] = row.at
                    elif touch in ("join", "end"):
                        assert held is not None
                        read.add(held)
                    if touch == "end":
                        del lanes[side, lane]
            if row.kind == "op":
                entered[row.at] = read
            elif row.kind in ("read", "left"):
                assert read == {row.at}
        assert lanes == {}, "a lane that never ends"
        assert entered == {at: set(op.reads) for at, op in enumerate(diagram.ops)}


@pytest.mark.parametrize("model_type", ["llama", "qwen2"])
def test_every_plan_of_the_set_is_the_one_shown_for_its_rows(model_type: str) -> None:
    for plan in made(model_type).plans:
        for rows in {plan.rows[0], min(plan.rows[1], 1024)}:
            report = shown(model_type, plan.mode, rows)
            assert report.rows == plan.rows
            assert sum(len(part.launches) for part in report.parts) == len(plan.launches)


def test_layers_that_are_the_same_share_a_diagram_and_others_have_glyphs_of_their_own() -> None:
    same, sliding = shown("llama"), shown("qwen2")
    assert [part.diagram for part in same.parts if part.layer is not None] == [1, 1]
    assert [part.diagram for part in sliding.parts if part.layer is not None] == [1, 1, 1, 2, 2]
    assert layer_glyphs(sliding, UNICODE) == {1: "■", 2: "▲"}
    assert layer_glyphs(sliding, ASCII) == {1: "A", 2: "B"}
    text = display_text(sliding)
    assert "\n  0 ■■■▲▲\n" in text
    assert [line.split()[-2:] for line in text.splitlines() if "attention window=" in line] == [
        ["window=0", "║"],
        ["window=48", "║"],
    ]
    assert "window" not in display_text(same)


def test_in_prefill_the_first_and_the_last_layer_are_others() -> None:
    report = shown("qwen2", "prefill")
    assert [parts_like(report, part.diagram) for part in report.parts] == [
        "embed", "layer 0", "layers 1-2", "layers 1-2", "layer 3", "layer 4", "head", "score", "hidden",
    ]  # fmt: skip


def test_layers_here_and_there_are_counted() -> None:
    report = shown("llama")
    parts = tuple(Part(name=f"layer {at}", layer=at, launches=(), diagram=at % 4 > 0) for at in range(16))
    assert parts_like(replace(report, parts=parts), 0) == "layers 0, 4, 8, 12"
    more = (*parts, replace(parts[0], name="layer 16", layer=16))
    assert parts_like(replace(report, parts=more), 0) == "5 layers from 0 to 16"


@pytest.mark.parametrize("count", [1, 62, 63, 126])
def test_every_distinct_layer_has_a_glyph_of_its_own(count: int) -> None:
    report = shown("llama")
    parts = tuple(Part(name=f"layer {at}", layer=at, launches=(), diagram=at) for at in range(count))
    empty = replace(report.diagrams[0], frames=(), ops=(), wires=())
    many = replace(report, parts=parts, diagrams=(empty,) * count)
    for glyphs in (UNICODE, ASCII):
        marks = layer_glyphs(many, glyphs)
        assert len(set(marks.values())) == count
        assert len(set(map(len, marks.values()))) == 1


@pytest.mark.parametrize("width", [72, 80, 100, 120])
@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_no_line_is_wider_than_asked_for_and_ascii_is_ascii(model_type: str, mode: str, width: int) -> None:
    report = shown(model_type, mode)
    for glyphs in (UNICODE, ASCII):
        text = display_text(report, width, glyphs)
        assert max(map(len, text.splitlines())) <= width
        assert glyphs is UNICODE or text.isascii()


def test_a_name_that_has_no_room_is_cut_and_the_cut_is_marked() -> None:
    diagram = shown("llama").diagrams[1]
    lines = list(diagram_lines(_renamed(diagram, "a" * 90), 80, UNICODE))
    assert max(map(len, lines)) == 80
    assert any("a…" in line for line in lines)
    assert all(line.endswith("║") for line in lines if line.count("║") > 1)


def _renamed(diagram: Diagram, name: str) -> Diagram:
    return replace(diagram, ops=tuple(replace(op, name=name) for op in diagram.ops))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_colours_change_no_letter_of_a_line(glyphs: Glyphs) -> None:
    report = shown("qwen2", "prefill")
    text = display_text(report, 80, glyphs, colours=TERMINAL)
    assert text.count("\x1b[0m") * 2 == text.count("\x1b[") > 100
    assert re.sub(r"\x1b\[\d*m", "", text) == display_text(report, 80, glyphs)
    assert f"\x1b[1m{glyphs.op}\x1b[0m attn.norm" in text
    assert f"\x1b[33m{glyphs.weight}\x1b[0m attn.norm.weight" in text


def test_one_layer_alone_has_its_diagram_and_no_card() -> None:
    report = shown("qwen2")
    text = display_text(report, only=part_named(report, "4"))
    assert text.startswith("▲ layers 3-4: 16 ops in 7 launches\n")
    assert text.count("launches\n") == 1
    assert part_named(report, "layer 4") == part_named(report, "4")
    assert display_text(report, only=part_named(report, "head")).startswith("head: 5 ops in 3 launches\n")


@pytest.mark.parametrize("name", ["5", "-1", "tail", "layer", ""])
def test_an_unknown_layer_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(PlanError) as error:
        part_named(shown("qwen2"), name)
    assert str(error.value) == (
        f"error: there is no layer `{name}`; there are layers 0-4, and embed, head, score, hidden\n"
        "  = fix: give --layer a number of them, or one of: embed, head, score, hidden"
    )


@pytest.mark.parametrize(
    ("mode", "rows", "message", "fix"),
    [
        ("decode", 257, "--rows 257: a decode step of class hopper has at most 256 rows", "give --rows of at most 256"),
        ("prefill", 1025, "--rows 1025: the model has 1024 positions", "give --rows of at most 1024"),
    ],
)
def test_more_rows_than_a_step_or_a_model_has_are_refused(mode: str, rows: int, message: str, fix: str) -> None:
    with pytest.raises(PlanError) as error:
        shown("llama", mode, rows)
    assert str(error.value) == f"error: {message}\n  = fix: {fix}"


@pytest.mark.parametrize(("mode", "rows"), [("decode", 1), ("decode", 16), ("prefill", 1024)])
def test_the_totals_are_those_of_the_launches_and_of_the_planner(mode: str, rows: int) -> None:
    report = shown("llama", mode, rows)
    of_one = {"decode": Work(name="d", mode="decode", sequences=rows, context=1024)}
    work = of_one.get(mode, Work(name="p", mode="prefill", sequences=1, context=rows))
    found = roofline(made("llama").plans, H200, work)
    assert (found.rows, found.launches) == (report.rows, report.totals.launches)
    assert of_device(report).ceiling_s == found.ceiling_s
    frames = [frame for part in report.parts for frame in report.diagrams[part.diagram].frames]
    figures = [frame.figures for frame in frames if frame.figures is not None]
    assert len(figures) == report.totals.launches
    for name in ("weights", "states", "edges", "flops", "dots"):
        assert sum(getattr(each, name) for each in figures) == getattr(report.totals, name), name
    assert sum(each.timed.share for each in figures if each.timed) == pytest.approx(1.0)
    kept = [each for frame in frames if frame.figures is not None for each in frame.kept]
    assert sum(each.moved for each in kept if each.kind == "weight") == report.totals.weights
    assert sum(each.moved for each in kept if each.kind == "state") == report.totals.states


def test_the_card_counts_what_the_checkpoint_has() -> None:
    card = shown("llama").card
    dim, ff, vocab, q, kv = 64, 96, 290, 64, 32
    layer = 2 * dim + dim * (q + 2 * kv) + q * dim + 3 * dim * ff
    assert card.parameters == vocab * dim + 2 * layer + dim  # the head is the embedding's
    assert [(each.format, each.stored) for each in card.formats] == [("bf16", 2 * card.parameters)]
    assert card.kv_bytes == 2 * 2 * kv * 4  # layers, keys and values, f32


def test_the_room_is_what_the_memory_report_says() -> None:
    report = shown("llama", "decode", 16)
    held, room = memory(made("llama").plans, 48), of_device(report).room
    assert room.weights + room.pages + room.arena == needed(held, 16, 1024)
    assert room.free == room.memory - needed(held, 16, 1024)
    reserved = displayed_on(made("llama"), LIBRARY, GOAL, H200, "tiny", Shown(reserved=room.memory))
    assert of_device(reserved).room.free < 0
    assert "too little" in display_text(reserved)


@pytest.mark.parametrize(("model_type", "mode"), CASES)
def test_without_a_device_all_but_its_figures_is_the_same(model_type: str, mode: str) -> None:
    own, report = shown(model_type, mode), without(model_type, mode)
    untimed = tuple(
        replace(
            diagram,
            frames=tuple(
                replace(frame, figures=frame.figures and replace(frame.figures, timed=None)) for frame in diagram.frames
            ),
        )
        for diagram in own.diagrams
    )
    assert report == replace(own, diagrams=untimed, on_device=None)
    schema = json.loads(record_schema(Display, "met circuit display"))
    assert conforms(json.loads(record_json(report)), schema) == []
    for text in (display_text(report), display_markdown(report)):
        assert re.search(r"ceiling|tok/s|share|free|H200|%| [um]s\b", text) is None
        assert "class" in text
    start = "\nembed: "
    assert display_text(report).partition(start)[2] == display_text(own).partition(start)[2] != ""


def test_it_is_json_of_its_schema_and_markdown_with_the_diagrams() -> None:
    report = shown("qwen2")
    schema = json.loads(record_schema(Display, "met circuit display"))
    assert conforms(json.loads(record_json(report)), schema) == []
    markdown = display_markdown(report)
    assert markdown.startswith("## tiny\n\n| figure | value |\n")
    assert markdown.count("```") % 2 == 0
    assert "## ▲ layers 3-4: 16 ops in 7 launches\n\n```\n╭" in markdown


def test_a_name_of_other_letters_is_escaped_in_ascii() -> None:
    report = shown("llama")
    named = replace(report, card=replace(report.card, name="modèle"))
    assert display_text(named, glyphs=ASCII).startswith("mod\\xe8le\n")
    assert display_text(named).startswith("modèle\n")
