"""The planner against figures that anybody can work out by hand, for the shape of Llama-3.1-8B."""

import json

import pytest
from msgspec.structs import replace

from circuit.compiled import Goal
from circuit.errors import PlanError
from circuit.load.devices import Figure, device_named, load_devices
from circuit.load.hardware import load_hardware
from circuit.load.policy import with_choices
from circuit.lower.fuse import fuse
from circuit.plan.build import plan
from circuit.plan.ir import Plan
from circuit.report.as_json import record_json, record_schema
from circuit.report.fit import AskedFit
from circuit.report.memory import longest_context, memory, most_sequences, needed, weight_bytes
from circuit.report.planner import Planner
from circuit.report.roofline import Work, roofline
from circuit.report.sections import Section, Table, sections_markdown, sections_text
from circuit.report.units import ran
from circuit.reports import assessed
from circuit.tir.activations import with_activations
from tests.cases.texts import case, texts
from tests.lower.dense import Sizes, dense
from tests.plan.plans import LIBRARY, POLICY, RULES, request

LLAMA_8B = Sizes(
    layers=32, dim=4096, ff=14336, heads=32, kv_heads=8, head_dim=128, vocab=128256, context=131072, theta=500000.0
)
DEVICES = load_devices(LIBRARY)
H200 = device_named(DEVICES, "h200")


def plans_of(sizes: Sizes) -> tuple[Plan, ...]:
    tir = dense(sizes)
    asked = [replace(request(mode), rows=rows) for mode, rows in (("decode", (1, 256)), ("prefill", (1, 8192)))]
    return tuple(plan(tir, fuse(tir, RULES, POLICY, each.mode, each.rows, "all"), each) for each in asked)


PLANS = plans_of(LLAMA_8B)
HELD = memory(PLANS, 48)


def test_the_weights_and_states_of_an_8b_model() -> None:
    vectors = (2 * 32 + 1) * 4096
    matrices = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336) + 2 * 128256 * 4096
    assert sum(each.stored for each in HELD.weights) == 2 * matrices + 4 * vectors
    assert HELD.token_bytes == 32 * 8 * 128 * 2 * 4  # layers, heads, width, keys and values, f32


def test_decode_reads_every_weight_but_the_table_once_and_the_keys_of_its_context() -> None:
    work = Work(name="decode", mode="decode", sequences=1, context=4096)
    found = roofline(PLANS, H200, work)
    matrices = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336) + 128256 * 4096
    assert found.weight_bytes == 2 * matrices + 4 * (2 * 32 + 1) * 4096 + 2 * 4096  # one row of the table
    assert found.weight_floor_s == pytest.approx(3.127e-3, rel=1e-3)  # 15.01 GB at 4.8 TB/s
    read = 4096 * HELD.token_bytes
    assert sum(site.states for site in found.sites) == read + HELD.token_bytes  # and one position is written
    assert found.tokens == 1
    assert found.ceiling_s == pytest.approx((found.weight_bytes + read) / 4.8e12, rel=2e-3)


def test_prefill_multiplies_every_weight_with_every_token() -> None:
    work = Work(name="prefill", mode="prefill", sequences=1, context=4096)
    found = roofline(PLANS, H200, work)
    matrices = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
    pairs = 4096 * 4097 // 2
    scores = sum(-(-n // 8) * 8 for n in range(1, 4097))  # eight positions at once, the last ones unseen
    attention = 32 * 32 * 128 * (scores + pairs)
    norms = (2 * 32 * 4096 + 1) * 4096  # of every row, and of the one that gets logits
    assert sum(site.products for site in found.sites) == 4096 * matrices + 128256 * 4096 + attention + norms


def test_units_that_differ_work_at_the_same_time() -> None:
    def figure(value: float) -> Figure:
        return Figure(value=value, source="made up", derived="")

    rates = {"fma.f32": 1e12, "logic.u32": 3e11, "dot4.i8": 1e12, "mma.bf16": 1e14}
    device = replace(H200, bandwidth=figure(1e30), rates=tuple((name, figure(value)) for name, value in rates.items()))
    work = Work(name="decode", mode="decode", sequences=1, context=64)
    alone = roofline(PLANS, device, work)
    floats = {site.kernel: 2 * (site.products + site.others) / 1e12 for site in alone.sites}
    codes = {site.kernel: site.codes / 3e11 for site in alone.sites}
    assert any(codes[name] > floats[name] for name in codes)
    assert any(codes[name] < floats[name] for name in codes)
    assert alone.ceiling_s == pytest.approx(sum(max(floats[name], codes[name]) for name in floats))
    matrix = roofline(PLANS, device, work, unit="mma.bf16")
    parts = (max(site.products / 5e13, 2 * site.others / 1e12, site.codes / 3e11) for site in matrix.sites)
    assert matrix.ceiling_s == pytest.approx(sum(parts))


def test_what_is_asked_for_is_a_work_of_the_report() -> None:
    made = texts(case("llama")), LIBRARY, Goal(hardware_class="hopper", scheduled=False), H200
    plain, report = assessed(*made), assessed(*made, asked=AskedFit(sequences=3, context=77))
    assert report.rooflines[:-1] == plain.rooflines
    assert report.rooflines[-1].work == Work(name="asked", mode="decode", sequences=3, context=77)
    assert assessed(*made, asked=AskedFit(context=5)).rooflines[-1].work.sequences == 1


def test_what_fits_does_and_one_more_does_not() -> None:
    usable = 141 * 10**9
    most = most_sequences(HELD, usable, 4096)
    assert needed(HELD, most, 4096) <= usable < needed(HELD, most + 1, 4096)
    longest = longest_context(HELD, usable, 16)
    assert needed(HELD, 16, longest) <= usable < needed(HELD, 16, longest + 1)
    assert longest_context(HELD, usable, 1) == 131072
    assert most_sequences(HELD, weight_bytes(HELD), 4096) == 0


def test_a_report_is_json_of_its_schema() -> None:
    report = assessed(texts(case("llama")), LIBRARY, Goal(hardware_class="hopper", scheduled=False), H200)
    found = json.loads(record_json(report))
    schema = json.loads(record_schema(Planner, "met circuit plan"))
    assert conforms(found, schema) == []
    found["memory"]["context"] = "long"
    del found["policy"]
    assert conforms(found, schema) == ["policy is missing", "memory.context is no integer"]


def conforms(value: object, schema: dict[str, object], at: str = "") -> list[str]:
    """What of a value is not as its schema says; only the words that `record_schema` writes."""
    match schema:
        case {"anyOf": list() as options}:
            return [] if any(not conforms(value, option, at) for option in options) else [f"{at} is none of its kinds"]
        case {"enum": list() as values}:
            return [] if value in values else [f"{at} is none of {values}"]
        case {"type": "object", "properties": dict() as properties}:
            if not isinstance(value, dict):
                return [f"{at} is no object"]
            inside = f"{at}." if at else ""
            problems = [f"{inside}{name} is missing" for name in properties if name not in value]
            problems += [f"{inside}{name} is unknown" for name in value if name not in properties]
            for name, part in properties.items():
                problems += conforms(value[name], part, f"{inside}{name}") if name in value else []
            return problems
        case {"type": "array", "prefixItems": list() as parts}:
            assert isinstance(value, list), at
            assert len(value) == len(parts), at
            return [text for n, part in enumerate(parts) for text in conforms(value[n], part, f"{at}[{n}]")]
        case {"type": "array", "items": dict() as part}:
            assert isinstance(value, list), at
            return [text for n, each in enumerate(value) for text in conforms(each, part, f"{at}[{n}]")]
    kinds: dict[object, type | tuple[type, ...]] = {
        "integer": int,
        "number": (int, float),
        "string": str,
        "boolean": bool,
        "null": type(None),
    }
    return [] if isinstance(value, kinds[schema["type"]]) else [f"{at} is no {schema['type']}"]


@pytest.mark.parametrize(
    ("work", "message", "fix"),
    [
        (
            Work(name="long", mode="decode", sequences=1, context=131073),
            "long is at 131073 positions, the model has 131072",
            "ask for at most 131072 positions",
        ),
        (
            Work(name="many", mode="decode", sequences=257, context=128),
            "many has 257 rows, the class plans for at most 256",
            "ask for at most 256 sequences",
        ),
    ],
)
def test_a_work_beyond_the_model_or_the_class_is_refused(work: Work, message: str, fix: str) -> None:
    with pytest.raises(PlanError) as error:
        roofline(PLANS, H200, work)
    assert str(error.value) == f"error: {message}\n  = fix: {fix}"


def test_a_table_that_is_too_wide_has_its_first_column_cut() -> None:
    table = Table(head=("name", "n"), rows=(("a" * 40, "1"), ("b|c", "22")))
    section = Section(title="t", table=table, notes=("a note of several words",))
    assert sections_text((section,), 24).splitlines() == [
        "t",
        f"  {'name':<18}   n",
        f"  {'a' * 17}…   1",
        f"  {'b|c':<18}  22",
        "  a note of several",
        "    words",
    ]
    assert "| b\\|c | 22 |" in sections_markdown((section,))


def test_with_integer_activations_the_report_says_that_codes_are_multiplied() -> None:
    policy = with_choices(POLICY, ("activations=int8/g32",))
    tir = with_activations(dense(Sizes(layers=1, vocab=96, weight_format="q4_1")), policy)
    asked = request("decode", policy=policy)
    made = plan(tir, fuse(tir, RULES, policy, asked.mode, asked.rows, "all"), asked)
    device = device_named(DEVICES, "epyc_9654")
    assert [
        (each.format, each.instruction, each.how) for each in ran((made,), device, load_hardware(LIBRARY, "avx2"))
    ] == [("q4_1", "integer products", "codes, with codes of the row")]
    found = roofline((made,), device, Work(name="decode", mode="decode", sequences=asked.rows[1], context=128))
    weights = 128 * 64 + 64 * 64 + 3 * 64 * 96 + 96 * 64  # q, k and v; o; gate, up and down; the head
    assert sum(site.dots for site in found.sites) == asked.rows[1] * weights
