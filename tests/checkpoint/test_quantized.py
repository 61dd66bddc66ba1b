"""Rows of quantization schemes mean what their tensors mean, to the byte, and contradictions in them are refused."""

from pathlib import Path

import numpy as np
import pytest

from circuit.errors import LoadError
from circuit.tir.ir import Quantized, Scheme
from circuit_exec.checkpoint.decode import F8_E4M3, decode
from circuit_exec.checkpoint.quantized import quantized_rows
from tests.checkpoint import schemes
from tests.checkpoint.schemes import Stored, checkpoint_of, recipe


def check(at: Path, stored: Stored, of: Quantized, format: str) -> None:
    n, k = stored.values.shape
    rows = quantized_rows(of, format, k, checkpoint_of(at, stored.tensors))
    found = decode(rows.reshape(-1), format).reshape(n, -1)[:, :k]
    assert np.array_equal(found.view(np.uint32), stored.values.view(np.uint32))


@pytest.mark.parametrize(
    ("n", "k", "rows", "columns"),
    [(256, 256, 128, 128), (200, 320, 128, 128), (5, 96, 5, 96), (5, 96, 1, 96), (3, 576, 1, 576), (40, 512, 32, 256)],
)
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_codes_of_8_bits_with_scales_of_blocks_rows_or_all(
    tmp_path: Path, n: int, k: int, rows: int, columns: int, dtype: str
) -> None:
    check(tmp_path, schemes.fp8("m", n, k, rows, columns, dtype=dtype), recipe("fp8", rows, columns), "f8_e4m3")


def test_every_code_of_8_bits_is_the_float_of_torch() -> None:
    torch = pytest.importorskip("torch")
    codes = np.arange(256, dtype=np.uint8)
    theirs = torch.from_numpy(codes).view(torch.float8_e4m3fn).to(torch.float32).numpy()
    same = (theirs.view(np.uint32) == F8_E4M3.view(np.uint32)) | (np.isnan(theirs) & np.isnan(F8_E4M3))
    assert same.all()


@pytest.mark.parametrize(("group", "unit"), [(32, 32), (64, 64), (128, 128), (256, 128)])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_compressed_tensors_of_4_bits(tmp_path: Path, group: int, unit: int, symmetric: bool, dtype: str) -> None:
    stored = schemes.packed("m", 16, 256, group, symmetric, dtype)
    check(tmp_path, stored, recipe("packed", 1, group, 8 if symmetric else 0), f"i4_{dtype.lower()}_{unit}")


@pytest.mark.parametrize(("group", "unit"), [(32, 32), (64, 64), (128, 128), (256, 128)])
def test_awq(tmp_path: Path, group: int, unit: int) -> None:
    check(tmp_path, schemes.awq("m", 24, 256, group), recipe("awq", 1, group), f"i4_f16_{unit}")


@pytest.mark.parametrize(("group", "unit"), [(32, 32), (64, 64), (128, 128), (256, 128)])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("version", "scheme"), [(1, "gptq"), (2, "gptq_v2")])
def test_gptq_of_both_versions(
    tmp_path: Path, group: int, unit: int, symmetric: bool, version: int, scheme: Scheme
) -> None:
    stored = schemes.gptq("m", 24, 256, group, version, symmetric)
    check(tmp_path, stored, recipe(scheme, 1, group, 8 if symmetric else 0), f"i4_f16_{unit}")


def refusal(at: Path, stored: Stored, of: Quantized) -> tuple[str, str]:
    with pytest.raises(LoadError) as caught:
        quantized_rows(of, "i4_f16_128", stored.values.shape[1], checkpoint_of(at, stored.tensors))
    (problem,) = caught.value.problems
    assert problem.file is not None
    assert problem.file.endswith("model.safetensors")
    return problem.message, problem.fix


def test_zeros_of_the_second_version_in_a_file_that_says_it_is_of_the_first_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, schemes.gptq("m", 8, 128, 128, 2, True), recipe("gptq", 1, 128, 8)) == (
        "tensor m.qzeros: a group has the zero 9, though the config says `sym` = true, a zero of 8; zeros of the first "
        "version are read",
        "set `checkpoint_format` to gptq_v2, which is what the zeros are",
    )
    assert refusal(tmp_path, schemes.gptq("m", 8, 128, 128, 1, True), recipe("gptq_v2", 1, 128, 8)) == (
        "tensor m.qzeros: a group has the zero 7, though the config says `sym` = true, a zero of 8; zeros of the "
        "second version are read",
        "set `checkpoint_format` to gptq, which is what the zeros are",
    )


def test_zeros_that_are_not_symmetric_are_refused_where_the_config_says_so(tmp_path: Path) -> None:
    stored = schemes.gptq("m", 8, 128, 128, 2, False)
    message, fix = refusal(tmp_path, stored, recipe("gptq_v2", 1, 128, 8))
    assert message.startswith("tensor m.qzeros: a group has the zero ")
    assert message.endswith(", though the config says `sym` = true, a zero of 8")
    assert fix == "set `sym` to false"


def test_inputs_in_another_order_are_refused(tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(256) // 128
    stored = schemes.gptq("m", 8, 256, 128, 2, True, order)
    assert refusal(tmp_path, stored, recipe("gptq_v2", 1, 128, 8)) == (
        "tensor m.g_idx: the inputs are not in the order of their groups, though `desc_act` is false",
        "use a checkpoint that was quantized without desc_act",
    )
