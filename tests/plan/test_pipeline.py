"""The pipeline from texts: its stages, what plans of one instance share, and what one model stored twice shares."""

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from circuit.compiled import Compiled, Goal, PlanSet
from circuit.errors import PlanError
from circuit.load.inputs import CheckpointTexts
from circuit.load.policy import load_policy, with_choices
from circuit.pipeline import compiled, lowered, stages
from circuit.tir.activations import with_activations
from circuit.tir.states import stored_as
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.texts import checkpoint_texts
from tests.cases.texts import case, tensors_of, texts, tir_of
from tests.lower.dense import LLAMA_405B, Sizes, dense
from tests.lower.library import own_library
from tests.models import tiny_config, write_checkpoint, write_gguf

LIBRARY = own_library()
CPU = Goal(hardware_class="cpu", steps=(("decode", (3, 4)),))


@pytest.fixture(scope="module")
def llama() -> Compiled:
    """The tiny llama with its tensors, both modes."""
    tensors = tensors_of(tir_of(case("llama")), "bf16")
    return compiled(texts(case("llama"), tensors), LIBRARY, Goal(hardware_class="cpu"))


def test_the_stages_come_in_order_and_the_caller_may_stop_at_any() -> None:
    assert [name for name, _ in stages(texts(case("llama")), LIBRARY, CPU)] == ["map", "bir", "tir", "groups", "plan"]
    bad = Goal(hardware_class="cpu", choices=("kv=f64",))
    names = iter(stages(texts(case("llama")), LIBRARY, bad))
    assert [next(names)[0] for _ in range(2)] == ["map", "bir"]  # the typed circuit is made under a policy
    with pytest.raises(PlanError, match="policy kv has no value `f64`"):
        next(names)


def test_a_typed_circuit_of_another_policy_is_refused() -> None:
    tir = stored_as(tir_of(case("llama")), "int8")
    with pytest.raises(PlanError) as error:
        next(lowered(tir, LIBRARY, CPU, ()))
    assert str(error.value) == (
        "error: state l0.attn.kv is stored in int8, policy kv = f32\n"
        "  = fix: plan with --policy kv=int8, or make the instance anew"
    )
    goal = replace(CPU, choices=("kv=int8",))
    assert next(lowered(tir, LIBRARY, goal, ()))[0] == "groups"


def test_planning_can_start_at_the_typed_circuit() -> None:
    (_, _), (name, result) = lowered(tir_of(case("llama")), LIBRARY, CPU, ())
    assert name == "plan"
    assert isinstance(result, PlanSet)
    assert result.plans[0].rows == (3, 4)


def test_without_rows_the_plans_cover_those_of_the_class_in_both_modes(llama: Compiled) -> None:
    assert [(plan.mode, plan.rows) for plan in llama.plans] == [
        ("decode", (1, 1)),
        ("decode", (2, 2)),
        ("decode", (3, 4)),
        ("decode", (5, 8)),
        ("decode", (9, 64)),
        ("prefill", (1, 512)),
    ]


def test_rows_that_a_model_has_the_same_kernels_for_are_one_plan() -> None:
    goal = Goal(hardware_class="cpu", choices=("activations=int8/g32",), steps=(("decode", None),), scheduled=False)
    tir = dense(Sizes(layers=1, dim=256, ff=256, weight_format="q4_1"))
    codes = with_activations(tir, with_choices(load_policy(LIBRARY), goal.choices))
    results = dict(lowered(codes, LIBRARY, goal, ()))
    assert isinstance(results["plan"], PlanSet)
    ranges = [plan.rows for plan in results["plan"].plans]
    assert ranges == [(1, 1), (2, 2), (3, 8), (9, 64)], "no kernel is another for 5 rows than for 4"


@pytest.mark.parametrize("rows", [(1, 1), (1, 5), (3, 7), (2, 63)])
def test_any_range_of_rows_is_planned(rows: tuple[int, int]) -> None:
    goal = Goal(hardware_class="cpu", steps=(("prefill", rows),))
    for model in ("llama", "mistral"):
        (plan,) = compiled(texts(case(model)), LIBRARY, goal).plans
        assert plan.rows == rows


def test_all_plans_of_a_set_read_the_same_weights_and_keep_the_same_states(llama: Compiled) -> None:
    first = llama.plans[0]
    assert [plan.weights for plan in llama.plans] == [first.weights] * 6
    assert [plan.states for plan in llama.plans] == [first.states] * 6
    assert {weight.format for weight in first.weights} == {"bf16"}


def test_a_file_and_its_copy_in_another_form_give_one_bytes_digest(tmp_path: Path) -> None:
    config = tiny_config("llama")
    opened = (
        write_checkpoint(tmp_path / "f32", config),
        write_checkpoint(tmp_path / "bf16", config, dtype="BF16"),
        write_gguf(tmp_path / "tiny.gguf", config),
    )
    parts = [dict(_parts(checkpoint_texts(open_checkpoint(str(path))))) for path in opened]
    assert len({part["bytes"] for part in parts}) == 1
    assert len({part["formats"] for part in parts}) == 3


def _parts(checkpoint: CheckpointTexts) -> tuple[tuple[str, str], ...]:
    return compiled(checkpoint, LIBRARY, CPU).plans[0].parts


def test_a_model_of_126_layers_has_as_many_kernels_as_one_of_two() -> None:
    goal = Goal(hardware_class="cpu", steps=(("decode", None),))
    ((_, _), (_, result)) = lowered(dense(LLAMA_405B), LIBRARY, goal, ())
    assert isinstance(result, PlanSet)
    assert len(result.plans[0].kernels) == 11
    assert len(result.plans[0].launches) == 126 * 7 + 4


@pytest.mark.parametrize(
    ("sizes", "message", "fix"),
    [
        (
            Sizes(layers=1, dim=2**20),
            "l0.attn.norm: rule `rms_norm+linear_qkv` keeps 8388608 bytes in each thread, which has room for 6291456",
            "give --policy fuse.rms_norm+linear_qkv=off",
        ),
        (
            Sizes(layers=1, context=2**20),
            "l0.attn.attend: rule `attention` keeps 8388644 bytes in each thread, which has room for 6291456",
            "give a config with a shorter context",
        ),
    ],
)
def test_more_local_storage_than_a_thread_has_room_for_is_refused(sizes: Sizes, message: str, fix: str) -> None:
    with pytest.raises(PlanError) as error:
        list(lowered(dense(sizes), LIBRARY, Goal(hardware_class="cpu", steps=(("decode", (2, 2)),)), ()))
    assert str(error.value) == f"error: {message}\n  = fix: {fix}"


@pytest.mark.parametrize("name", ["cdna3", "cuda", "hip", "hopper"])
def test_a_class_whose_language_nothing_renders_has_kernels_as_they_are_defined(name: str) -> None:
    plans = compiled(texts(case("llama")), LIBRARY, Goal(hardware_class=name)).plans
    assert plans == compiled(texts(case("llama")), LIBRARY, Goal(hardware_class=name, scheduled=False)).plans
    assert all(kernel.effects == kernel.definition for plan in plans for kernel in plan.kernels)


@pytest.mark.slow  # on an idle machine; other work beside it costs CPU time too
def test_a_plan_of_the_largest_model_is_made_with_its_schedules_in_under_a_second() -> None:
    tir = dense(LLAMA_405B)
    start = time.process_time()
    ((_, _), (_, result)) = lowered(tir, LIBRARY, Goal(hardware_class="cpu", steps=(("decode", (1, 1)),)), ())
    assert time.process_time() - start < 1.0
    assert isinstance(result, PlanSet)


@pytest.mark.slow  # as above
@pytest.mark.parametrize("name", ["cpu", "hopper"])
def test_a_report_on_the_largest_model_has_its_plans_in_under_a_second(name: str) -> None:
    tir = dense(LLAMA_405B)
    start = time.process_time()
    ((_, _), (_, result)) = lowered(tir, LIBRARY, Goal(hardware_class=name, scheduled=False), ())
    assert time.process_time() - start < 1.0
    assert isinstance(result, PlanSet)
