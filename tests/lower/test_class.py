"""Hardware classes, their families and the policy: inheritance, and every message."""

import pytest

from circuit.errors import LoadError, PlanError
from circuit.load.families import value
from circuit.load.hardware import class_names, lanes_of, load_hardware, rows_of
from circuit.load.inputs import Library
from circuit.load.policy import Policy, load_policy, with_choices
from circuit.text import listed
from tests.lower.library import class_families, own_library, with_files

LIBRARY = own_library()
DEFAULT = load_policy(LIBRARY)


def check(library: Library, name: str, expected: str) -> None:
    """Loading the class, or its families, is refused with exactly this text."""
    with pytest.raises((LoadError, PlanError)) as error:
        class_families(library, name)
    assert str(error.value) == expected.strip()


def test_a_class_inherits_limits_and_rows_but_says_itself_what_to_compile_for() -> None:
    hardware = load_hardware(LIBRARY, "avx2")
    assert hardware.chain == ("avx2", "cpu")
    assert hardware.arch == (("x86_64", "x86-64-v3"),)
    assert [(limit.name, limit.value) for limit in hardware.limits] == [("vector_lanes", 8)]
    assert rows_of(hardware, "decode") == (1, 64)
    assert rows_of(hardware, "prefill") == (1, 512)


def test_c_is_rendered_for_classes_that_state_their_registers() -> None:
    found = {name: lanes_of(load_hardware(LIBRARY, name)) for name in ("cpu", "avx2", "avx512", "neon")}
    assert found == {"cpu": 8, "avx2": 8, "avx512": 16, "neon": 4}
    with pytest.raises(PlanError) as error:
        lanes_of(load_hardware(LIBRARY, "hopper"))
    assert str(error.value) == (
        "error: class hopper does not state vector_lanes, so no C is rendered for it\n"
        "  = fix: name a class of processors with vector registers"
    )


def test_an_unknown_class_lists_what_exists() -> None:
    check(
        LIBRARY,
        "avx9",
        f"error: there is no hardware class `avx9`\n  = fix: use one of: {listed(class_names(LIBRARY))}",
    )


def test_a_class_that_inherits_from_nothing_known_names_the_line() -> None:
    text = _hardware("new", 'inherits = "old"')
    check(
        with_files(LIBRARY, kernels__new__HARDWARE=text),
        "new",
        f"""
error: there is no hardware class `old`
 --> kernels/new/HARDWARE.toml:5
  | inherits = "old"
  = fix: use one of: {listed(sorted((*class_names(LIBRARY), "new")))}""",
    )


def test_a_class_that_inherits_from_itself_is_refused() -> None:
    files = with_files(
        LIBRARY,
        kernels__a__HARDWARE=_hardware("a", 'inherits = "b"'),
        kernels__b__HARDWARE=_hardware("b", 'inherits = "a"'),
    )
    check(
        files,
        "a",
        """
error: class `a` inherits from itself: a <- b <- a
 --> kernels/b/HARDWARE.toml:5
  | inherits = "a"
  = fix: remove one `inherits`""",
    )


def test_a_class_in_the_folder_of_another_is_refused() -> None:
    check(
        with_files(LIBRARY, kernels__new__HARDWARE=_hardware("other", "")),
        "new",
        """
error: class `other` is in the folder `new`
 --> kernels/new/HARDWARE.toml:3
  | name = "other"
  = fix: write name = "new\"""",
    )


def test_a_limit_without_a_source_is_refused() -> None:
    text = _hardware("new", "") + "[limits]\nlanes = { value = 8 }\n"
    check(
        with_files(LIBRARY, kernels__new__HARDWARE=text),
        "new",
        """
error: missing key `limits.lanes.source`
 --> kernels/new/HARDWARE.toml:9
  | lanes = { value = 8 }
  = fix: add `source = ...`""",
    )


def test_a_mode_without_rows_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"class cpu has no rows for mode `verify`\n  = fix: use one of: decode, prefill"
    ):
        rows_of(load_hardware(LIBRARY, "cpu"), "verify")


def _hardware(name: str, more: str) -> str:
    lines = ["schema = 1", "[hardware]", f'name = "{name}"', 'why = "a test"', more, 'language = "c"', "arch = {}", ""]
    return "\n".join(lines)


def test_a_class_replaces_an_inherited_family_by_its_id() -> None:
    text = _families('id = "rope"', 'ops = ["rope"]', 'values = { lanes = 4 }, claim = "keeps"')
    families = class_families(with_files(LIBRARY, kernels__avx2__common__KERNEL_FAMILIES=text), "avx2")
    assert [f.id for f in families] == [f.id for f in class_families(LIBRARY)]
    rope = next(f for f in families if f.id == "rope")
    assert value(rope.points[0], "lanes") == 4
    with pytest.raises(AssertionError, match=r"rope.p \(kernels/avx2/common/KERNEL_FAMILIES.toml:7\) states no panel"):
        value(rope.points[0], "panel")


@pytest.mark.parametrize(
    ("point", "message", "fix"),
    [
        (
            'claim = "changes"',
            "point `f.p` changes the numerics of its definition and does not say to what",
            'add `numerics = "..."`',
        ),
        (
            'claim = "keeps", numerics = "x"',
            "point `f.p` keeps the numerics of its definition and states others",
            "remove `numerics`",
        ),
        ('claim = "keeps", rows = [4, 1]', "point `f.p` has rows 4 to 1", "write rows = [lowest, highest]"),
    ],
)
def test_a_point_that_contradicts_itself_is_refused(point: str, message: str, fix: str) -> None:
    text = _families('id = "f"', 'ops = ["rope"]', point, rows="" if "rows" in point else "rows = [1, 8], ")
    with pytest.raises(LoadError) as error:
        class_families(with_files(LIBRARY, kernels__avx2__common__KERNEL_FAMILIES=text), "avx2")
    (problem,) = error.value.problems
    assert (problem.message, problem.line) == (message, 7)
    assert problem.fix == fix


def test_a_family_or_a_point_that_is_written_twice_is_refused() -> None:
    one = _families('id = "f"', 'ops = ["rope"]', 'claim = "keeps"')
    text = one + one.partition("\n")[2] + one[one.index("point") :]
    text = text[: text.rindex("point")] + '[[family]]\nid = "g"\nwhy = ""\nmade = "generated"\nops = []\n'
    twice = '{ id = "p", modes = [], rows = [1, 1], claim = "keeps" }'
    text += f"point = [{twice}, {twice}]\n"
    with pytest.raises(LoadError) as error:
        class_families(with_files(LIBRARY, kernels__avx2__common__KERNEL_FAMILIES=text), "avx2")
    assert [p.message for p in error.value.problems] == [
        "family `f` is written twice; the other is on line 2",
        "point `g.p` is written twice",
    ]
    assert {p.fix for p in error.value.problems} == {"rename one, or remove it"}


def _families(id: str, ops: str, point: str, rows: str = "rows = [1, 8], ") -> str:
    head = f'schema = 1\n[[family]]\n{id}\nwhy = "a test"\nmade = "generated"\n{ops}\n'
    return head + f'point = [{{ id = "p", modes = ["decode"], {rows}{point} }}]\n'


def test_the_default_policy_states_every_key() -> None:
    assert (
        Policy(entries=(("activations", "f32"), ("kv", "f32"), ("parity", "portable"), ("speculation", "none")))
        == DEFAULT
    )


def test_a_choice_that_says_what_holds_changes_nothing() -> None:
    assert with_choices(DEFAULT, ["kv=f32"]) == DEFAULT


@pytest.mark.parametrize(
    ("choice", "message", "fix"),
    [
        ("speed=high", "unknown policy key `speed`", "the keys are: activations, kv, parity, speculation"),
        ("kv", "policy `kv` is not KEY=VALUE", "the keys are: activations, kv, parity, speculation"),
        ("kv=f64", "policy kv has no value `f64`", "use one of: f32, f16, bf16, int8"),
        ("activations=int8", "policy activations has no value `int8`", "use one of: f32, int8/g32"),
        ("parity=class", "policy parity = class is not implemented yet", "use parity=portable"),
    ],
)
def test_a_choice_that_cannot_be_kept_is_refused(choice: str, message: str, fix: str) -> None:
    with pytest.raises(PlanError) as error:
        with_choices(DEFAULT, [choice])
    assert str(error.value) == f"error: {message}\n  = fix: {fix}"


def test_every_wrong_choice_is_named_at_once() -> None:
    with pytest.raises(PlanError) as error:
        with_choices(DEFAULT, ["kv=f32", "kv=f32", "speed=1"])
    assert [p.message for p in error.value.problems] == ["policy `kv` is given twice", "unknown policy key `speed`"]


def test_a_default_policy_that_leaves_a_key_out_or_adds_one_is_refused() -> None:
    text = 'schema = 1\n[policy]\nkv = "f32"\nparity = "portable"\nspeed = "high"\n'
    with pytest.raises(LoadError) as error:
        load_policy(with_files(LIBRARY, recipes__default=text))
    assert [(p.message, p.line) for p in error.value.problems] == [
        ("missing policy key `activations`", 2),
        ("missing policy key `speculation`", 2),
        ("unknown policy key `speed`", 5),
    ]


def test_a_class_has_the_instructions_of_its_base_with_its_own_and_without_those_it_removes() -> None:
    assert load_hardware(LIBRARY, "cuda").instructions == ("dot4.i8", "fma.f32", "logic.u32")
    inherited = load_hardware(LIBRARY, "ada").instructions
    assert "mma.i8" in inherited
    assert set(load_hardware(LIBRARY, "blackwell").instructions) == {*inherited, "mma.f4_e2m1"} - {"mma.i8"}


def test_a_class_whose_language_nothing_renders_is_lowered_as_another() -> None:
    hardware = load_hardware(LIBRARY, "hopper")
    assert hardware.lowered_by == ("hopper", "ada", "ampere", "cuda", "cpu")
    assert hardware.proven_by == "cpu"
    own = load_hardware(LIBRARY, "avx2")
    assert (own.lowered_by, own.proven_by) == (own.chain, "avx2")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            'instructions = ["mma.f8_e4m3"]',
            """
error: class `new` states the instruction mma.f8_e4m3, which sm_80 does not have
 --> kernels/new/HARDWARE.toml:8
  | instructions = ["mma.f8_e4m3"]
  = fix: add it to `remove_instructions`, or correct the targets in kernels/INSTRUCTIONS.toml""",
        ),
        (
            'instructions = ["mma.f9"]',
            """
error: class `new` states `mma.f9`, which is no instruction
 --> kernels/new/HARDWARE.toml:8
  | instructions = ["mma.f9"]
  = fix: use one of: fma.f32, logic.u32, dot4.i8, mma.bf16, mma.f16, mma.i8, mma.f8_e4m3, mma.f4_e2m1""",
        ),
        (
            'remove_instructions = ["mma.i8"]',
            """
error: class `new` removes the instruction `mma.i8`, which it does not inherit
 --> kernels/new/HARDWARE.toml:8
  | remove_instructions = ["mma.i8"]
  = fix: remove it from `remove_instructions`""",
        ),
    ],
)
def test_an_instruction_that_a_class_cannot_have_is_refused(more: str, expected: str) -> None:
    text = f"""schema = 1

[hardware]
name = "new"
why = "a test"
language = "cuda"
arch = {{ sm_80 = "sm_80" }}
{more}
"""
    check(with_files(LIBRARY, kernels__new__HARDWARE=text), "new", expected)


def test_a_class_without_vector_registers_renders_no_c() -> None:
    with pytest.raises(PlanError) as error:
        lanes_of(load_hardware(LIBRARY, "cuda"))
    assert str(error.value) == (
        "error: class cuda does not state vector_lanes, so no C is rendered for it\n"
        "  = fix: name a class of processors with vector registers"
    )
