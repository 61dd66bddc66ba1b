"""The roofline: what a work needs, counted by hand, and what bounds it."""

from pathlib import Path

import pytest

from bench.ceilings import Needs, Sizes, Speeds, ceiling, mean, needs, sizes
from bench.errors import BenchError
from bench.works import COMPARED
from circuit_exec.bench import Work
from tests.models import tiny_config, write_gguf

SIZES = Sizes(weight_bytes=1000, layer_elements=200, head_elements=50, n_layers=2, q_width=8, kv_width=4)


def test_a_decode_step_of_two_sequences() -> None:
    work = Work(name="w", mode="decode", n_sequences=2, n_before=10, n_tokens=4)
    visible = (11 + 12 + 13 + 14) / 4
    a_position = 2 * (8 * 2 + 8 * 2)  # layers x (scores and values, a multiply and an add each)
    assert needs(SIZES, work) == Needs(
        n_bytes=1000 + 2 * visible * 2 * (4 + 4) * 4, projections=2 * 2 * 250, attention=2 * visible * a_position
    )


def test_a_prefill_multiplies_with_the_head_once() -> None:
    work = Work(name="w", mode="prefill", n_sequences=1, n_before=0, n_tokens=3)
    assert needs(SIZES, work) == Needs(
        n_bytes=1000 + 3 * 2 * (4 + 4) * 4, projections=2 * (3 * 200 + 50), attention=(1 + 2 + 3) * 2 * (8 * 2 + 8 * 2)
    )


def test_the_slower_of_memory_and_arithmetic_bounds() -> None:
    speeds = Speeds(read=100.0, f32=1000.0, int8=4000.0)
    assert ceiling(Needs(n_bytes=50, projections=100, attention=100), speeds, "f32") == (2.0, "memory")
    assert ceiling(Needs(n_bytes=50, projections=800, attention=200), speeds, "f32") == (1.0, "arithmetic")
    assert ceiling(Needs(n_bytes=39, projections=800, attention=200), speeds, "int8") == (2.5, "arithmetic")


def test_a_cell_is_held_against_the_mean_of_its_probes() -> None:
    speeds = mean(Speeds(read=1.0, f32=2.0, int8=3.0), Speeds(read=3.0, f32=4.0, int8=5.0))
    assert speeds == Speeds(read=2.0, f32=3.0, int8=4.0)


def test_the_compared_works_are_those_of_the_command() -> None:
    assert [work.name for work in COMPARED] == ["decode_1", "decode_8", "prefill_512", "decode_2048"]


def test_the_sizes_of_a_file(tmp_path: Path) -> None:
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96
    assert sizes(write_gguf(tmp_path / "a.gguf", tiny_config("llama", tie_word_embeddings=True))) == Sizes(
        weight_bytes=4 * (2 * (layer + 2 * 64) + 290 * 64 + 64),
        layer_elements=2 * layer,
        head_elements=290 * 64,
        n_layers=2,
        q_width=64,
        kv_width=32,
    )


def test_a_file_whose_head_is_a_tensor_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as caught:
        sizes(write_gguf(tmp_path / "a.gguf", tiny_config("llama")))
    assert str(caught.value) == (
        "error: a.gguf: its head is a tensor of its own\n  = fix: compare files of the demo model"
    )
