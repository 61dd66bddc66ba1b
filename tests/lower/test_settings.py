"""Settings choose among relations: `fuse.RULE` leaves one out or opts in to one, and no byte depends on it."""

import pytest
from msgspec.structs import replace

from circuit.compiled import Goal, PlanSet
from circuit.errors import LoadError, PlanError
from circuit.load.inputs import Library
from circuit.pipeline import explained, lowered
from circuit.plan.as_json import plan_object
from circuit.plan.ir import Plan
from circuit.plan.text import plan_text
from tests.lower.dense import Sizes, dense
from tests.lower.library import class_rules, own_library

LIBRARY = own_library()
TIR = dense(Sizes(layers=2))
DECODE = (("decode", (1, 1)),)
RULE = "rms_norm+linear_gate_up"
NAME = f"fuse.{RULE}"
RELATIONS = [rule.id for rule in class_rules(LIBRARY) if rule.numerics == "bit_identical"]
NAMES = ", ".join(f"fuse.{id}" for id in RELATIONS)


def plan(*choices: str, library: Library = LIBRARY) -> Plan:
    goal = Goal(hardware_class="cpu", choices=choices, steps=DECODE)
    *_, (_, result) = lowered(TIR, library, goal, ())
    assert isinstance(result, PlanSet)
    return result.plans[0]


def edited(rule: str, line: str) -> Library:
    """The project's files with one more line in a rule."""

    def text(path: str, old: str) -> str:
        return (
            old.replace(f'id = "{rule}"\n', f'id = "{rule}"\n{line}\n')
            if path.endswith("cpu/common/FUSIONS.toml")
            else old
        )

    return Library(tuple(replace(s, text=text(s.path, s.text)) for s in LIBRARY.files))


def rules_of(made: Plan) -> set[str]:
    return {launch.rule for launch in made.launches}


def parts_apart(one: Plan, other: Plan) -> set[str]:
    return {name for (name, a), (_, b) in zip(one.parts, other.parts, strict=True) if a != b}


def test_a_relation_that_is_left_out_is_in_rules_and_not_in_bytes_and_the_plan_says_so() -> None:
    usual, without = plan(), plan(f"{NAME}=off")
    assert RULE in rules_of(usual)
    assert RULE not in rules_of(without)
    assert parts_apart(usual, without) == {"rules", "kernels"}
    assert usual.digest != without.digest
    assert f"\nsettings {NAME}=off\n" in plan_text(without)
    assert plan_object(without)["settings"] == [f"{NAME}=off"]
    assert "settings" not in plan_text(usual)


@pytest.mark.parametrize("id", RELATIONS)
def test_no_setting_is_in_bytes(id: str) -> None:
    assert parts_apart(plan(), plan(f"fuse.{id}=off")) <= {"rules", "kernels"}


def test_a_setting_as_the_rules_state_it_changes_nothing() -> None:
    assert plan(f"{NAME}=on") == plan()


def test_a_relation_that_is_opt_in_is_used_only_when_its_setting_is_on() -> None:
    library = edited(RULE, "opt_in = true")
    off, on = plan(library=library), plan(f"{NAME}=on", library=library)
    assert RULE not in rules_of(off)
    assert RULE in rules_of(on)
    assert "residual_add+rms_norm" in rules_of(off)
    assert on.settings == (f"{NAME}=on",)
    assert dict(on.parts)["bytes"] == dict(off.parts)["bytes"] == dict(plan().parts)["bytes"]


@pytest.mark.parametrize(
    ("library", "choices", "reason"),
    [
        (edited(RULE, "opt_in = true"), (), f"it is opt-in, and {NAME} is off"),
        (LIBRARY, (f"{NAME}=off",), f"it is left out, and {NAME} is off"),
    ],
)
def test_why_tells_that_a_rule_is_refused_because_of_its_setting(
    library: Library, choices: tuple[str, ...], reason: str
) -> None:
    goal = Goal(hardware_class="cpu", choices=choices, steps=DECODE)
    (answer,) = explained(TIR, library, goal, "l0.mlp.up")
    (verdict,) = (verdict for verdict in answer.verdicts if verdict.rule == RULE)
    assert verdict.reasons == (reason,)


@pytest.mark.parametrize(
    ("choices", "message", "fix"),
    [
        ((f"{NAME}=maybe",), f"policy {NAME} has no value `maybe`", f"write {NAME}=on or {NAME}=off"),
        ((NAME,), f"policy {NAME} has no value ``", f"write {NAME}=on or {NAME}=off"),
        ((f"{NAME}=on", f"{NAME}=off"), f"policy `{NAME}` is given twice", "give it once"),
        (("fuse.glue=off",), "policy `fuse.glue`: there is no rule `glue`", f"use one of: {NAMES}"),
        (
            ("fuse.glu=off",),
            "policy `fuse.glu`: rule `glu` is reference, and only relations have a setting",
            f"use one of: {NAMES}",
        ),
    ],
)
def test_a_setting_that_is_none_is_refused(choices: tuple[str, ...], message: str, fix: str) -> None:
    with pytest.raises(PlanError) as error:
        plan(*choices)
    assert str(error.value) == f"error: {message}\n  = fix: {fix}"


def test_a_setting_without_fused_rules_is_refused() -> None:
    goal = Goal(hardware_class="cpu", choices=(f"{NAME}=off",), rules="reference")
    with pytest.raises(PlanError) as error:
        next(lowered(TIR, LIBRARY, goal, ()))
    assert str(error.value) == (
        f"error: policy {NAME}=off has no effect with --rules reference\n  = fix: leave out one of them"
    )


def test_only_a_relation_can_be_opt_in() -> None:
    with pytest.raises(LoadError) as error:
        class_rules(edited("glu", "opt_in = true"))
    (problem,) = error.value.problems
    assert problem.message == (
        'rule `glu`: `opt_in` belongs to numerics = "bit_identical", and to it alone: it must not change a byte'
    )
    assert problem.fix == "remove `opt_in`, or opt in by `lever` and `when`"
    assert problem.excerpt == "opt_in = true"
