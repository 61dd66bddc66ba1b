"""One way to run a model, and its program: the one that `met run` runs, or one whose edges can all be read.

A watched program has the same kernels, to the letter, and the same launches; only its buffers share no room, so that
each edge still has its value when the step ends. It takes more memory, and fewer barriers where room was reused.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager

import numpy as np
from msgspec import Struct, field

from circuit.bake.layout import PANEL
from circuit.bake.manifest import Manifest, build_manifest
from circuit.compiled import Compiled, Goal
from circuit.emit.derive import layout
from circuit.emit.layout import Layout
from circuit.emit.program import emit_program
from circuit.emit.sources import Sources
from circuit.emit.watch import Watched, watched
from circuit.load.hardware import HardwareClass
from circuit.lower.ir import Which
from circuit.pipeline import compiled
from circuit.plan.apart import apart
from circuit.plan.ir import Plan
from circuit_exec.bake import bake
from circuit_exec.build import Progress, build
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.checkpoint.texts import checkpoint_texts
from circuit_exec.cpu import LOGITS, Program
from circuit_exec.host import arch_of, class_to_run, this_host
from circuit_exec.kv import Pages, pages_for
from circuit_exec.library import library

AXES = {"rules": "rules", "threads": "threads", "chunk": "prefill chunking", "steps": "prefill = decode"}
"""For each option along which two sides may differ, the axis of the certificate that claims equal bytes."""

Alter = Callable[["Side", Sources], Sources]
"""Changes the C sources of a side before it is compiled: how a test injects a fault."""


class Side(Struct, frozen=True, kw_only=True):
    """How one side runs. `policy` are KEY=VALUE; the last `steps` tokens are decode steps of one row each.

    A chunk of None is the most rows that a prefill step can have.
    """

    rules: Which
    policy: tuple[str, ...]
    threads: int
    chunk: int | None
    steps: int


def unaltered(side: Side, sources: Sources) -> Sources:
    """The sources as they are."""
    return sources


class Made(Struct, frozen=True, kw_only=True):
    """What rules and a policy compile to. `watched`: for each plan, what can be read after a step.

    `holds` are the axes that the certificates of all plans say hold.
    """

    sources: Sources
    layout: Layout
    manifest: Manifest
    watched: tuple[tuple[Watched, ...], ...]
    bytes_digest: str
    holds: frozenset[str]


class Opened(Struct, frozen=True, kw_only=True, eq=False):
    """A side that is ready to run."""

    side: Side
    made: Made
    program: Program
    pages: Pages


def varied(one: Side, other: Side) -> tuple[str, ...]:
    """The options in which two sides differ."""
    return tuple(name for name in (*AXES, "policy") if getattr(one, name) != getattr(other, name))


def claims_equal(one: Opened, other: Opened) -> bool:
    """Whether the plans claim that both sides give the same bytes."""
    axes = {AXES[name] for name in varied(one.side, other.side) if name in AXES} or {"run to run"}
    equal = one.made.bytes_digest == other.made.bytes_digest
    return equal and axes <= one.made.holds and axes <= other.made.holds


class Sides(Struct, frozen=True, kw_only=True, eq=False):
    """Makes and opens the sides of one checkpoint; plans each rule set once. `alter` changes a side's C sources."""

    checkpoint: Checkpoint
    cache: Cache
    progress: Progress
    alter: Alter = unaltered
    hardware: HardwareClass = field(default_factory=lambda: class_to_run(library(), this_host()))
    _planned: dict[tuple[Which, tuple[str, ...]], Compiled] = field(default_factory=dict)
    _made: dict[tuple[Which, tuple[str, ...], str], Made] = field(default_factory=dict)

    def running(self, side: Side) -> Made:
        """The program that `met run` runs; only logits can be read."""
        return self._once(side, "running", lambda plan: plan, lambda each: each.name == LOGITS)

    def watched(self, side: Side) -> Made:
        """The program whose buffers share no room; every edge can be read."""
        return self._once(side, "watched", apart, lambda each: True)

    @contextmanager
    def opened(self, side: Side, made: Made, length: int) -> Iterator[Opened]:
        """The side, ready to run `length` tokens; its threads end with the block."""
        arch = arch_of(self.hardware, this_host())
        library_at = build(self.alter(side, made.sources), self.cache, self.progress, arch)
        weights = bake(made.manifest, self.checkpoint, self.cache, self._baking)
        n_pages = pages_for(length)
        program = Program(library_at, made.layout, weights.words.view(np.uint8), side.threads, n_pages)
        with closing(program):
            yield Opened(side=side, made=made, program=program, pages=Pages(n_pages))

    def _once(self, side: Side, kind: str, placed: Callable[[Plan], Plan], wanted: Callable[[Watched], bool]) -> Made:
        rules = (side.rules, side.policy)
        if rules not in self._planned:
            goal = Goal(hardware_class=self.hardware.name, choices=side.policy, rules=side.rules)
            self._planned[rules] = compiled(checkpoint_texts(self.checkpoint), library(), goal)
        key = (*rules, kind)
        if key not in self._made:
            found = self._planned[rules]
            self._made[key] = made_of(found, tuple(map(placed, found.plans)), wanted)
        return self._made[key]

    def _baking(self, done: int, total: int) -> None:
        self.progress("baking the weights", done / total)


def made_of(found: Compiled, plans: tuple[Plan, ...], wanted: Callable[[Watched], bool]) -> Made:
    """The program of the plans, and which of the edges can be read after a step."""
    groups = (each.groups for each in found.groups.sets)
    read = (watched(found.bound.tir, group, plan) for group, plan in zip(groups, plans, strict=True))
    (bytes_digest,) = {dict(plan.parts)["bytes"] for plan in plans}
    return Made(
        sources=emit_program(plans),
        layout=layout(plans),
        manifest=build_manifest(plans[0].weights, PANEL, found.bound.equal),
        watched=tuple(tuple(filter(wanted, each)) for each in read),
        bytes_digest=bytes_digest,
        holds=frozenset(_common([axis.axis for axis in plan.certificate if axis.holds == "yes"] for plan in plans)),
    )


def _common(lists: Iterable[list[str]]) -> set[str]:
    first, *others = map(set, lists)
    return first.intersection(*others)
