"""Cells made by hand."""

from bench.ceilings import Needs, Speeds
from bench.contestants import Contestant
from bench.results import Cell, Raw

SPEEDS = Speeds(read=20e9, f32=200e9, int8=400e9)
SLOWER = Speeds(read=15e9, f32=200e9, int8=400e9)
NEEDS = Needs(n_bytes=100e6, projections=200e6, attention=0.0)


def raw(engine: str, isa: str, tok_s: tuple[float, ...], activations: str = "f32") -> Raw:
    """What one contestant did."""
    assert engine in ("met", "llama.cpp", "torch")
    return Raw(
        contestant=Contestant(engine=engine, isa=isa, activations=activations),  # type: ignore[arg-type]
        info="",
        tok_s=tok_s,
    )


def cell(
    *found: Raw, format: str = "Q4_1", work: str = "decode_1", after: Speeds = SPEEDS, step_tokens: int = 1
) -> Cell:
    """One cell, with the same probes for both ISAs."""
    return Cell(
        format=format,
        work=work,
        date="2026-01-02T03:04:05+00:00",
        n_sequences=step_tokens,
        step_tokens=step_tokens,
        needs=NEEDS,
        before={"avx2": SPEEDS, "native": SPEEDS},
        after={"avx2": after, "native": after},
        raw=found,
    )


PAIR = (raw("met", "native", (120.0, 60.0, 110.0)), raw("llama.cpp", "native", (100.0, 40.0, 100.0), "int8"))
"""Both were slow in the second round."""
