"""The audit: what sites run on, what is required of them, and a plan that is refused."""

from collections.abc import Iterator

import pytest

from circuit.compiled import Goal, GroupedSet, PlanSet
from circuit.errors import PolicyError
from circuit.load.audit_policy import OPS
from circuit.load.inputs import Library
from circuit.load.policy import load_policy, with_choices
from circuit.pipeline import audited, compiled, lowered
from circuit.report.audit import Audit, audit_of_groups, multiplying_ops, violations
from circuit.report.ports import ports
from circuit.report.roofline import Work, roofline
from circuit.report.units import ran
from circuit.tir.activations import with_activations
from tests.cases.texts import case, texts
from tests.lower.dense import Sizes, dense
from tests.lower.library import own_library, with_files

LIBRARY = own_library()
REQUIRE = """schema = 1

[[require]]
ops = ["linear", "attention"]
rows = 3
instructions = ["mma.*"]
why = "they are there"
source = "measured"
"""
EXEMPT = """
[[exempt]]
ops = ["attention", "linear:gate", "linear:up", "linear:down", "linear:o", "linear:head"]
kind = "backlog"
reason = "not written"
"""
GOAL = Goal(hardware_class="hopper", scheduled=False)


def with_policy(text: str) -> Library:
    return with_files(LIBRARY, kernels__ampere__AUDIT=text)


def of_codes(library: Library) -> Iterator[tuple[str, GroupedSet | PlanSet]]:
    """The stages of a model of which every projection reads codes."""
    policy = with_choices(load_policy(library), ("activations=int8/g32",))
    tir = with_activations(dense(Sizes(layers=1, vocab=96, weight_format="q4_1")), policy)
    return lowered(tir, library, codes_goal(), ())


def codes_goal() -> Goal:
    return Goal(hardware_class="hopper", scheduled=False, choices=("activations=int8/g32",))


def audit_of_codes(library: Library) -> Audit:
    groups = next(result for _, result in of_codes(library) if isinstance(result, GroupedSet))
    return audit_of_groups(groups, library, codes_goal())


def test_which_ops_multiply_is_the_same_for_every_model_that_asks() -> None:
    shared = own_library()
    for model_type in ("qwen3", "llama", "qwen2"):
        tir = compiled(texts(case(model_type)), LIBRARY, GOAL).bound.tir
        found = multiplying_ops(tir, shared)
        assert found == multiplying_ops(tir, own_library())
        assert found >= {"linear", "attention"}
        assert found.isdisjoint(("embed", "residual_add", "argmax", "kv_write"))


def test_under_the_own_policy_every_site_that_something_is_required_of_is_exempt_with_a_reason() -> None:
    found = audited(texts(case("llama")), LIBRARY, GOAL)
    assert violations(found) == ()
    required = [site for site in found.sites if site.required]
    assert {site.verdict for site in required} == {"exempt"}
    assert {site.kind for site in required} == {"policy"}
    assert {site.op.partition(":")[0] for site in required} == set(OPS)
    others = {(site.op, site.mode, site.rows) for site in found.sites if not site.required}
    assert {op for op, _, rows in others if rows[1] > 4} == {"rms_norm", "attention"}  # decode reads keys once a row


def test_rows_of_codes_run_on_what_decode_requires_and_wait_for_a_kernel_where_there_are_more() -> None:
    found = audit_of_codes(LIBRARY)
    linears = {(site.mode, site.rows): site for site in found.sites if site.op.startswith("linear")}
    few = linears["decode", (1, 4)]
    assert (few.runs_on, few.verdict) == ("dot4.i8", "runs")
    many = linears["prefill", (1, 8192)]
    assert (many.runs_on, many.verdict, many.kind) == ("dot4.i8", "exempt", "backlog")
    assert violations(found) == ()


def test_a_violation_refuses_the_plan_with_its_site_and_the_entry() -> None:
    library = with_policy(REQUIRE + EXEMPT)
    found = violations(audited(texts(case("llama")), library, GOAL))
    assert len(found) == 3  # q, k and v, of decode with few rows and with many, and of prefill
    with pytest.raises(PolicyError) as error:
        compiled(texts(case("llama")), library, GOAL)
    assert error.value.exit_code == 3
    assert error.value.problems == found
    assert str(error.value).startswith(
        "error: linear_qkv_128x64_bf16: linear:q linear:k linear:v of f32 rows and bf16 weights runs on fma.f32 in "
        "decode of 3-4 rows; class hopper requires mma.bf16 or mma.f16 or mma.f8_e4m3 or mma.i8\n"
        " --> kernels/ampere/AUDIT.toml:3\n"
        "  = fix: use a kernel that does, or say in kernels/ampere/AUDIT.toml why not, with an [[exempt]] entry\n"
    )


def test_an_exemption_covers_a_site_only_with_all_its_roles_and_all_its_rows() -> None:
    of_q = EXEMPT.replace('"linear:gate"', '"linear:gate", "linear:q"')
    of_all = EXEMPT.replace('"linear:gate"', '"linear:gate", "linear:q", "linear:k", "linear:v"')
    few = of_all.replace("kind", "rows = [1, 256]\nkind")
    counts = [
        len(violations(audited(texts(case("llama")), with_policy(REQUIRE + text), GOAL)))
        for text in (of_q, of_all, few)
    ]
    prefill = (
        6  # q, k, v together; attention; o; gate, up; down, with its residual in the last layer, and without; head
    )
    assert counts == [3, 0, prefill + 1]


def test_an_exemption_holds_under_its_policy_alone() -> None:
    text = EXEMPT.replace('"attention", ', '"attention", "linear:q", "linear:k", "linear:v", ')
    text = text.replace('"backlog"', '"policy"\npolicy = { activations = "f32" }')
    assert violations(audited(texts(case("llama")), with_policy(REQUIRE + text), GOAL)) == ()
    refused = violations(audit_of_codes(with_policy(REQUIRE + text)))
    assert any(problem.message.startswith("attention") for problem in refused)


def test_a_class_without_matrix_instructions_requires_nothing() -> None:
    found = audited(texts(case("llama")), LIBRARY, Goal(hardware_class="avx2", scheduled=False))
    assert (found.matrix, found.file) == ((), "")
    assert {site.verdict for site in found.sites} == {"not required"}


@pytest.mark.parametrize("hardware", ["hopper", "avx2"])
def test_what_the_audit_says_of_an_op_is_what_its_kernels_multiply_with(hardware: str) -> None:
    from circuit.load.devices import load_devices
    from circuit.load.hardware import load_hardware

    device = next(each for each in load_devices(LIBRARY) if each.hardware_class == hardware)
    for choices in ((), ("activations=int8/g32",)):
        policy = with_choices(load_policy(LIBRARY), choices)
        tir = with_activations(dense(Sizes(layers=1, vocab=96, weight_format="q4_1")), policy)
        goal = Goal(hardware_class=hardware, scheduled=False, choices=choices)
        results = dict(lowered(tir, LIBRARY, goal, ()))
        groups, made = results["groups"], results["plan"]
        assert isinstance(groups, GroupedSet)
        assert isinstance(made, PlanSet)
        said = {site.runs_on for site in audit_of_groups(groups, LIBRARY, goal).sites if site.op.startswith("linear")}
        assert said == {each.instruction for each in ran(made.plans, device, load_hardware(LIBRARY, hardware))}


def test_the_port_list_has_what_is_missing_by_its_share() -> None:
    from circuit.load.devices import device_named, load_devices
    from circuit.load.instructions import load_instructions

    made = compiled(texts(case("llama")), LIBRARY, GOAL)
    works = [Work(name=mode, mode=mode, sequences=1, context=512) for mode in ("decode", "prefill")]
    h200 = device_named(load_devices(LIBRARY), "h200")
    roofs = tuple(roofline(made.plans, h200, work) for work in works)
    found = ports(roofs, audited(texts(case("llama")), LIBRARY, GOAL), load_instructions(LIBRARY))
    assert [max(port.shares) for port in found] == sorted((max(port.shares) for port in found), reverse=True)
    kernels = [port for port in found if port.kind == "kernel"]
    for place in range(2):
        assert sum(port.shares[place] for port in kernels) == pytest.approx(1.0)
        assert sum(port.launches[place] for port in kernels) == roofs[place].launches
    uses = {port.what: port for port in found if port.kind == "instruction"}
    assert list(uses) == ["mma.bf16 for bf16 weights"]  # bf16 fits no other operand
    (use,) = uses.values()
    assert use.gives_up == "rows in bf16"
    linears = [port for port in kernels if "linear" in port.what]
    assert use.shares[0] == pytest.approx(sum(port.shares[0] for port in linears))
    assert use.shares[1] == pytest.approx(sum(port.shares[1] for port in linears))
