"""Devices: every figure has its source, and every message of a wrong entry."""

import pytest

from circuit.errors import LoadError, PlanError
from circuit.load.devices import device_named, load_devices, rate
from circuit.load.instructions import load_instructions
from circuit.text import Source
from tests.lower.library import own_library, with_files

LIBRARY = own_library()
DEVICES = load_devices(LIBRARY)
NAMES = (
    "h100_sxm h100_nvl h200 b200 gb200 b300 gb10 l4 l40s a100_40gb a100_80gb rtx_3090 rtx_4090 rtx_5090 rtx_pro_6000 "
    "mi300x mi325x m2_max cloud_zen4_2 ryzen_9950x epyc_9654"
).split()
ENTRY = """schema = 1

[sources]
here = "measured"

[[device]]
id = "new"
name = "a new device"
class = "hopper"
arch = "sm_90"
memory_bytes = { value = 1_000_000, source = "here" }
bandwidth = { value = 1e9, source = "here" }
units = { value = 1, source = "here" }
rates."fma.f32" = { value = 1e9, source = "here" }
"""


def test_the_registry_has_every_device_once() -> None:
    assert sorted(device.id for device in DEVICES) == sorted(NAMES)


def test_every_device_can_multiply_in_f32_and_says_where_each_figure_is_from() -> None:
    for device in DEVICES:
        figures = [device.memory_bytes, device.bandwidth, device.units, *(figure for _, figure in device.rates)]
        assert rate(device, "fma.f32") is not None, device.id
        assert all(figure.source and figure.value > 0 for figure in figures), device.id


def test_a_device_of_the_user_stands_behind_the_registry() -> None:
    more = load_devices(LIBRARY, Source(path="mine.toml", text=ENTRY))
    assert more[:-1] == DEVICES
    assert device_named(more, "new").bandwidth.source == "measured"


def test_an_unknown_device_lists_what_exists() -> None:
    with pytest.raises(PlanError) as error:
        device_named(DEVICES[:2], "h9000")
    assert str(error.value) == "error: there is no device `h9000`\n  = fix: use one of: a100_40gb, a100_80gb"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'class = "hopper"',
            'class = "hoper"',
            """
error: device `new` is of class `hoper`, which does not exist
 --> mine.toml:9
  | class = "hoper"
  = fix: use one of: """,
        ),
        (
            'arch = "sm_90"',
            'arch = "sm_80"',
            """
error: device `new` is a sm_80, which class hopper does not compile for
 --> mine.toml:10
  | arch = "sm_80"
  = fix: use one of: sm_90""",
        ),
        (
            'rates."fma.f32"',
            'rates."fma.f33"',
            """
error: device `new` has a rate for `fma.f33`, which is no instruction
 --> mine.toml:14
  | rates."fma.f33" = { value = 1e9, source = "here" }
  = fix: use one of: fma.f32, logic.u32, dot4.i8, mma.bf16, mma.f16, mma.i8, mma.f8_e4m3, mma.f4_e2m1""",
        ),
        (
            'rates."fma.f32"',
            'rates."mma.f4_e2m1"',
            """
error: device `new` has a rate for mma.f4_e2m1, which sm_90a does not have
 --> mine.toml:14
  | rates."mma.f4_e2m1" = { value = 1e9, source = "here" }
  = fix: remove the rate, or correct the targets in kernels/INSTRUCTIONS.toml""",
        ),
        (
            'class = "hopper"\narch = "sm_90"',
            'class = "cuda"\narch = "sm_90"\nrates."mma.bf16" = { value = 1e9, source = "here" }',
            """
error: device `new` has a rate for mma.bf16, which class cuda does not state
 --> mine.toml:11
  | rates."mma.bf16" = { value = 1e9, source = "here" }
  = fix: remove the rate, or add the instruction to the class's `instructions`""",
        ),
        (
            'bandwidth = { value = 1e9, source = "here" }',
            'bandwidth = { value = 1e9, source = "there" }',
            """
error: there is no source `there`
 --> mine.toml:12
  | bandwidth = { value = 1e9, source = "there" }
  = fix: add it to [sources], or use: here""",
        ),
        (
            'id = "new"',
            'id = "h200"',
            """
error: device `h200` is written twice
 --> mine.toml:7
  | id = "h200"
  = fix: rename one, or remove it""",
        ),
    ],
)
def test_what_is_wrong_with_a_device_is_named_with_its_line(old: str, new: str, expected: str) -> None:
    assert old in ENTRY
    with pytest.raises(LoadError) as error:
        load_devices(LIBRARY, Source(path="mine.toml", text=ENTRY.replace(old, new)))
    assert str(error.value).startswith(expected.strip("\n"))


def test_an_instruction_that_is_written_twice_is_refused() -> None:
    text = next(source.text for source in LIBRARY.files if source.path.endswith("INSTRUCTIONS.toml"))
    twice = with_files(LIBRARY, kernels__INSTRUCTIONS=text + text[text.index("[[instruction]]") :])
    with pytest.raises(LoadError, match=r"instruction `fma\.f32` is written twice"):
        load_instructions(twice)
