"""Numbers that find mistakes: ordinary ones, and some zeros, infinities, NaNs, denormals and powers of two."""

import random

from circuit.uop.node import f32_value
from circuit.uop.scalar import Value

SPECIAL_BITS = (0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x007FFFFF, 0x7F7FFFFF, 0x3F800000)
SPECIAL_INTS = (0, 1, -1, 2, 127, 128, 255, 256, -(2**31), 2**31 - 1)


def numbers(seed: int, count: int, special: float = 0.02) -> list[Value]:
    """float32 values; `special` is the share of unusual ones."""
    draw = random.Random(seed)
    made: list[Value] = []
    for _ in range(count):
        if draw.random() < special:
            made.append(f32_value(draw.choice(SPECIAL_BITS)))
        else:
            made.append(f32_value(draw.randrange(2) << 31 | draw.randrange(112, 142) << 23 | draw.randrange(2**23)))
    return made


def integers(seed: int, count: int, lo: int, hi: int) -> list[Value]:
    """Integers from lo to hi, the ends more often than others."""
    draw = random.Random(seed)
    special = [n for n in (*SPECIAL_INTS, lo, hi) if lo <= n <= hi]
    return [draw.choice(special) if draw.random() < 0.3 else draw.randint(lo, hi) for _ in range(count)]
