"""Whose each policy key is follows from the rules; and the digest `bytes` has the policy's keys, and no other's."""

import pytest
from msgspec.structs import replace

import circuit.load.owners
import circuit.load.policy
import circuit.load.policy_file
import circuit.load.rules_file
from circuit.compiled import Goal
from circuit.load.owners import load_owners, owners
from circuit.load.policy import KEYS, Key
from circuit.load.rules import Gate, load_gates
from circuit.pipeline import compiled
from circuit.plan.ir import Plan
from tests.cases.texts import case, tensors_of, texts, tir_of
from tests.lower.library import own_library, with_files

LIBRARY = own_library()
TRIED = Key(name="tried", why="a test", read_by=None, implemented=("a", "b"), effects=("", ""), planned=())


def gate(rule: str, numerics: str) -> Gate:
    assert numerics in ("bit_identical", "reference", "differs")
    return Gate(key="tried", rule=rule, numerics=numerics, file="FUSIONS.toml", line=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gates", "owner", "why"),
    [
        ([gate("r", "reference")], "policy", "it chooses rules of another meaning: r (reference)"),
        ([gate("d", "differs")], "policy", "it chooses rules of another meaning: d (differs)"),
        (
            [gate("a", "bit_identical"), gate("d", "differs")],
            "policy",
            "it chooses rules of another meaning: d (differs)",
        ),
        (
            [gate("a", "bit_identical"), gate("b", "bit_identical")],
            "compiler",
            "it chooses among relations only: a, b",
        ),
        ([], "nobody", "it gates no rule, and no stage reads it"),
    ],
)
def test_whose_a_key_is_follows_from_the_rules_it_gates(gates: list[Gate], owner: str, why: str) -> None:
    (found,) = owners((TRIED,), gates)
    assert (found.owner, found.why) == (owner, why)


def test_a_key_that_a_stage_reads_is_the_policys_whatever_it_gates() -> None:
    (found,) = owners((replace(TRIED, read_by="a stage"),), [gate("a", "bit_identical")])
    assert (found.owner, found.why) == ("policy", "read by a stage")


def test_every_key_of_the_project_is_somebodys() -> None:
    found = load_owners(LIBRARY)
    assert [each.key for each in found] == list(KEYS)
    assert [each.key.name for each in found if each.owner == "nobody"] == []


def test_every_key_has_an_effect_for_each_value() -> None:
    assert [key.name for key in KEYS if len(key.effects) != len(key.implemented) or not all(key.effects)] == []


@pytest.mark.parametrize("key", [key for key in KEYS if key.read_by and len(key.implemented) > 1], ids=lambda k: k.name)
def test_a_key_that_a_stage_reads_changes_what_the_circuit_means(key: Key) -> None:
    """The formats of edges, weights and states differ with each value, without a rule being asked."""
    parts = {value: dict(tiny(f"{key.name}={value}").parts)["formats"] for value in key.implemented}
    assert len(set(parts.values())) == len(key.implemented)


def tiny(*choices: str) -> Plan:
    config = case("llama")
    checkpoint = texts(config, tensors_of(tir_of(config), "q4_0"))
    goal = Goal(hardware_class="cpu", choices=choices, steps=(("prefill", None),), scheduled=False)
    (plan,) = compiled(checkpoint, LIBRARY, goal).plans
    return plan


def gated(rule: str) -> str:
    """The project's rules, `rule` only for tried = a or b."""
    (text,) = (source.text for source in LIBRARY.files if source.path == "kernels/cpu/common/FUSIONS.toml")
    head, _, rest = text.partition(f'id = "{rule}"\n')
    assert rest
    return f'{head}id = "{rule}"\nwhen = {{ tried = ["a", "b"] }}\n{rest}'


@pytest.mark.parametrize(
    ("rule", "owner", "apart"),
    [
        ("residual_add", "policy", {"bytes", "policy"}),
        ("rms_norm+linear", "compiler", {"rules"}),
    ],
)
def test_a_key_counts_in_bytes_if_it_is_the_policys_and_in_rules_if_it_is_the_compilers(
    rule: str, owner: str, apart: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (circuit.load.policy, circuit.load.policy_file, circuit.load.rules_file, circuit.load.owners):
        monkeypatch.setattr(module, "KEYS", (*KEYS, TRIED))
    (default,) = (source.text for source in LIBRARY.files if source.path == "recipes/default.toml")
    library = with_files(LIBRARY, kernels__cpu__common__FUSIONS=gated(rule), recipes__default=default + 'tried = "a"\n')
    assert [each.owner for each in load_owners(library) if each.key.name == "tried"] == [owner]
    assert [(each.key, each.rule) for each in load_gates(library)] == [("tried", rule)]
    goals = [
        Goal(
            hardware_class="cpu",
            choices=(f"tried={value}",),
            rules="reference",
            steps=(("prefill", None),),
            scheduled=False,
        )
        for value in ("a", "b")
    ]
    one, other = (dict(compiled(texts(case("llama")), library, goal).plans[0].parts) for goal in goals)
    assert {name for name in one if one[name] != other[name]} == apart
