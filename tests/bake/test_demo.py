"""The demo model, where it was fetched: baked whole, read back to the byte, and opened again quickly."""

from pathlib import Path

import numpy as np
import pytest

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.tir.ir import Key, Weight
from circuit_exec.bake import bake, entry_words
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.decode import tensor_values
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.raw import raw
from circuit_exec.pack import unpack_panels
from tests.demo import demo_file


def never(done: int, total: int) -> None:
    raise AssertionError(f"{done} of {total} bytes are read again")


@pytest.mark.slow
def test_the_demo_model_bakes_to_its_own_bytes_and_is_opened_without_reading_them(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(demo_file()))
    weights = [
        Weight(name=t.name, shape=t.shape, format=t.format, recipe=Key(key=t.name)) for t in checkpoint.tensors.values()
    ]
    manifest = build_manifest(tuple(weights), PANEL)
    baked = bake(manifest, checkpoint, Cache(root=tmp_path), lambda done, total: None)
    for entry in manifest.entries:
        words = entry_words(baked, entry)
        if len(entry.shape) == 2:
            rows, k = entry.shape
            stored = unpack_panels(words, entry.format, (rows, k), PANEL).reshape(-1)
            assert np.array_equal(stored, raw(checkpoint, entry.name)), entry.name
        else:
            assert np.array_equal(words.view("<f4"), tensor_values(checkpoint, entry.name)), entry.name
    written = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert bake(manifest, checkpoint, Cache(root=tmp_path), never).note is None
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == written
