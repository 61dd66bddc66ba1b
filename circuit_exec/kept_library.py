"""What was made of the library before, kept in the cache: parsed rules, families, devices, checked proofs, models that
a report had compiled.

It stands piece by piece, so that a command reads what it asks for and no more: what all models share in one entry, a
compiled model in an entry of its own. The keys are of the program and the library, so nothing can be out of date; a
piece that cannot be read is made anew.
"""

from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path

from circuit.compiled import COMPILED
from circuit.errors import RunError
from circuit.load.inputs import Library
from circuit_exec.cache import Cache, entry_path, key_of, read_checked, remove_oldest, used, write_checked
from circuit_exec.pickled import pickled, unpickled

KIND = "library"
MOST_BYTES = 64 << 20
"""Of each kind."""


class KeptLibrary:
    """The library with what is kept of it, by the program of that key."""

    def __init__(self, library: Library, cache: Cache, program: str) -> None:
        self.library = Library(library.files, self._piece)
        self._cache, self._program = cache, program
        self._path = entry_path(cache, KIND, key_of(KIND, program))
        self._pieces = self._read()
        self._given: set[Hashable] = set()

    def _read(self) -> dict[str, bytes]:
        """Every shared piece by its name; none of an entry that somebody else wrote, where anything may be wrong."""
        with suppress(ValueError):
            found = unpickled(self._body(self._path))
            if isinstance(found, dict) and all(isinstance(p, bytes) for p in found.values()):
                return found
        return {}

    def _piece(self, what: Hashable) -> tuple[object] | None:
        with suppress(ValueError, KeyError):
            value = unpickled(self._body(self._own(what)) if _stands_alone(what) else self._pieces[_name(what)])
            self._given.add(what)
            return (value,)
        return None

    def _body(self, path: Path) -> bytes:
        body = read_checked(path)
        if body is not None:
            used(path)
        return body or b""  # nothing is no pickled value

    def _own(self, what: Hashable) -> Path:
        """The entry of a piece that stands alone."""
        return entry_path(self._cache, COMPILED, key_of(COMPILED, self._program, repr(what)))

    def keep(self) -> None:
        """Writes what was made since, where the program was not edited meanwhile, of which the caller makes sure; a
        cache that cannot be written costs time and no more."""
        new = {what: value for what, value in self.library.made.items() if what not in self._given}
        shared = {_name(what): pickled(value) for what, value in new.items() if not _stands_alone(what)}
        with suppress(RunError):
            for what, value in new.items():
                if _stands_alone(what):
                    _write(self._own(what), pickled(value))
            if shared:
                _write(self._path, pickled(self._pieces | shared))


def _write(path: Path, body: bytes) -> None:
    write_checked(path, body)
    remove_oldest(path.parent, MOST_BYTES)


def _stands_alone(what: Hashable) -> bool:
    """Whether a piece is of one model, and large."""
    return isinstance(what, tuple) and what[0] == COMPILED


def _name(what: Hashable) -> str:
    """The name of a piece: records, numbers and texts are written alike wherever they are equal."""
    return key_of(repr(what))
