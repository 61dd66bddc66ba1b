"""What a certificate claims, on compiled models: the logits' bytes do not depend on how they are computed."""

from pathlib import Path

import numpy as np
import pytest

from tests.bytes.running import (
    CODES,
    MIXED_CODES,
    N_SEQUENCES,
    N_TOKENS,
    Logits,
    Running,
    assert_equal_bytes,
    decoded,
    policy_of,
    prefilled,
    prefilled_on,
    prefilled_together,
    step,
    tokens,
    whole,
)
from tests.cli.harness import met
from tests.demo import DEMO
from tests.models import MODEL_TYPES

NAMES = [*MODEL_TYPES, CODES, *(pytest.param(name, marks=pytest.mark.slow) for name in (MIXED_CODES, DEMO))]
every_model = pytest.mark.parametrize("name", NAMES)
LIKE_LLAMA = "mistral"
"""Its plans have the rules of llama's; a window is a number of attention, which no rule fuses with anything."""


@every_model
def test_two_runs_give_equal_bytes(running: Running, name: str) -> None:
    model = running.model(name)
    ids = tokens(model, 1)
    first = prefilled(model, ids, whole(model))
    prefilled(model, tokens(model, 2), whole(model))  # leaves other keys and values on the same pages
    assert_equal_bytes(prefilled(model, ids, whole(model)), first)
    again = running.fresh(running.path(name), policy=policy_of(name))
    found = prefilled(again, ids, whole(again))
    again.close()
    assert_equal_bytes(found, first)


@every_model
def test_one_and_two_threads_give_equal_bytes(running: Running, name: str) -> None:
    one, two, three = (running.model(name, n_threads=n) for n in (1, 2, 3))
    ids = tokens(one, 3)
    expected = prefilled(one, ids, 64)
    assert_equal_bytes(prefilled(two, ids, 64), expected)
    assert_equal_bytes(prefilled(three, ids, 64), expected)
    (by_one,) = decoded(one, [ids], [0], n_steps=20)
    for model in (two, three):
        (found,) = decoded(model, [ids], [0], n_steps=20)
        assert_equal_bytes(found, by_one)


@every_model
@pytest.mark.parametrize("chunk", [1, 7, 64, 300])
def test_prefill_in_chunks_of_any_size_gives_equal_bytes(running: Running, name: str, chunk: int) -> None:
    model = running.model(name)
    ids = tokens(model, 4)
    assert_equal_bytes(prefilled(model, ids, chunk), prefilled(model, ids, whole(model)))


@every_model
def test_prefill_and_decode_give_equal_bytes(running: Running, name: str) -> None:
    model = running.model(name)
    ids = tokens(model, 5)
    (found,) = decoded(model, [ids], [0], n_steps=N_TOKENS)
    assert_equal_bytes(found, prefilled(model, ids, whole(model)))


@every_model
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6, 7], [7, 2, 0, 5, 1, 6, 3, 4]])
def test_a_sequence_alone_and_among_eight_rows_gives_equal_bytes(running: Running, name: str, order: list[int]) -> None:
    model = running.model(name)
    before = [0, 1, 63, 64, 70, 254, 256, 511]  # positions already in the cache: ends of pages and chunks
    sequences = [tokens(model, 10 + place, n + 4) for place, n in enumerate(before)]
    together = decoded(model, sequences, order, n_steps=4)
    for place in range(N_SEQUENCES):
        (alone,) = decoded(model, [sequences[place]], [0], n_steps=4)
        assert_equal_bytes(together[place], alone)


@every_model
def test_sequences_prefilled_in_one_step_give_equal_bytes(running: Running, name: str) -> None:
    model = running.model(name)
    sequences = [tokens(model, 20 + place, n) for place, n in enumerate((33, 70, 300))]
    rows = [(place, position) for place, ids in enumerate(sequences) for position in range(len(ids))]
    for shuffled in (rows, [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]):
        together = prefilled_together(model, sequences, shuffled)
        for place, ids in enumerate(sequences):
            places = [shuffled.index((place, position)) for position in range(len(ids))]
            assert_equal_bytes(together[places], prefilled(model, ids, whole(model)))


@every_model
def test_pages_in_any_order_give_equal_bytes(running: Running, name: str) -> None:
    model = running.model(name)
    ids = tokens(model, 6)
    expected = prefilled_on(model, ids, range(9), 64)
    last = model.pages.n_pages - 1
    assert_equal_bytes(prefilled_on(model, ids, range(last, last - 9, -1), 64), expected)
    assert_equal_bytes(prefilled_on(model, ids, [3, 8, 0, 100, 2, 7, 50, 1, 99], 64), expected)


@every_model
def test_the_rows_that_get_logits_do_not_change_them(running: Running, name: str) -> None:
    model = running.model(name)
    ids = tokens(model, 7, 130)
    table = np.arange(model.program.layout.table_width, dtype=np.int32)[None, :] % model.pages.n_pages
    given = (model, "prefill", ids, range(130), [0] * 130, table)
    every = step(*given)
    for some in ([129], [5, 128, 5, 0], list(range(129, -1, -1))):
        assert_equal_bytes(step(*given, logit_rows=some), every[some])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == LIKE_LLAMA else name for name in NAMES]
)
def test_reference_rules_and_all_rules_give_equal_bytes(running: Running, name: str) -> None:
    fused, single = running.model(name), running.model(name, rules="reference")
    assert fused.planned.sources != single.planned.sources, "both rule sets give the same program"
    assert fused.planned.bytes_digest == single.planned.bytes_digest
    ids = tokens(fused, 8)
    assert_equal_bytes(prefilled(single, ids, whole(single)), prefilled(fused, ids, whole(fused)))
    (by_single,) = decoded(single, [ids], [0], n_steps=20)
    (by_fused,) = decoded(fused, [ids], [0], n_steps=20)
    assert_equal_bytes(by_single, by_fused)


@every_model
def test_a_restart_gives_equal_bytes(running: Running, name: str, tmp_path: Path) -> None:
    model = running.model(name)
    ids = tokens(model, 9)
    expected = prefilled(model, ids, whole(model))
    assert_equal_bytes(in_a_process(running, name, ids, tmp_path), expected)


@pytest.mark.slow
def test_an_empty_cache_and_another_hash_seed_give_equal_bytes(running: Running, tmp_path: Path) -> None:
    model = running.model("qwen3")
    ids = tokens(model, 9)
    expected = prefilled(model, ids, whole(model))
    cold = {"PYTHONHASHSEED": "4711", "XDG_CACHE_HOME": str(tmp_path / "cold")}
    assert_equal_bytes(in_a_process(running, "qwen3", ids, tmp_path, **cold), expected)


def in_a_process(running: Running, name: str, ids: list[int], folder: Path, **environment: str) -> Logits:
    """The logits that `met logits` writes, in a process of its own."""
    (folder / "ids.txt").write_text(" ".join(map(str, ids)), encoding="utf-8")
    policy: list[str | Path] = [word for choice in policy_of(name) for word in ("--policy", choice)]
    options: tuple[str | Path, ...] = (
        "--tokens",
        folder / "ids.txt",
        "--out",
        folder / "logits.npy",
        "--threads",
        "2",
        *policy,
    )
    ran = met("logits", running.path(name).resolve(), *options, home=running.folder, **environment)
    assert ran.code == 0, ran.err
    found: Logits = np.load(folder / "logits.npy")
    return found


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("qwen2", "BF16"), *(pytest.param(n, d, marks=pytest.mark.slow) for n in MODEL_TYPES for d in ("BF16", "F16"))],
)
def test_a_checkpoint_and_its_float32_copy_give_equal_bytes(running: Running, name: str, dtype: str) -> None:
    stored, copy = running.model(name, dtype=dtype), running.model(name)
    assert stored.weights.content_hash != copy.weights.content_hash
    assert stored.planned.bytes_digest == copy.planned.bytes_digest
    ids = tokens(copy, 10)
    assert_equal_bytes(prefilled(stored, ids, whole(stored)), prefilled(copy, ids, whole(copy)))


@every_model
def test_another_token_changes_the_logits_from_its_position_on(running: Running, name: str) -> None:
    model = running.model(name)
    ids = tokens(model, 11)
    other = [*ids[:300], (ids[300] + 1) % 290, *ids[301:]]
    found, changed = prefilled(model, ids, whole(model)), prefilled(model, other, whole(model))
    assert_equal_bytes(found[:300], changed[:300])
    with pytest.raises(AssertionError, match=r"logits differ, the first at \[0, "):
        assert_equal_bytes(found[300:], changed[300:])


def test_one_bit_of_one_weight_changes_the_logits(running: Running, tmp_path: Path) -> None:
    model = running.model("llama")
    ids = tokens(model, 12)
    path = running.path("llama")
    for file in path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = bytearray((tmp_path / "model.safetensors").read_bytes())
    weights[-4 * 288] ^= 1  # the lowest bit of the first number of the last row of lm_head, the file's last tensor
    (tmp_path / "model.safetensors").write_bytes(weights)
    other = running.fresh(tmp_path)
    found, changed = prefilled(model, ids, whole(model)), prefilled(other, ids, whole(other))
    other.close()
    assert_equal_bytes(found[:, :-1], changed[:, :-1])
    with pytest.raises(AssertionError, match="logits differ"):
        assert_equal_bytes(found, changed)


def test_logits_that_say_nothing_are_not_compared() -> None:
    for nothing, why in ((np.nan, "no numbers"), (np.inf, "no numbers"), (1.0, "one constant")):
        logits = np.full((2, 3), nothing, np.float32)
        with pytest.raises(AssertionError, match=why):
            assert_equal_bytes(logits, logits)
