"""What is compared: the works of `met bench`, with fewer decode steps so that one round takes about a second."""

from msgspec.structs import replace

from circuit_exec.bench import WORKS, Work

N_STEPS = 64
"""Decode steps of a round."""

COMPARED = tuple(
    replace(work, n_tokens=N_STEPS) if work.mode == "decode" else work
    for name in ("decode_1", "decode_8", "prefill_512", "decode_2048")
    for work in WORKS
    if work.name == name
)


def work_named(name: str) -> Work:
    """One of them."""
    return next(work for work in COMPARED if work.name == name)
