"""Which numbers an instruction multiplies, and whether the codes of a storage format are among them.

A type of numbers is all multiples of 2**lowest with at most `bits` significant bits and a magnitude up to `most`.
One type is converted exactly to another where every number of it, times a power of two that the scale takes back, is
a number of the other. Where that is not so, there is no path but a rounding, and no report takes one in silence.
"""

import math
from typing import Literal

from msgspec import Struct

from circuit.formats import INT8_G32
from circuit.load.instructions import Instruction


class Number(Struct, frozen=True, kw_only=True):
    """A type of numbers: significant bits, the exponent of the smallest step, the largest magnitude."""

    bits: int
    lowest: int
    most: float


NUMBERS: dict[str, Number] = {
    "f32": Number(bits=24, lowest=-149, most=(2 - 2.0**-23) * 2.0**127),
    "bf16": Number(bits=8, lowest=-133, most=(2 - 2.0**-7) * 2.0**127),
    "f16": Number(bits=11, lowest=-24, most=65504.0),
    "f8_e4m3": Number(bits=4, lowest=-9, most=448.0),
    "f4_e2m1": Number(bits=2, lowest=-1, most=6.0),
    "i8": Number(bits=7, lowest=0, most=128.0),
    "i6": Number(bits=5, lowest=0, most=32.0),
    "i5": Number(bits=4, lowest=0, most=16.0),
    "i4": Number(bits=3, lowest=0, most=8.0),
    "i3": Number(bits=2, lowest=0, most=4.0),
    "u5": Number(bits=5, lowest=0, most=31.0),
    "u4": Number(bits=4, lowest=0, most=15.0),
    "u2": Number(bits=2, lowest=0, most=3.0),
}
"""Operands of instructions, and codes. -128 of i8, and the least of every other signed type, is a power of two.

Sources: IEEE 754-2019, table 3.5; Micikevicius et al. 2022, arXiv:2209.05433, table 1 (e4m3); OCP Microscaling Formats
specification 1.0, section 5.3.3 (e2m1).
"""

CODES: dict[str, str] = {
    "f32": "f32",
    "bf16": "bf16",
    "f16": "f16",
    "f8_e4m3": "f8_e4m3",
    "mxfp4": "f4_e2m1",
    "q8_0": "i8",
    "iq4_nl": "i8",
    "q4_0": "i4",
    "q4_1": "u4",
    "q5_0": "i5",
    "q5_1": "u5",
    "q2_k": "u2",
    "q3_k": "i3",
    "q4_k": "u4",
    "q5_k": "u5",
    "q6_k": "i6",
    "i4_f16_32": "i5",
    "i4_f16_64": "i5",
    "i4_f16_128": "i5",
    "i4_bf16_32": "i5",
    "i4_bf16_64": "i5",
    "i4_bf16_128": "i5",
    INT8_G32: "i8",
    "int8": "i8",
}
"""What is under the scales of each format: what is left when its zero is taken off. Minima are no part of a product:
they are multiplied with the sum of the row.
"""

ROUNDED = ("q4_1", "q5_1", "q2_k", "q4_k", "q5_k", "f8_e4m3")
"""Formats whose value is rounded once when it is decoded: a minimum is added, or an f32 scale multiplied. The values of
every other one are exact in f32: code and scales have at most 24 significant bits together (circuit/sigma/storage.py).
"""

How = Literal["as stored", "exact", "no path"]


class Operand(Struct, frozen=True, kw_only=True):
    """How the codes of a format get into an instruction. `shift`: the power of two they are multiplied by; `why` says
    what keeps them out.
    """

    instruction: str
    how: How
    shift: int
    why: str


def operand(format: str, instruction: Instruction) -> Operand:
    """How the codes of a storage format get into an instruction that multiplies."""
    assert instruction.operand is not None, f"{instruction.id} does not multiply"
    code = CODES[format]
    own, other = NUMBERS[code], NUMBERS[instruction.operand]
    if code == instruction.operand:
        return Operand(instruction=instruction.id, how="as stored", shift=0, why="")
    shift = max(other.lowest - own.lowest, 0)
    if own.bits <= other.bits and math.ldexp(own.most, shift) <= other.most:
        return Operand(instruction=instruction.id, how="exact", shift=shift, why="")
    more = f"{own.bits} significant bits do not fit {other.bits}" if own.bits > other.bits else "its range does not fit"
    return Operand(instruction=instruction.id, how="no path", shift=0, why=f"{code} to {instruction.operand}: {more}")
