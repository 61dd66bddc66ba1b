"""The certificate of a plan: for each axis along which bytes could change, whether they do, and what shows it."""

from collections.abc import Iterable

from circuit.plan.ir import Axis

_SAME, _CLASSES = "tests/bytes/test_invariance.py", "tests/bytes/test_classes.py"
_ENGINE = "tests/engine/test_bytes.py"

_SHOWN: tuple[tuple[str, str, str], ...] = (
    ("run to run", _SAME, "test_two_runs_give_equal_bytes"),
    ("threads", _SAME, "test_one_and_two_threads_give_equal_bytes"),
    ("rows in the batch and their order", _SAME, "test_a_sequence_alone_and_among_eight_rows_gives_equal_bytes"),
    ("prefill chunking", _SAME, "test_prefill_in_chunks_of_any_size_gives_equal_bytes"),
    ("prefill = decode", _SAME, "test_prefill_and_decode_give_equal_bytes"),
    ("rules", _SAME, "test_reference_rules_and_all_rules_give_equal_bytes"),
    ("restart", _SAME, "test_a_restart_gives_equal_bytes"),
    ("CPU vector width", _CLASSES, "test_a_class_gives_the_bytes_of_class_cpu"),
    ("prefix-cache hit = cold", _ENGINE, "test_a_prefix_hit_gives_the_bytes_of_a_cold_start"),
)
"""Axes that hold where every launch keeps the portable numerics, and the test that compares the bytes."""

_OPEN: tuple[tuple[str, str], ...] = (
    ("CPU = GPU", "no run on a GPU is recorded"),
    ("tensor-parallel size", "there is no tensor parallelism"),
)


def certificate(changing: Iterable[str]) -> tuple[Axis, ...]:
    """`changing` are launches with numerics of their own: the tests of the portable numerics say nothing of them."""
    other = ", ".join(changing)
    if other:
        shown = [Axis(axis=axis, holds="not checked", evidence=f"other numerics: {other}") for axis, _, _ in _SHOWN]
    else:
        shown = [Axis(axis=axis, holds="yes", evidence=f"{file}::{test}") for axis, file, test in _SHOWN]
    return (*shown, *(Axis(axis=axis, holds="not checked", evidence=why) for axis, why in _OPEN))
