"""The measurement: what it counts as read, and that its figures fit together."""

import ctypes

import numpy as np
import pytest

from circuit.emit.derive import layout
from circuit.emit.probe import emit_read_probe
from circuit.emit.runtime import ABI
from circuit.errors import RunError
from circuit_exec.bench import bench
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.cpu import Arguments, open_library
from circuit_exec.kv import Pages
from circuit_exec.memory import address
from tests.emit.small import COLUMNS, PAGES
from tests.exec import small


def test_a_decode_step_reads_its_weights_and_the_positions_so_far(cache: Cache) -> None:
    program = small.program(cache, 2)
    done: list[float] = []
    measured = bench(
        program, Pages(PAGES), cache, lambda what, part: done.append(part), n_prefill=100, n_before=10, n_decode=20,
        rounds=3,
    )  # fmt: skip
    program.close()
    assert layout(small.PLANS).read_bytes == 4 * COLUMNS
    assert measured.decode_bytes == 4 * COLUMNS + 8 * (11 + 30) / 2  # a position has one key and one value
    assert measured.share == measured.decode_bytes * measured.decode / measured.bandwidth
    assert measured.decode_range[0] <= measured.decode <= measured.decode_range[1]
    assert 1e8 < measured.bandwidth < 1e13
    assert done[-1] == 1.0


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_probe_reads_every_byte_once(cache: Cache, n_threads: int) -> None:
    library = open_library(build(emit_read_probe(), cache, lambda what, part: None))
    memory = np.random.default_rng(5).integers(0, 2**64, (3 << 20) // 8, np.uint64)
    sums = np.zeros(64 * n_threads, np.uint8)
    team = library.met_open(n_threads)
    arguments = Arguments(abi=ABI, n=3, arena=address(sums), weights=address(memory))
    library.met_step(team, ctypes.byref(arguments))
    library.met_close(team)
    assert sums.view(np.uint64)[::8].sum(dtype=np.uint64) == memory.sum(dtype=np.uint64)


def test_a_context_that_is_too_short_is_refused(cache: Cache) -> None:
    program = small.program(cache, 1)
    with pytest.raises(RunError) as caught:
        bench(program, Pages(PAGES), cache, lambda what, part: None)
    program.close()
    assert caught.value.problems[0].message == "the prompt has 512 tokens, the context is 150"
