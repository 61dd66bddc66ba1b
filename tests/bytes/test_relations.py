"""Each bit_identical rule against the single ops that it replaces: the same words, whatever the rows, mode and threads.

Rows are longer than two chunks of 256 and end in a tail; outputs fill no panel.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.bytes.chains import RULES, Chain, Words, outputs

DIM = 544
MORE_FORMATS = [pytest.param(format, marks=pytest.mark.slow) for format in ("f32", "f16", "q4_0", "q8_0")]
FORMATS = ["bf16", "q4_1", *MORE_FORMATS]


def check(
    chain: Chain, ends: list[int], rule: str, folder: Path, modes: tuple[str, ...] = ("decode", "prefill")
) -> None:
    """The rule's words are those of its single ops, in the modes that it is for."""
    (expected,) = outputs(chain, ends, None, folder, (2,), modes)
    for words in expected:
        says_something(words)
    for found in outputs(chain, ends, rule, folder, (1, 2, 3), modes):  # of as many rows as the rule is for
        assert len(found) in (len(expected), 2 * len(ends))
        for words, wanted in zip(found, expected, strict=False):
            assert_equal_words(words, wanted)


def says_something(words: Words) -> None:
    """Finite numbers, not all the same in any row."""
    values = words.view(np.float32)
    assert np.isfinite(values).all()
    assert (values.max(axis=1) > values.min(axis=1)).all()


def assert_equal_words(found: Words, wanted: Words) -> None:
    assert found.shape == wanted.shape
    different = np.argwhere(found != wanted)
    assert len(different) == 0, f"{len(different)} of {found.size} values differ, the first at {different[0].tolist()}"


def test_residual_add_and_rms_norm_in_one_launch_give_the_bytes_of_two(tmp_path: Path) -> None:
    chain = Chain(seed=1)
    x, d = chain.rows("x", DIM), chain.rows("d", DIM)
    y = chain.op("add", "residual_add", (x, d), "y", DIM)
    weight = chain.weight("norm", (DIM,), "f32")
    h = chain.op("norm", "rms_norm", (y,), "h", DIM, weights=(weight,), eps=1e-5, heads=1, weight_form="plain")
    check(chain, [y, h], "residual_add+rms_norm", tmp_path)


@pytest.mark.parametrize("format", ["bf16", *MORE_FORMATS])
def test_q_k_and_v_as_one_projection_give_the_bytes_of_three(tmp_path: Path, format: str) -> None:
    projections(tmp_path, format, bias=False)


@pytest.mark.parametrize("format", ["q4_1", *MORE_FORMATS])
def test_q_k_and_v_with_biases_as_one_projection_give_the_bytes_of_three(tmp_path: Path, format: str) -> None:
    projections(tmp_path, format, bias=True)


def test_an_output_among_the_columns_of_a_fused_projection_is_a_broken_invariant(tmp_path: Path) -> None:
    chain, ends = three_projections("bf16", bias=False)
    with pytest.raises(AssertionError, match="the output q shares its buffer"):
        outputs(chain, ends, "linear_qkv", tmp_path, (1,))


def projections(folder: Path, format: str, *, bias: bool) -> None:
    chain, ends = three_projections(format, bias=bias)
    check(chain, [chain.copy(edge) for edge in ends], "linear_qkv", folder)


def three_projections(format: str, *, bias: bool) -> tuple[Chain, list[int]]:
    chain = Chain(seed=2)
    h = chain.rows("h", DIM)
    ends = []
    for role, n in (("q", 100), ("k", 50), ("v", 50)):
        weights = [chain.weight(role, (n, DIM), format)]
        weights += [chain.weight(f"{role}_bias", (n,), "f32")] if bias else []
        edge = chain.op(f"at_{role}", "linear", (h,), role, n, weights=tuple(weights), role=role, bias=bias)
        ends.append(edge)
    return chain, ends


@pytest.mark.parametrize("format", FORMATS)
def test_a_norm_and_q_k_and_v_that_read_it_give_the_bytes_of_four(tmp_path: Path, format: str) -> None:
    chain = Chain(seed=5)
    ends = []
    h = normed(chain, chain.rows("x", DIM))
    for role, n in (("q", 100), ("k", 50), ("v", 50)):
        weights = (chain.weight(role, (n, DIM), format), chain.weight(f"{role}_bias", (n,), "f32"))
        edge = chain.op(f"at_{role}", "linear", (h,), role, n, weights=weights, role=role, bias=True)
        ends.append(chain.copy(edge))
    check(chain, ends, "rms_norm+linear_qkv", tmp_path, modes=("decode",))


@pytest.mark.parametrize("format", ["q4_1", *MORE_FORMATS])
def test_a_norm_and_gate_and_up_that_read_it_give_the_bytes_of_three(tmp_path: Path, format: str) -> None:
    chain = Chain(seed=6)
    ends = []
    h = normed(chain, chain.rows("x", DIM))
    for role in ("gate", "up"):
        weights = (chain.weight(role, (100, DIM), format),)
        edge = chain.op(f"at_{role}", "linear", (h,), role, 100, weights=weights, role=role, bias=False)
        ends.append(chain.copy(edge))
    check(chain, ends, "rms_norm+linear_gate_up", tmp_path, modes=("decode",))


@pytest.mark.parametrize("rows_of", ["n", "m"])
def test_rows_taken_normed_and_projected_at_once_give_the_bytes_of_their_ops(tmp_path: Path, rows_of: str) -> None:
    chain = Chain(seed=7)
    x = chain.rows("x", DIM)
    if rows_of == "m":
        x = chain.op("select", "index_select", (x,), "picked", DIM, rows="m")
    h = normed(chain, x, rows_of)
    weight = chain.weight("head", (100, DIM), "q8_0")
    y = chain.op("head", "linear", (h,), "y", 100, weights=(weight,), rows=rows_of, role="head", bias=False)
    rule = "rms_norm+linear" if rows_of == "n" else "index_select+rms_norm+linear"
    check(chain, [y], rule, tmp_path, modes=("decode",))


def normed(chain: Chain, x: int, rows: str = "n") -> int:
    weight = chain.weight("norm", (DIM,), "f32")
    return chain.op(
        "norm", "rms_norm", (x,), "h", DIM, weights=(weight,), rows=rows, eps=1e-5, heads=1, weight_form="plain"
    )


@pytest.mark.parametrize("format", FORMATS)
def test_glu_and_the_projection_that_reads_it_give_the_bytes_of_two(tmp_path: Path, format: str) -> None:
    chain = Chain(seed=3)
    g, u = chain.rows("g", DIM), chain.rows("u", DIM)
    p = chain.op("glu", "glu", (g, u), "p", DIM, kind="silu")
    weight = chain.weight("down", (100, DIM), format)
    d = chain.op("down", "linear", (p,), "d", 100, weights=(weight,), role="down", bias=False)
    check(chain, [d], "glu+linear_down", tmp_path)


def test_one_bit_of_one_weight_changes_the_words_that_depend_on_it(tmp_path: Path) -> None:
    found = []
    for flipped in (None, 4):  # the lowest byte of the last number of the last tensor
        chain = Chain(seed=4, flipped=flipped)
        h = chain.rows("h", DIM)
        weights = (chain.weight("o", (50, DIM), "bf16"), chain.weight("o_bias", (50,), "f32"))
        end = chain.op("at_o", "linear", (h,), "o_out", 50, weights=weights, role="o", bias=True)
        found += [words[-1] for words in outputs(chain, [end], None, tmp_path, (2,))]
    plain, other = found
    assert_equal_words(plain[:, :-1], other[:, :-1])
    with pytest.raises(AssertionError, match="values differ"):
        assert_equal_words(plain, other)


def test_every_rule_of_several_ops_is_a_relation() -> None:
    """So each of them has a proof; `tests/lower/test_proven.py` holds the records to it."""
    assert {rule.id for rule in RULES if rule.numerics == "bit_identical"} == {
        rule.id for rule in RULES if len(rule.pattern) > 1
    }
