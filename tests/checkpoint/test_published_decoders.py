"""Values of quantized projections equal those of the published decoders, which tests/fixtures/schemes/make.py ran."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from circuit.tir.ir import Quantized
from circuit_exec.checkpoint.decode import decode
from circuit_exec.checkpoint.quantized import quantized_rows
from tests.checkpoint.files import Tensor
from tests.checkpoint.schemes import checkpoint_of, recipe

FIXTURE = Path(__file__).parents[1] / "fixtures" / "schemes" / "values.npz"
N, K = 16, 256

CASES: dict[str, tuple[Quantized, str]] = {  # how the projection is stored, the format of its rows
    "awq_32": (recipe("awq", 1, 32), "i4_f16_32"),
    "awq_128": (recipe("awq", 1, 128), "i4_f16_128"),
    "gptq_64": (recipe("gptq", 1, 64), "i4_f16_64"),
    "gptq_256": (recipe("gptq", 1, K), "i4_f16_128"),
    "gptq_v2_32": (recipe("gptq_v2", 1, 32), "i4_f16_32"),
    "gptq_v2_128": (recipe("gptq_v2", 1, 128), "i4_f16_128"),
    "packed_32_symmetric": (recipe("packed", 1, 32, zero=8), "i4_bf16_32"),
    "packed_128": (recipe("packed", 1, 128), "i4_f16_128"),
    "packed_256": (recipe("packed", 1, K), "i4_bf16_128"),
    "fp8_blocks": (recipe("fp8", 8, 128), "f8_e4m3"),
    "fp8_compressed_tensor": (recipe("fp8", N, K, scale="weight_scale"), "f8_e4m3"),
    "fp8_compressed_channel": (recipe("fp8", 1, K, scale="weight_scale"), "f8_e4m3"),
    "fp8_compressed_block": (recipe("fp8", 8, 128, scale="weight_scale"), "f8_e4m3"),
    "fp8_modelopt": (recipe("fp8", N, K, scale="weight_scale"), "f8_e4m3"),
}


@pytest.fixture(scope="module")
def published() -> dict[str, NDArray[Any]]:
    with np.load(FIXTURE) as archive:
        return dict(archive)


def tensor(name: str, array: NDArray[Any], short: str) -> Tensor:
    """As a file stores it: words, codes of e4m3, or scales in their type."""
    if array.dtype == np.int32:
        return Tensor(name=name, dtype="I32", shape=array.shape, data=array.tobytes())
    if array.dtype == np.uint8:
        return Tensor(name=name, dtype="F8_E4M3", shape=array.shape, data=array.tobytes())
    match short:
        case "f16":
            data = array.astype("<f2").tobytes()
        case "bf16":
            data = (array.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
        case _:
            data = array.tobytes()
    return Tensor(name=name, dtype=short.upper(), shape=array.shape, data=data)


@pytest.mark.parametrize("name", CASES)
def test_values_equal_those_of_the_published_decoder(
    name: str, published: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    stored, format = CASES[name]
    arrays = {key.removeprefix(f"{name}/"): array for key, array in published.items() if key.startswith(f"{name}/")}
    expected = arrays.pop("values")
    assert expected.shape == (N, K)
    short = format.split("_")[1] if format.startswith("i4_") else "f32"
    tensors = [tensor(f"m.{key}", array, short) for key, array in arrays.items()]
    unordered = replace(stored, order=None)  # inputs in the order of their groups, without a g_idx
    rows = quantized_rows(unordered, format, K, checkpoint_of(tmp_path, tensors))
    found = decode(rows.reshape(-1), format).reshape(N, K)
    differ = (found.view(np.uint32) != expected.view(np.uint32)) & ~(np.isnan(found) & np.isnan(expected))
    assert not differ.any(), np.argwhere(differ)[:5]


def test_every_case_of_the_archive_is_read_and_holds_what_is_hard(published: dict[str, NDArray[Any]]) -> None:
    assert {key.partition("/")[0] for key in published} == set(CASES)
    for name in CASES:
        values = published[f"{name}/values"]
        assert np.unique(values).size > 100, name
        assert (np.signbit(values) & (values == 0)).any(), name
    short = [published[f"{name}/scales"] for name in CASES if not name.startswith(("fp8", "packed"))]
    assert all(((scale != 0) & (np.abs(scale) < 2.0**-14)).any() for scale in short)
