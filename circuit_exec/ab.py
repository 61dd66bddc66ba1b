"""A relation on against off: decode steps of 1 to 64 rows, the legs in one binary, in turn, with a control leg.

The legs differ in one rule, so a rung is of rows at which the rule takes a node. The control is the leg without it once
more, in memory of its own: how much these two differ is what the machine does. Times are of whole steps; energy is that
of the processor packages.
"""

import hashlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.compiled import Compiled, Goal
from circuit.emit.derive import layout
from circuit.emit.layout import Layout
from circuit.emit.program import emit_program
from circuit.emit.runtime import MAIN
from circuit.errors import PlanError, Problem
from circuit.load.evidence import Rung, Span
from circuit.load.rules import Rule
from circuit.load.settings import PREFIX
from circuit.lower.evidence import change
from circuit.pipeline import compiled
from circuit.plan.ir import Plan
from circuit_exec.bake import bake
from circuit_exec.build import Progress, build
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.open import opened
from circuit_exec.checkpoint.records import Checkpoint, require_weights
from circuit_exec.checkpoint.texts import checkpoint_texts
from circuit_exec.cpu import Program
from circuit_exec.energy import Meter
from circuit_exec.host import arch_of, class_to_run, this_host
from circuit_exec.kv import Pages
from circuit_exec.library import library
from circuit_exec.step import Rows

LADDER = (1, 2, 4, 8, 16, 32, 64)
POSITION = 40

LEAST_ROUNDS, MOST_ROUNDS = 5, 15
RUNG_S = 3.0
"""A rung has at least so many rounds and at most so many; in between, it ends when it has taken this long."""

DOUBTED_ROUNDS = 60
"""A rung that seems to cost something is judged on so many rounds, whatever they show: of many rungs of a few rounds
each, some seem to lose by chance.
"""

OFF, ON, CONTROL = range(3)


class Sides(Struct, frozen=True, kw_only=True):
    """Both sides of one rule on one model, planned. `on`, `off`: hashes of the plans, of no place or time."""

    rule: str
    checkpoint: Checkpoint
    with_rule: Compiled
    without: Compiled
    on: str
    off: str


def sides(path: str, class_name: str, rule: Rule, choices: tuple[str, ...], cache: Cache) -> Sides | None:
    """The sides of a rule under other choices of the policy; None where it takes no node of a decode step."""
    checkpoint = opened(path, cache)
    require_weights(checkpoint)
    on, off = (_compiled(checkpoint, class_name, (*choices, f"{PREFIX}{rule.id}={value}")) for value in ("on", "off"))
    if not any(launch.rule == rule.id for plan in on.plans for launch in plan.launches):
        return None
    return Sides(
        rule=rule.id, checkpoint=checkpoint, with_rule=on, without=off, on=_hash(on.plans), off=_hash(off.plans)
    )


def idle(rule: Rule, model: str) -> PlanError:
    """What is said of a rule that was asked for and takes nothing."""
    message = f"rule `{rule.id}` takes no node of a decode step of {model}"
    fix = "give a model where it does, or turn off what takes its nodes first: --policy fuse.RULE=off"
    return PlanError(Problem(message=message, fix=fix))


def measure(given: Sides, cache: Cache, n_threads: int, meter: Meter | str, progress: Progress) -> Iterator[Rung]:
    """The ladder of one rule on one model."""
    on, off = given.with_rule, given.without
    host = this_host()
    hardware = class_to_run(library(), host, on.plans[0].hardware_class)
    program = build(emit_program((*on.plans, *off.plans)), cache, progress, arch_of(hardware, host))
    first, second = layout(on.plans), _behind(layout(on.plans), layout(off.plans))

    def leg(made: Compiled, shape: Layout) -> Program:
        manifest = build_manifest(made.plans[0].weights, PANEL, made.bound.equal)
        weights = bake(manifest, given.checkpoint, cache, lambda done, total: None)
        return Program(program, shape, weights.words.view(np.uint8), n_threads, max(LADDER))

    ladder = [rows for rows in LADDER if _takes(on, given.rule, rows)]
    with closing(leg(off, second)) as a, closing(leg(on, first)) as b, closing(leg(off, second)) as c:
        for place, rows in enumerate(ladder):
            progress(f"measuring {given.rule}", place / len(ladder))
            legs = [_steps(program, rows) for program in (a, b, c)]
            yield rung(rows, legs, meter)
        progress(f"measuring {given.rule}", 1.0)


def _takes(made: Compiled, rule: str, rows: int) -> bool:
    """Whether the rule takes a node of a step of so many rows."""
    plan = next(plan for plan in made.plans if plan.rows[0] <= rows <= plan.rows[1])
    return any(launch.rule == rule for launch in plan.launches)


def rung(rows: int, legs: list[Callable[[], None]], meter: Meter | str) -> Rung:
    """The legs in turn: off, on, control. The first round is not counted."""
    times: list[list[float]] = [[], [], []]
    joules: list[list[float]] = [[], [], []]
    n_steps = max(1, 4 // rows)
    begun = time.perf_counter()
    doubted = False
    for round in range(-1, DOUBTED_ROUNDS):
        enough = round >= MOST_ROUNDS or (round >= LEAST_ROUNDS and time.perf_counter() - begun > RUNG_S)
        doubted = doubted or (enough and _seems_to_cost(times, joules))
        if enough and not doubted:
            break
        for place in range(len(legs)):
            leg = (place + round) % len(legs)  # no leg always follows the same one
            before = meter.read() if isinstance(meter, Meter) else ()
            started = time.perf_counter()
            for _ in range(n_steps):
                legs[leg]()
            seconds = time.perf_counter() - started
            if round >= 0:
                times[leg].append(seconds / n_steps)
                if isinstance(meter, Meter):
                    joules[leg].append(meter.joules(before, meter.read()) / n_steps)
    ratio, control = ratios(times)
    energy, energy_control = ratios(joules) if _readable(joules) else (None, None)
    return Rung(
        rows=rows,
        off_ms=round_to(1000 * statistics.median(times[OFF])),
        ratio=ratio,
        control=control,
        energy=energy,
        energy_control=energy_control,
    )


def _seems_to_cost(times: list[list[float]], joules: list[list[float]]) -> bool:
    return any(change(*ratios(found)) == "more" for found in (times, joules) if _readable(found))


def _readable(found: list[list[float]]) -> bool:
    return bool(found[OFF]) and all(min(each) > 0 for each in found)


def ratios(found: list[list[float]]) -> tuple[float, Span]:
    """The median of on / off, and where the middle 80 % of control / off lies, of pairs of one round."""
    on = statistics.median(b / a for a, b in zip(found[OFF], found[ON], strict=True))
    control = sorted(c / a for a, c in zip(found[OFF], found[CONTROL], strict=True))
    cut = (len(control) + 5) // 10
    return round_to(on), (round_to(control[cut]), round_to(control[-1 - cut]))


def round_to(value: float) -> float:
    """Four digits behind the point: more is noise."""
    return round(value, 4)


def _compiled(checkpoint: Checkpoint, class_name: str, choices: tuple[str, ...]) -> Compiled:
    goal = Goal(hardware_class=class_name, choices=choices, steps=(("decode", None),))
    return compiled(checkpoint_texts(checkpoint), library(), goal)


def _hash(plans: Iterable[Plan]) -> str:
    return hashlib.sha256("\n".join(plan.digest for plan in plans).encode("ascii")).hexdigest()


def _behind(first: Layout, second: Layout) -> Layout:
    """The second plan set of a program: its plans are counted after those of the first, which nobody asks for."""
    steps = tuple(replace(step, mode=f"other {step.mode}") for step in first.steps)
    return replace(second, steps=(*steps, *second.steps))


def _steps(program: Program, n_rows: int) -> Callable[[], None]:
    """A decode step of as many sequences, each at the same position, with a page of its own."""
    pages = Pages(max(LADDER))
    for sequence in range(n_rows):
        pages.grow(sequence, POSITION + 1)
    rows = Rows(
        mode="decode",
        tokens=[17] * n_rows,
        positions=[POSITION] * n_rows,
        sequences=range(n_rows),
        page_tables=pages.tables(tuple(range(n_rows)), program.layout.table_width),
        logit_rows=range(n_rows),
        section=MAIN,
    )
    return lambda: program.step(rows)
