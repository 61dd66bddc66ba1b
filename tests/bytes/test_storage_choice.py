"""Bake stores f32 matrices of bf16 values as bf16, and that changes no byte of what comes out."""

from pathlib import Path

from circuit_exec.model import Model
from tests.bytes.running import Running, assert_equal_bytes, prefilled, tokens, whole


def formats(model: Model) -> dict[str, str]:
    """The format that each matrix is baked in, by name."""
    return {entry.name: entry.format for entry in model.weights.manifest.entries if entry.layout == "panel"}


def test_an_f32_file_of_bf16_values_gives_the_bytes_of_f32_from_half_of_the_words(running: Running) -> None:
    kept, narrow = running.model("llama"), running.fresh(running.path("llama"), exact=True)
    assert set(formats(kept).values()) == {"f32"}
    assert set(formats(narrow).values()) == {"bf16"}
    assert narrow.planned.bytes_digest == kept.planned.bytes_digest
    assert narrow.program.layout.read_bytes < 0.51 * kept.program.layout.read_bytes
    ids = tokens(kept, 21)
    assert_equal_bytes(prefilled(narrow, ids, whole(narrow)), prefilled(kept, ids, whole(kept)))
    narrow.close()


def test_a_matrix_with_one_value_that_is_none_of_bf16_keeps_f32(running: Running, tmp_path: Path) -> None:
    for file in running.path("llama").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = bytearray((tmp_path / "model.safetensors").read_bytes())
    weights[-4 * 288] ^= 1  # the lowest bit of the first number of the last row of lm_head, the file's last tensor
    (tmp_path / "model.safetensors").write_bytes(weights)
    kept, mixed = running.fresh(tmp_path), running.fresh(tmp_path, exact=True)
    found = formats(mixed)
    assert [name for name, format in found.items() if format == "f32"] == ["head.logits.weight"]
    assert set(found.values()) == {"f32", "bf16"}
    ids = tokens(kept, 22)
    assert_equal_bytes(prefilled(mixed, ids, whole(mixed)), prefilled(kept, ids, whole(kept)))
    kept.close()
    mixed.close()
