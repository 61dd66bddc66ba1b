"""The table as it is printed."""

from bench.table import table
from tests.bench.cells import PAIR, SLOWER, cell, raw


def test_the_table_shows_speed_ratio_and_share_of_the_ceiling() -> None:
    cells = [
        cell(*PAIR, raw("met", "native", (300.0,) * 3, "int8")),
        cell(*PAIR, work="prefill_512", after=SLOWER),
        cell(PAIR[0], PAIR[1], raw("torch", "native", (9.0,) * 3), format="F32"),
    ]
    assert [line.split() for line in table(cells, "native").splitlines()[:-1]] == [
        "met, native decode_1 prefill_512".split(),
        "F32 f32 110 1.20x 55% -".split(),
        "Q4_1 f32 110 1.20x 55% ~110 1.20x 63%".split(),
        "Q4_1 int8 300 3.00x 150% -".split(),
        "llama.cpp F32 100 -".split(),
        "llama.cpp Q4_1 100 100".split(),
        "torch F32 9 -".split(),
    ]
