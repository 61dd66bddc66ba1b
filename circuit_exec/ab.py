"""A relation on against off: decode steps of 1 to 64 rows, both legs in one binary, in turn, and a control leg.

The legs differ in one rule; the control is the first leg once more, in memory of its own: what these two differ
by is what the machine does. Times are of whole steps; energy is the processor package's, where Linux shows it (RAPL).
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.emit.derive import layout
from circuit.emit.layout import Layout
from circuit.emit.program import emit_program
from circuit.emit.runtime import MAIN
from circuit.load.rules import Rule
from circuit.pipeline import Compiled, Goal, compiled
from circuit_exec.bake import bake
from circuit_exec.build import Progress, build
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.exact import with_exact_bf16
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.records import Checkpoint, require_weights
from circuit_exec.checkpoint.texts import checkpoint_texts
from circuit_exec.cpu import Program, Rows
from circuit_exec.host import arch_of, class_to_run, this_host
from circuit_exec.kv import Pages
from circuit_exec.library import library

LADDER = (1, 2, 4, 8, 16, 32, 64)
POSITION = 40
ROUNDS = 9
STEPS = 4
RAPL = Path("/sys/class/powercap/intel-rapl:0/energy_uj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One number of rows: median milliseconds of a step on each leg, and joules where they can be read."""

    rows: int
    on_ms: float
    off_ms: float
    control_ms: float
    on_joules: float | None
    off_joules: float | None


def gain(rung: Rung) -> float:
    """How much faster a step is with the rule."""
    return rung.off_ms / rung.on_ms - 1


def noise(rung: Rung) -> float:
    """How much two legs that are the same differ: a gain within it is none."""
    return abs(rung.control_ms / rung.on_ms - 1)


def measure(path: str, class_name: str, rule: Rule, cache: Cache, n_threads: int, progress: Progress) -> Iterator[Rung]:
    """The ladder of one rule on one model."""
    checkpoint = with_exact_bf16(open_checkpoint(path), cache)
    require_weights(checkpoint)
    host = this_host()
    hardware = class_to_run(library(), host, class_name)
    on, off = (_compiled(checkpoint, class_name, gone) for gone in ((), (rule.id,)))
    source = build(emit_program((*on.plans, *off.plans)), cache, progress, arch_of(hardware, host))
    skipped = layout(on.plans)
    legs = [_program(source, checkpoint, cache, on, layout(on.plans), n_threads) for _ in ("on", "control")]
    legs.insert(1, _program(source, checkpoint, cache, off, _behind(skipped, layout(off.plans)), n_threads))
    try:
        for place, rows in enumerate(LADDER):
            progress(f"measuring {rule.id}", place / len(LADDER))
            yield _rung(legs, rows)
        progress(f"measuring {rule.id}", 1.0)
    finally:
        for leg in legs:
            leg.close()


def _compiled(checkpoint: Checkpoint, class_name: str, without: tuple[str, ...]) -> Compiled:
    goal = Goal(hardware_class=class_name, without=without)
    return compiled(checkpoint_texts(checkpoint), library(), goal)


def _behind(first: Layout, second: Layout) -> Layout:
    """The second plan set of a program: its plans are counted after those of the first, which nobody asks for."""
    steps = tuple(replace(step, mode=f"other {step.mode}") for step in first.steps)
    return replace(second, steps=(*steps, *second.steps))


def _program(
    source: Path, checkpoint: Checkpoint, cache: Cache, made: Compiled, shape: Layout, n_threads: int
) -> Program:
    manifest = build_manifest(made.plans[0].weights, PANEL, made.bound.equal)
    weights = bake(manifest, checkpoint, cache, lambda done, total: None)
    return Program(source, shape, weights.words.view(np.uint8), n_threads, max(LADDER))


def _rung(legs: list[Program], n_rows: int) -> Rung:
    times: list[list[float]] = [[], [], []]
    joules: list[list[float]] = [[], [], []]
    for round in range(-1, ROUNDS):
        for place in range(len(legs)):
            leg = (place + round) % len(legs)  # no leg always follows the same one
            before, started = _joules(), time.perf_counter()
            for _ in range(STEPS):
                _step(legs[leg], n_rows)
            seconds, after = time.perf_counter() - started, _joules()
            if round >= 0:
                times[leg].append(seconds / STEPS)
                if before is not None and after is not None and after > before:
                    joules[leg].append((after - before) / STEPS)
    on, off, control = (1000 * statistics.median(found) for found in times)
    energy = [statistics.median(found) if found else None for found in joules]
    return Rung(rows=n_rows, on_ms=on, off_ms=off, control_ms=control, on_joules=energy[0], off_joules=energy[1])


def _step(program: Program, n_rows: int) -> None:
    """One decode step of as many sequences, each at the same position, with a page of its own."""
    pages = Pages(max(LADDER))
    for sequence in range(n_rows):
        pages.grow(sequence, POSITION + 1)
    program.step(
        Rows(
            mode="decode",
            tokens=[17] * n_rows,
            positions=[POSITION] * n_rows,
            sequences=range(n_rows),
            page_tables=pages.tables(tuple(range(n_rows)), program.layout.table_width),
            logit_rows=range(n_rows),
            section=MAIN,
        )
    )


def _joules() -> float | None:
    try:
        return int(RAPL.read_text("ascii")) / 1e6
    except (OSError, ValueError):
        return None  # not shown here, or not to this user
