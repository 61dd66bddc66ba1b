"""Distances between words, and buffers that share no room."""

import math
import struct
from itertools import pairwise

import pytest

from circuit.plan.apart import apart
from circuit_exec.diff.compare import ulps
from tests.lower.dense import Sizes, dense
from tests.plan.plans import planned


def word(value: float) -> int:
    (found,) = struct.unpack("<I", struct.pack("<f", value))
    return int(found)


@pytest.mark.parametrize(
    ("one", "other", "apart_by"),
    [
        (1.0, 1.0, 0),
        (1.0, 1.0 + 2**-23, 1),
        (1.0, 1.0 - 2**-24, 1),
        (2.0**-149, 0.0, 1),
        (0.0, -0.0, 1),
        (2.0**-149, -(2.0**-149), 3),
        (1.0, 2.0, 2**23),
        (math.inf, 3.4028234663852886e38, 1),
        (math.nan, 1.0, None),
        (1.0, math.nan, None),
    ],
)
def test_the_distance_counts_the_values_between(one: float, other: float, apart_by: int | None) -> None:
    assert ulps(word(one), word(other)) == apart_by
    assert ulps(word(other), word(one)) == apart_by


def test_buffers_that_share_no_room_are_the_same_plan_otherwise() -> None:
    plan = planned(dense(Sizes(layers=2)))
    found = apart(plan)
    spans = sorted((buffer.offset_bytes, buffer.offset_bytes + buffer.n_bytes) for buffer in found.buffers)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert max(end for _, end in spans) <= found.arena_bytes
    assert found.arena_bytes > plan.arena_bytes
    assert (found.launches, found.kernels, found.digest) == (plan.launches, plan.kernels, plan.digest)
