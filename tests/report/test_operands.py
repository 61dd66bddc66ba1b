"""Exact conversions, against every code of the small types and against torch's own types of the large ones."""

from fractions import Fraction
from itertools import product

import pytest
import torch

from circuit.formats import FORMATS, IQ4_NL_VALUES, MXFP4_VALUES
from circuit.load.instructions import load_instructions
from circuit.report.operands import CODES, NUMBERS, operand
from tests.lower.library import own_library

INSTRUCTIONS = {each.id: each for each in load_instructions(own_library()) if each.operand is not None}
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16}
E2M1 = [Fraction(value, 2) for value in MXFP4_VALUES]


def values_of(code: str) -> list[Fraction]:
    """Every finite number of a small type."""
    if code == "f8_e4m3":
        every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).to(torch.float64)
        return [Fraction(each) for each in every.tolist() if each == each]
    if code == "f4_e2m1":
        return E2M1
    bits = int(code[1:])
    return [
        Fraction(each) for each in (range(2**bits) if code[0] == "u" else range(-(2 ** (bits - 1)), 2 ** (bits - 1)))
    ]


def holds(value: Fraction, kind: str) -> bool:
    """Whether a type has the number, by rounding to it and back."""
    match kind:
        case "i8":
            return value.denominator == 1 and -128 <= value <= 127
        case "f4_e2m1":
            return value in E2M1
        case "f8_e4m3":
            return value in values_of("f8_e4m3")
        case "f32":
            return Fraction(torch.tensor(float(value), dtype=torch.float32).double().item()) == value
    there = torch.tensor(float(value), dtype=torch.float64).to(TORCH[kind]).double().item()
    return abs(there) < float("inf") and Fraction(there) == value


SMALL = [name for name in NUMBERS if name not in ("f32", "bf16", "f16")]


@pytest.mark.parametrize(("code", "instruction"), list(product(SMALL, INSTRUCTIONS)))
def test_a_conversion_is_exact_where_every_code_is_a_number_of_the_operand(code: str, instruction: str) -> None:
    format = next((name for name, own in CODES.items() if own == code), None)
    assert format is not None, f"no format has codes of {code}"
    found = operand(format, INSTRUCTIONS[instruction])
    kind = INSTRUCTIONS[instruction].operand
    assert kind is not None
    fits = [all(holds(value * Fraction(2) ** shift, kind) for value in values_of(code)) for shift in range(-12, 13)]
    assert (found.how != "no path") == any(fits), found
    if found.how != "no path":
        assert fits[found.shift + 12], found


@pytest.mark.parametrize(("code", "kind"), list(product(("f16", "bf16"), repeat=2)))
def test_sixteen_bits_are_converted_only_to_themselves(code: str, kind: str) -> None:
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(TORCH[code])
    finite = every[torch.isfinite(every)]
    same = torch.equal(finite.to(TORCH[kind]).double(), finite.double())
    assert (operand(code, INSTRUCTIONS[f"mma.{kind}"]).how != "no path") == same


def test_rows_of_f32_are_operands_of_f32_alone() -> None:
    found = {name: operand("f32", each).how for name, each in INSTRUCTIONS.items()}
    assert [name for name, how in found.items() if how != "no path"] == ["fma.f32"]
    assert operand("f32", INSTRUCTIONS["mma.bf16"]).why == "f32 to bf16: 24 significant bits do not fit 8"
    assert operand("bf16", INSTRUCTIONS["mma.f16"]).why == "bf16 to f16: its range does not fit"


def test_every_storage_format_has_codes_and_a_table_of_values_is_of_its_type() -> None:
    assert set(FORMATS) - {"i32"} <= set(CODES)
    assert all(-128 <= value <= 127 for value in IQ4_NL_VALUES)


def test_every_instruction_but_logic_has_an_operand() -> None:
    assert [each.id for each in load_instructions(own_library()) if each.operand is None] == ["logic.u32"]
