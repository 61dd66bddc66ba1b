"""A compiled program in this process: its memory, its threads, and one call for one step."""

import ctypes
import time
from itertools import accumulate
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from circuit.emit.layout import ARRAYS, Layout, Step
from circuit.emit.runtime import ABI, GREEDY, HIDDEN, N_SECTIONS, SAMPLE, SCORE
from circuit.errors import Problem, RunError
from circuit_exec.memory import address, allocate
from circuit_exec.step import Arrays, Rows, Sampler, arrays_of

LOGITS = "head.logits"
LEAVES = {GREEDY: "head.token", SAMPLE: "head.sampled", SCORE: "head.log_sum", HIDDEN: "head.hidden"}
"""The edge that a section leaves."""

CHECKED = {
    "tokens": ("token id", "use the tokenizer of this checkpoint"),
    "positions": ("position", "end the sequence where the context ends"),
    "sequences": ("sequence", "use the rows of this step's page tables"),
    "page_tables": ("page", "use the pages of this model's pool"),
    "logit_rows": ("logit row", "use the rows of this step"),
    "sample_positions": ("position to draw for", "end the sequence where the context ends"),
}
"""Step inputs that address something: what an element is called, and what to do when it is out of bounds."""


class Arguments(ctypes.Structure):
    """`met_args` of circuit/emit/runtime.py."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("abi", "plan", "n", "m", "n_sequences")),
        ("sections", ctypes.c_int32 * (2 * N_SECTIONS)),
        *((name, ctypes.c_void_p) for name in (*ARRAYS, "arena", "weights", "states")),
    )


class Program:
    """A loaded library with its arena, KV pool and threads. `weights` are the baked bytes; they are only read."""

    def __init__(self, library: Path, layout: Layout, weights: NDArray[np.uint8], n_threads: int, n_pages: int) -> None:
        self.layout = layout
        self.n_threads = n_threads
        self.n_pages = n_pages
        self._weights = weights
        self._arena = allocate(layout.arena_bytes, "the arena")
        self._states = _states(layout, n_pages)
        self._inputs = {given.name: given for given in layout.inputs}
        self._library = open_library(library)
        self._bases = (ctypes.c_void_p * max(len(self._states), 1))(*(state.ctypes.data for state in self._states))
        self._addresses = (address(self._arena), address(weights), ctypes.cast(self._bases, ctypes.c_void_p))
        self._last: tuple[int, Step, int, int] | None = None  # place, plan, rows, rows of `logit_rows`
        self.ran_s = 0.0  # in the library, since the start
        self._step = Lock()
        self._team: int | None = self._library.met_open(n_threads)
        if self._team is None:
            raise RunError(
                Problem(message=f"the system gives no {n_threads} threads", fix="ask for fewer with --threads")
            )

    def max_rows(self, mode: str) -> int:
        """The most rows that one step of a mode can have."""
        return max(step.rows[1] for step in self.layout.steps if step.mode == mode)

    def step(self, rows: Rows) -> None:
        """Runs one step, after checking every value that addresses something. `logits` reads what it left behind."""
        assert rows.section != SAMPLE or len(rows.draws) == len(rows.logit_rows), "a drawn token needs a draw"
        self.run(arrays_of(rows))

    def run(self, given: Arrays) -> None:
        """The same of arrays: for who makes many steps."""
        n, m = len(given.tokens), given.n_logits
        place, step = self.plan_for(given.mode, n)
        tables = np.ascontiguousarray(given.page_tables, np.int32)
        assert tables.shape[1] == self.layout.table_width, f"page tables have shape {tables.shape}"
        assert len(given.positions) == len(given.sequences) == n, "a row needs a token, a position and a sequence"
        hidden = given.sections[2 * HIDDEN + 1]
        assert m + hidden == len(given.logit_rows), f"{m} rows with logits and {hidden} hidden ones are not the rows"
        assert m + hidden <= n, f"{m + hidden} rows with logits or hidden are more than the {n} rows: the arena ends"
        self._bounded("tokens", given.tokens, 2**31 - 1)
        self._bounded("positions", given.positions, self.layout.context - 1)
        self._bounded("sequences", given.sequences, len(tables) - 1)
        self._bounded("page_tables", tables, self.n_pages - 1)
        self._bounded("logit_rows", given.logit_rows, n - 1)
        arrays = {
            "tokens": np.ascontiguousarray(given.tokens, np.int32),
            "positions": np.ascontiguousarray(given.positions, np.int32),
            "sequences": np.ascontiguousarray(given.sequences, np.int32),
            "page_tables": tables,
            "logit_rows": np.ascontiguousarray(given.logit_rows, np.int32),
        }
        self._call(place, n, m, len(tables), given.sections, given.sampler, arrays)
        self._last = (place, step, n, len(given.logit_rows))

    def again(self, sections: tuple[int, ...], sampler: Sampler) -> None:
        """Runs sections alone, on the logits that the last step left, or on what was made of them."""
        assert self._last is not None, "no step has run"
        place, _, _, m = self._last
        self._call(place, 0, m, 0, sections, sampler, {})

    def _call(
        self,
        plan: int,
        n: int,
        m: int,
        n_sequences: int,
        sections: tuple[int, ...],
        sampler: Sampler,
        arrays: dict[str, NDArray[np.int32]],
    ) -> None:
        assert self._team is not None, "the program is closed"
        drawn = sections[2 * SAMPLE + 1]
        assert drawn == len(sampler.positions), f"{drawn} rows are drawn for, {len(sampler.positions)} draws are given"
        self._bounded("sample_positions", sampler.positions, self.layout.context)
        given: dict[str, NDArray[np.generic]] = {
            **arrays,
            "temperature": np.ascontiguousarray(sampler.temperature, np.float32),
            "top_p": np.ascontiguousarray(sampler.top_p, np.float32),
            "seeds": np.ascontiguousarray(sampler.seeds, np.uint32),
            "choices": np.ascontiguousarray(sampler.choices, np.uint32),
            "sample_positions": np.ascontiguousarray(sampler.positions, np.int32),
        }
        arguments = Arguments(
            ABI,
            plan,
            n,
            m,
            n_sequences,
            sections,
            *(given[name].__array_interface__["data"][0] if name in given else None for name in ARRAYS),
            *self._addresses,
        )
        assert self._step.acquire(blocking=False), "two threads make steps of one program"
        try:
            started = time.perf_counter()
            status: int = self._library.met_step(self._team, ctypes.byref(arguments))
            self.ran_s += time.perf_counter() - started
        finally:
            self._step.release()
        assert status == 0, f"the program has ABI {status}, the executor {ABI}"

    def logits(self) -> NDArray[np.float32]:
        """[logit rows, vocabulary] of the last step: a view, valid until the next step; `again` reads what is written
        to it.
        """
        return self._output(LOGITS).view(np.float32)

    def drawn(self, section: int) -> NDArray[np.int32]:
        """[logit rows] the tokens that a section of the last step chose: a view, valid until the next step."""
        return self._output(LEAVES[section]).view(np.int32)[:, 0]

    def left(self, section: int) -> NDArray[np.float32]:
        """[logit rows, columns] the numbers that a section of the last step left: a view, valid until the next step."""
        return self._output(LEAVES[section]).view(np.float32)

    def close(self) -> None:
        """Ends the threads. Closing twice is fine."""
        if self._team is not None:
            self._library.met_close(self._team)
            self._team = None

    def plan_for(self, mode: str, n_rows: int) -> tuple[int, Step]:
        """The place of the plan that runs a step of so many rows, and what the layout says of it."""
        for place, step in enumerate(self.layout.steps):
            if step.mode == mode and step.rows[0] <= n_rows <= step.rows[1]:
                return place, step
        raise AssertionError(f"the program has no plan of mode {mode} for {n_rows} rows")

    def words(self, offset_bytes: int, rows: int, stride: int, columns: int) -> NDArray[np.uint32]:
        """[rows, columns] words of the arena, `stride` words from row to row: a view, valid until the next step."""
        end = offset_bytes + 4 * ((rows - 1) * stride + columns) if rows else offset_bytes
        first = self._arena[offset_bytes:end].view(np.uint32)
        return np.lib.stride_tricks.as_strided(first, (rows, columns), (4 * stride, 4), writeable=False)

    def page(self, state: int, page: int) -> NDArray[np.uint32]:
        """The words of one page of a state: a view."""
        n_bytes = 4 * self.layout.states[state].page_words
        return self._states[state][page * n_bytes : (page + 1) * n_bytes].view(np.uint32)

    def _output(self, edge: str) -> NDArray[np.uint8]:
        assert self._last is not None, "no step has run"
        _, step, n, m = self._last
        found = next((output for output in step.outputs if output.edge == edge), None)
        assert found is not None, f"no step leaves an edge {edge}"
        n_rows = n if found.rows == "n" else m
        data = self._arena[found.offset_bytes : found.offset_bytes + n_rows * found.columns * 4]
        return data.reshape(n_rows, found.columns * 4)

    def _bounded(self, name: str, values: NDArray[np.int32] | NDArray[np.int64], last: int) -> None:
        """Refuses a value that is negative, above `last` or outside what the kernels declare."""
        if not values.size:
            return
        declared = self._inputs.get(name)
        lo, hi = (0, last) if declared is None else (max(0, declared.lo), min(last, declared.hi))
        if lo == 0 and values.dtype == np.int32 and int(values.view(np.uint32).max()) <= hi:
            return  # a negative number is a large one here
        least, most = int(values.min()), int(values.max())
        outside = least if least < lo else most
        if not lo <= outside <= hi:
            what, fix = CHECKED[name]
            raise RunError(Problem(message=f"{what} {outside} is outside {lo} to {hi}", fix=fix))


def _states(layout: Layout, n_pages: int) -> list[NDArray[np.uint8]]:
    """The pool of each state, [pages * bytes of a page], all in one piece: one alone is often less than a huge page."""
    sizes = [n_pages * room.page_words * 4 for room in layout.states]
    ends = list(accumulate(sizes))
    whole = allocate(ends[-1] if ends else 0, "the cache of keys and values")
    return [whole[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def open_library(path: Path) -> ctypes.CDLL:
    """The functions of a compiled program."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise RunError(
            Problem(
                message=f"the compiled program cannot be loaded: {error}",
                fix="remove the file, and it is compiled again",
                file=str(path),
            )
        ) from error
    library.met_abi.restype = ctypes.c_int32
    library.met_open.restype = ctypes.c_void_p
    library.met_open.argtypes = [ctypes.c_int32]
    library.met_close.restype = None
    library.met_close.argtypes = [ctypes.c_void_p]
    library.met_step.restype = ctypes.c_int32
    library.met_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(Arguments)]
    return library
