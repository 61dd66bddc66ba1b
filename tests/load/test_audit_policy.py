"""The policy of matrix instructions: what its file says, who inherits it, and every message of a wrong entry."""

import pytest

from circuit.errors import LoadError
from circuit.load.audit_policy import AuditPolicy, load_audit_policy
from circuit.load.hardware import class_names, load_hardware
from tests.lower.library import own_library, with_files

LIBRARY = own_library()
ENTRY = """schema = 1

[[require]]
ops = ["linear"]
modes = ["decode"]
rows = 4
instructions = ["mma.*"]
why = "they are there"
source = "measured"

[[exempt]]
ops = ["linear:q"]
kind = "backlog"
reason = "not written"
"""


def policy_of(text: str, name: str = "ampere") -> AuditPolicy:
    """The policy of a class where class ampere's file has this text."""
    found = load_audit_policy(with_files(LIBRARY, kernels__ampere__AUDIT=text), load_hardware(LIBRARY, name))
    assert found is not None
    return found


def test_every_class_with_matrix_instructions_has_a_policy_and_no_other_needs_one() -> None:
    for name in class_names(LIBRARY):
        hardware = load_hardware(LIBRARY, name)
        matrix = any(instruction.startswith("mma.") for instruction in hardware.instructions)
        assert (load_audit_policy(LIBRARY, hardware) is not None) == matrix, name


def test_a_class_has_the_nearest_policy_on_its_way_to_the_base() -> None:
    assert policy_of(ENTRY, "hopper").stated_by == "ampere"
    own = with_files(LIBRARY, kernels__hopper__AUDIT=ENTRY)
    found = load_audit_policy(own, load_hardware(LIBRARY, "hopper"))
    assert found is not None
    assert (found.stated_by, found.file) == ("hopper", "kernels/hopper/AUDIT.toml")


def test_a_pattern_means_the_matrix_instructions_that_the_class_has() -> None:
    assert policy_of(ENTRY).require[0].instructions == ("mma.bf16", "mma.f16", "mma.i8")
    assert policy_of(ENTRY, "hopper").require[0].instructions == ("mma.bf16", "mma.f16", "mma.f8_e4m3", "mma.i8")
    assert policy_of(ENTRY, "blackwell").require[0].instructions == (
        "mma.bf16",
        "mma.f16",
        "mma.f4_e2m1",
        "mma.f8_e4m3",
    )


def test_what_was_measured_speaks_for_its_own_class_alone() -> None:
    text = ENTRY.replace('kind = "backlog"', 'kind = "measured"\nevidence = "bench, 2026-11-29"')
    assert len(policy_of(text).exempt) == 1
    assert policy_of(text, "hopper").exempt == ()


def test_a_class_with_matrix_instructions_and_no_policy_is_refused() -> None:
    files = tuple(source for source in LIBRARY.files if source.path != "kernels/cdna3/AUDIT.toml")
    with pytest.raises(LoadError) as error:
        load_audit_policy(type(LIBRARY)(files=files), load_hardware(LIBRARY, "cdna3"))
    assert str(error.value) == (
        "error: class cdna3 has mma.bf16, mma.f16, mma.f8_e4m3, mma.i8 and no policy that says where they are to be "
        "used\n"
        " --> kernels/cdna3/HARDWARE.toml\n"
        "  = fix: write kernels/cdna3/AUDIT.toml, as kernels/ampere/AUDIT.toml is written"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'reason = "not',
            'because = "not',
            """
error: missing key `exempt[0].reason`
 --> kernels/ampere/AUDIT.toml:11
  | [[exempt]]
  = fix: add `reason = ...`
error: unknown key `exempt[0].because`
 --> kernels/ampere/AUDIT.toml:14
  | because = "not written"
  = fix: remove or rename `because`""",
        ),
        (
            '["mma.*"]',
            '["mma.f4_e2m1"]',
            """
error: class ampere has no instruction `mma.f4_e2m1`
 --> kernels/ampere/AUDIT.toml:7
  | instructions = ["mma.f4_e2m1"]
  = fix: use one of: dot4.i8, fma.f32, logic.u32, mma.bf16, mma.f16, mma.i8; or mma.* for every matrix instruction""",
        ),
        (
            'ops = ["linear"]',
            'ops = ["linears"]',
            """
error: `linears` is no op that an audit is about
 --> kernels/ampere/AUDIT.toml:4
  | ops = ["linears"]
  = fix: use one of: linear, attention; or a role of linear, as in linear:q""",
        ),
        (
            'ops = ["linear:q"]',
            'ops = ["linear:q"]\nmodes = ["prefill"]',
            """
error: the entry exempts nothing: no `require` entry is about any of its sites
 --> kernels/ampere/AUDIT.toml:11
  | [[exempt]]
  = fix: remove it, or correct its ops, modes, rows or formats""",
        ),
        (
            'kind = "backlog"',
            'kind = "measured"',
            """
error: an exemption that was measured names no evidence
 --> kernels/ampere/AUDIT.toml:11
  | [[exempt]]
  = fix: add `evidence`: the command, the machine and the date""",
        ),
        (
            'kind = "backlog"',
            'kind = "policy"',
            """
error: an exemption of kind policy has no `policy`
 --> kernels/ampere/AUDIT.toml:11
  | [[exempt]]
  = fix: state the policy under which it holds, with kind policy; leave it out with every other kind""",
        ),
        (
            'kind = "backlog"',
            'policy = { parity = "portable" }\nkind = "shape"',
            """
error: an exemption of kind shape has a `policy`
 --> kernels/ampere/AUDIT.toml:11
  | [[exempt]]
  = fix: state the policy under which it holds, with kind policy; leave it out with every other kind""",
        ),
        (
            'kind = "backlog"',
            'policy = { parity = "portabel" }\nkind = "policy"',
            """
error: policy parity has no value `portabel`
 --> kernels/ampere/AUDIT.toml:13
  | policy = { parity = "portabel" }
  = fix: use one of: portable, class, free""",
        ),
        (
            'kind = "backlog"',
            'policy = { paritty = "portable" }\nkind = "policy"',
            """
error: unknown policy key `paritty`
 --> kernels/ampere/AUDIT.toml:13
  | policy = { paritty = "portable" }
  = fix: use one of: """,
        ),
    ],
)
def test_what_is_wrong_with_a_policy_is_named_with_its_line(old: str, new: str, expected: str) -> None:
    assert old in ENTRY
    with pytest.raises(LoadError) as error:
        policy_of(ENTRY.replace(old, new, 1))
    assert str(error.value).startswith(expected.strip("\n"))
