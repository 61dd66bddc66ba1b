"""Precisions: every conversion is a line, what a kernel does is read off its definition, a difference is refused."""

import pytest
from msgspec.structs import replace

from circuit.compiled import Goal, PlanSet
from circuit.errors import PolicyError
from circuit.load.devices import device_named, load_devices
from circuit.load.hardware import load_hardware
from circuit.load.policy import load_policy, with_choices
from circuit.pipeline import compiled, lowered
from circuit.plan.ir import Plan
from circuit.report.precision import Precision, PrecisionSite, differences, sites
from circuit.report.precision_text import precision_sections
from circuit.report.sections import sections_text
from circuit.reports import precisions
from circuit.sigma import OPS
from circuit.tir.activations import with_activations
from circuit.tir.ir import Tir
from circuit.tir.states import stored_as
from circuit.uop.node import Fold, UOp, toposort
from tests.cases.texts import case, texts
from tests.lower.dense import Sizes, dense
from tests.lower.library import own_library

LIBRARY = own_library()
HOPPER = load_hardware(LIBRARY, "hopper")
H200 = device_named(load_devices(LIBRARY), "h200")
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


def report(choices: tuple[str, ...] = (), **changes: object) -> Precision:
    goal = Goal(hardware_class="hopper", scheduled=False, choices=choices)
    return precisions(texts(case("llama", **changes)), LIBRARY, goal, H200)  # type: ignore[arg-type]


def made(format: str, *choices: str) -> tuple[Tir, tuple[Plan, ...]]:
    """An instance of one layer with weights of a format, and its plans."""
    policy = with_choices(load_policy(LIBRARY), choices)
    kv = next((choice.removeprefix("kv=") for choice in choices if choice.startswith("kv=")), "f32")
    tir = with_activations(stored_as(dense(Sizes(layers=1, dim=256, ff=256, weight_format=format)), kv), policy)
    results = dict(lowered(tir, LIBRARY, Goal(hardware_class="hopper", scheduled=False, choices=choices), ()))
    plans = results["plan"]
    assert isinstance(plans, PlanSet)
    return tir, plans.plans


def steps_of(found: tuple[PrecisionSite, ...], op: str) -> dict[str, tuple[str, str, str]]:
    """Step to what is required, conversion and rounding, of the first such op."""
    first = next(each for site in found for each in site.ops if each.op.partition(" ")[0] == op)
    return {step.step: (step.required, step.conversion, step.rounding) for step in first.steps}


@pytest.mark.parametrize(
    ("format", "conversion", "rounding"),
    [
        ("bf16", "exact", "none"),
        ("q4_0", "exact", "none"),
        ("q4_k", "rounds", "once, to f32"),
        ("f8_e4m3", "rounds", "once, to f32"),
    ],
)
def test_a_weight_is_decoded_to_f32_on_a_line_of_its_own(format: str, conversion: str, rounding: str) -> None:
    tir, plans = made(format)
    found = sites(tir, plans, HOPPER)
    assert differences(found) == ()
    assert steps_of(found, "linear")["weight"] == (f"{format} -> f32", conversion, rounding)
    assert steps_of(found, "linear")["accumulate"] == ("f32 fold:256", "none", "each fma")


def test_rows_of_codes_are_rounded_once_and_multiplied_exactly() -> None:
    found = sites(*made("q4_1", "activations=int8/g32"), HOPPER)
    assert differences(found) == ()
    assert steps_of(found, "act_quant")["round"] == ("int8_g32", "rounds", "once, to codes")
    linear = steps_of(found, "linear")
    assert linear["act"] == ("int8_g32", "none", "none")
    assert linear["weight"] == ("q4_1 -> codes", "exact", "none")
    assert linear["accumulate"] == ("i32 of 32, f32", "none", "each group, to f32")


@pytest.mark.parametrize("kv", ["f32", "f16", "bf16", "int8"])
def test_a_cache_rounds_where_it_is_written_and_is_exact_where_it_is_read(kv: str) -> None:
    found = sites(*made("bf16", f"kv={kv}"), HOPPER)
    assert differences(found) == ()
    written, read = steps_of(found, "kv_write")["cache"], steps_of(found, "attention")["cache"]
    if kv == "f32":
        assert (written, read) == (("f32", "none", "none"), ("f32", "none", "none"))
    else:
        assert written == (f"f32 -> {kv}", "rounds", f"once, to {kv}")
        assert read == (f"{kv} -> f32", "exact", "none")


def test_every_launch_of_every_plan_is_in_the_report_and_every_step_is_a_word_of_its_op() -> None:
    goal = Goal(hardware_class="hopper", scheduled=False)
    plans = compiled(texts(case("qwen3")), LIBRARY, goal).plans
    found = precisions(texts(case("qwen3")), LIBRARY, goal, H200).sites
    for plan in plans:
        assert {plan.kernels[launch.kernel].name for launch in plan.launches} <= {site.kernel for site in found}
    for site in found:
        for op in site.ops:
            words = OPS[op.op.partition(" ")[0]].steps
            assert {step.step for step in op.steps} - {"weight", "bias"} <= set(words), op


def test_a_kernel_that_sums_in_another_order_or_reads_another_format_is_named() -> None:
    tir, plans = made("bf16")
    decode = plans[0]
    other = tuple(replace(each, format="f16" if len(each.shape) == 2 else each.format) for each in decode.weights)
    found = differences(sites(tir, (replace(decode, weights=other),), HOPPER))
    assert any("linear q+k+v: weight: required bf16 -> f32, its kernel has f16 -> f32" in p.message for p in found)
    kernels = tuple(replace(kernel, definition=tuple(map(in_order, kernel.definition))) for kernel in decode.kernels)
    found = differences(sites(tir, (replace(decode, kernels=kernels),), HOPPER))
    assert any("accumulate: required f32 fold:256, its kernel has f32 fold" in problem.message for problem in found)
    assert found[0].fix == "correct the op's definition or the rule; a report would be of another model"


def in_order(root: UOp) -> UOp:
    """The program with its chunked sums as plain folds."""
    new: dict[UOp, UOp] = {}
    for node in toposort(root):
        arg = node.arg
        if isinstance(arg, Fold) and arg.order == "fold:256":
            arg = replace(arg, order="fold")
        new[node] = UOp(node.op, tuple(new[source] for source in node.src), arg)
    return new[root]


def test_a_difference_refuses_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circuit.report.precision._summed", lambda found, order: "f32 backwards")
    with pytest.raises(PolicyError, match="required f32 fold:256, its kernel has f32 backwards") as error:
        report()
    assert error.value.exit_code == 3


def test_what_a_checkpoint_declares_stands_beside_what_is_planned() -> None:
    found = report(hidden_size=128, intermediate_size=128, quantization_config=FP8)
    assert [(each.what, each.declared, each.planned) for each in found.declared] == [
        ("weights", 'torch_dtype = "bfloat16"', "as declared"),
        ("projections", 'quant_method = "fp8"', "as declared"),
        ("rows", 'activation_scheme = "dynamic"', "activations=f32"),
        ("projections", "weight_block_size = [128, 128]", "as declared"),
        ("keys, values", "nothing", "kv=f32"),
    ]
    assert all(each.origin.startswith("config.json:") for each in found.declared[:4])
    (of_codes,) = (path for path in found.paths if (path.what, path.format) == ("weights", "f8_e4m3"))
    how = {each.instruction: each.how for each in of_codes.operands}
    assert (how["mma.f8_e4m3"], how["mma.bf16"], how["mma.i8"]) == ("as stored", "exact", "no path")


def test_a_report_says_where_there_is_no_path() -> None:
    text = sections_text(precision_sections(report()))
    assert "no path into mma.bf16: f32 to bf16: 24 significant bits do not fit 8" in text
    assert "Nothing renders cuda yet" in text
