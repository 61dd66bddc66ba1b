"""argmax, sample and log_sum_exp: ties, extremes, the nucleus, and the distribution that is drawn from."""

import numpy as np
import pytest

from tests.oracle.one_op import F32, Case, Step, run

N = 40


def choose(logits: F32) -> list[int]:
    (y,) = run(Case(op="argmax", inputs=(logits,), dims_out=(1,), params={}))
    return [int(v) for v in y[:, 0]]


def draw(logits: F32, temperature: float, top_p: float, seeds: list[int], position: int = 9) -> list[int]:
    rows = len(seeds)
    step: Step = {
        "temperature": [temperature] * rows,
        "top_p": [top_p] * rows,
        "seeds": [word for seed in seeds for word in (seed, 0)],
        "choices": [0] * rows,
        "sample_positions": [position] * rows,
    }
    (y,) = run(Case(op="sample", inputs=(np.tile(logits, (rows, 1)),), dims_out=(1,), params={}, step=step))
    return [int(v) for v in y[:, 0]]


def test_argmax_takes_the_lowest_index_of_equal_logits() -> None:
    x = np.zeros((3, N), np.float32)
    x[0, [7, 30]] = 2.0
    x[1] = -np.inf
    x[2] = -5.0
    x[2, N - 1] = -4.0
    assert choose(x) == [7, 0, N - 1]


@pytest.mark.parametrize(("first", "other"), [(-0.0, 0.0), (0.0, -0.0)])
def test_argmax_takes_the_first_zero_whatever_its_sign(first: float, other: float) -> None:
    x = np.full((1, 300), -1.0, np.float32)
    x[0, [2, 129, 257]] = other  # in lanes before and behind that of the first
    x[0, 1] = first
    assert choose(x) == [1]


def test_argmax_finds_a_number_wherever_it_is_among_nans() -> None:
    x = np.full((300, 300), np.nan, np.float32)
    np.fill_diagonal(x, -np.inf)
    assert choose(x) == list(range(300))


def test_argmax_never_takes_a_nan() -> None:
    x = np.zeros((2, N), np.float32)
    x[0, 3] = np.nan
    x[0, 5] = 1.0
    x[1] = np.nan
    assert choose(x) == [5, 0]


def test_sampling_is_a_function_of_seed_and_position() -> None:
    logits = np.random.default_rng(0).standard_normal(N).astype(np.float32)
    seeds = list(range(8))
    first = draw(logits, 1.0, 1.0, seeds)
    assert first == draw(logits, 1.0, 1.0, seeds)
    assert first[::-1] == draw(logits, 1.0, 1.0, seeds[::-1])
    assert first != draw(logits, 1.0, 1.0, seeds, position=10)


def test_a_small_nucleus_is_the_most_likely_token() -> None:
    logits = np.random.default_rng(1).standard_normal(N).astype(np.float32)
    assert set(draw(logits, 1.0, 1e-6, list(range(6)))) == {int(logits.argmax())}


def log_sum(logits: F32) -> F32:
    (y,) = run(Case(op="log_sum_exp", inputs=(logits,), dims_out=(2,), params={}))
    return y.astype(np.float32)


def test_log_sum_exp_gives_the_log_probabilities_of_float64() -> None:
    x = np.random.default_rng(2).standard_normal((4, 300)).astype(np.float32) * np.array(
        [[0.1], [1], [8], [50]], np.float32
    )
    got = log_sum(x)
    exact = x.astype(np.float64)
    highest = exact.max(axis=1, keepdims=True)
    want = exact - highest - np.log(np.exp(exact - highest).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(got[:, :1], highest)
    np.testing.assert_allclose(x - got[:, :1] - got[:, 1:], want, rtol=3e-7, atol=3e-7)


def test_log_sum_exp_of_masked_logits_and_of_one_that_is_certain() -> None:
    x = np.full((2, N), -np.inf, np.float32)
    x[0, 3] = x[0, 9] = 7.0
    x[1] = -200.0
    x[1, 5] = 12.5
    np.testing.assert_array_equal(log_sum(x), np.array([[7.0, np.log(2.0)], [12.5, 0.0]], np.float32))


@pytest.mark.slow
def test_draws_follow_the_softmax_cut_to_its_nucleus() -> None:
    logits = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.05], np.float32))
    draws = np.bincount(draw(logits, 1.0, 0.8, list(range(3000))), minlength=5) / 3000
    want = np.array([0.4, 0.3, 0.15, 0, 0]) / 0.85
    assert draws[3:].sum() == 0
    assert np.abs(draws - want).max() < 0.04
