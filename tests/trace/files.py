"""Traces as profilers write them: a real one of torch.profiler, and a database as Nsight Systems exports it."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

Events = list[dict[str, Any]]


def torch_trace(path: Path, names: Iterable[str], category: str = "kernel") -> Path:
    """What torch.profiler exports where these ranges ran one after the other. A machine without a GPU has no kernels,
    so the ranges are renamed to the category that kernels have; all else is as it was written."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]) as made:
        for name in names:
            with record_function(name):
                pass
    made.export_chrome_trace(str(path))
    trace = json.loads(path.read_text(encoding="utf-8"))
    for event in trace["traceEvents"]:
        if event.get("cat") == "user_annotation":
            event["cat"] = category
    path.write_text(json.dumps(trace, indent=1), encoding="utf-8")
    return path


def chrome_trace(path: Path, names: Iterable[str]) -> Path:
    """A trace of kernels alone, without torch."""
    events: Events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1000.5 + place, "dur": 0.5}
        for place, name in enumerate(names)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=1), encoding="utf-8")
    return path


def nsight_export(path: Path, names: Iterable[str], *, column: str = "shortName") -> Path:
    """The tables that matter, with the columns that the published schema has; rows are not in order of time."""
    launched = list(names)
    strings = {name: place for place, name in enumerate(dict.fromkeys(launched), 100)}
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, "
            f"contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT, globalPid INT, {column} INT NOT NULL, "
            "gridX INT NOT NULL, gridY INT NOT NULL, gridZ INT NOT NULL, blockX INT NOT NULL, blockY INT NOT NULL, "
            "blockZ INT NOT NULL)"
        )
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(id, name) for name, id in strings.items()])
        rows = [
            (1000 * place, 1000 * place + 900, 0, 1, 7, place, 1, strings[name], 132, 1, 1, 128, 1, 1)
            for place, name in enumerate(launched)
        ]
        marks = ", ".join("?" * 14)
        database.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", reversed(rows))
        database.commit()
    return path
