"""What penalties, biases, masks and cuts make of logits, against each written out by hand."""

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from circuit_exec.engine.changes import Changes, Counts
from circuit_exec.engine.mean import Mean
from circuit_exec.engine.request import Grammar, Mask, Request
from circuit_exec.engine.scores import highest, scored
from tests.engine.asking import ASKED

N = 40
ROW = np.random.default_rng(4).standard_normal(N).astype(np.float32)


class Fixed:
    """A grammar that always allows the same ids."""

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask

    def mask(self) -> Mask | None:
        return self._mask

    def accept(self, id: int) -> None:
        pass

    def finished(self) -> bool:
        return False


def changed(request: Request, made: tuple[int, ...] = (), grammar: Grammar | None = None) -> NDArray[np.float32]:
    changes = Changes(request, grammar)
    for id in made:
        changes.accept(id)
    assert changes.due()
    row = ROW.copy()
    assert changes.apply(row)
    return row


def left(row: NDArray[np.float32]) -> set[int]:
    return set(np.flatnonzero(row > -np.inf).tolist())


def test_nothing_is_due_by_default_and_behind_the_least_tokens() -> None:
    assert not Changes(ASKED, None).due()
    changes = Changes(replace(ASKED, min_tokens=2, stop_ids=frozenset({3})), None)
    assert changes.due()
    changes.accept(1)
    assert changes.due()
    changes.accept(1)
    assert not changes.due()


def test_penalties_and_biases_are_those_of_the_formula() -> None:
    request = replace(
        ASKED,
        prompt=(1, 2),
        repetition_penalty=1.3,
        frequency_penalty=0.7,
        presence_penalty=0.2,
        bias={2: 0.5, 7: -3.0},
    )
    want = ROW.copy()
    f = np.float32
    for id in (1, 2, 5, 6):
        want[id] = want[id] / f(1.3) if want[id] > 0 else want[id] * f(1.3)
    for id, count in ((5, 2), (6, 1)):
        want[id] = f(f(want[id] - f(f(0.7) * f(count))) - f(0.2))
    want[2] += f(0.5)
    want[7] -= f(3.0)
    np.testing.assert_array_equal(changed(request, (5, 6, 5)), want)


def test_top_k_keeps_the_highest_and_of_equal_ones_the_lower() -> None:
    row = np.zeros(6, np.float32)
    row[4] = 1
    assert highest(row, 3).tolist() == [4, 0, 1]
    assert highest(np.array([np.nan, 1, 2], np.float32), 2).tolist() == [2, 1]
    assert highest(row, 0).tolist() == []
    assert left(changed(replace(ASKED, top_k=5))) == set(np.argsort(-ROW)[:5].tolist())


def test_min_p_keeps_what_has_its_part_of_the_highest_probability() -> None:
    row = changed(replace(ASKED, temperature=2.0, min_p=0.3))
    p = np.exp((ROW.astype(np.float64) - ROW.max()) / 2)
    assert left(row) == set(np.flatnonzero(p >= 0.3).tolist())
    assert left(changed(replace(ASKED, min_p=1.0))) == {int(ROW.argmax())}


def test_stop_ids_wait_for_the_least_tokens() -> None:
    request = replace(ASKED, min_tokens=1, stop_ids=frozenset({3, 9}))
    assert left(changed(request)) == set(range(N)) - {3, 9}


@pytest.mark.parametrize("words", [False, True])
def test_a_grammar_allows_what_its_mask_says(words: bool) -> None:
    mask = np.zeros(N, np.bool_)
    mask[[0, 31, 32, 39]] = True
    packed = np.packbits(np.concatenate([mask, np.zeros(24, np.bool_)]), bitorder="little").view(np.int32)
    assert left(changed(ASKED, grammar=Fixed(packed if words else mask))) == {0, 31, 32, 39}
    assert left(changed(ASKED, grammar=Fixed(mask[:20]))) == {0}
    assert left(changed(ASKED, grammar=Fixed(None))) == set(range(N))
    row = ROW.copy()
    assert not Changes(ASKED, Fixed(np.zeros(N, np.bool_))).apply(row)


def test_greedy_requests_ignore_cuts_that_keep_the_highest() -> None:
    assert not Changes(replace(ASKED, temperature=0.0, top_k=3, min_p=0.5), None).due()


def test_counts_grow_and_keep_each_id_once() -> None:
    counts = Counts([3, *range(100, 140), 3])
    assert counts.ids().tolist() == [3, *range(100, 140)]
    assert counts.counts().tolist() == [2.0] + [1.0] * 40


def test_scores_are_differences_in_float32() -> None:
    log_sum = np.array([ROW.max(), 1.25], np.float32)
    found = scored(ROW, log_sum, 3, 2)
    assert found.logprob == float(np.float32(np.float32(ROW[3] - log_sum[0]) - log_sum[1]))
    assert [id for id, _ in found.top] == np.argsort(-ROW)[:2].tolist()
    assert found.top[0][1] == -1.25


def test_the_mean_is_a_fold_of_chunks_however_rows_come() -> None:
    rows = np.random.default_rng(5).standard_normal((600, 3)).astype(np.float32)
    total = np.zeros(3, np.float32)
    for first in range(0, 600, 256):
        part = np.zeros(3, np.float32)
        for row in rows[first : first + 256]:
            part = part + row
        total = total + part
    want = total * np.float32(1 / 600)
    for step in (1, 7, 256, 600):
        mean = Mean(3)
        for first in range(0, 600, step):
            mean.add(rows[first : first + step])
        np.testing.assert_array_equal(mean.value(), want)
    np.testing.assert_allclose(want, rows.astype(np.float64).mean(axis=0), atol=1e-5)
