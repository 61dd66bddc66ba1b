"""Reading traces: both kinds in the order of time, and every way in which a file can be damaged."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from circuit.errors import LoadError
from circuit_exec.trace.read import read_trace
from tests.trace.files import chrome_trace, nsight_export, torch_trace

NAMES = ("embed_290x64_f32", "rms_norm_64", "linear_64x64_f32", "rms_norm_64")


def refusal(path: Path) -> str:
    """The text of the refusal, with the file's name alone."""
    with pytest.raises(LoadError) as caught:
        read_trace(str(path))
    return str(caught.value).replace(str(path), path.name)


def test_a_trace_of_torch_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    path = torch_trace(tmp_path / "trace.json", NAMES)
    found = read_trace(str(path))
    assert (found.kind, found.launches) == ("Chrome trace", NAMES)
    whole = json.loads(path.read_text())
    whole["traceEvents"].reverse()
    path.write_text(json.dumps(whole))
    assert read_trace(str(path)).launches == NAMES
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_trace(str(packed)).launches == NAMES
    path.write_text(json.dumps(whole["traceEvents"]))  # a bare list of events is a trace too
    assert read_trace(str(path)).launches == NAMES


@pytest.mark.parametrize("column", ["shortName", "demangledName", "mangledName"])
def test_an_export_of_nsight_systems_is_read_in_the_order_of_time(tmp_path: Path, column: str) -> None:
    found = read_trace(str(nsight_export(tmp_path / "report.sqlite", NAMES, column=column)))
    assert (found.kind, found.launches) == ("Nsight Systems export", NAMES)


def test_a_trace_without_kernels_says_what_it_has(tmp_path: Path) -> None:
    path = torch_trace(tmp_path / "trace.json", NAMES, category="cpu_op")
    assert refusal(path) == (
        "error: the trace has no event of category `kernel`; of others it has 1 of `Trace`, 4 of `cpu_op`\n"
        " --> trace.json\n"
        "  = fix: record with torch.profiler.ProfilerActivity.CUDA among the activities, and with kernels that ran"
    )
    path.write_text('{"traceEvents": []}')
    assert "of others it has none at all" in refusal(path)


def test_a_trace_that_is_cut_off_names_the_line(tmp_path: Path) -> None:
    path = chrome_trace(tmp_path / "trace.json", NAMES)
    text = path.read_text()
    for end in (len(text) - 3, text.index("linear") + 4, text.index('"ts"') + 1):
        path.write_text(text[:end])
        line = text.count("\n", 0, end) + 1
        found = refusal(path)
        assert found.startswith(f"error: the trace is cut off\n --> trace.json:{line}\n"), found
        assert found.endswith("  = fix: copy or record it again")


CHROME = "give a Chrome trace as JSON (torch.profiler's export_chrome_trace), or `nsys export --type sqlite`'s file"


@pytest.mark.parametrize(
    ("data", "message", "fix"),
    [
        (b"", "the trace is empty", CHROME),
        (b" \n", "the trace is empty", CHROME),
        (b"\xff\xfe\x00binary", "the file is no trace: neither JSON nor an SQLite database", CHROME),
        (b'{"a": 1,, }', "the trace is no JSON: expecting property name enclosed in double quotes", "copy or record"),
        (b'{"a": 1}', "the file is JSON, and no trace: it has no list `traceEvents`", "give a Chrome trace"),
        (b"3", "the file is JSON, and no trace: it has no list `traceEvents`", "give a Chrome trace"),
        (b"[1]", "traceEvents[0] is no object", "record the trace again"),
        (b'[{"ph": "X", "cat": "kernel", "name": "k"}]', "traceEvents[0] is a kernel without `name` or `ts`", "record"),
        (b'[{"ph": "X", "cat": "kernel", "ts": 1}]', "traceEvents[0] is a kernel without `name` or `ts`", "record"),
        (b"[" * 100_000, "the trace is no JSON of a profiler: its values are nested too deep", "record with torch"),
        (gzip.compress(b"{}" * 99, mtime=0)[:-9], "the packed trace is damaged or cut off", "copy or record it again"),
        (b"SQLite format 3\x00 and no more", "the database is damaged or cut off: ", "copy it, or export it again"),
    ],
)
def test_a_damaged_trace_is_refused_with_a_fix(tmp_path: Path, data: bytes, message: str, fix: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    found = refusal(path)
    assert found.startswith(f"error: {message}"), found
    assert "\n --> trace" in found
    assert f"\n  = fix: {fix}" in found


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.json").startswith(
        "error: the trace cannot be read: no such file or directory\n --> none.json"
    )
    assert refusal(tmp_path).startswith("error: the trace cannot be read: is a directory\n")


EXPORT = "record with `nsys profile --trace=cuda`, and export with `nsys export --type sqlite`"


@pytest.mark.parametrize(
    ("damage", "message", "fix"),
    [
        (
            "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
            "the database has no table CUPTI_ACTIVITY_KIND_KERNEL: no kernel was recorded",
            EXPORT,
        ),
        (
            "DROP TABLE StringIds",
            "the database has no table StringIds, where the names of kernels are",
            EXPORT,
        ),
        (
            "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL",
            "table CUPTI_ACTIVITY_KIND_KERNEL is empty: no kernel was recorded",
            EXPORT,
        ),
        (
            "DELETE FROM StringIds WHERE id = 101",
            "2 of 4 kernels have a shortName that is not in StringIds",
            "export it again",
        ),
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN start TO began",
            "table CUPTI_ACTIVITY_KIND_KERNEL lacks `start`, or a name: it has began, end,",
            EXPORT,
        ),
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN shortName TO title",
            "table CUPTI_ACTIVITY_KIND_KERNEL lacks `start`, or a name: it has start, end,",
            EXPORT,
        ),
    ],
)
def test_an_export_without_what_is_needed_is_refused(tmp_path: Path, damage: str, message: str, fix: str) -> None:
    path = nsight_export(tmp_path / "report.sqlite", NAMES)
    with closing(sqlite3.connect(path)) as database:
        database.execute(damage)
        database.commit()
    found = refusal(path)
    assert found.startswith(f"error: {message}"), found
    assert found.endswith(f"\n --> report.sqlite\n  = fix: {fix}")


def test_an_export_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = nsight_export(tmp_path / "report.sqlite", [*NAMES, *(f"kernel_{n}" for n in range(500))])
    path.write_bytes(path.read_bytes()[:6000])
    assert refusal(path).startswith("error: the database is damaged or cut off: ")


def test_reading_leaves_an_export_as_it_was(tmp_path: Path) -> None:
    path = nsight_export(tmp_path / "report.sqlite", NAMES)
    before = path.read_bytes()
    read_trace(str(path))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.sqlite"]
