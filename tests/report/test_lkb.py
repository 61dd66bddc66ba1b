"""The kernel base of a class: everything counted once, what fusing saves against the edges themselves, what is left."""

from functools import cache

import pytest
from msgspec.structs import replace

from circuit.comparisons import kernel_base, side_of
from circuit.compiled import Compiled, Goal
from circuit.load.devices import device_named, load_devices
from circuit.load.evidence import Evidence, Rung
from circuit.load.families import load_families
from circuit.load.hardware import load_hardware
from circuit.lower.graph import graph_of
from circuit.lower.ir import Group
from circuit.lower.proven import rule_hash
from circuit.pipeline import compiled
from circuit.plan.ir import Plan
from circuit.report.lkb import Base, Lkb, lkb
from circuit.report.lkb_text import lkb_sections
from circuit.report.sections import sections_text
from circuit.tir.ir import Tir, row_words
from tests.cases.texts import case, texts
from tests.lower.library import class_rules, own_library, with_files

LIBRARY = own_library()
DEVICES = load_devices(LIBRARY)
PREFILL_ROWS = 512


def goal(hardware_class: str = "cpu") -> Goal:
    return Goal(hardware_class=hardware_class, scheduled=False)


@cache
def base_of(name: str, hardware_class: str = "cpu", device: str = "") -> Lkb:
    on = device_named(DEVICES, device) if device else None
    return kernel_base((texts(case(name)), goal(hardware_class)), LIBRARY, on)


@cache
def made(name: str) -> Compiled:
    return compiled(texts(case(name)), LIBRARY, goal())


def saved(tir: Tir, group: Group, rows: int, scratch: bool) -> int:
    """Bytes of edges that need not move once the group is one launch, counted on the circuit: an edge that stays inside
    is neither written nor read, one that leaves is not read again, and what several nodes read is read once. Through
    scratch an edge moves as before."""
    readers, outputs = graph_of(tir).readers, graph_of(tir).outputs
    made_here = {edge: node for node in group.nodes for edge in tir.nodes[node].outputs}
    read = {edge for node in group.nodes for edge in tir.nodes[node].inputs}
    total = 0
    for edge in sorted(read | set(made_here)):
        own = [node for node in readers[edge] if node in group.nodes]
        n_bytes = 4 * row_words(tir.edges[edge]) * (rows if tir.edges[edge].rows == "n" else 1)
        if edge not in made_here:
            total += n_bytes * (len(own) - 1)
        elif edge in outputs or len(own) < len(readers[edge]):
            total += n_bytes * len(own)
        elif not (scratch and tir.nodes[made_here[edge]].op == "glu"):
            total += n_bytes * (1 + len(own))
    return total


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_the_bytes_that_fusing_saves_are_those_of_the_edges_that_no_longer_move(name: str) -> None:
    found, model = base_of(name), made(name)
    for mode, work, rows in (("decode", "decode 1", 1), ("prefill", "prefill 4k", PREFILL_ROWS)):
        place = next(
            p for p, plan in enumerate(model.plans) if plan.mode == mode and plan.rows[0] <= rows <= plan.rows[1]
        )
        plan, groups = model.plans[place], model.groups.sets[place].groups
        expected: dict[tuple[str, str], int] = {}
        for launch, group in zip(plan.launches, groups, strict=True):
            kernel = plan.kernels[launch.kernel]
            if len(group.nodes) > 1:
                scratch = any(slot.kind == "scratch" for slot in kernel.slots)
                key = (launch.rule, kernel.name)
                expected[key] = expected.get(key, 0) + saved(model.bound.tir, group, rows, scratch)
        own = {(e.rule, e.kernel): e.unfused_bytes - e.fused_bytes for e in found.laxity if e.work == work}
        assert own == expected
        assert any(own.values())


def test_a_norm_in_a_projection_saves_its_row_and_three_launches() -> None:
    by_rule = {each.rule: each for each in base_of("llama").laxity if each.work == "decode 1"}
    fused = by_rule["rms_norm+linear_qkv"]
    assert (fused.groups, fused.launches, fused.unfused_launches) == (2, 2, 8)
    assert fused.unfused_bytes - fused.fused_bytes == 2 * 4 * 64 * 4  # in two layers: written once, read three times
    assert fused.saved_s is None


def test_saved_time_is_that_of_the_bytes_and_of_the_launches_where_their_cost_is_known() -> None:
    h200 = device_named(DEVICES, "h200")
    (found,) = [
        e for e in base_of("llama", "hopper", "h200").laxity if (e.work, e.rule) == ("decode 1", "rope+kv_write")
    ]
    n_bytes = found.unfused_bytes - found.fused_bytes
    assert h200.launch_s is None
    assert found.saved_s == n_bytes / h200.bandwidth.value
    costly = replace(h200, launch_s=replace(h200.bandwidth, value=1e-6))
    known = kernel_base((texts(case("llama")), goal("hopper")), LIBRARY, costly)
    (timed,) = [each for each in known.laxity if (each.work, each.rule) == ("decode 1", "rope+kv_write")]
    assert timed.saved_s == pytest.approx(found.saved_s + 2e-6)


@pytest.mark.parametrize(("name", "hardware_class"), [("llama", "avx512"), ("qwen3", "cpu")])
def test_every_node_and_every_launch_is_counted_once(name: str, hardware_class: str) -> None:
    found, model = base_of(name, hardware_class), made(name)
    assert sum(each.nodes for each in found.ops) == len(model.bound.tir.nodes)
    assert all(max(each.fused, each.tuned, each.measured) <= each.nodes for each in found.ops)
    launches = [sum(each.launches[at] for each in found.families) for at in (0, 1)]
    assert launches == [len(model.plans[0].launches), len(model.plans[-1].launches)]
    assert dict(found.covered)["generated"] == (1.0, 1.0)


def test_shares_of_families_add_up_to_the_work_and_without_a_device_there_are_none() -> None:
    found = base_of("llama", "avx2", "epyc_9654")
    for at in (0, 1):
        assert sum(each.shares[at] or 0.0 for each in found.families) == pytest.approx(1.0)
    assert all(each.shares == (None, None) for each in base_of("llama").families)


def test_tuned_is_what_the_class_states_for_itself_and_renders() -> None:
    def tuned(name: str) -> set[str]:
        return {each.family for each in base_of("llama", name).families if each.tuned}

    assert tuned("avx2") == set()
    assert tuned("avx512") == {"panel_linear", "panel_codes"}
    assert tuned("cpu") == {each.family for each in base_of("llama").families}
    assert tuned("hopper") == set()


def test_measured_is_what_has_evidence_of_the_class() -> None:
    found = base_of("llama", "avx512")
    measured = {each.rule for each in found.relations if not each.against}
    assert "residual_add+rms_norm" in measured
    assert dict(found.covered)["measured"][0] > 0
    assert dict(found.covered)["measured"][1] == 0  # evidence is of decode
    assert {each.against for each in base_of("llama").relations} == {"no record"}
    assert [rule for rule, _ in base_of("llama").unmeasured] == [
        each.rule for each in base_of("llama").relations if each.launches[0]
    ]


def test_a_point_that_states_what_it_would_inherit_is_a_copy() -> None:
    assert base_of("llama", "avx512").copies == ("panel_codes.p48_r1", "panel_codes.p48_r2", "panel_linear.p48_r1")
    assert base_of("llama").copies == ()
    own = next(s.text for s in LIBRARY.files if s.path == "kernels/avx512/common/KERNEL_FAMILIES.toml")
    other = with_files(LIBRARY, kernels__avx512__common__KERNEL_FAMILIES=own.replace("unroll = 8", "unroll = 4"))
    hardware = load_hardware(other, "avx512")
    side = side_of((texts(case("llama")), goal("avx512")), other)
    base = Base(records=(), inherited=load_families(other, load_hardware(other, hardware.chain[1])), sources=())
    assert lkb(side, made_reference(), base, None).copies == ("panel_codes.p48_r1", "panel_codes.p48_r2")


@cache
def made_reference() -> tuple[Plan, ...]:
    return compiled(texts(case("llama")), LIBRARY, replace(goal(), rules="reference")).plans


def test_an_opt_in_relation_that_lost_nothing_is_named_and_one_that_did_is_not() -> None:
    rule = next(rule for rule in class_rules(LIBRARY) if rule.opt_in)
    side = side_of((texts(case("llama")), goal()), LIBRARY)

    def defaults(ratio: float, hash: str) -> tuple[str, ...]:
        rung = Rung(rows=1, off_ms=1.0, ratio=ratio, control=(0.9, 1.1))
        record = Evidence(
            rule=rule.id,
            hash=hash,
            machine="a machine",
            threads=1,
            model="a model",
            under=(),
            date="2026-11-30",
            on="",
            off="",
            energy="",
            rungs=(rung,),
            file="EVIDENCE.toml",
            line=1,
        )
        found = lkb(side, made_reference(), Base(records=(record,), inherited=(), sources=()), None)
        assert (
            f"lost nothing where it was measured, and is opt-in: {rule.id}" in sections_text(lkb_sections(found), 200)
        ) == bool(found.defaults)
        return found.defaults

    assert defaults(0.8, rule_hash(rule)) == (rule.id,)
    assert defaults(1.2, rule_hash(rule)) == ()
    assert defaults(0.8, "of another rule") == ()


def test_sources_that_no_family_generates_are_listed_with_their_lines() -> None:
    from circuit_exec.library import library

    found = kernel_base((texts(case("llama")), goal()), library(), None).sources
    assert [path for path, _ in found] == sorted(path for path, _ in found)
    assert all(path.startswith("kernels/cpu/program/") for path, _ in found)
    assert dict(found)["kernels/cpu/program/failure.h"] == 11
    assert base_of("llama", "hopper", "h200").sources == ()
    assert "no hand-written source of hopper, ada, ampere, cuda" in sections_text(
        lkb_sections(base_of("llama", "hopper", "h200"))
    )


def test_windows_of_two_sizes_would_be_one_kernel_with_a_parameter() -> None:
    (found,) = base_of("qwen3").promotions
    assert (found.family, found.fact, found.kind, found.values) == (
        "attention",
        "attention.window",
        "param",
        ("48", "0"),
    )
