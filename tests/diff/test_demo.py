"""The demo model, where it was fetched: equal over rules, threads and chunks, and a fault found in one layer."""

from itertools import product

import pytest
from msgspec.structs import replace

from circuit.lower.ir import Which
from circuit_exec.cache import user_cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.diff.run import Request, diff
from circuit_exec.diff.sides import Side, Sides
from tests.demo import demo_file
from tests.diff.faults import fault_in, last_bit_flipped

POSITIONS = 1024
BASE = Side(rules="reference", policy=(), threads=1, chunk=None, steps=0)


@pytest.fixture(scope="module")
def sides() -> Sides:
    return Sides(checkpoint=open_checkpoint(str(demo_file())), cache=user_cache(), progress=lambda what, part: None)


def request(*others: Side) -> Request:
    return Request(tokens=POSITIONS, asked=tuple(range(POSITIONS)), sides=(BASE, *others), see="groups")


@pytest.mark.slow
def test_the_demo_model_is_equal_over_rules_threads_and_chunks_at_1024_positions(sides: Sides) -> None:
    rule_sets: tuple[Which, ...] = ("reference", "all")
    others = [
        Side(rules=rules, policy=(), threads=threads, chunk=chunk, steps=0)
        for rules, threads, chunk in product(rule_sets, (1, 2), (None, 64, 1))
    ]
    report = diff(request(*others[1:]), sides)
    assert report.holds
    assert [pair.must for pair in report.pairs] == ["be equal", "differ", *["be equal"] * 12]
    assert {len(report.asked), report.n_tokens} == {POSITIONS}


@pytest.mark.slow
def test_a_wrong_bit_in_one_layer_of_the_demo_model_is_found(sides: Sides) -> None:
    """Row 100 of each step of 512 rows of 576 columns, in layer 17 of 30."""
    other = replace(BASE, chunk=512)
    fault = fault_in("l17.attn.o", last_bit_flipped(100 * 576 + 333), lambda side: side == other)
    report = diff(request(other), replace(sides, alter=fault))
    assert not report.holds
    first = report.pairs[-1].found.first
    assert first is not None
    assert (first.edge, first.position, first.column, first.ulps) == ("l17.attn.d", 100, 333, 1)
    assert [at.members[0] for at in first.at] == ["l17.attn.o", "l17.attn.o"]
