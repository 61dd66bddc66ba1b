"""EVIDENCE.toml: records read back, and what they say of a relation that is a default or opt-in."""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError
from circuit.load.evidence import Evidence, Rung, evidence_text, load_evidence
from circuit.load.hardware import load_hardware
from circuit.load.rules import Rule
from circuit.lower.evidence import change, contradicted, losses, unmeasured
from circuit.lower.proven import relations, rule_hash
from tests.lower.library import class_rules, own_library, with_files

LIBRARY = own_library()
CPU = load_hardware(LIBRARY, "cpu")
RULES = class_rules(LIBRARY)
RULE = next(rule for rule in RULES if rule.id == "linear_qkv")
EVEN = Rung(rows=1, off_ms=9.5, ratio=1.002, control=(0.99, 1.004), energy=0.999, energy_control=(0.98, 1.01))
SLOW = Rung(rows=64, off_ms=90.25, ratio=1.031, control=(0.99, 1.01))
FILE = "kernels/cpu/common/EVIDENCE.toml"


def record(*rungs: Rung, rule: Rule = RULE, **changes: object) -> Evidence:
    made = Evidence(
        rule=rule.id,
        hash=rule_hash(rule),
        machine="A processor, 2 processors",
        threads=2,
        model="smollm2",
        under=("fuse.rms_norm+linear_qkv=off",),
        date="2026-11-29",
        on="a" * 64,
        off="b" * 64,
        energy="not readable here: there is no intel-rapl:0",
        rungs=rungs,
        file=FILE,
        line=7,
    )
    return replace(made, **changes)  # the keys are fields of Evidence


@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_each_default_of_a_class_that_is_measured_has_evidence_that_it_loses_nowhere(name: str) -> None:
    hardware = load_hardware(LIBRARY, name)
    rules, records = class_rules(LIBRARY, name), load_evidence(LIBRARY, hardware)
    assert {record.rule for record in records} == {rule.id for rule in relations(rules) if not rule.opt_in}
    assert list(contradicted(rules, records, hardware)) == []
    assert list(unmeasured(rules, records, hardware)) == []


def test_records_read_back_from_their_text() -> None:
    records = (record(EVEN, SLOW), record(EVEN, machine="Another"))
    text = evidence_text(records)
    again = load_evidence(with_files(LIBRARY, kernels__cpu__common__EVIDENCE=text), CPU)
    key = ("machine",)
    assert [replace(each, line=7) for each in again] == sorted(records, key=lambda each: getattr(each, key[0]))


def test_a_record_that_is_written_twice_is_refused() -> None:
    text = evidence_text((record(EVEN), record(SLOW)))
    with pytest.raises(LoadError) as error:
        load_evidence(with_files(LIBRARY, kernels__cpu__common__EVIDENCE=text), CPU)
    (problem,) = error.value.problems
    assert problem.message == "evidence of `linear_qkv` on A processor, 2 processors with smollm2 is written twice"
    assert problem.fix == "remove one"


@pytest.mark.parametrize(
    ("ratio", "control", "expected"),
    [
        (0.9, (0.95, 1.05), "less"),
        (0.97, (0.95, 1.05), "same"),
        (1.04, (0.95, 1.05), "same"),
        (1.06, (0.95, 1.05), "more"),
        (0.99, (0.97, 0.98), "same"),
        (1.01, (0.97, 0.98), "more"),
    ],
)
def test_a_change_is_what_the_control_does_not_show_against_itself(
    ratio: float, control: tuple[float, float], expected: str
) -> None:
    assert change(ratio, control) == expected


def test_a_loss_in_time_or_in_energy_is_one_and_a_gain_elsewhere_does_not_make_it_good() -> None:
    faster = replace(EVEN, ratio=0.8)
    costly = replace(EVEN, energy=1.02)
    assert losses(record(EVEN, faster)) == ()
    assert losses(record(faster, SLOW)) == ("64 rows: time x 1.031, control up to 1.010",)
    assert losses(record(replace(costly, ratio=0.8))) == ("1 rows: energy x 1.020, control up to 1.010",)


def test_a_default_that_loses_is_found_and_one_that_is_opt_in_is_not() -> None:
    records = (record(EVEN, SLOW),)
    (problem,) = contradicted(RULES, records, CPU)
    assert problem.message == (
        "rule `linear_qkv` is a default and loses on A processor, 2 processors: "
        "64 rows: time x 1.031, control up to 1.010"
    )
    assert problem.fix == f"write opt_in = true; the evidence is in {FILE}:7"
    assert (problem.file, problem.line) == (RULE.file, RULE.line)
    opted = tuple(replace(rule, opt_in=True, used=False) if rule is RULE else rule for rule in RULES)
    assert list(contradicted(opted, records, CPU)) == []
    assert "`linear_qkv`" not in str(list(unmeasured(opted, (), CPU)))


def test_evidence_of_no_relation_is_found() -> None:
    (problem,) = contradicted(RULES, (record(EVEN, rule=next(r for r in RULES if r.id == "glu")),), CPU)
    assert problem.message == "evidence of `glu`, which is no relation of class cpu"
    assert (problem.fix, problem.file, problem.line) == ("remove it", FILE, 7)


def test_a_default_without_evidence_or_changed_since_is_told() -> None:
    fix = "run `met circuit prove linear_qkv --class cpu --ab MODEL --write`"
    others = tuple(record(EVEN, rule=rule) for rule in relations(RULES) if rule is not RULE)
    (problem,) = unmeasured(RULES, others, CPU)
    assert (problem.message, problem.fix) == (f"rule `linear_qkv` is a default without evidence in {FILE}", fix)
    (problem,) = unmeasured(RULES, (*others, record(EVEN, hash="0" * 64)), CPU)
    assert problem.message == "rule `linear_qkv` has changed since it was measured on A processor, 2 processors"
    assert list(contradicted(RULES, (record(SLOW, hash="0" * 64),), CPU)) == [], "it says nothing of today's rule"
