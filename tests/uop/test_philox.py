"""Philox against the published test vectors and against 64-bit arithmetic."""

import numpy as np
import pytest

from circuit.uop.build import param
from circuit.uop.evaluate import evaluate
from circuit.uop.node import DType
from circuit.uop.philox import philox4x32, uniform
from tests.uop.numpy_runner import run

WORDS = tuple(param(slot, DType.U32) for slot in range(6))
PROGRAM = philox4x32((WORDS[4], WORDS[5]), (WORDS[0], WORDS[1], WORDS[2], WORDS[3]))


def _philox(*words: int) -> tuple[int, ...]:
    return tuple(int(evaluate(root, {}, dict(enumerate(words))) or 0) for root in PROGRAM)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_published_vectors(counter: str, key: str, expected: str) -> None:
    """Source: kat_vectors of Random123, lines `philox4x32 10`."""
    words = [int(word, 16) for word in (*counter.split(), *key.split())]
    assert _philox(*words) == tuple(int(word, 16) for word in expected.split())


def test_equals_the_definition_with_wide_products() -> None:
    drawn = np.random.default_rng(1).integers(0, 2**32, (6, 50_000)).astype(np.uint64)
    c0, c1, c2, c3, k0, k1 = drawn
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    inputs = {word: row.astype(np.uint32) for word, row in zip(WORDS, drawn, strict=True)}
    for root, expected in zip(PROGRAM, (c0, c1, c2, c3), strict=True):
        assert np.array_equal(run(root, inputs), expected)


@pytest.mark.parametrize(("bits", "expected"), [(0, 2.0**-24), (511, 2.0**-24), (2**31, 0.5 + 2.0**-24)])
def test_uniform_is_the_middle_of_its_part(bits: int, expected: float) -> None:
    assert evaluate(uniform(WORDS[0]), {}, {0: bits}) == expected


def test_uniform_never_reaches_zero_or_one() -> None:
    assert evaluate(uniform(WORDS[0]), {}, {0: 2**32 - 1}) == 1.0 - 2.0**-24


def test_works_on_shaped_counters() -> None:
    counter = tuple(param(slot, DType.U32, (5,)) for slot in range(4))
    key = (param(4, DType.U32), param(5, DType.U32))
    words = philox4x32(key, (counter[0], counter[1], counter[2], counter[3]))
    assert [word.shape for word in words] == [(5,)] * 4
