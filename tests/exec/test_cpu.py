"""One step of several sequences, and everything that is checked before a step."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from circuit.emit.runtime import GREEDY, MAIN, SAMPLE
from circuit.errors import RunError
from circuit_exec.cache import Cache
from circuit_exec.cpu import Program, open_library
from circuit_exec.memory import allocate
from circuit_exec.step import Draw, Rows
from tests.exec import small

TABLES = np.array([[3, 0, 0], [5, 1, 0]], np.int32)
TWO = Rows(
    mode="decode",
    tokens=[4, 9, 5],
    positions=[0, 0, 1],
    sequences=[0, 1, 0],
    page_tables=TABLES,
    logit_rows=[2, 1],
    section=GREEDY,
)

DRAW = Draw(temperature=1.0, top_p=1.0, seed=1, choice=0, position=1)


@pytest.fixture(scope="module")
def program(cache: Cache) -> Program:
    return small.program(cache, 2)


def test_rows_of_two_sequences_do_not_mix(program: Program) -> None:
    program.step(TWO)
    np.testing.assert_array_equal(program.logits(), np.outer([9.0, 9.0], small.WEIGHT))
    assert program.drawn(GREEDY).tolist() == [9, 9]
    program.step(replace(TWO, tokens=[1, 2], positions=[2, 1], sequences=[0, 1], logit_rows=[0, 1]))
    np.testing.assert_array_equal(program.logits(), np.outer([10.0, 11.0], small.WEIGHT))


def test_a_step_without_logit_rows_leaves_no_logits(program: Program) -> None:
    program.step(replace(TWO, logit_rows=[], section=MAIN))
    assert program.logits().shape == (0, len(small.WEIGHT))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (replace(TWO, tokens=[4, -1, 5]), "token id -1 is outside 0 to 31"),
        (replace(TWO, tokens=[4, 2**40, 5]), "token id 1099511627776 is outside 0 to 31"),
        (replace(TWO, positions=[0, 0, 150]), "position 150 is outside 0 to 149"),
        (replace(TWO, sequences=[0, 2, 0]), "sequence 2 is outside 0 to 1"),
        (replace(TWO, page_tables=TABLES + 3), "page 8 is outside 0 to 7"),
        (replace(TWO, logit_rows=[3]), "logit row 3 is outside 0 to 2"),
        (
            replace(TWO, section=SAMPLE, draws=[replace(DRAW, position=150 + 1), DRAW]),
            f"position to draw for {150 + 1} is outside 0 to {150}",
        ),
    ],
)
def test_a_value_out_of_bounds_is_refused_before_the_step(program: Program, rows: Rows, expected: str) -> None:
    with pytest.raises(RunError) as caught:
        program.step(rows)
    assert caught.value.problems[0].message == expected


def test_threads_that_the_system_does_not_give_are_refused(cache: Cache) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), hard))
    try:
        with pytest.raises(RunError) as caught:
            small.program(cache, 64)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert str(caught.value) == "error: the system gives no 64 threads\n  = fix: ask for fewer with --threads"


def test_memory_that_the_system_does_not_give_is_refused() -> None:
    with pytest.raises(RunError) as caught:
        allocate(1 << 60, "the cache of keys and values")
    assert str(caught.value) == (
        "error: there is no memory for the cache of keys and values: 1152921504606846976 bytes\n"
        "  = fix: end other programs, or ask for a shorter context or fewer sequences"
    )


def test_memory_is_aligned_and_zero() -> None:
    made = allocate(100_000, "a test")
    assert made.ctypes.data % 4096 == 0
    assert not made.any()


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    path = tmp_path / "program.so"
    path.write_bytes(b"no library")
    with pytest.raises(RunError, match="the compiled program cannot be loaded: ") as caught:
        open_library(path)
    assert caught.value.problems[0].file == str(path)
    assert caught.value.problems[0].fix == "remove the file, and it is compiled again"
