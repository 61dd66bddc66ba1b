"""Whose kernels are whose: against itself, against another precision, and against a model with one op more."""

from functools import cache

import pytest
from msgspec.structs import replace

from circuit.comparisons import side_of, venned
from circuit.compiled import Goal
from circuit.load.devices import device_named, load_devices
from circuit.load.evidence import load_evidence
from circuit.load.hardware import load_hardware
from circuit.plan.digest import kernel_digest
from circuit.report.computed import Computed, differences, value_text
from circuit.report.cost import Costs
from circuit.report.measured import against_evidence
from circuit.report.shares import shares_of
from circuit.report.sides import Side
from circuit.report.venn import Venn, VennSite
from tests.cases.texts import Config, case, tensors_of, texts, tir_of
from tests.lower.library import class_rules, own_library

LIBRARY = own_library()
DEVICES = load_devices(LIBRARY)
DEFAULT = Goal(hardware_class="cpu", scheduled=False)


def compared(one: Config, other: Config, *, own: Goal = DEFAULT, there: Goal = DEFAULT, device: str = "") -> Venn:
    on = device_named(DEVICES, device) if device else None
    return venned(((texts(one), own), (texts(other), there)), LIBRARY, on)


def standings(found: Venn) -> dict[str, set[str]]:
    """The rules of the sites that stand in each class."""
    classes: dict[str, set[str]] = {}
    for site in found.sites:
        classes.setdefault(site.standing, set()).add(site.rule)
    return classes


def novel(sites: tuple[VennSite, ...]) -> set[str]:
    return {name for site in sites if site.standing == "novel" for name in site.novel}


def test_of_a_model_and_itself_everything_is_shared() -> None:
    found = compared(case("llama"), case("llama"))
    assert set(standings(found)) == {"shared-unmeasured"}  # nobody measured rules on class cpu
    assert all(site.differs == () and site.there == site.kernel for site in found.sites)
    assert found.others == (("B", ()),)
    assert found.promotions == ()


def test_a_norm_of_heads_is_the_only_thing_that_one_model_has_alone_whichever_is_named_first() -> None:
    of_heads = {"rms_norm (l{i}.attn.q_norm)", "rms_norm (l{i}.attn.k_norm)"}
    with_norm, without = case("qwen3"), case("llama")
    found = compared(without, with_norm)
    assert novel(found.sites) == set()
    assert novel(dict(found.others)["B"]) == of_heads
    turned = compared(with_norm, without)
    assert novel(turned.sites) == of_heads
    assert novel(dict(turned.others)["B"]) == set()
    assert standings(turned)["novel"] == {"rms_norm+rope", "rms_norm+rope+kv_write"}


def test_another_storage_of_keys_and_values_is_a_policy_variant_of_what_reads_and_writes_them() -> None:
    narrow = Goal(hardware_class="cpu", choices=("kv=bf16",), scheduled=False)
    found = compared(case("llama"), case("llama"), own=narrow)
    assert standings(found)["policy variant"] == {"attention", "rope+kv_write"}
    assert set(standings(found)) == {"policy variant", "shared-unmeasured"}
    (difference,) = {each for site in found.sites for each in site.differs if site.rule == "attention"}
    assert (difference.name, difference.kind, difference.own, difference.other) == (
        "attention.paged_kv format",
        "policy",
        "bf16",
        "f32",
    )


def test_codes_in_place_of_rows_are_a_policy_variant_whichever_side_has_them() -> None:
    stored = texts(case("llama"), tensors_of(tir_of(case("llama")), "q8_0"))
    codes = Goal(hardware_class="cpu", choices=("activations=int8/g32",), scheduled=False)
    for own, there in ((codes, DEFAULT), (DEFAULT, codes)):
        found = venned(((stored, own), (stored, there)), LIBRARY, None)
        assert set(standings(found)) == {"policy variant", "shared-unmeasured"}
        assert all(sites == () for _, sites in found.others)
    found = venned(((stored, codes), (stored, DEFAULT)), LIBRARY, None)
    own_sites = {site.rule: site for site in found.sites if site.mode == "prefill"}
    assert {each.name for each in own_sites["linear_qkv_codes"].differs} == {
        "linear.reads",
        "linear#2.reads",
        "linear#3.reads",
    }
    alone = own_sites["act_quant"]  # what the policy puts in has no counterpart, and is not novel either
    assert (alone.beside, alone.there, alone.differs, alone.novel) == ("", "", (), ())


def test_a_kernel_that_others_have_for_other_rows_alone_differs_in_its_rows() -> None:
    one, two = (Goal(hardware_class="cpu", scheduled=False, steps=(("decode", (rows, rows)),)) for rows in (1, 2))
    found = compared(case("llama"), case("llama"), own=one, there=two)
    assert set(standings(found)) == {"parameterization"}
    assert {(each.name, each.own, each.other) for site in found.sites for each in site.differs} == {
        ("rows", "decode 1-1", "decode 2-2")
    }


def test_a_longer_context_and_another_eps_are_parameters_and_would_be_promoted() -> None:
    found = compared(case("llama"), case("llama", rms_norm_eps=1e-6, max_position_embeddings=2048))
    kinds = {(each.fact, each.kind): each for each in found.promotions}
    assert kinds["rms_norm.eps", "param"].values == ("1e-05", "1e-06")
    assert kinds["context", "dim"].values == ("1024", "2048")
    assert "linear_qkv" not in standings(found)["parameterization"]  # it has neither


def test_shares_of_a_mode_add_up_to_the_whole_step() -> None:
    found = compared(case("llama"), case("qwen3"), device="h200")
    for mode, work in (("decode", "decode 1"), ("prefill", "prefill 4k")):
        assert (mode, work) in found.works
        assert sum(site.share or 0.0 for site in found.sites if site.mode == mode) == pytest.approx(1.0)
    assert all(site.share is None for site in found.sites if site.mode == "decode" and site.rows[0][0] > 2)


@cache
def made(name: str, choices: tuple[str, ...], context: int) -> Side:
    goal = Goal(hardware_class="cpu", choices=choices, scheduled=False, steps=(("decode", None),))
    return side_of((texts(case(name, max_position_embeddings=context)), goal), LIBRARY)


VARIANTS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("llama", (), 1024),
    ("qwen3", (), 1024),
    ("qwen2", (), 1024),
    ("llama", ("kv=int8",), 1024),
    ("llama", (), 512),
)


@pytest.mark.parametrize("other", range(len(VARIANTS)))
def test_kernels_have_the_same_facts_if_and_only_if_they_are_the_same_program(other: int) -> None:
    programs: dict[tuple[tuple[int, int], str], tuple[Computed, str]] = {}
    n_equal = n_other = 0
    for part, program, rows in _programs(made(*VARIANTS[0])):
        programs[rows, f"{part.rule} {part.kernel}"] = part, program
    for part, program, rows in _programs(made(*VARIANTS[other])):
        for (same_rows, _), (own, known) in programs.items():
            if same_rows == rows and own.family == part.family:
                assert (differences(own, part) == ()) == (program == known), (own.kernel, part.kernel)
                n_equal += program == known
                n_other += program != known
    assert n_equal > 0
    assert n_other > 0


def _programs(found: Side) -> list[tuple[Computed, str, tuple[int, int]]]:
    return [
        (part, kernel_digest(plan.kernels[plan.launches[part.launches[0]].kernel]), plan.rows)
        for plan, parts in zip(found.plans, found.computed, strict=True)
        for part in parts
    ]


def test_a_difference_is_told_by_either_side() -> None:
    one, other = (made(*each).computed[0] for each in VARIANTS[:2])
    for part in one:
        for there in other:
            turned = [(each.name, each.other, each.own) for each in differences(there, part)]
            assert sorted((each.name, each.own, each.other) for each in differences(part, there)) == sorted(turned)


def test_evidence_counts_for_the_rule_as_it_stands_at_rows_that_were_measured() -> None:
    records = load_evidence(LIBRARY, load_hardware(LIBRARY, "avx512"))
    rules = {rule.id: rule for rule in class_rules(LIBRARY, "avx512")}
    fused = rules["residual_add+rms_norm"]
    assert against_evidence(fused, records, "decode", (1, 64)) == ""
    assert against_evidence(fused, records, "prefill", (1, 64)) == "evidence is of decode steps"
    assert against_evidence(fused, records, "decode", (65, 99)) == "not at these rows"
    assert against_evidence(fused, (), "decode", (1, 64)) == "no record"
    assert against_evidence(rules["rope"], records, "decode", (1, 64)) == "evidence is of relations"
    stale = tuple(replace(record, hash="0") for record in records)
    assert against_evidence(fused, stale, "decode", (1, 64)) == "the rule has changed since"


def test_what_was_measured_on_a_class_is_shared_there() -> None:
    goal = Goal(hardware_class="avx512", scheduled=False)
    found = compared(case("llama"), case("llama"), own=goal, there=goal)
    assert "residual_add+rms_norm" in standings(found)["shared"]
    assert "rope" in standings(found)["shared-unmeasured"]
    assert all(site.measured for site in found.sites if site.standing == "shared")


def test_values_of_parameters_are_short_and_tell_apart_what_differs() -> None:
    assert value_text(9.999999747378752e-06) == "1e-05"
    assert value_text(1e-05) == (1e-05).hex()  # which is no float32
    assert value_text(True) == "true"
    assert value_text((1.0, 0.5)) != value_text((0.5, 1.0))


def test_a_plan_set_of_one_mode_has_the_share_of_that_mode_alone() -> None:
    (decode,) = shares_of(made(*VARIANTS[0]).plans, device_named(DEVICES, "h200"), Costs())
    assert (decode.mode, decode.work) == ("decode", "decode 1")
