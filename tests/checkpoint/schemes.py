"""Projections as the quantization schemes of safetensors files store them, and the values that this means.

Every packing is written value by value from the scheme's description, so that it shares nothing with what reads it.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.tir.ir import Quantized, Scheme
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.records import Checkpoint
from tests.checkpoint.files import Tensor, folder, safetensors

F32 = NDArray[np.float32]
Ints = NDArray[np.int64]


class Stored(Struct, frozen=True, kw_only=True, eq=False):
    """The tensors of one projection, and its values: [outputs, inputs]."""

    tensors: tuple[Tensor, ...]
    values: F32


def checkpoint_of(at: Path, tensors: Sequence[Tensor]) -> Checkpoint:
    """A folder with these tensors, opened."""
    return open_checkpoint(str(folder(at, {"model.safetensors": safetensors(tensors)})))


def recipe(scheme: Scheme, rows: int, columns: int, zero: int = 0, scale: str = "weight_scale_inv") -> Quantized:
    """How module `m` is stored, as its config would say it."""
    codes = {"fp8": "weight", "packed": "weight_packed"}.get(scheme, "qweight")
    scales = {"fp8": scale, "packed": "weight_scale"}.get(scheme, "scales")
    zeros = {"fp8": None, "packed": None if zero else "m.weight_zero_point"}.get(scheme, "m.qzeros")
    order = "m.g_idx" if scheme.startswith("gptq") else None
    return Quantized(
        scheme=scheme,
        codes=f"m.{codes}",
        scales=f"m.{scales}",
        zeros=zeros,
        order=order,
        rows=rows,
        columns=columns,
        zero=zero,
    )


def fp8(
    module: str, n: int, k: int, rows: int, columns: int, scale_name: str = "weight_scale_inv", dtype: str = "F32"
) -> Stored:
    """Codes of e4m3, none of them NaN, with a scale for each block."""
    rng = np.random.default_rng(len(module) + n)
    codes = rng.integers(0, 256, (n, k), dtype=np.uint8)
    codes[codes & 127 == 127] = 0x80
    shape = (-(-n // rows), -(-k // columns))
    scales = _short(rng.uniform(0.5, 2.0, shape) / 3000, dtype)
    values = np.empty((n, k), dtype=np.float32)
    for j in range(n):
        for i in range(k):
            values[j, i] = np.float32(e4m3(int(codes[j, i]))) * scales[j // rows, i // columns]
    shown = (shape[0], 1) if columns == k and rows == 1 else () if columns == k and rows == n else shape
    tensors = (
        Tensor(name=f"{module}.weight", dtype="F8_E4M3", shape=(n, k), data=codes.tobytes()),
        Tensor(name=f"{module}.{scale_name}", dtype=dtype, shape=shown, data=_bytes(scales, dtype)),
    )
    return Stored(tensors=tensors, values=values)


def e4m3(code: int) -> float:
    """The value of a code that is not NaN."""
    sign, exponent, mantissa = -1.0 if code >> 7 else 1.0, code >> 3 & 15, code & 7
    return sign * (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def packed(module: str, n: int, k: int, group: int, symmetric: bool, dtype: str = "BF16") -> Stored:
    """compressed-tensors: codes and zeros less 8 are what the library calls the quantized values."""
    codes, zeros, scales = _drawn(module, n, k, group, dtype)
    if symmetric:
        zeros[:] = 8
    words = np.zeros((n, k // 8), dtype=np.uint32)
    for j in range(n):
        for i in range(k):
            words[j, i // 8] |= np.uint32(int(codes[j, i]) << (4 * (i % 8)))
    of_zeros = np.zeros((n // 8, k // group), dtype=np.uint32)
    for j in range(n):
        for g in range(k // group):
            of_zeros[j // 8, g] |= np.uint32(int(zeros[j, g]) << (4 * (j % 8)))
    tensors = [
        _words(f"{module}.weight_packed", words),
        Tensor(name=f"{module}.weight_scale", dtype=dtype, shape=scales.shape, data=_bytes(scales, dtype)),
        Tensor(name=f"{module}.weight_shape", dtype="I64", shape=(2,), data=np.array([n, k], dtype="<i8").tobytes()),
    ]
    tensors += [] if symmetric else [_words(f"{module}.weight_zero_point", of_zeros)]
    return Stored(tensors=tuple(tensors), values=_values(codes, zeros, scales, group))


def awq(module: str, n: int, k: int, group: int) -> Stored:
    """AutoAWQ's GEMM packing: bits 4*j of a word hold the output that `order_map` names at j."""
    codes, zeros, scales = _drawn(module, n, k, group, "F16")
    order_map = [0, 2, 4, 6, 1, 3, 5, 7]
    words, of_zeros = np.zeros((k, n // 8), dtype=np.uint32), np.zeros((k // group, n // 8), dtype=np.uint32)
    for column in range(n // 8):
        for place in range(8):
            output = column * 8 + order_map[place]
            for i in range(k):
                words[i, column] |= np.uint32(int(codes[output, i]) << (4 * place))
            for g in range(k // group):
                of_zeros[g, column] |= np.uint32(int(zeros[output, g]) << (4 * place))
    tensors = (
        _words(f"{module}.qweight", words),
        _words(f"{module}.qzeros", of_zeros),
        _scales(f"{module}.scales", scales),
    )
    return Stored(tensors=tensors, values=_values(codes, zeros, scales, group))


def gptq(module: str, n: int, k: int, group: int, version: int, symmetric: bool, order: Ints | None = None) -> Stored:
    """GPTQ: words along the inputs; the first version stores zeros less one."""
    codes, zeros, scales = _drawn(module, n, k, group, "F16")
    if symmetric:
        zeros[:] = 8
    words, of_zeros = np.zeros((k // 8, n), dtype=np.uint32), np.zeros((k // group, n // 8), dtype=np.uint32)
    for j in range(n):
        for i in range(k):
            words[i // 8, j] |= np.uint32(int(codes[j, i]) << (4 * (i % 8)))
        for g in range(k // group):
            stored = (int(zeros[j, g]) - 1) % 16 if version == 1 else int(zeros[j, g])
            of_zeros[g, j // 8] |= np.uint32(stored << (4 * (j % 8)))
    index = (np.arange(k) // group if order is None else order).astype("<i4")
    tensors = (
        _words(f"{module}.qweight", words),
        _words(f"{module}.qzeros", of_zeros),
        _scales(f"{module}.scales", scales),
        Tensor(name=f"{module}.g_idx", dtype="I32", shape=(k,), data=index.tobytes()),
    )
    return Stored(tensors=tensors, values=_values(codes, zeros, scales, group))


def _drawn(module: str, n: int, k: int, group: int, dtype: str) -> tuple[Ints, Ints, F32]:
    """Codes [n, k], zeros and scales [n, groups]: every code and zero, -0 and subnormal scales among them."""
    rng = np.random.default_rng(len(module) + n)
    codes, zeros = rng.integers(0, 16, (n, k)), rng.integers(0, 16, (n, k // group))
    codes[0, :16] = np.arange(16)
    scales = _short(rng.uniform(0.5, 2.0, (n, k // group)) / 80, dtype)
    scales[0, 0] = -0.0
    scales[1 % n, 0] = 2.0**-24 if dtype == "F16" else 2.0**-133
    return codes, zeros, scales


def _values(codes: Ints, zeros: Ints, scales: F32, group: int) -> F32:
    """(code - zero) * scale, in float32."""
    values = np.empty(codes.shape, dtype=np.float32)
    for j in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            values[j, i] = np.float32(codes[j, i] - zeros[j, i // group]) * scales[j, i // group]
    return values


def _short(values: NDArray[np.float64], dtype: str) -> F32:
    """The values as the type can hold them."""
    wide = values.astype(np.float32)
    if dtype == "F16":
        return wide.astype(np.float16).astype(np.float32)
    return wide if dtype == "F32" else (wide.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _bytes(values: F32, dtype: str) -> bytes:
    if dtype == "BF16":
        return (np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
    return values.astype("<f2" if dtype == "F16" else "<f4").tobytes()


def _words(name: str, words: NDArray[np.uint32]) -> Tensor:
    return Tensor(name=name, dtype="I32", shape=words.shape, data=words.astype("<u4").tobytes())


def _scales(name: str, scales: F32) -> Tensor:
    turned = np.ascontiguousarray(scales.T)
    return Tensor(name=name, dtype="F16", shape=turned.shape, data=turned.astype("<f2").tobytes())
