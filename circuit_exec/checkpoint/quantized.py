"""What a quantization scheme keeps in several tensors, as rows of one storage format.

fp8      codes [N, K] of e4m3; a scale for each block of rows x columns, the last ones part empty.
packed   codes [N, K/8]: eight of 4 bits in an i32, input 8*i + j in bits 4*j; scales [N, K/g]; zeros [N/8, K/g], the
         zero of output 8*i + j in bits 4*j, or none: 8 everywhere. Source: pack_to_int32 of compressed-tensors 0.9.
awq      codes [K, N/8]: bits 4*j hold output 8*i + (0, 2, 4, 6, 1, 3, 5, 7)[j]; scales [K/g, N]; zeros [K/g, N/8] in
         the order of the codes. Source: the GEMM packing of AutoAWQ (awq/utils/packing_utils.py).
gptq_v2  codes [K/8, N]: bits 4*j hold input 8*i + j; scales [K/g, N]; zeros [K/g, N/8], output 8*i + j in bits 4*j.
gptq     the same with zeros stored less one, modulo 16. Source: AutoGPTQ 0.7, nn_modules/qlinear.
"""

import numpy as np
from numpy.typing import NDArray

from circuit.errors import LoadError, Problem
from circuit.formats import FORMATS
from circuit.tir.ir import Quantized
from circuit_exec.checkpoint.decode import decode
from circuit_exec.checkpoint.raw import Bytes, raw
from circuit_exec.checkpoint.records import Checkpoint

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
Words = NDArray[np.uint32]


def quantized_rows(recipe: Quantized, format: str, k: int, checkpoint: Checkpoint) -> Bytes:
    """[outputs, stored bytes]: the rows of a projection of `k` inputs in `format`."""
    kind = FORMATS[format]
    n_units = -(-k // kind.unit)
    if recipe.scheme == "fp8":
        codes = raw(checkpoint, recipe.codes).reshape(-1, k)
        heads = _fp8_scales(recipe, len(codes), k, n_units * kind.unit // 128, checkpoint)
        packed = np.zeros((len(codes), n_units * kind.unit), dtype=np.uint8)
        packed[:, :k] = codes
        words = packed.view(np.uint32)
    else:
        _check_order(recipe, k, checkpoint)
        codes = _codes(recipe, checkpoint)
        heads = np.repeat(_heads(recipe, checkpoint), recipe.columns // kind.unit, axis=1)
        words = _eight(codes)
    units = np.concatenate((heads[:, :, None], words.reshape(len(words), n_units, -1)), axis=2)
    return np.ascontiguousarray(units).reshape(len(words), -1).view(np.uint8)


def _fp8_scales(recipe: Quantized, n: int, k: int, n_units: int, checkpoint: Checkpoint) -> Words:
    """The scale of each row and unit, as the bits of a f32."""
    scales = _scales(recipe, checkpoint).reshape(-(-n // recipe.rows), -(-k // recipe.columns))
    of_row = np.repeat(scales, recipe.rows, axis=0)[:n]
    times = -(-recipe.columns // 128)
    return np.repeat(of_row, times, axis=1)[:, :n_units].view(np.uint32)


def _scales(recipe: Quantized, checkpoint: Checkpoint) -> NDArray[np.float32]:
    return decode(raw(checkpoint, recipe.scales), checkpoint.tensors[recipe.scales].format)


def _codes(recipe: Quantized, checkpoint: Checkpoint) -> Bytes:
    """[outputs, inputs], one code a byte."""
    words = _words(recipe.codes, checkpoint)
    match recipe.scheme:
        case "packed":
            return _nibbles(words)
        case "awq":
            return _in_awq_order(words).T
        case _:  # eight inputs in the words of a row, one output a column
            return _nibbles(np.ascontiguousarray(words.T))


def _heads(recipe: Quantized, checkpoint: Checkpoint) -> Words:
    """[outputs, groups]: the scale's 16 bits low, the zero high."""
    stored = checkpoint.tensors[recipe.scales]
    scales = np.ascontiguousarray(raw(checkpoint, recipe.scales)).view("<u2").reshape(stored.shape)
    scales = scales if recipe.scheme == "packed" else scales.T
    zeros = _zeros(recipe, checkpoint)
    if recipe.zero and zeros is not None and not (zeros == recipe.zero).all():
        assert recipe.zeros is not None
        other = int(zeros[zeros != recipe.zero][0])
        raise LoadError(_asymmetric(recipe, checkpoint.tensors[recipe.zeros].file, other))
    high = np.uint32(recipe.zero) if zeros is None else zeros.astype(np.uint32)
    return scales.astype(np.uint32) | (high << np.uint32(16))


def _zeros(recipe: Quantized, checkpoint: Checkpoint) -> Bytes | None:
    """[outputs, groups], or None where every zero is the one of the recipe."""
    if recipe.zeros is None:
        return None
    words = _words(recipe.zeros, checkpoint)
    match recipe.scheme:
        case "packed":  # eight outputs in a word
            return _nibbles(np.ascontiguousarray(words.T)).T
        case "awq":
            return _in_awq_order(words).T
        case "gptq":
            return (_nibbles(words).T + np.uint8(1)) & np.uint8(15)
        case _:
            return _nibbles(words).T


def _asymmetric(recipe: Quantized, file: str, other: int) -> Problem:
    message = f"tensor {recipe.zeros}: a group has the zero {other}, though the config says `sym` = true, a zero of 8"
    if other in (7, 9):
        message += f"; zeros of the {'first' if recipe.scheme == 'gptq' else 'second'} version are read"
        fix = "set `checkpoint_format` to gptq_v2" if recipe.scheme == "gptq" else "set `checkpoint_format` to gptq"
        return Problem(message=message, fix=f"{fix}, which is what the zeros are", file=file)
    return Problem(message=message, fix="set `sym` to false", file=file)


def _check_order(recipe: Quantized, k: int, checkpoint: Checkpoint) -> None:
    if recipe.order is None:
        return
    groups = np.ascontiguousarray(raw(checkpoint, recipe.order)).view("<i4")
    if not np.array_equal(groups, np.arange(k) // recipe.columns):
        message = f"tensor {recipe.order}: the inputs are not in the order of their groups, though `desc_act` is false"
        fix = "use a checkpoint that was quantized without desc_act"
        raise LoadError(Problem(message=message, fix=fix, file=checkpoint.tensors[recipe.order].file))


def _words(key: str, checkpoint: Checkpoint) -> Words:
    return np.ascontiguousarray(raw(checkpoint, key)).view("<u4").reshape(checkpoint.tensors[key].shape)


def _nibbles(words: Words) -> Bytes:
    """[rows, 8 * words]: bits 4*j of word i in column 8*i + j."""
    pairs = np.ascontiguousarray(words).view(np.uint8)
    return np.stack((pairs & np.uint8(15), pairs >> np.uint8(4)), axis=-1).reshape(len(words), -1)


def _in_awq_order(words: Words) -> Bytes:
    places = _nibbles(words).reshape(len(words), -1, 8)
    return places[..., np.argsort(AWQ_ORDER)].reshape(len(words), -1)


def _eight(codes: Bytes) -> Words:
    """Eight codes a word, the first lowest."""
    codes = np.ascontiguousarray(codes)
    return np.ascontiguousarray(codes[:, 0::2] | (codes[:, 1::2] << np.uint8(4))).view(np.uint32)
