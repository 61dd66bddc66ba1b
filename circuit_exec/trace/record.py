"""A trace of the program itself: when its first thread began and ended each launch, as a Chrome trace.

The program is the one that `met run` runs, to the letter, but for a note before and after each call of a kernel. Where
launches do not wait for each other, other threads can still be at an earlier one.
"""

import ctypes
import json
import re
from contextlib import closing

from msgspec import Struct

from circuit.emit.sources import Sources
from circuit.errors import PlanError, Problem, RunError
from circuit.text import Source
from circuit_exec.bake import bake
from circuit_exec.build import build
from circuit_exec.checkpoint.records import require_weights
from circuit_exec.cpu import Program
from circuit_exec.diff.run import pseudo_tokens
from circuit_exec.diff.sides import Made, Opened, Side, Sides
from circuit_exec.diff.stepping import steps
from circuit_exec.host import arch_of, this_host
from circuit_exec.kv import Pages, pages_for

MOST = 1 << 20
"""Launches that a program keeps."""

_CALL = re.compile(r"^    (\w+)\((.*, team, tid, nt)\); /\* (.+?): (.+) \*/$", re.MULTILINE)
_PLAN = re.compile(r"^static void met_plan_([0-9]+)\(", re.MULTILINE)
_NOTES = rf"""
#include <time.h>

/* What thread 0 launched, in order: which call of this file, and when it began and ended, in nanoseconds. */
typedef struct met_event {{
  int64_t launch, start, end;
}} met_event;
static met_event met_events[{MOST}];
static int64_t met_n_events;

MET_PUBLIC met_event *met_recorded(int64_t *count);
met_event *met_recorded(int64_t *count) {{
  *count = met_n_events;
  return met_events;
}}

static int64_t met_now(void) {{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}}

static void met_begin(int tid, int64_t launch) {{
  if (tid == 0 && met_n_events < {MOST}) met_events[met_n_events] = (met_event){{launch, met_now(), 0}};
}}

static void met_end(int tid) {{
  if (tid == 0 && met_n_events < {MOST}) met_events[met_n_events].end = met_now();
  if (tid == 0) met_n_events++;
}}
"""


class Call(Struct, frozen=True, kw_only=True):
    """A launch as the program has it: `plan` is its place in the set."""

    kernel: str
    rule: str
    members: tuple[str, ...]
    plan: int


class Recorded(Struct, frozen=True, kw_only=True):
    """The trace as text, and what it is of."""

    text: str
    hardware_class: str
    launches: int
    seconds: float


def record(sides: Sides, side: Side, n_tokens: int) -> Recorded:
    """Runs that many tokens that depend on nothing; the last `side.steps` of them are decode steps."""
    if side.steps > n_tokens:
        message = f"{side.steps} steps are more than the {n_tokens} tokens"
        raise PlanError(Problem(message=message, fix="give more --tokens, or fewer --steps"))
    require_weights(sides.checkpoint)
    made = sides.running(side)
    sources, calls = noted(made.sources)
    path = build(sources, sides.cache, sides.progress, arch_of(sides.hardware, this_host()))
    weights = bake(made.manifest, sides.checkpoint, sides.cache, lambda done, total: None)
    n_pages = pages_for(n_tokens)
    program = Program(path, made.layout, weights.words.view("u1"), side.threads, n_pages)
    with closing(program):
        _run(Opened(side=side, made=made, program=program, pages=Pages(n_pages)), n_tokens)
        events = _events(ctypes.CDLL(str(path)))
    return Recorded(
        text=_text(events, calls, made),
        hardware_class=sides.hardware.name,
        launches=len(events),
        seconds=(events[-1][2] - events[0][1]) / 1e9,
    )


def noted(sources: Sources) -> tuple[Sources, tuple[Call, ...]]:
    """The sources with a note around each launch; and the launches by the numbers that notes have."""
    (place,) = (at for at, source in enumerate(sources) if source.path == "steps.c")
    text = sources[place].text
    plans = [(found.start(), int(found[1])) for found in _PLAN.finditer(text)]
    calls: list[Call] = []

    def note(found: re.Match[str]) -> str:
        plan = [number for start, number in plans if start < found.start()][-1]
        calls.append(Call(kernel=found[1], rule=found[3], members=tuple(found[4].split(" ")), plan=plan))
        call = f"met_begin(tid, {len(calls) - 1}); {found[1]}({found[2]}); met_end(tid);"
        return f"    {call} /* {found[3]}: {found[4]} */"

    changed = _CALL.sub(note, text)
    head = changed.rindex('#include "') + len(changed[changed.rindex('#include "') :].partition("\n")[0]) + 1
    whole = Source(path="steps.c", text=changed[:head] + _NOTES + changed[head:])
    return (*sources[:place], whole, *sources[place + 1 :]), tuple(calls)


def _run(opened: Opened, n_tokens: int) -> None:
    vocabulary = next(given.hi for given in opened.made.layout.inputs if given.name == "tokens") + 1
    for _ in steps(opened, pseudo_tokens(n_tokens, vocabulary), (n_tokens - 1,)):
        pass


class _Event(ctypes.Structure):
    """`met_event` of the notes."""

    _fields_ = (("launch", ctypes.c_int64), ("start", ctypes.c_int64), ("end", ctypes.c_int64))


def _events(library: ctypes.CDLL) -> list[tuple[int, int, int]]:
    """Number of the launch, beginning and end, in order."""
    library.met_recorded.restype = ctypes.POINTER(_Event)
    library.met_recorded.argtypes = [ctypes.POINTER(ctypes.c_int64)]
    count = ctypes.c_int64()
    events = library.met_recorded(ctypes.byref(count))
    if count.value > MOST:
        message = f"{count.value} launches were made, and {MOST} are kept"
        raise RunError(Problem(message=message, fix="give fewer --tokens or --steps"))
    return [(events[at].launch, events[at].start, events[at].end) for at in range(count.value)]


def _text(events: list[tuple[int, int, int]], calls: tuple[Call, ...], made: Made) -> str:
    """A Chrome trace: an event a line, times in microseconds from the first on."""
    first = events[0][1]
    lines = []
    for launch, start, end in events:
        call = calls[launch]
        step = made.layout.steps[call.plan]
        event = {
            "ph": "X",
            "cat": "kernel",
            "name": call.kernel,
            "pid": 0,
            "tid": 0,
            "ts": (start - first) / 1e3,
            "dur": (end - start) / 1e3,
            "args": {
                "rule": call.rule,
                "nodes": list(call.members),
                "plan": f"{step.mode} {step.rows[0]}-{step.rows[1]}",
            },
        }
        lines.append(json.dumps(event))
    return '{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"
