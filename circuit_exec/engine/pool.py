"""The KV pages of an engine: free ones, those of running choices, and full pages that are kept by what they hold.

What stands on a page depends on the model and on every token up to its last position, and on nothing else: not on
rows, chunks or threads (the certificate of the plan says which test shows it). So full pages hang in a tree: a page is
found under the page before it and its own 64 tokens, the first one under the model's fingerprint. Whoever begins with
the same tokens takes the same pages, without a copy. A page in the tree is full and never written again.

A page that nobody uses stays until its room is needed: the one whose last use is longest ago goes first, from the ends
of the tree; a page counts as used when the last page behind it goes.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from circuit.emit.layout import PAGE

Key = tuple[int | str, bytes]


class Kept:
    """A full page in the tree: `users` are the choices that hold it and so every page before it."""

    __slots__ = ("before", "behind", "key", "number", "page", "users")

    def __init__(self, key: Key, number: int, page: int, before: "Kept | None") -> None:
        self.key, self.number, self.page, self.before = key, number, page, before
        self.users = 1
        self.behind = 0


class Pool:
    """`fingerprint`: of the model that fills the pages. Without `keeps` a page is free as soon as its choice ends."""

    def __init__(self, n_pages: int, fingerprint: str, keeps: bool) -> None:
        self.n_pages = n_pages
        self._fingerprint = fingerprint
        self._keeps = keeps
        self._free = list(range(n_pages - 1, -1, -1))  # taken from the end: low numbers first
        self._tree: dict[Key, Kept] = {}
        self._ends: OrderedDict[Kept, None] = OrderedDict()  # unused, with nothing behind; the first one goes first
        self._unused = 0
        self._numbers = 0

    def free(self) -> int:
        """Pages that can be taken: those of nobody, and those that are only kept."""
        return len(self._free) + self._unused

    def kept(self) -> int:
        """Pages that are only kept."""
        return self._unused

    def find(self, tokens: NDArray[np.int32]) -> list[Kept]:
        """The kept pages that `tokens` begin with, from the first on; they leave at least one token to compute."""
        found: list[Kept] = []
        for first in range(0, (len(tokens) - 1) // PAGE * PAGE, PAGE):
            kept = self._tree.get(self._key(found, tokens[first : first + PAGE]))
            if kept is None:
                break
            found.append(kept)
        return found

    def hold(self, path: Sequence[Kept]) -> None:
        """A choice uses the pages of a path from the tree's root."""
        for kept in path:
            if kept.users == 0:
                self._unused -= 1
                self._ends.pop(kept, None)
            kept.users += 1

    def take(self) -> int | None:
        """A page to write to; None if every page is held."""
        if not self._free and not self._drop():
            return None
        return self._free.pop()

    def keep(self, path: list[Kept], tokens: NDArray[np.int32], page: int) -> int:
        """Puts a full page behind a path that its choice holds, which then holds it too; gives the page to read.

        That is another one where an equal page is there already: then `page` is free.
        """
        if not self._keeps:
            return page
        key = self._key(path, tokens)
        kept = self._tree.get(key)
        if kept is None:
            self._numbers += 1
            kept = Kept(key, self._numbers, page, path[-1] if path else None)
            self._tree[key] = kept
            if path:
                path[-1].behind += 1
        else:
            self.hold((kept,))
            self._free.append(page)
        path.append(kept)
        return kept.page

    def release(self, path: Sequence[Kept], own: Sequence[int]) -> None:
        """A choice gives up a path, and the pages that only it had."""
        self._free.extend(reversed(own))
        for kept in reversed(path):
            kept.users -= 1
            if kept.users == 0:
                self._unused += 1
                if kept.behind == 0:
                    self._ends[kept] = None

    def _drop(self) -> bool:
        """Frees the kept page whose use is longest ago, if there is one."""
        if not self._ends:
            return False
        kept, _ = self._ends.popitem(last=False)
        del self._tree[kept.key]
        self._unused -= 1
        self._free.append(kept.page)
        before = kept.before
        if before is not None:
            before.behind -= 1
            if before.behind == 0 and before.users == 0:
                self._ends[before] = None
        return True

    def _key(self, path: Sequence[Kept], tokens: NDArray[np.int32]) -> Key:
        assert tokens.dtype == np.int32, tokens.dtype
        assert len(tokens) == PAGE, len(tokens)
        return (path[-1].number if path else self._fingerprint, tokens.tobytes())
