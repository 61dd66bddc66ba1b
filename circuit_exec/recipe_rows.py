"""Executes a recipe as a view: which stored row each row of a baked tensor is."""

from typing import assert_never

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.bake.manifest import Entry
from circuit.tir.ir import Concat, Key, Quantized, Recipe, Unpermute
from circuit_exec.checkpoint.decode import decode
from circuit_exec.checkpoint.quantized import quantized_rows
from circuit_exec.checkpoint.raw import Bytes, raw
from circuit_exec.checkpoint.records import Checkpoint

Places = NDArray[np.int64]


class StoredRows(Struct, frozen=True, kw_only=True, eq=False):
    """Row i of the baked tensor is row `row[i]` of `parts[part[i]]`; each part is rows x stored bytes."""

    parts: tuple[Bytes, ...]
    part: Places
    row: Places
    row_bytes: int

    def slice(self, start: int, stop: int) -> Bytes:
        """The stored bytes of rows start to stop, without a copy where they lie together."""
        part, row = self.part[start:stop], self.row[start:stop]
        first = self.parts[part[0]]
        if (part == part[0]).all() and (np.diff(row) == 1).all():
            together: Bytes = first[row[0] : row[-1] + 1]
            return together
        gathered = np.empty((stop - start, self.row_bytes), dtype=np.uint8)
        for place, stored in enumerate(self.parts):
            of_part = part == place
            gathered[of_part] = stored[row[of_part]]
        return gathered


def stored_rows(entry: Entry, checkpoint: Checkpoint) -> StoredRows:
    """The rows of an entry. A vector's rows are its values, decoded to f32."""
    parts = [_part(entry, leaf, checkpoint) for leaf in _leaves(entry.recipe)]
    part, row, used = _places(entry.recipe, 0, [len(rows) for rows in parts])
    assert used == len(parts)
    assert len(row) == entry.shape[0], f"{entry.name}: the recipe gives {len(row)} rows, not {entry.shape[0]}"
    return StoredRows(parts=tuple(parts), part=part, row=row, row_bytes=parts[0].shape[1])


def _part(entry: Entry, leaf: Key | Quantized, checkpoint: Checkpoint) -> Bytes:
    if isinstance(leaf, Quantized):
        return quantized_rows(leaf, entry.format, entry.shape[1], checkpoint)
    stored = checkpoint.tensors[leaf.key]
    if (stored.format, entry.format) == ("f32", "bf16"):
        return _high_halves(raw(checkpoint, leaf.key).reshape(stored.shape[0], -1), leaf.key)
    assert stored.format == entry.format, f"{entry.name}: {leaf.key} is stored as {stored.format}, not {entry.format}"
    if entry.layout == "vector":
        return decode(raw(checkpoint, leaf.key), stored.format).reshape(-1, 1).view(np.uint8)
    assert stored.shape[1:] == entry.shape[1:], f"{entry.name}: {leaf.key} is {stored.shape}, not {entry.shape}"
    return raw(checkpoint, leaf.key).reshape(stored.shape[0], -1)


def _high_halves(rows: Bytes, name: str) -> Bytes:
    """The bf16 values of rows of f32 that are no others."""
    halves = rows.view("<u2")
    assert not halves[:, ::2].any(), f"{name}: its values are not those of bf16"
    return np.ascontiguousarray(halves[:, 1::2]).view(np.uint8)


def _leaves(recipe: Recipe) -> tuple[Key | Quantized, ...]:
    """What the recipe reads, from left to right; a tensor that occurs twice is listed twice."""
    match recipe:
        case Key() | Quantized():
            return (recipe,)
        case Unpermute():
            return _leaves(recipe.of)
        case Concat():
            return tuple(leaf for part in recipe.parts for leaf in _leaves(part))
        case _:
            assert_never(recipe)


def _places(recipe: Recipe, first: int, n_rows: list[int]) -> tuple[Places, Places, int]:
    """Part and row of each row of the recipe, whose parts are counted from `first` on; and the next part's number."""
    match recipe:
        case Key() | Quantized():
            rows = np.arange(n_rows[first], dtype=np.int64)
            return np.full(len(rows), first, dtype=np.int64), rows, first + 1
        case Unpermute():
            part, row, after = _places(recipe.of, first, n_rows)
            order = np.arange(len(row)).reshape(recipe.heads, -1, 2).swapaxes(1, 2).reshape(-1)
            return part[order], row[order], after
        case Concat():
            pairs = []
            for of in recipe.parts:
                part, row, first = _places(of, first, n_rows)
                pairs.append((part, row))
            return np.concatenate([p for p, _ in pairs]), np.concatenate([r for _, r in pairs]), first
        case _:
            assert_never(recipe)
