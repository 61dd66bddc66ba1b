"""Which f32 tensors are known to hold bf16 values alone, and what is remembered of it."""

from pathlib import Path

import numpy as np
import pytest

from circuit_exec.cache import Cache
from circuit_exec.checkpoint import exact
from circuit_exec.checkpoint.exact import with_exact_bf16
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.texts import checkpoint_texts
from tests import models

CONFIG = models.tiny_config("llama")


def found(folder: Path, cache: Cache) -> frozenset[str]:
    return with_exact_bf16(open_checkpoint(str(folder)), cache).exact_bf16


def test_matrices_whose_low_halves_are_zero_are_known_and_vectors_are_not_asked(tmp_path: Path) -> None:
    tensors = models.random_tensors(CONFIG)
    other = next(name for name, values in tensors.items() if values.ndim == 2)
    words = tensors[other].view(np.uint32).copy()
    words[-1, -1] |= 1
    folder = models.write_checkpoint(tmp_path / "model", CONFIG)
    models.write_safetensors(folder / "model.safetensors", {**tensors, other: words.view(np.float32)})
    want = {name for name, values in tensors.items() if values.ndim == 2} - {other}
    assert found(folder, Cache(root=tmp_path / "cache")) == want
    checkpoint = with_exact_bf16(open_checkpoint(str(folder)), Cache(root=tmp_path / "cache"))
    told = checkpoint_texts(checkpoint).tensors or ()
    assert {info.name for info in told if info.exact_bf16} == want


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, folder = Cache(root=tmp_path / "cache"), models.write_checkpoint(tmp_path / "model", CONFIG)
    first = found(folder, cache)
    monkeypatch.setattr(exact, "_is_bf16", lambda checkpoint, name: False)
    assert found(folder, cache) == first
    models.write_checkpoint(folder, CONFIG, seed=1)
    assert found(folder, cache) == frozenset()


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    folder = models.write_checkpoint(tmp_path / "model", CONFIG)
    (tmp_path / "exact").write_text("a file where the folder should be")
    assert found(folder, Cache(root=tmp_path))


def test_other_dtypes_are_not_asked(tmp_path: Path) -> None:
    folder = models.write_checkpoint(tmp_path / "model", CONFIG, dtype="BF16")
    assert found(folder, Cache(root=tmp_path / "cache")) == frozenset()
    assert not (tmp_path / "cache" / "exact").exists()
