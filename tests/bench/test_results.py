"""Rows follow from rounds; files are merged, refused and never half-written."""

import json
import os
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.paths import replaced
from bench.results import PeerRow, Row, Setting, document, merged, peer_rows, read, rows, write
from tests.bench.cells import PAIR, SLOWER, SPEEDS, cell, raw

SETTING = Setting(machine={"processor": "a"}, versions={"met": "1"}, threads=2)


def test_a_row_has_medians_and_the_ratio_of_rounds_that_ran_together() -> None:
    assert rows(cell(*PAIR)) == (
        Row(
            format="Q4_1",
            activations="f32",
            work="decode_1",
            isa="native",
            tok_s=110.0,
            ratio_to_llama_cpp=1.2,  # of 1.2, 1.5 and 1.1, not 110 / 100
            of_ceiling=110.0 / 200.0,
            bound="memory",
            ceiling_tok_s=200.0,
            unsteady=False,
        ),
    )
    assert peer_rows(cell(*PAIR)) == (
        PeerRow(engine="llama.cpp", format="Q4_1", activations="int8", work="decode_1", isa="native", tok_s=100.0),
    )


def test_like_is_compared_with_like() -> None:
    found = rows(cell(*PAIR, raw("met", "avx2", (50.0,) * 3), raw("llama.cpp", "avx2", (25.0,) * 3)))
    assert [(row.isa, row.ratio_to_llama_cpp) for row in found] == [("native", 1.2), ("avx2", 2.0)]


def test_the_ceiling_counts_the_tokens_of_all_sequences() -> None:
    (row,) = rows(cell(*PAIR, work="decode_8", step_tokens=8))
    assert (row.ceiling_tok_s, row.of_ceiling) == (1600.0, 110.0 / 1600.0)


@pytest.mark.parametrize(("after", "unsteady"), [(SPEEDS, False), (SLOWER, True)])
def test_probes_that_differ_by_more_than_a_fifth_mark_the_cell(after: object, unsteady: bool) -> None:
    (row,) = rows(cell(*PAIR, after=SPEEDS if after is SPEEDS else SLOWER))
    assert row.unsteady is unsteady


def test_the_document_has_one_row_for_each_format_activations_and_work_in_order() -> None:
    cells = [
        cell(*PAIR, raw("met", "native", (200.0,) * 3, "int8"), work="prefill_512"),
        cell(*PAIR, raw("met", "avx2", (50.0,) * 3), raw("llama.cpp", "avx2", (25.0,) * 3)),
        cell(*PAIR, format="F32"),
    ]
    found = document(SETTING, cells, "native")
    keys = [(row["format"], row["activations"], row["work"]) for row in found["rows"]]
    assert keys == [
        ("F32", "f32", "decode_1"),
        ("Q4_1", "f32", "decode_1"),
        ("Q4_1", "f32", "prefill_512"),
        ("Q4_1", "int8", "prefill_512"),
    ]
    assert [row["isa"] for row in found["other_isa"]] == ["avx2"]
    assert found["machine"] == {"processor": "a"}
    assert document(SETTING, cells, "avx2")["rows"] == found["other_isa"]


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "results" / "a.json"
    assert read(path, SETTING) == []
    cells = [cell(*PAIR, format="F32"), cell(*PAIR)]
    write(path, SETTING, cells, "native")
    assert read(path, SETTING) == cells
    assert os.listdir(path.parent) == ["a.json"]


def test_a_cell_measured_again_takes_the_place_of_the_old_one() -> None:
    old, other, new = cell(*PAIR), cell(*PAIR, work="decode_8"), cell(PAIR[0])
    assert merged([old, other], new) == [other, new]


def test_results_of_another_machine_or_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write(path, SETTING, [cell(*PAIR)], "native")
    other = Setting(machine={"processor": "b"}, versions={"met": "2"}, threads=2)
    with pytest.raises(BenchError) as caught:
        read(path, other)
    assert str(caught.value) == (
        f"error: {path} has results of another machine and versions\n  = fix: remove it, or give --out another file"
    )
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 0}))
    with pytest.raises(BenchError, match="has results of another schema"):
        read(path, SETTING)


def test_an_interrupt_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    replaced(path, "old")

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replaced(path, "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["a.json"])
