"""Both sides of a relation compiled and run: the fused group's kernel, and its members', one launch after the other.

They run on the same random numbers, at sizes around the edges of chunks, panels and row tiles, with one thread and
with two, at each set of points that a plan of the rule's rows can have.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from circuit.emit.program import program_of
from circuit.load.families import panel_of
from circuit.load.hardware import lanes_of, rows_of
from circuit.load.policy import load_policy
from circuit.load.rules import Rule
from circuit.lower.cases import Case, Sizes, cases_of
from circuit.lower.fuse import fuse
from circuit.lower.ir import Group, Kernel
from circuit.lower.realize import define
from circuit.lower.scheduled import realize
from circuit.lower.sides import PAGES, read_edges, step_values, stored_edges, tensor_rows, wiring
from circuit.lower.weights import weights_of
from circuit.plan.kernels import point_of
from circuit.plan.ranges import row_ranges
from circuit.render.c import render_kernel
from circuit.sigma.page import page_words
from circuit.text import listed
from circuit.tir.ir import Weight, row_words
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.raw import Bytes
from circuit_exec.host import arch_of, this_host
from circuit_exec.pack import pack_panels
from circuit_exec.prove.given import Class
from circuit_exec.prove.random_words import Words, random_rows, random_tensor, random_words
from circuit_exec.prove.team import THREADS, Team

BOUNDARIES = Sizes(reduced=(257, 544, 256), rows=(5,), free=((49, 47, 48, 50),))
"""Around chunks of 256 and panels of 48; formats in blocks of 32 have whole blocks."""

COMPILED = (0, 1, 3)
"""Which of a rule's cases are compiled: with weights of f32, bf16 and a block format (q4_1). That a kernel decodes each
format as its definition says is the claim of its point, and tested there.
"""

SEED = 20261129


def compiled_apart(given: Class, rule: Rule, mode: str, cache: Cache) -> tuple[str, list[str]]:
    """Both sides compiled for a mode: what was compared, in words, and where bytes differ."""
    lanes = lanes_of(given.hardware)
    bodies: dict[str, int] = {}  # arguments and body of a kernel -> its number
    calls: list[str] = []

    def launch(case: Case, group: Group, part: tuple[int, int]) -> _Launch:
        point = point_of(given.families, group, mode, part)
        definition = define(case.tir, group, wiring(case, group, panel_of(given.families), part[1]))
        kernel = realize(case.tir, group, point, definition)
        body = render_kernel("NAME", kernel.effects, lanes).removeprefix("static void NAME(")
        if body not in bodies:
            bodies[body] = len(bodies)
            calls.append(_call(kernel, bodies[body]))
        return _Launch(group=group, kernel=kernel, number=bodies[body])

    cases = cases_of(rule, BOUNDARIES)
    stateful = any(case.tir.states for case in cases)
    chosen = tuple(dict.fromkeys(case for at, case in enumerate(cases) if stateful or at in COMPILED))
    chains = [_chain(given, case, mode, rule) for case in chosen]
    groups = [group for case, chain in zip(chosen, chains, strict=True) for group in (case.group, *chain)]
    sides = []
    for part in _parts(given, groups, mode, rule):
        rows = _edges(given, groups, mode, part)
        for place, (case, chain) in enumerate(zip(chosen, chains, strict=True)):
            one, other = [launch(case, case.group, part)], [launch(case, group, part) for group in chain]
            sides += [(place, replace(case, rows=n), one, other) for n in rows]
    kernels = {f"k{number}": f"static void k{number}({body}" for body, number in bodies.items()}
    program = program_of(kernels, _run(calls), lanes)
    arch = arch_of(given.hardware, this_host())
    wrong: list[str] = []
    with Team(build(program, cache, lambda what, fraction: None, arch)) as team:
        for place, case, one, other in sides:
            wrong += _apart(team, case, one, other, panel_of(given.families), place)
    rows = sorted({case.rows for _, case, _, _ in sides})
    shapes = "; ".join(case.shape for case in chosen)
    return f"{mode}, rows {listed(map(str, rows))}, threads {listed(map(str, THREADS))}: {shapes}", wrong


class _Launch(Struct, frozen=True, kw_only=True):
    """A kernel of one side of one case, and its number in the compiled program."""

    group: Group
    kernel: Kernel
    number: int


def _chain(given: Class, case: Case, mode: str, rule: Rule) -> list[Group]:
    """What the reference rules make of the case's nodes."""
    singles = fuse(case.tir, given.rules, load_policy(given.library), mode, rule.rows, "reference")
    return [group for group in singles if set(group.nodes) <= set(case.group.nodes)]


def _parts(given: Class, groups: list[Group], mode: str, rule: Rule) -> list[tuple[int, int]]:
    """The first range of the rule's rows for each set of points that its groups have: what a plan of them runs."""
    families = {group.family for group in groups}
    used = tuple(family for family in given.families if family.id in families)
    reach = rows_of(given.hardware, mode)
    parts = row_ranges((rule,), used, mode, (max(rule.rows[0], reach[0]), min(rule.rows[1], reach[1])))
    first = {tuple(point_of(given.families, g, mode, part).id for g in groups): part for part in reversed(parts)}
    return sorted(first.values())


def _edges(given: Class, groups: list[Group], mode: str, part: tuple[int, int]) -> list[int]:
    """Rows around the largest tile of the points, within what they run."""
    points = (point_of(given.families, group, mode, part) for group in groups)
    tile = max(dict(point.values).get("row_tile", 1) for point in points)
    return sorted({min(max(n, part[0]), part[1]) for n in (1, tile - 1, tile, tile + 1)})


def _call(kernel: Kernel, number: int) -> str:
    used = {slot.slot: slot for slot in kernel.slots}
    scalars = {slot.slot for slot in kernel.slots if slot.kind == "step" and slot.name in ("n", "m")}
    arguments = ["s->n" if slot in scalars else f"p[{slot}]" for slot in range(max(used) + 1)]
    return f"    case {number}: k{number}({', '.join(arguments)}, team, tid, nt); break;"


def _run(calls: list[str]) -> str:
    head = [
        "void met_run(const met_args *s, met_team *team, int tid, int nt) {",
        "  void *const *p = (void *const *)s->states;",
        "  switch (s->plan) {",
    ]
    return "\n".join([*head, *calls, "  }", "}", ""])


class _Memory(Struct, frozen=True, kw_only=True, eq=False):
    edges: dict[int, Words]
    states: dict[int, Words]


def _apart(team: Team, case: Case, fused: list[_Launch], chain: list[_Launch], panel: int, place: int) -> Iterator[str]:
    """Where the bytes of the two sides differ."""
    rng = np.random.default_rng([SEED, place, case.rows])
    tir = case.tir
    edges = {e: random_rows(rng, edge, case.rows) for e, edge in enumerate(tir.edges)}
    states = {
        s: random_words(rng, PAGES * page_words(state.format, state.heads, state.head_dim))
        for s, state in enumerate(tir.states)
    }
    rows = {weight.name: random_tensor(rng, weight) for weight in tir.weights}
    want: _Memory | None = None
    for n_threads, launches in [(1, chain), *((n, fused) for n in THREADS)]:
        memory = _Memory(
            edges={e: words.copy() for e, words in edges.items()}, states={s: w.copy() for s, w in states.items()}
        )
        for launch in launches:
            _launch(team, case, memory, launch, rows, panel, n_threads)
        if want is None:
            want = memory
            continue
        for e in stored_edges(case, case.group):
            edge = tir.edges[e]
            same_nan = edge.format == "f32"
            both = want.edges[e], memory.edges[e]
            yield from _differing(edge.name, *both, row_words(edge), case, n_threads, same_nan)
        for s, state in enumerate(tir.states):
            yield from _differing(state.name, want.states[s], memory.states[s], state.head_dim, case, n_threads, False)


def _differing(
    name: str, want: Words, got: Words, dim: int, case: Case, n_threads: int, same_nan: bool
) -> Iterator[str]:
    """`same_nan`: the words are f32, of which all NaNs count as equal."""
    nan = np.isnan(want.view(np.float32)) & np.isnan(got.view(np.float32)) & same_nan
    places = np.flatnonzero((want != got) & ~nan)
    if len(places):
        at = f"{name}[{places[0] // dim}, {places[0] % dim}]"
        values = f"fused {got[places[0]]:08x}, chain {want[places[0]]:08x}"
        yield f"{at} compiled, {n_threads} threads, rows={case.rows} {case.shape}: {values}"


def _launch(
    team: Team, case: Case, memory: _Memory, launch: _Launch, rows: dict[str, Bytes], panel: int, n_threads: int
) -> None:
    tir, group = case.tir, launch.group
    reads, stored, weights = read_edges(tir, group), stored_edges(case, group), weights_of(tir, group)
    states = tuple(dict.fromkeys(s for place in group.nodes for s in tir.nodes[place].states))
    arrays: dict[int, Words] = {}
    shared: Words | None = None
    for slot in launch.kernel.slots:
        match slot.kind:
            case "in":
                arrays[slot.slot] = memory.edges[reads[slot.place]]
            case "out" if group.derived:
                shared = arrays[slot.slot] = np.zeros(case.rows * slot.columns, np.uint32)
            case "out":
                arrays[slot.slot] = memory.edges[stored[slot.place]]
            case "scratch":
                arrays[slot.slot] = np.zeros(case.rows * slot.columns, np.uint32)
            case "weight":
                arrays[slot.slot] = _baked(case, weights[slot.place], rows, panel)
            case "state":
                arrays[slot.slot] = memory.states[states[slot.place]]
            case _ if slot.name not in ("n", "m"):
                arrays[slot.slot] = np.array(list(step_values(slot, case.rows, tir.context)), np.int32).view(np.uint32)
    team.run(launch.number, case.rows, arrays, n_threads)
    if shared is not None:
        first, table = 0, shared.reshape(case.rows, -1)
        for edge in stored:
            dim = row_words(tir.edges[edge])
            memory.edges[edge][:] = np.ascontiguousarray(table[:, first : first + dim]).reshape(-1)
            first += dim


def _baked(case: Case, weight: Weight, rows: dict[str, Bytes], panel: int) -> Words:
    """The words of a weight, gathered from the tensors of its recipe."""
    stored = np.stack([rows[key][row] for key, row in tensor_rows(case.tir, weight.recipe)])
    if len(weight.shape) == 1:
        return np.ascontiguousarray(stored).view(np.uint32).reshape(-1)
    return pack_panels(stored, weight.format, weight.shape[1], panel)
