"""Compiled kernels with teams of threads that run them one launch at a time."""

import ctypes
from pathlib import Path

from circuit.emit.runtime import ABI
from circuit.errors import Problem, RunError
from circuit_exec.cpu import Arguments, open_library
from circuit_exec.prove.random_words import Words

THREADS = (1, 2)


class Team:
    """The compiled kernels with a team of threads for each number of them."""

    def __init__(self, library: Path) -> None:
        self._library = open_library(library)
        self._teams: dict[int, int] = {}

    def __enter__(self) -> "Team":
        for n in THREADS:
            team = self._library.met_open(n)
            if team is None:
                self.__exit__()
                raise RunError(Problem(message=f"the system gives no {n} threads", fix="end other programs"))
            self._teams[n] = team
        return self

    def __exit__(self, *_: object) -> None:
        for team in self._teams.values():
            self._library.met_close(team)

    def run(self, number: int, rows: int, arrays: dict[int, Words], n_threads: int) -> None:
        """One launch; `arrays` are by slot."""
        pointers = (ctypes.c_void_p * (max(arrays) + 1))()
        for slot, array in arrays.items():
            pointers[slot] = array.ctypes.data
        arguments = Arguments(abi=ABI, plan=number, n=rows, m=rows, n_sequences=2)
        arguments.states = ctypes.cast(pointers, ctypes.c_void_p)
        status = self._library.met_step(self._teams[n_threads], ctypes.byref(arguments))
        assert status == 0, f"the program has ABI {status}, the executor {ABI}"
