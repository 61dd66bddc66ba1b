"""A compiled program in this process: its memory, its threads, and one call for one step."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from circuit.emit.layout import ARRAYS, Layout, Step
from circuit.emit.runtime import ABI, GREEDY, SAMPLE
from circuit.errors import Problem, RunError
from circuit_exec.memory import address, allocate

LOGITS = "head.logits"
DRAWN = {GREEDY: "head.token", SAMPLE: "head.sampled"}
"""The edge that a section leaves its tokens on."""

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
        *((name, ctypes.c_int32) for name in ("abi", "plan", "section", "n", "m", "n_sequences")),
        *((name, ctypes.c_void_p) for name in (*ARRAYS, "arena", "weights", "states")),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """What one step of a plan of `mode` computes: row i is token `tokens[i]` at `positions[i]` of a sequence, the one
    whose pages are row `sequences[i]` of `page_tables`. `logit_rows` are the rows that get logits; `draws` has one
    entry for each of them where the section draws tokens.
    """

    mode: str
    tokens: Sequence[int]
    positions: Sequence[int]
    sequences: Sequence[int]
    page_tables: NDArray[np.int32]
    logit_rows: Sequence[int]
    section: int
    draws: Sequence["Draw"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How one token is drawn; random numbers are addressed by (seed, choice, position) and the token.

    `temperature` is above 0, `top_p` above 0 and at most 1, `seed` has 64 bits; `position` is the drawn token's own.
    """

    temperature: float
    top_p: float
    seed: int
    choice: int
    position: int


class Program:
    """A loaded library with its arena, KV pool and threads. `weights` are the baked bytes; they are only read."""

    def __init__(self, library: Path, layout: Layout, weights: NDArray[np.uint8], n_threads: int, n_pages: int) -> None:
        self.layout = layout
        self.n_threads = n_threads
        self.n_pages = n_pages
        self._weights = weights
        self._arena = allocate(layout.arena_bytes, "the arena")
        self._states = [allocate(n_pages * room.page_words * 4, f"the cache {room.name}") for room in layout.states]
        self._inputs = {given.name: given for given in layout.inputs}
        self._library = open_library(library)
        self._bases = (ctypes.c_void_p * max(len(self._states), 1))(*(state.ctypes.data for state in self._states))
        self._last: tuple[Step, int, int] | None = None
        self._team: int | None = self._library.met_open(n_threads)
        if self._team is None:
            raise RunError(
                Problem(message=f"the system gives no {n_threads} threads", fix="ask for fewer with --threads")
            )

    def max_rows(self, mode: str) -> int:
        """The most rows that one step of a mode can have."""
        return max(step.rows[1] for step in self.layout.steps if step.mode == mode)

    def step(self, rows: Rows) -> None:
        """Runs one step, after checking every value that addresses something. `output` reads what it left behind."""
        assert self._team is not None, "the program is closed"
        place, step = self.plan_for(rows.mode, len(rows.tokens))
        arrays = self._checked(rows)
        arguments = Arguments(
            abi=ABI,
            plan=place,
            section=rows.section,
            n=len(rows.tokens),
            m=len(rows.logit_rows),
            n_sequences=len(rows.page_tables),
            arena=address(self._arena),
            weights=address(self._weights),
            states=ctypes.cast(self._bases, ctypes.c_void_p),
            **{name: address(array) for name, array in arrays.items()},
        )
        status: int = self._library.met_step(self._team, ctypes.byref(arguments))
        assert status == 0, f"the program has ABI {status}, the executor {ABI}"
        self._last = (step, len(rows.tokens), len(rows.logit_rows))

    def logits(self) -> NDArray[np.float32]:
        """[logit rows, vocabulary] of the last step: a view, valid until the next step."""
        return self._output(LOGITS).view(np.float32)

    def drawn(self, section: int) -> NDArray[np.int32]:
        """[logit rows] the tokens that a section of the last step chose: a view, valid until the next step."""
        return self._output(DRAWN[section]).view(np.int32)[:, 0]

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
        step, n, m = self._last
        found = next((output for output in step.outputs if output.edge == edge), None)
        assert found is not None, f"no step leaves an edge {edge}"
        n_rows = n if found.rows == "n" else m
        data = self._arena[found.offset_bytes : found.offset_bytes + n_rows * found.columns * 4]
        return data.reshape(n_rows, found.columns * 4)

    def _checked(self, rows: Rows) -> dict[str, NDArray[np.generic]]:
        """The arrays of a step. A value that would be out of bounds is refused by name."""
        n, tables = len(rows.tokens), np.ascontiguousarray(rows.page_tables, np.int32)
        assert tables.shape[1] == self.layout.table_width, f"page tables have shape {tables.shape}"
        assert len(rows.positions) == len(rows.sequences) == n, "a row needs a token, a position and a sequence"
        assert rows.section != SAMPLE or len(rows.draws) == len(rows.logit_rows), "a drawn token needs a draw"
        drawn_at = [draw.position for draw in rows.draws]
        self._bounded("tokens", rows.tokens, 2**31 - 1)
        self._bounded("positions", rows.positions, self.layout.context - 1)
        self._bounded("sequences", rows.sequences, len(tables) - 1)
        self._bounded("page_tables", (int(tables.min()), int(tables.max())), self.n_pages - 1)
        self._bounded("logit_rows", rows.logit_rows, n - 1)
        self._bounded("sample_positions", drawn_at, self.layout.context)
        return {
            "tokens": np.array(rows.tokens, np.int32),
            "positions": np.array(rows.positions, np.int32),
            "sequences": np.array(rows.sequences, np.int32),
            "page_tables": tables,
            "logit_rows": np.array(rows.logit_rows, np.int32),
            "temperature": np.array([draw.temperature for draw in rows.draws], np.float32),
            "top_p": np.array([draw.top_p for draw in rows.draws], np.float32),
            "seeds": np.array([(draw.seed & 0xFFFFFFFF, draw.seed >> 32) for draw in rows.draws], np.uint32),
            "choices": np.array([draw.choice for draw in rows.draws], np.uint32),
            "sample_positions": np.array(drawn_at, np.int32),
        }

    def _bounded(self, name: str, values: Sequence[int], last: int) -> None:
        """Refuses a value that is negative, above `last` or outside what the kernels declare."""
        if not values:
            return
        declared = self._inputs.get(name)
        lo, hi = (0, last) if declared is None else (max(0, declared.lo), min(last, declared.hi))
        outside = min(values) if min(values) < lo else max(values)
        if not lo <= outside <= hi:
            what, fix = CHECKED[name]
            raise RunError(Problem(message=f"{what} {outside} is outside {lo} to {hi}", fix=fix))


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
