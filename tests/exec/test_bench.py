"""The measurement: what it counts as read, and that its figures fit together."""

import ctypes

import numpy as np
import pytest

from circuit.emit.derive import layout
from circuit.emit.probe import emit_read_probe
from circuit.emit.runtime import ABI, GREEDY
from circuit.errors import RunError
from circuit_exec.bench import WORKS, Work, bench, prepared
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.cpu import Arguments, open_library
from circuit_exec.kv import Pages
from circuit_exec.memory import address
from cli.bench import WorkName
from tests.emit.small import COLUMNS, PAGES, VOCAB
from tests.exec import small

PREFILL = Work(name="prefill", mode="prefill", n_sequences=1, n_before=0, n_tokens=100)
DECODE = Work(name="decode", mode="decode", n_sequences=1, n_before=10, n_tokens=20)
TOGETHER = Work(name="together", mode="decode", n_sequences=2, n_before=10, n_tokens=20)


def test_a_decode_step_reads_its_weights_and_the_positions_so_far(cache: Cache) -> None:
    program = small.program(cache, 2)
    done: list[float] = []
    measured = bench(
        program, Pages(PAGES), cache, lambda what, part: done.append(part), (PREFILL, DECODE, TOGETHER), rounds=3
    )
    program.close()
    prefill, decode, together = measured.rates
    assert layout(small.PLANS).read_bytes == 4 * COLUMNS
    assert (prefill.step_bytes, prefill.share) == (0.0, 0.0)
    assert decode.step_bytes == 4 * COLUMNS + 8 * (11 + 30) / 2  # a position has one key and one value
    assert together.step_bytes == 4 * COLUMNS + 2 * 8 * (11 + 30) / 2
    assert decode.share == decode.step_bytes * decode.tok_s / measured.bandwidth
    assert together.share == together.step_bytes * together.tok_s / 2 / measured.bandwidth
    assert decode.tok_s_range[0] <= decode.tok_s <= decode.tok_s_range[1]
    assert 1e8 < measured.bandwidth < 1e13
    assert done[-1] == 1.0


def test_a_work_does_the_same_each_time_and_gives_its_pages_back(cache: Cache) -> None:
    program, pages = small.program(cache, 2), Pages(PAGES)
    with prepared(program, pages, TOGETHER) as run:
        assert pages.free() == PAGES - 2
        found = [(run() > 0, program.drawn(GREEDY).tolist(), program.logits().tolist()) for _ in range(2)]
    program.close()
    prompt = [(i * 7919 + 13) % VOCAB for i in range(10)]
    last = small.greedy(prompt, 21)[-1]
    assert found[0] == found[1]
    assert found[0][:2] == (True, [last, last])
    assert pages.free() == PAGES


def test_every_named_work_is_one_of_the_command() -> None:
    assert [work.name for work in WORKS] == list(WorkName)


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


def test_more_sequences_than_a_step_has_rows_are_refused(cache: Cache) -> None:
    program = small.program(cache, 1)
    many = Work(name="decode_many", mode="decode", n_sequences=1000, n_before=1, n_tokens=1)
    with pytest.raises(RunError) as caught:
        bench(program, Pages(PAGES), cache, lambda what, part: None, (many,))
    program.close()
    most = program.max_rows("decode")
    assert caught.value.problems[0].message == (
        f"decode_many decodes 1000 sequences at once, a decode step has 1 to {most} rows"
    )
