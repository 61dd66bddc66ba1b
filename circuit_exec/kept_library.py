"""What was made of the library before, kept in the cache: parsed rules, families, devices, checked proofs.

It is pickled, as Python keeps its own compiled modules, and read with care: the entry's hash is compared, and nothing
is called or imported but the records of `circuit`. Its key is of the program and the library, so it cannot be out of
date; one that cannot be read is made anew.
"""

import io
import pickle
from contextlib import suppress
from dataclasses import is_dataclass
from enum import Enum

from circuit.errors import RunError
from circuit.load.inputs import Library
from circuit_exec.cache import Cache, entry_path, key_of, read_checked, remove_oldest, used, write_checked
from circuit_exec.program_key import program_key

KIND = "library"
MOST_BYTES = 64 << 20


class KeptLibrary:
    """The library with what is kept of it. `scope` says what for, so that no command reads what is made for others."""

    def __init__(self, library: Library, cache: Cache, scope: str) -> None:
        self.library = library
        self._key = program_key(library)
        self._path = entry_path(cache, KIND, key_of(KIND, self._key, scope))
        body = read_checked(self._path)
        if body is not None:
            used(self._path)
            with suppress(Exception):  # of an entry that somebody else wrote, anything may be wrong
                library.made.update(_Reader(io.BytesIO(body)).load())
        self._n_kept = len(library.made)

    def keep(self) -> None:
        """Writes what was made since; a cache that cannot be written costs time and no more."""
        if len(self.library.made) == self._n_kept or program_key(self.library) != self._key:
            return  # nothing is new, or the program was edited meanwhile
        with suppress(RunError):
            write_checked(self._path, pickle.dumps(self.library.made, protocol=5))
            remove_oldest(self._path.parent, MOST_BYTES)


class _Reader(pickle.Unpickler):
    """Reads records of `circuit`, of what Python has built in, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        if module == "builtins" and name in ("frozenset", "set"):
            return super().find_class(module, name)
        if module.startswith("circuit."):
            found = super().find_class(module, name)
            if isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum)):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no record")
