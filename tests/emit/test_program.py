"""The emitted C text: steps, barriers, kernels once, and what must agree between plans."""

import pytest
from msgspec.structs import replace

from circuit.emit.barriers import barriers_before, written_slots
from circuit.emit.derive import layout
from circuit.emit.program import emit_program
from circuit.emit.sources import Sources, program_text
from circuit.plan.ir import BufferAt, Plan
from circuit.text import Source
from circuit.tir.ir import Key, Weight
from circuit.uop.build import end, i32, index, loop, param, store
from circuit.uop.node import DType
from tests.emit.small import plan

STEP = """\
static void met_plan_0(const met_args *s, met_team *team, int tid, int nt) {
  unsigned char *const a = s->arena;
  const unsigned char *const w = s->weights;
  unsigned char *const *const state = s->states;
  (void)a, (void)w, (void)state, (void)team, (void)tid, (void)nt;
  if (s->n) {
    put((void *)state[0], s->n, s->tokens, s->positions, s->sequences, s->page_tables, team, tid, nt); /* by_hand: node0 */
    met_barrier(team);
    total((void *)(a + 0), (void *)state[0], s->n, s->positions, s->sequences, s->page_tables, team, tid, nt); /* by_hand: node1 */
    met_barrier(team);
    scale((void *)(a + 64), (void *)(a + 0), (void *)(w + 0), s->m, s->logit_rows, team, tid, nt); /* by_hand: node2 */
  }
  if (s->sections[MET_GREEDY].count) {
    met_barrier(team);
    pick((void *)(a + 2624 + 4l * s->sections[MET_GREEDY].first), (void *)(a + 64 + 160l * s->sections[MET_GREEDY].first), s->sections[MET_GREEDY].count, team, tid, nt); /* by_hand: node3 */
  }
}
"""  # noqa: E501


def test_a_step_is_the_straight_list_of_its_launches() -> None:
    assert STEP in text_of("steps.c", emit_program((plan("decode"), plan("prefill"))))


def test_equal_kernels_of_two_plans_are_written_once() -> None:
    sources = emit_program((plan("decode"), plan("prefill")))
    assert sum(source.text.count("\nMET_KERNEL scale(") for source in sources if source.path.endswith(".c")) == 1
    assert text_of("kernels.h", sources).count("MET_KERNEL scale(") == 1
    assert text_of("steps.c", sources).count("  scale(") == 2


def test_a_kernel_of_the_same_name_but_another_program_gets_a_name_of_its_own() -> None:
    decode, prefill = plan("decode"), plan("prefill")
    row, out = loop("row", param(2, DType.I32, (), "m", lo=0, hi=16)), param(0, DType.I32, (16,), "token")
    seven = replace(prefill.kernels[3], effects=(end(store(index(out, row), i32(7)), row),))
    sources = emit_program((decode, replace(prefill, kernels=(*prefill.kernels[:3], seven))))
    assert "MET_KERNEL pick(i32m *p0, const f32m *p1, i32 s2," in text_of("kernels/pick.c", sources)
    assert "MET_KERNEL pick_plan1(i32m *p0, const void *p1, i32 s2," in text_of("kernels/pick_plan1.c", sources)
    assert "    pick_plan1((void *)(a + 2624 + 4l * s->sections[MET_GREEDY].first), 0, " in text_of("steps.c", sources)


def text_of(path: str, sources: Sources) -> str:
    """The text of one file."""
    (found,) = [source.text for source in sources if source.path == path]
    return found


def test_all_files_in_one_text_stand_under_their_names() -> None:
    sources = (Source(path="a.h", text="int a;\n"), Source(path="b.c", text="int b;\n"))
    assert program_text(sources) == "/* ==== a.h ==== */\nint a;\n\n/* ==== b.c ==== */\nint b;\n"


def test_equal_plans_give_equal_text() -> None:
    assert emit_program((plan("decode"),)) == emit_program((plan("decode"),))


def test_plans_that_read_different_weights_are_no_set() -> None:
    other = replace(plan("prefill"), weights=(Weight(name="v", shape=(40,), format="f32", recipe=Key(key="v")),))
    with pytest.raises(AssertionError, match="prefill and decode read different weights"):
        layout((plan("decode"), other))


def test_what_a_kernel_stores_to_is_read_off_its_program() -> None:
    assert [sorted(written_slots(kernel)) for kernel in plan("decode").kernels] == [[0], [0], [0], [0]]


def moved(to: int) -> Plan:
    """Only total and scale, with the sums that scale reads at another place than total writes them."""
    made = plan("decode")
    buffers = (*made.buffers, replace(made.buffers[0], offset_bytes=to))
    scale = made.launches[2]
    targets = (scale.targets[0], BufferAt(buffer=3), *scale.targets[2:])
    return replace(made, buffers=buffers, launches=(made.launches[1], replace(scale, targets=targets)))


@pytest.mark.parametrize(("to", "meets"), [(0, True), (60, True), (4096, False)])
def test_threads_meet_only_before_a_launch_that_touches_what_another_wrote(to: int, meets: bool) -> None:
    assert barriers_before(moved(to)) == (False, meets)


def test_threads_meet_before_what_others_still_read_is_written() -> None:
    made = plan("decode")
    swapped = replace(made, launches=(made.launches[2], made.launches[1]))
    assert barriers_before(swapped) == (False, True)


def test_threads_meet_where_the_section_changes_and_again_after_it() -> None:
    made = plan("decode")
    around = replace(made, launches=(made.launches[3], made.launches[0]))
    assert barriers_before(around) == (True, True)


def test_a_kernel_that_stores_to_a_weight_is_a_broken_invariant() -> None:
    made = plan("decode")
    scale = made.launches[2]
    wrong = replace(scale, targets=(scale.targets[2], scale.targets[1], *scale.targets[2:]))
    with pytest.raises(AssertionError, match="scale stores to slot 0"):
        barriers_before(replace(made, launches=(wrong,)))
