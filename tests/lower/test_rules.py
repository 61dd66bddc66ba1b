"""FUSIONS.toml: what a file may say, and every message about what it may not."""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError
from circuit.load.ops import OPS
from circuit.lower.example import example_of
from circuit.lower.lint import linted
from tests.lower.library import class_families, class_rules, own_library, with_files

LIBRARY = own_library()
ONE = """schema = 1

[[rule]]
id = "glu"
why = "own"
modes = ["decode"]
rows = [1, 8]
family = "elementwise"
numerics = "reference"
priority = 10
example = "p = glu(g, u) kind=\\"silu\\""

[[rule.pattern]]
op = "glu"
reads = ["f32"]
writes = ["f32"]
params = { kind = ["silu"] }
"""


def check(text: str, expected: str) -> None:
    """Loading `text` as the rules of class avx2 is refused with exactly this text."""
    with pytest.raises(LoadError) as error:
        class_rules(with_files(LIBRARY, kernels__avx2__common__FUSIONS=text), "avx2")
    assert str(error.value) == expected.strip()


def test_the_rules_of_the_project_have_no_undeclared_overlap_and_none_is_shadowed() -> None:
    for name in ("cpu", "avx2", "avx512"):
        assert linted(class_rules(LIBRARY, name))


@pytest.mark.parametrize("name", ["cpu", "avx2", "avx512"])
@pytest.mark.parametrize("op", OPS)
def test_every_op_has_a_rule_of_its_own_and_a_point_in_both_modes_for_all_rows(op: str, name: str) -> None:
    families = {family.id: family for family in class_families(LIBRARY, name)}
    own = [rule for rule in class_rules(LIBRARY, name) if [e.op for e in rule.pattern] == [op]]
    for mode in ("decode", "prefill"):
        fitting = [rule for rule in own if mode in rule.modes and rule.rows == (1, 65536)]
        assert fitting
        for rule in fitting:
            points = [p for p in families[rule.family].points if mode in p.modes]
            assert min(p.rows[0] for p in points) == 1
            assert max(p.rows[1] for p in points) == 65536


def test_a_pattern_without_elements_is_refused() -> None:
    text = ONE.partition("\n[[rule.pattern]]")[0].replace("rows = [1, 8]\n", "rows = [1, 8]\npattern = []\n")
    check(
        text,
        """
error: rule `glu`: the pattern is empty
 --> kernels/avx2/common/FUSIONS.toml:8
  | pattern = []
  = fix: add one element for each op""",
    )


def test_a_role_that_the_op_does_not_have_is_refused() -> None:
    path = "kernels/cpu/common/FUSIONS.toml"
    text = next(source.text for source in LIBRARY.files if source.path == path).replace('["gate"]', '["gates"]', 1)
    with pytest.raises(LoadError) as error:
        class_rules(with_files(LIBRARY, kernels__cpu__common__FUSIONS=text))
    (problem,) = error.value.problems
    assert problem.message.endswith(": `linear` has no role `gates`")
    assert problem.fix == f"use one of: {', '.join(OPS['linear'].roles)}"


def test_an_example_with_a_line_that_is_no_node_is_refused() -> None:
    rule = next(rule for rule in class_rules(LIBRARY) if rule.id == "glu")
    with pytest.raises(LoadError) as error:
        example_of(replace(rule, example="p = glue(g, u)"))
    assert str(error.value) == (
        f"error: rule `glu`: the example has `p = glue(g, u)`, which is no node\n --> {rule.file}:{rule.line}\n"
        "  = fix: write `out = op(in) name=value ...`"
    )


def test_a_class_replaces_an_inherited_rule_by_its_id_and_removes_others() -> None:
    text = ONE.replace("schema = 1", 'schema = 1\nremove = ["glu+linear_down"]')
    rules = {rule.id: rule for rule in class_rules(with_files(LIBRARY, kernels__avx2__common__FUSIONS=text), "avx2")}
    assert rules["glu"].rows == (1, 8)
    assert "glu+linear_down" not in rules
    assert len(rules) == len(class_rules(LIBRARY)) - 1


def test_removing_a_rule_that_nobody_has_is_refused() -> None:
    known = ", ".join(sorted(rule.id for rule in class_rules(LIBRARY)))
    check(
        'schema = 1\nremove = ["glue"]\n',
        f"""
error: `remove` names rule `glue`, which no inherited file has
 --> kernels/avx2/common/FUSIONS.toml:2
  | remove = ["glue"]
  = fix: name one of: {known}""",
    )


def test_all_problems_of_a_file_are_shown_at_once_in_line_order() -> None:
    text = (
        ONE.replace("[1, 8]", "[8, 1]").replace('"elementwise"', '"gather"').replace("params", "sibling = true\nparams")
    )
    families = "kernels/cpu/common/KERNEL_FAMILIES.toml:5"
    check(
        text,
        f"""
error: rule `glu`: rows 8 to 1
 --> kernels/avx2/common/FUSIONS.toml:7
  | rows = [8, 1]
  = fix: write rows = [lowest, highest]
error: rule `glu`: the first element of a pattern cannot be a sibling
 --> kernels/avx2/common/FUSIONS.toml:13
  | [[rule.pattern]]
  = fix: remove `sibling`
error: rule `glu`: family `gather` does not compute `glu`
 --> kernels/avx2/common/FUSIONS.toml:13
  | [[rule.pattern]]
  = fix: add it to `ops` ({families}), or use another family""",
    )


def test_a_misspelt_key_names_its_line() -> None:
    check(
        ONE.replace("why", "wyh"),
        """
error: missing key `rule[0].why`
 --> kernels/avx2/common/FUSIONS.toml:3
  | [[rule]]
  = fix: add `why = ...`
error: unknown key `rule[0].wyh`
 --> kernels/avx2/common/FUSIONS.toml:5
  | wyh = "own"
  = fix: remove or rename `wyh`""",
    )


@pytest.mark.parametrize(
    ("old", "new", "message", "fix"),
    [
        ('op = "glu"', 'op = "glow"', "there is no op `glow`", "use one of: embed, rms_norm, "),
        (
            'params = { kind = ["silu"] }',
            "",
            "`glu` has parameter `kind`, which the pattern leaves open",
            'state the values it takes, or "any"',
        ),
        (
            'reads = ["f32"]\n',
            "",
            "`glu` has `reads`, which the pattern leaves open",
            'state the values it takes, or "any"',
        ),
        (
            'kind = ["silu"]',
            'kind = "any", clamp = [1.0]',
            "`glu` has no parameter `clamp`",
            "remove it from the pattern",
        ),
        ('reads = ["f32"]', 'reads = ["f33"]', "there is no format `f33`", "use one of: f32, i32"),
        (
            'family = "elementwise"',
            'family = "pointwise"',
            "there is no family `pointwise`",
            "use one of: act_quant, argmax, attention",
        ),
        (
            'numerics = "reference"',
            'numerics = "bit_identical"',
            '`proof` belongs to numerics = "bit_identical", and to it alone',
            "add or remove `proof`",
        ),
        (
            'numerics = "reference"',
            'numerics = "bit_identical"\nproof = "t"',
            "a single op defines its own numerics",
            'write numerics = "reference"',
        ),
        (
            'numerics = "reference"',
            'numerics = "differs"',
            '`lever` belongs to numerics = "differs", and to it alone',
            "add or remove `lever`",
        ),
        (
            'numerics = "reference"',
            'numerics = "differs"\nlever = "activations"',
            "`when` does not say which value of `activations` opts in",
            "add when.activations",
        ),
        (
            "priority",
            'when = { speed = ["high"] }\npriority',
            "there is no policy key `speed`",
            "use one of: activations, kv",
        ),
    ],
)
def test_a_rule_that_could_not_mean_anything_is_refused(old: str, new: str, message: str, fix: str) -> None:
    assert old in ONE
    text = ONE.replace(old, new, 1)
    with pytest.raises(LoadError) as error:
        class_rules(with_files(LIBRARY, kernels__avx2__common__FUSIONS=text), "avx2")
    problem = error.value.problems[0]
    assert problem.message == f"rule `glu`: {message}"
    assert problem.fix.startswith(fix)


def test_a_rule_that_is_written_twice_is_refused() -> None:
    with pytest.raises(LoadError, match="rule `glu`: written twice; the other is on line 3"):
        class_rules(with_files(LIBRARY, kernels__avx2__common__FUSIONS=ONE + ONE.partition("\n")[2]), "avx2")


def test_two_rules_that_can_want_one_node_need_two_priorities() -> None:
    rules = class_rules(LIBRARY)
    heads = next(rule for rule in rules if rule.id == "rms_norm_heads")
    equal = tuple(replace(rule, priority=20) if rule is heads else rule for rule in rules)
    with pytest.raises(LoadError) as error:
        linted(equal)
    assert [p.message for p in error.value.problems] == [
        "rules `rms_norm` and `rms_norm_heads` can want the same node, both with priority 20"
    ]


def test_a_rule_that_another_always_beats_is_refused() -> None:
    rules = class_rules(LIBRARY)
    heads = next(rule for rule in rules if rule.id == "rms_norm_heads")
    with pytest.raises(LoadError) as error:
        linted(tuple(replace(rule, priority=30) if rule is heads else rule for rule in rules))
    assert [p.message for p in error.value.problems] == [
        "rule `rms_norm` is never used: `rms_norm_heads` takes its nodes first"
    ]
    assert error.value.problems[0].fix == "give it a priority over 30, or remove it"


def test_an_example_that_is_no_node_is_refused() -> None:
    rule = replace(class_rules(LIBRARY)[0], example="x <- glu")
    with pytest.raises(LoadError, match=r"the example has `x <- glu`, which is no node"):
        example_of(rule)
