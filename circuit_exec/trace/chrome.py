"""Chrome traces, as torch.profiler exports them: complete events of the category `kernel`.

Source: the Trace Event Format of the Chromium project; Kineto's output_json.cpp for the category.
"""

import json

from circuit.errors import LoadError, Problem
from circuit.text import Source, problem_at

KERNEL = "kernel"
RECORD = "record with torch.profiler.ProfilerActivity.CUDA among the activities, and with kernels that ran"


def chrome_launches(path: str, text: str) -> tuple[str, ...]:
    """The names of all kernels, in the order in which they began."""
    found: list[tuple[float, str]] = []
    events = _events(path, text)
    categories: dict[str, int] = {}
    for place, event in enumerate(events):
        if not isinstance(event, dict):
            raise _wrong(path, f"traceEvents[{place}] is no object", "record the trace again")
        category = str(event.get("cat", ""))
        if event.get("ph") != "X" or category.lower() != KERNEL:
            if event.get("ph") == "X":
                categories[category] = categories.get(category, 0) + 1
            continue
        name, start = event.get("name"), event.get("ts")
        if not isinstance(name, str) or isinstance(start, bool) or not isinstance(start, int | float):
            raise _wrong(path, f"traceEvents[{place}] is a kernel without `name` or `ts`", "record the trace again")
        found.append((float(start), name))
    if not found:
        others = ", ".join(f"{count} of `{name}`" for name, count in sorted(categories.items())) or "none at all"
        raise _wrong(path, f"the trace has no event of category `{KERNEL}`; of others it has {others}", RECORD)
    return tuple(name for _, name in sorted(found, key=lambda each: each[0]))


def _events(path: str, text: str) -> list[object]:
    """The list of events, which is the file or in it."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        source = Source(path=path, text=text)
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        message = "the trace is cut off" if cut else f"the trace is no JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise LoadError(problem_at(source, error.lineno, message, "copy or record it again")) from error
    except RecursionError as error:
        raise _wrong(path, "the trace is no JSON of a profiler: its values are nested too deep", RECORD) from error
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        raise _wrong(path, "the file is JSON, and no trace: it has no list `traceEvents`", "give a Chrome trace")
    return events


def _wrong(path: str, message: str, fix: str) -> LoadError:
    return LoadError(Problem(message=message, fix=fix, file=path))
