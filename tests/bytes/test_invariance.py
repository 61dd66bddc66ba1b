"""What a certificate claims, on compiled models: the logits' bytes do not depend on how they are computed."""

import numpy as np
import pytest

from tests.bytes.running import N_SEQUENCES, Running, assert_equal_bytes, decoded, prefilled, tokens

WHOLE = 300
pytestmark = pytest.mark.parametrize(
    "model_type", ["mistral", "qwen3"]
)  # a window; norms of heads, head_dim of its own


def test_two_runs_give_equal_bytes(running: Running, model_type: str) -> None:
    ids = tokens(1)
    model = running.model(model_type)
    first = prefilled(model, ids, WHOLE)
    assert_equal_bytes(prefilled(model, ids, WHOLE), first)
    again = running.fresh(model_type)
    found = prefilled(again, ids, WHOLE)
    again.close()
    assert_equal_bytes(found, first)


def test_one_and_two_threads_give_equal_bytes(running: Running, model_type: str) -> None:
    ids = tokens(2)
    one = prefilled(running.model(model_type, n_threads=1), ids, 64)
    assert_equal_bytes(prefilled(running.model(model_type, n_threads=2), ids, 64), one)
    assert_equal_bytes(prefilled(running.model(model_type, n_threads=3), ids, 64), one)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_prefill_in_chunks_of_any_size_gives_equal_bytes(running: Running, model_type: str, chunk: int) -> None:
    ids = tokens(3)
    model = running.model(model_type)
    assert_equal_bytes(prefilled(model, ids, chunk), prefilled(model, ids, WHOLE))


def test_prefill_and_decode_give_equal_bytes(running: Running, model_type: str) -> None:
    ids = tokens(4)
    model = running.model(model_type)
    (found,) = decoded(model, [ids], [0], first=20)
    assert_equal_bytes(found, prefilled(model, ids, WHOLE)[20:])


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6, 7], [7, 2, 0, 5, 1, 6, 3, 4]])
def test_a_sequence_alone_and_among_eight_rows_gives_equal_bytes(
    running: Running, model_type: str, order: list[int]
) -> None:
    sequences = [tokens(seed, 270) for seed in range(10, 10 + N_SEQUENCES)]
    model = running.model(model_type)
    together = decoded(model, sequences, order, first=250)
    for place in (0, 4, 7):
        (alone,) = decoded(model, [sequences[place]], [0], first=250)
        assert_equal_bytes(together[place], alone)


def test_reference_rules_and_all_rules_give_equal_bytes(running: Running, model_type: str) -> None:
    ids = tokens(5)
    fused, single = running.model(model_type), running.model(model_type, rules="reference")
    assert fused.planned.source != single.planned.source, "both rule sets give the same program"
    assert fused.planned.bytes_digest == single.planned.bytes_digest
    assert_equal_bytes(prefilled(single, ids, WHOLE), prefilled(fused, ids, WHOLE))
    (decoded_single,) = decoded(single, [ids[:40]], [0], first=20)
    (decoded_fused,) = decoded(fused, [ids[:40]], [0], first=20)
    assert_equal_bytes(decoded_single, decoded_fused)


def test_logits_that_differ_are_found(running: Running, model_type: str) -> None:
    ids = tokens(6)
    model = running.model(model_type)
    found = prefilled(model, ids, WHOLE)
    other = prefilled(model, [*ids[:-1], (ids[-1] + 1) % 290], WHOLE)
    assert_equal_bytes(found[:-1], other[:-1])
    with pytest.raises(AssertionError, match=r"differ, the first at \[299, "):
        assert_equal_bytes(found, other)
    with pytest.raises(AssertionError, match="are no numbers"):
        assert_equal_bytes(np.full((1, 1), np.nan, np.float32), np.full((1, 1), np.nan, np.float32))
