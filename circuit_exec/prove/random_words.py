"""Random numbers and tensors for compiled kernels, as their files store them."""

import numpy as np
from numpy.typing import NDArray

from circuit.formats import GROUP, INT8_G32
from circuit.tir.ir import Edge, Weight
from circuit_exec.checkpoint.raw import Bytes

Words = NDArray[np.uint32]


def random_rows(rng: np.random.Generator, edge: Edge, rows: int) -> Words:
    """Rows of an edge in its format."""
    if edge.format != INT8_G32:
        return random_words(rng, rows * edge.dim)
    groups = rows * edge.dim // GROUP
    codes = rng.integers(-127, 128, (groups, GROUP), np.int8)
    scales = rng.uniform(0.01, 1.0, (groups, 1)).astype(np.float32).view(np.uint32)
    sums = codes.sum(axis=1, dtype=np.int32, keepdims=True).view(np.uint32)
    return np.concatenate((scales, sums, codes.view(np.uint32)), axis=1).reshape(-1)


def random_words(rng: np.random.Generator, count: int) -> Words:
    """Numbers of many sizes, and some that are easily got wrong: both zeros, a subnormal."""
    values = (rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)).astype(np.float32)
    odd = np.array([0.0, -0.0, 1e-40, -1e-40], np.float32)
    chosen = rng.integers(0, 40, count)
    return np.where(chosen < len(odd), odd[np.minimum(chosen, len(odd) - 1)], values).astype(np.float32).view(np.uint32)


def random_tensor(rng: np.random.Generator, weight: Weight) -> Bytes:
    """A tensor as its file stores it, [rows, bytes]."""
    n, k = weight.shape if len(weight.shape) == 2 else (weight.shape[0], 1)
    values = rng.standard_normal((n, k)).astype(np.float32)
    match weight.format:
        case "f32":
            return values.view(np.uint8)
        case "bf16":
            return np.ascontiguousarray(values.view(np.uint16)[:, 1::2]).view(np.uint8)
        case "q4_0" | "q4_1" | "q5_0" | "q8_0":
            n_heads, of_codes = {"q4_0": (1, 16), "q4_1": (2, 16), "q5_0": (1, 20), "q8_0": (1, 32)}[weight.format]
            scales = rng.uniform(0.25, 1.0, (n, k // 32, n_heads)) / 16
            heads = scales.astype(np.float16).view(np.uint8)
            codes = rng.integers(0, 256, (n, k // 32, of_codes), np.uint8)
            return np.concatenate((heads, codes), axis=-1).reshape(n, -1)
        case format:
            raise AssertionError(f"no random tensor of format {format}")
