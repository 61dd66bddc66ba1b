"""The fields of ggml's quantized blocks: codes in the order of the values, scales, minima.

Source: the block structs of ggml-common.h and the decoders of ggml-quants.c. `blocks` are always blocks x stored bytes.
"""

import numpy as np
from numpy.typing import NDArray

from circuit_exec.checkpoint.raw import Bytes

_LOW, _SIX, _UPPER, _TWO, _FOUR = np.uint8(15), np.uint8(63), np.uint8(48), np.uint8(2), np.uint8(4)


def codes(blocks: Bytes, format: str) -> Bytes:
    """[blocks, values of a block]: the unsigned code of each value, its high bits in their place."""
    match format:
        case "q4_0" | "iq4_nl":
            return _nibbles(blocks[:, 2:18], 16)
        case "mxfp4":
            return _nibbles(blocks[:, 1:17], 16)
        case "q4_1":
            return _nibbles(blocks[:, 4:20], 16)
        case "q5_0":
            return _nibbles(blocks[:, 6:22], 16) | (_bits(blocks[:, 2:6]) << _FOUR)
        case "q5_1":
            return _nibbles(blocks[:, 8:24], 16) | (_bits(blocks[:, 4:8]) << _FOUR)
        case "q2_k":
            return _pairs(blocks[:, 16:80])
        case "q3_k":
            return _pairs(blocks[:, 32:96]) | (_planes(blocks[:, :32]) << np.uint8(2))
        case "q4_k":
            return _nibbles(blocks[:, 16:144], 32)
        case "q5_k":
            return _nibbles(blocks[:, 48:176], 32) | (_planes(blocks[:, 16:48]) << _FOUR)
        case "q6_k":
            return _nibbles(blocks[:, :128], 64) | (_pairs(blocks[:, 128:192]) << _FOUR)
        case _:
            raise AssertionError(f"the format {format} has no codes in blocks")


def scale_and_minimum(blocks: Bytes, format: str) -> tuple[Bytes, Bytes]:
    """The integer scales and minima of the sub-blocks of Q2_K (16 of 4 bits), Q4_K and Q5_K (8 of 6 bits)."""
    if format == "q2_k":
        return blocks[:, :16] & _LOW, blocks[:, :16] >> _FOUR
    assert format in ("q4_k", "q5_k"), format
    low, high, both = (blocks[:, at : at + 4] for at in (4, 8, 12))
    scale = np.concatenate((low & _SIX, (both & _LOW) | ((low >> _TWO) & _UPPER)), axis=1)
    return scale, np.concatenate((high & _SIX, (both >> _FOUR) | ((high >> _TWO) & _UPPER)), axis=1)


def signed_scales(blocks: Bytes, format: str) -> NDArray[np.int8]:
    """The 16 integer scales of a super-block of Q3_K (6 bits, less 32) or Q6_K (8 bits)."""
    if format == "q6_k":
        return np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    assert format == "q3_k", format
    low, high = blocks[:, 96:104], blocks[:, 104:108]
    upper = np.concatenate([((high >> np.uint8(shift)) & np.uint8(3)) << _FOUR for shift in (0, 2, 4, 6)], axis=1)
    six: Bytes = np.concatenate((low & _LOW, low >> _FOUR), axis=1) | upper
    return six.view(np.int8) - np.int8(32)


def head(blocks: Bytes, format: str) -> Bytes:
    """The f16 scale of each block, and its minimum where it has one, as stored: [blocks, 2 or 4 bytes]."""
    place = {"q2_k": (80, 84), "q3_k": (108, 110), "q6_k": (208, 210)}.get(format)
    first, last = place or ((0, 4) if format in ("q4_1", "q5_1", "q4_k", "q5_k") else (0, 2))
    return np.ascontiguousarray(blocks[:, first:last])


def _nibbles(packed: Bytes, n: int) -> Bytes:
    """Of each `n` bytes the low halves, then the high halves."""
    runs = packed.reshape(len(packed), -1, 1, n)
    return np.concatenate((runs & _LOW, runs >> _FOUR), axis=2).reshape(len(packed), -1)


def _pairs(packed: Bytes) -> Bytes:
    """Of each 32 bytes the lowest two bits, then the next two, and so on."""
    runs = packed.reshape(len(packed), -1, 1, 32)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(4, 1)
    return ((runs >> shifts) & np.uint8(3)).reshape(len(packed), -1)


def _planes(packed: Bytes) -> Bytes:
    """Of 32 bytes the lowest bits, then the next, and so on."""
    shifts = np.arange(8, dtype=np.uint8).reshape(8, 1)
    return ((packed.reshape(len(packed), 1, 32) >> shifts) & np.uint8(1)).reshape(len(packed), -1)


def _bits(packed: Bytes) -> Bytes:
    """Bit i of four bytes."""
    return np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little")
