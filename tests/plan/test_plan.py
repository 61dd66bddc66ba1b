"""Plans: buffers, launches and weights fit together; each part of the digest changes with what it is about alone."""

from itertools import combinations

import pytest
from msgspec.structs import replace

from circuit.errors import PlanError
from circuit.load.families import Family, panel_of
from circuit.load.policy import Policy
from circuit.lower.ir import Group, Kernel
from circuit.plan.build import plan
from circuit.plan.ir import BufferAt, Plan, StateAt, StepInput, WeightAt
from circuit.plan.kernels import point_of, shared_by_plans
from circuit.plan.ranges import row_ranges
from circuit.tir.ir import Tir
from circuit.uop.node import Param, toposort
from tests.lower.dense import Sizes, dense
from tests.plan.plans import FAMILIES, POLICY, RULES, planned, request

SIZES = Sizes(layers=2, qk_norm=True, head_dim=24, vocab=290)
LLAMA = dense(SIZES)
PLAN = planned(LLAMA)


def test_buffers_that_are_alive_together_never_overlap_and_fit_in_the_arena() -> None:
    for a, b in combinations(PLAN.buffers, 2):
        if a.first <= b.last and b.first <= a.last:
            assert a.offset_bytes + a.n_bytes <= b.offset_bytes or b.offset_bytes + b.n_bytes <= a.offset_bytes
    assert max(b.offset_bytes + b.n_bytes for b in PLAN.buffers) <= PLAN.arena_bytes


def test_every_buffer_is_written_before_it_is_read_and_lives_from_the_first_to_the_last_use() -> None:
    used: dict[int, list[int]] = {}
    for place, launch in enumerate(PLAN.launches):
        for slot, target in zip(PLAN.kernels[launch.kernel].slots, launch.targets, strict=True):
            if isinstance(target, BufferAt):
                assert slot.kind != "in" or target.buffer in used, f"{launch.members} reads what nobody wrote"
                used.setdefault(target.buffer, []).append(place)
    ends = dict(PLAN.outputs).values()
    for place, buffer in enumerate(PLAN.buffers):
        assert buffer.first == used[place][0]
        assert buffer.last == (len(PLAN.launches) - 1 if place in ends else used[place][-1])


def test_the_outputs_of_a_horizontal_fusion_are_columns_of_one_buffer() -> None:
    names = {buffer.name: place for place, buffer in enumerate(PLAN.buffers)}
    joined = names["l0.attn.q+k+v"]
    assert PLAN.buffers[joined].columns == 192
    reads = {
        (launch.members[0], target.column)
        for launch in PLAN.launches
        for slot, target in zip(PLAN.kernels[launch.kernel].slots, launch.targets, strict=True)
        if slot.kind == "in" and isinstance(target, BufferAt) and target.buffer == joined
    }
    assert reads == {("l0.attn.q_norm", 0), ("l0.attn.k_norm", 96), ("l0.attn.k_norm", 144)}


def test_a_slot_has_the_row_stride_of_its_buffer() -> None:
    for launch in PLAN.launches:
        for slot, target in zip(PLAN.kernels[launch.kernel].slots, launch.targets, strict=True):
            if isinstance(target, BufferAt):
                buffer = PLAN.buffers[target.buffer]
                assert (slot.columns, slot.rows) == (buffer.columns, buffer.rows), (launch.members, slot)


def test_weights_stand_in_the_order_of_their_first_read_and_each_is_read() -> None:
    read = [target.weight for launch in PLAN.launches for target in launch.targets if isinstance(target, WeightAt)]
    assert list(dict.fromkeys(read)) == list(range(len(PLAN.weights)))
    names = [weight.name for weight in PLAN.weights]
    assert names[:4] == ["embed.weight", "l0.attn.norm.weight", "l0.attn.q+k+v.weight", "l0.attn.q_norm.weight"]
    assert not {"l0.attn.q.weight", "l0.attn.k.weight", "l0.attn.v.weight"} & set(names)


def test_each_layer_has_its_own_state_and_step_inputs_go_by_name() -> None:
    states = {
        launch.members[0]: [target.state for target in launch.targets if isinstance(target, StateAt)]
        for launch in PLAN.launches
    }
    assert {name: found for name, found in states.items() if found} == {
        "l0.attn.k_norm": [0],
        "l0.attn.attend": [0],
        "l1.attn.k_norm": [1],
        "l1.attn.attend": [1],
    }
    names = {target.name for launch in PLAN.launches for target in launch.targets if isinstance(target, StepInput)}
    assert {"n", "m", "tokens", "positions", "sequences", "page_tables", "logit_rows"} <= names


def test_equal_layers_share_their_kernels_and_every_kernel_has_a_name_of_its_own() -> None:
    by_node = {member: launch.kernel for launch in PLAN.launches for member in launch.members}
    assert by_node["l0.attn.q"] == by_node["l1.attn.q"]
    assert by_node["l0.mlp.gate"] == by_node["l1.mlp.gate"]
    assert by_node["l0.attn.norm"] != by_node["head.norm"], "one has n rows, the other m"
    assert len({kernel.name for kernel in PLAN.kernels}) == len(PLAN.kernels)
    assert len(planned(dense(replace(SIZES, layers=5))).kernels) == len(PLAN.kernels)


def test_sections_follow_each_other() -> None:
    sections = [launch.section for launch in PLAN.launches]
    assert sections == ["main"] * (len(sections) - 2) + ["greedy", "sample"]
    assert [name for name, _ in PLAN.outputs] == ["head.logits", "head.token", "head.sampled"]


def check(one: Plan, other: Plan, parts: set[str]) -> None:
    """The two plans differ in exactly these parts, and in the digest if one of them counts for it."""
    different = {name for (name, a), (_, b) in zip(one.parts, other.parts, strict=True) if a != b}
    assert different == parts
    assert (one.digest != other.digest) == bool(parts - {"bytes"})


def test_planning_twice_gives_one_digest() -> None:
    check(PLAN, planned(dense(SIZES)), set())


def test_reference_rules_and_all_rules_differ_in_rules_and_kernels_but_not_in_bytes() -> None:
    check(PLAN, planned(LLAMA, "reference"), {"rules", "kernels"})


def test_decode_and_prefill_differ_in_the_step_and_its_kernels_but_not_in_bytes() -> None:
    check(PLAN, planned(LLAMA, asked=request("prefill")), {"step", "kernels"})


@pytest.mark.parametrize("changes", [{"eps": 1e-6}, {"theta": 500000.0}, {"window": 40}])
def test_a_changed_parameter_changes_parameters_and_bytes(changes: dict[str, float]) -> None:
    tir = dense(replace(SIZES, **changes))  # the keys are fields of Sizes
    check(PLAN, planned(tir), {"parameters", "kernels", "bytes"})


def test_a_changed_size_changes_structure_and_bytes() -> None:
    check(PLAN, planned(dense(replace(SIZES, ff=144))), {"structure", "kernels", "bytes"})


def test_the_storage_format_of_weights_is_not_in_bytes() -> None:
    check(PLAN, planned(dense(replace(SIZES, weight_format="q8_0"))), {"formats", "kernels"})


def test_names_of_tensors_are_in_formats_alone_and_names_of_edges_in_nothing() -> None:
    check(PLAN, planned(_renamed_edges(LLAMA)), set())


def _renamed_edges(tir: Tir) -> Tir:
    edges = tuple(
        edge if place in tir.inputs else replace(edge, name=f"e{place}") for place, edge in enumerate(tir.edges)
    )
    return replace(tir, edges=edges)


def test_run_and_class_have_parts_of_their_own() -> None:
    check(PLAN, planned(LLAMA, asked=request(run=(("eos", (2,)),))), {"run"})
    check(PLAN, planned(LLAMA, asked=request(hardware="avx2")), {"class"})


def test_the_policy_is_in_policy_and_bytes() -> None:
    asked = request(policy=Policy(entries=(*POLICY.entries[:-2], ("parity", "class"), POLICY.entries[-1])))
    check(PLAN, planned(LLAMA, asked=asked), {"policy", "bytes"})


def test_the_certificate_names_the_test_of_each_axis_that_holds() -> None:
    holds = {axis.axis: (axis.holds, axis.evidence) for axis in PLAN.certificate}
    assert holds["threads"] == ("yes", "tests/bytes/test_invariance.py::test_one_and_two_threads_give_equal_bytes")
    assert holds["CPU = GPU"][0] == "not checked"
    assert {held for held, _ in holds.values()} == {"yes", "not checked"}


def test_a_launch_with_numerics_of_its_own_takes_the_certificate_away_and_changes_bytes() -> None:
    families = tuple(
        replace(f, points=tuple(replace(p, claim="changes", numerics="free order") for p in f.points))
        if f.id == "attention"
        else f
        for f in FAMILIES
    )
    other = planned(LLAMA, asked=replace(request(), families=families))
    check(PLAN, other, {"bytes"})
    held = {axis.axis: axis for axis in other.certificate}
    assert held["threads"].holds == "not checked"
    assert held["threads"].evidence == "other numerics: attention of l0.attn.attend, attention of l1.attn.attend"


def test_rows_are_split_where_a_rule_or_a_point_begins_or_ends() -> None:
    rules = (replace(RULES[0], rows=(1, 4)), replace(RULES[1], rows=(3, 600)), replace(RULES[2], modes=("prefill",)))
    assert row_ranges(rules, (), "decode", (1, 8)) == ((1, 2), (3, 4), (5, 8))
    assert row_ranges(RULES, FAMILIES, "decode", (1, 64)) == ((1, 1), (2, 2), (3, 4), (5, 8), (9, 64))


@pytest.mark.parametrize("rows", [(0, 4), (5, 4), (1, 70000)])
def test_rows_that_are_no_range_are_refused(rows: tuple[int, int]) -> None:
    with pytest.raises(PlanError) as error:
        row_ranges(RULES, FAMILIES, "decode", rows)
    assert str(error.value) == (
        f"error: rows {rows[0]}-{rows[1]} are no range\n  = fix: give LO-HI with 1 <= LO <= HI <= 65536"
    )


def test_a_family_without_a_point_for_the_rows_is_refused_with_the_points_it_has() -> None:
    families = tuple(
        replace(f, points=tuple(replace(p, rows=(1, 4)) for p in f.points)) if f.id == "gather" else f for f in FAMILIES
    )
    with pytest.raises(PlanError) as error:
        planned(LLAMA, asked=replace(request(), families=families))
    (problem,) = error.value.problems
    assert problem.message == (
        "family gather has no point for decode of rows 3-8; it has scalar (decode, prefill; rows 1-4)"
    )
    assert problem.fix == "add a point, or ask for other rows"
    assert problem.file == "kernels/cpu/common/KERNEL_FAMILIES.toml"


def test_a_plan_needs_the_storage_formats_of_the_weights() -> None:
    tir = dense(replace(SIZES, weight_format="file"))
    with pytest.raises(PlanError) as error:
        plan(tir, (), request())
    assert str(error.value) == (
        "error: the storage format of embed.weight and 15 more weights is not known\n"
        "  = fix: give the checkpoint with its tensors, or a config that states the format of its weights"
    )


def test_points_of_all_families_read_panels_of_one_size() -> None:
    assert panel_of(FAMILIES) == 48
    changed = tuple(
        replace(f, points=(*f.points, replace(f.points[0], values=(("panel", 64),)))) if f.id == "panel_linear" else f
        for f in FAMILIES
    )
    with pytest.raises(AssertionError, match=r"points state panels of \[48, 64\] outputs; weights are baked once"):
        panel_of(changed)


def test_plans_of_other_rows_share_the_kernels_whose_points_take_both() -> None:
    shared = shared_by_plans(LLAMA)
    few = replace(request(), rows=(3, 4), scheduled=True)
    more = replace(few, rows=(9, 64), shared=shared)
    one, other = planned(LLAMA, asked=few), planned(LLAMA, asked=more)
    points = {(kernel.family, kernel.point): kernel.effects for kernel in one.kernels}
    same = [k for k in other.kernels if (k.family, k.point) in points]
    assert {k.family for k in same} >= {"attention", "rope", "row_norm", "sample"}
    assert all(k.effects in points.values() for k in same if k.family in ("attention", "sample", "log_sum_exp"))
    made = set(shared.kernels)
    planned(LLAMA, asked=replace(more, rows=(10, 64)))
    assert set(shared.kernels) == made, "the same kernels serve other rows of the same points"


def test_a_kernel_takes_no_more_rows_than_its_rule_and_no_fewer_than_its_plan() -> None:
    asked = replace(request(), scheduled=True)
    plan = planned(LLAMA, asked=replace(asked, rows=(1, 2)))
    (normed,) = {k.effects: k for k in plan.kernels if k.name.startswith("rms_norm_linear_qkv")}.values()
    assert _most_rows(normed) == {2}
    wide = planned(LLAMA, asked=replace(asked, rows=(1, 1000)))
    assert {most for k in wide.kernels for most in _most_rows(k)} == {1000}


def test_one_definition_serves_plans_of_all_rows_where_nothing_is_scheduled() -> None:
    shared = shared_by_plans(LLAMA)
    asked = replace(request(), shared=shared)
    most = max(rows[1] for _, rows in asked.hardware.rows)
    few = planned(LLAMA, asked=replace(asked, rows=(2, 4)))
    assert {most_of for k in few.kernels for most_of in _most_rows(k)} == {most}
    made = set(shared.definitions)
    more = planned(LLAMA, asked=replace(asked, rows=(9, 64)))
    assert set(shared.definitions) == made
    assert [k.definition for k in more.kernels] == [k.definition for k in few.kernels]
    assert {(k.family, k.point) for k in more.kernels} != {(k.family, k.point) for k in few.kernels}
    one = planned(LLAMA, asked=replace(asked, rows=(1, 1)))
    selecting = [k for k in one.kernels if "logit_rows" in {slot.name for slot in k.slots}]
    assert [_most_rows(k) for k in selecting] == [{1}], "of one row there is nothing to select"
    assert {most_of for k in one.kernels if k not in selecting for most_of in _most_rows(k)} == {most}
    wide = planned(LLAMA, asked=replace(asked, rows=(1, 2 * most)))
    assert {most_of for k in wide.kernels for most_of in _most_rows(k)} == {2 * most}


def _most_rows(kernel: Kernel) -> set[int | None]:
    """The bounds of the counts of rows."""
    nodes = [node.arg for node in toposort(*kernel.effects)]
    return {arg.hi for arg in nodes if isinstance(arg, Param) and arg.name in ("n", "m")}


def test_the_first_point_that_covers_mode_and_rows_is_taken() -> None:
    family = next(f for f in FAMILIES if f.id == "panel_linear")
    group = Group(rule="linear", family="panel_linear", numerics="reference", nodes=(0,))
    assert point_of(FAMILIES, group, "decode", (1, 1)).id == _first(family, "decode")
    assert point_of(FAMILIES, group, "prefill", (1, 8)).id == _first(family, "prefill")


def _first(family: Family, mode: str) -> str:
    return next(point.id for point in family.points if mode in point.modes)
