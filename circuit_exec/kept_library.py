"""What was made of the library before, kept in the cache: parsed rules, families, devices, checked proofs.

It is pickled, as Python keeps its own compiled modules, piece by piece, so that a command reads what it asks for and
no more. It is read with care: the entry's hash is compared, and nothing is called or imported but the records of
`circuit`, sets, and what makes a record of its fields. Its key is of the program and the library, so it cannot be out
of date; a piece that cannot be read is made anew.
"""

import io
import pickle
from collections.abc import Hashable
from contextlib import suppress
from enum import Enum

from msgspec import Struct

from circuit.errors import RunError
from circuit.load.inputs import Library
from circuit_exec.cache import Cache, entry_path, key_of, read_checked, remove_oldest, used, write_checked

KIND = "library"
MOST_BYTES = 64 << 20
_BUILT_IN = (("builtins", "frozenset"), ("builtins", "set"), ("msgspec._utils", "rebuild"))
"""What may stand in a piece besides records; the last makes a record of its fields by name."""


class KeptLibrary:
    """The library with what is kept of it, by the program of that key."""

    def __init__(self, library: Library, cache: Cache, program: str) -> None:
        self.library = Library(library.files, self._piece)
        self._path = entry_path(cache, KIND, key_of(KIND, program))
        self._pieces = self._read()
        self._given: set[Hashable] = set()

    def _read(self) -> dict[str, bytes]:
        """Every piece by its name; none of an entry that somebody else wrote, where anything may be wrong."""
        body = read_checked(self._path)
        if body is None:
            return {}
        used(self._path)
        with suppress(Exception):
            found = _Reader(io.BytesIO(body)).load()
            if isinstance(found, dict) and all(isinstance(p, bytes) for p in found.values()):
                return found
        return {}

    def _piece(self, what: Hashable) -> tuple[object] | None:
        with suppress(Exception):
            value = _Reader(io.BytesIO(self._pieces[_name(what)])).load()
            self._given.add(what)
            return (value,)
        return None

    def keep(self) -> None:
        """Writes what was made since, where the program was not edited meanwhile, of which the caller makes sure; a
        cache that cannot be written costs time and no more."""
        new = {_name(what): value for what, value in self.library.made.items() if what not in self._given}
        if not new:
            return
        pieces = self._pieces | {name: pickle.dumps(value, protocol=5) for name, value in new.items()}
        with suppress(RunError):
            write_checked(self._path, pickle.dumps(pieces, protocol=5))
            remove_oldest(self._path.parent, MOST_BYTES)


def _name(what: Hashable) -> str:
    """The name of a piece: records, numbers and texts are written alike wherever they are equal."""
    return key_of(repr(what))


class _Reader(pickle.Unpickler):
    """Reads records of `circuit`, of what Python has built in, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in _BUILT_IN:
            return super().find_class(module, name)
        if module.startswith("circuit."):
            found = super().find_class(module, name)
            if isinstance(found, type) and issubclass(found, Struct | Enum):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no record")
