"""What a certificate claims holds in every storage format of keys and values."""

from pathlib import Path

import numpy as np
import pytest

from circuit.formats import STATE_FORMATS
from circuit_exec.model import Model
from tests.bytes.running import Running, assert_equal_bytes, decoded, prefilled, prefilled_on, step, tokens, whole
from tests.cli.harness import met

PACKED = tuple(format for format in STATE_FORMATS if format != "f32")
NAMES = [
    *(pytest.param("llama", format, id=f"llama-{format}") for format in PACKED),  # keys turned where they are written
    pytest.param("qwen3", "int8", id="qwen3-int8"),  # and normed
    *(pytest.param("qwen3", format, id=f"qwen3-{format}", marks=pytest.mark.slow) for format in PACKED[:-1]),
]
every_format = pytest.mark.parametrize(("name", "format"), NAMES)


def opened(running: Running, name: str, format: str, n_threads: int = 2) -> Model:
    return running.model(name, n_threads, policy=(f"kv={format}",))


@every_format
def test_threads_chunks_and_steps_give_equal_bytes(running: Running, name: str, format: str) -> None:
    one, two, three = (opened(running, name, format, n) for n in (1, 2, 3))
    ids = tokens(one, 3)
    expected = prefilled(one, ids, whole(one))
    for model, chunk in ((two, 7), (three, 64), (two, 300)):
        assert_equal_bytes(prefilled(model, ids, chunk), expected)
    (found,) = decoded(two, [ids], [0], n_steps=290)  # over the end of a chunk and of pages
    assert_equal_bytes(found, expected[-290:])


@every_format
def test_pages_and_rows_in_any_order_give_equal_bytes(running: Running, name: str, format: str) -> None:
    model = opened(running, name, format)
    ids = tokens(model, 6)
    expected = prefilled(model, ids, whole(model))
    assert_equal_bytes(prefilled_on(model, ids, [3, 8, 0, 100, 2, 7, 50, 1, 99], 64), expected)
    sequences = [ids[: n + 4] for n in (0, 1, 63, 64, 254, 511)]
    together = decoded(model, sequences, [4, 0, 5, 2, 1, 3], n_steps=4)
    for found, given in zip(together, sequences, strict=True):
        assert_equal_bytes(found, expected[len(given) - 4 : len(given)])


@pytest.mark.parametrize(
    ("name", "format"),
    [pytest.param("llama", "bf16", id="llama-bf16", marks=pytest.mark.slow), *NAMES[:1], *NAMES[2:]],
)
def test_reference_rules_and_all_rules_give_equal_bytes(running: Running, name: str, format: str) -> None:
    fused = opened(running, name, format)
    single = running.model(name, rules="reference", policy=(f"kv={format}",))
    assert fused.planned.bytes_digest == single.planned.bytes_digest
    ids = tokens(fused, 8)
    assert_equal_bytes(prefilled(single, ids, whole(single)), prefilled(fused, ids, whole(fused)))


def test_formats_give_different_bytes_and_digests(running: Running) -> None:
    models = [running.model("llama"), *(opened(running, "llama", format) for format in PACKED)]
    assert len({model.planned.bytes_digest for model in models}) == len(models)
    ids = tokens(models[0], 9, 70)
    found = [prefilled(model, ids, whole(model)) for model in models]
    for other in found[1:]:
        with pytest.raises(AssertionError, match="logits differ"):
            assert_equal_bytes(other, found[0])


def test_a_restart_gives_equal_bytes(running: Running, tmp_path: Path) -> None:
    model = opened(running, "llama", "int8")
    ids = tokens(model, 9)
    (tmp_path / "ids.txt").write_text(" ".join(map(str, ids)), encoding="utf-8")
    options = ("--tokens", tmp_path / "ids.txt", "--out", tmp_path / "logits.npy", "--policy", "kv=int8")
    ran = met("logits", running.path("llama").resolve(), *options, home=running.folder)
    assert ran.code == 0, ran.err
    assert_equal_bytes(np.load(tmp_path / "logits.npy"), prefilled(model, ids, whole(model)))


def test_what_stands_behind_a_sequence_on_its_pages_is_not_read(running: Running) -> None:
    model = opened(running, "llama", "int8")
    ids = tokens(model, 10, 70)
    expected = prefilled(model, ids, whole(model))
    table = np.zeros((1, model.program.layout.table_width), np.int32)
    table[0, :2] = (5, 9)
    for state in range(len(model.program.layout.states)):
        for page in (5, 9):
            model.program.page(state, page)[:] = 0x7FC00001
    found = step(model, "prefill", ids, range(70), [0] * 70, table)
    assert_equal_bytes(found, expected)
