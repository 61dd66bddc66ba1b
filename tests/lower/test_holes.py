"""`met circuit lint`: the rules of the project are whole; each kind of finding is found, with its wording."""

import pytest
from msgspec.structs import replace

from circuit.errors import Problem
from circuit.load.families import Family
from circuit.load.hardware import load_hardware
from circuit.load.policy import load_policy
from circuit.load.rules import Rule
from circuit.lower.holes import findings
from circuit.sigma.storage import PANEL_FORMATS
from tests.lower.library import class_families, class_rules, own_library

LIBRARY = own_library()
RULES, FAMILIES, CPU = class_rules(LIBRARY), class_families(LIBRARY), load_hardware(LIBRARY, "cpu")


def found(rules: tuple[Rule, ...], families: tuple[Family, ...] = FAMILIES) -> tuple[Problem, ...]:
    return findings(rules, families, CPU, load_policy(LIBRARY))


def rule(id: str) -> Rule:
    return next(rule for rule in RULES if rule.id == id)


def changed(id: str, **changes: object) -> tuple[Rule, ...]:
    """The rules with one of them changed."""
    return tuple(replace(r, **changes) if r.id == id else r for r in RULES)


@pytest.mark.parametrize("name", ["cpu", "avx2", "avx512"])
def test_nothing_is_found_in_the_rules_of_the_project(name: str) -> None:
    hardware = load_hardware(LIBRARY, name)
    assert findings(class_rules(LIBRARY, name), class_families(LIBRARY, name), hardware, load_policy(LIBRARY)) == ()


@pytest.mark.parametrize(
    ("rules", "message", "fix"),
    [
        (
            changed("linear_kv", priority=200),
            "rules `linear_qkv` and `linear_kv` can want the same node, both with priority 200",
            f"give them different priorities; the other is on line {rule('linear_qkv').line}",
        ),
        (
            changed("glu", priority=150),
            "rule `glu+linear_down` is never used: `glu` takes its nodes first",
            "give it a priority over 150, or remove it",
        ),
        (
            (*RULES, replace(rule("glu+linear_down"), id="again", priority=99)),
            "rule `again` is never used: `glu+linear_down` takes its nodes first",
            "give it a priority over 100, or remove it",
        ),
        (
            changed("glu+linear_down", when=(("parity", ("class",)),)),
            "rule `glu+linear_down` is unreachable: policy parity = class is not implemented",
            "implement it, or remove the rule",
        ),
        (
            changed("glu+linear_down", rows=(600, 1000)),
            "rule `glu+linear_down` is unreachable: class cpu plans decode 1-64, prefill 1-512",
            "widen its modes or rows, or remove it",
        ),
        (
            changed("rope+kv_write", example="kv_write(k, v) state=f32 head_dim=4 heads=2"),
            "rule `rope+kv_write` does not fire on its example; kv_write did",
            "write an example that it takes, or give it a higher priority",
        ),
    ],
)  # fmt: skip
def test_a_finding_names_its_rule_and_the_fix(rules: tuple[Rule, ...], message: str, fix: str) -> None:
    problems = found(rules)
    assert (message, fix) in [(problem.message, problem.fix) for problem in problems]
    assert all(problem.file and problem.line for problem in problems if problem.message == message)


def test_an_equal_chain_that_asks_for_more_is_no_shadow() -> None:
    narrower = replace(rule("linear_kv"), id="other", priority=170, same=())
    assert not [p for p in found((*RULES, narrower)) if "never used" in p.message]


def test_a_rule_whose_family_has_no_point_for_it_is_unreachable() -> None:
    families = tuple(
        replace(f, points=tuple(replace(p, modes=("verify",)) for p in f.points)) if f.id == "rope_write" else f
        for f in FAMILIES
    )
    family = next(f for f in families if f.id == "rope_write")
    problem = next(problem for problem in found(RULES, families) if "`rope+kv_write`" in problem.message)
    assert problem.message == (
        "rule `rope+kv_write` is unreachable: family rope_write has no point for its modes and rows"
    )
    assert problem.fix == f"add a point ({family.file}:{family.line}), or change the rule"


def test_what_no_rule_computes_is_a_hole_by_format_mode_and_rows() -> None:
    linear = rule("linear_bias")
    accepts = tuple((n, ("f32", "q8_0") if n == "weight" else a) for n, a in linear.pattern[0].accepts)
    fewer = (replace(linear.pattern[0], accepts=accepts),)
    files = "kernels/cpu/common/FUSIONS.toml"
    messages = [
        p.message for p in found(changed("linear_bias", pattern=fewer)) if p.message.startswith("no rule computes")
    ]
    assert len(messages) == 2 * (len(PANEL_FORMATS) - 2)
    assert "no rule computes linear with bias = true with weight = q4_1 in prefill of rows 1-512" in messages
    coded = rule("linear_codes")
    accepts = tuple((n, ("q8_0",) if n == "weight" else a) for n, a in coded.pattern[0].accepts)
    problems = found(changed("linear_codes", pattern=(replace(coded.pattern[0], accepts=accepts),)))
    message = (
        "no rule computes linear with bias = false with reads = int8_g32 with weight = q4_0 in decode of rows 1-64"
    )
    assert message in [p.message for p in problems]
    problems = found(changed("glu", modes=("prefill",), rows=(9, 100)))
    assert [(p.message, p.fix) for p in problems if "no rule computes" in p.message] == [
        (f"no rule computes glu in {words}", f"add a rule of that single op, or a point, for it ({files})")
        for words in ("decode of rows 1-64", "prefill of rows 1-8", "prefill of rows 101-512")
    ]


def test_an_example_with_a_node_that_no_rule_takes_is_found() -> None:
    text = 'p = glu(g, u) kind="gelu"'
    problems = found(changed("glu", example=text))
    assert ["example.0: no rule computes this glu" in p.message for p in problems] == [True]
