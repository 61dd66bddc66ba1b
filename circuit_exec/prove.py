"""Proves relations: definitions as scalar DAGs, compiled kernels by bytes; and puts the records into their file.

The compiled part runs the kernel of the fused group and the kernels of its members, one launch after the other, on the
same random numbers, at sizes around the edges of chunks, panels and row tiles, with one thread and with two.
"""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from circuit.emit.program import program_of
from circuit.emit.runtime import ABI
from circuit.errors import PlanError, Problem, RunError
from circuit.formats import GROUP, INT8_G32
from circuit.load.families import Family, load_families
from circuit.load.hardware import HardwareClass, lanes_of, load_hardware, rows_of
from circuit.load.inputs import Library
from circuit.load.policy import load_policy
from circuit.load.proofs import EQUAL, Proof, load_proofs, proofs_path, proofs_text
from circuit.load.rules import Rule, load_rules
from circuit.lower.cases import Case, Sizes, cases_of
from circuit.lower.fuse import fuse
from circuit.lower.ir import Group, Kernel
from circuit.lower.kernels import realize
from circuit.lower.lint import linted
from circuit.lower.proofs import Differs, Equal, compared
from circuit.lower.proven import envelope, hashes, relations
from circuit.lower.sides import PAGES, read_edges, read_weights, step_values, stored_edges, tensor_rows, wiring
from circuit.plan.kernels import panel_of, point_of
from circuit.render.c import render_kernel
from circuit.sigma.attention import page_words
from circuit.text import listed
from circuit.tir.ir import Edge, Weight, row_words
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.records import Bytes
from circuit_exec.cpu import Arguments, open_library
from circuit_exec.host import arch_of, class_to_run, this_host
from circuit_exec.pack import pack_panels

Progress = Callable[[str, float], None]
Words = NDArray[np.uint32]

BOUNDARIES = Sizes(reduced=(257, 544, 256), rows=(5,), free=((49, 47, 48, 50),))
"""Around chunks of 256 and panels of 48; formats in blocks of 32 have whole blocks."""

COMPILED = (0, 1, 3)
"""Which of a rule's cases are compiled: with weights of f32, bf16 and a block format (q4_1). That a kernel decodes each
format as its definition says is the claim of its point, and tested there.
"""

THREADS = (1, 2)
SEED = 20261129


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one rule. `proof` is its record, made even where the claim fails; `failures` say where it does."""

    rule: str
    proof: Proof
    failures: tuple[str, ...]
    elements: int
    expressions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """What proofs of one class need of its files."""

    library: Library
    hardware: HardwareClass
    families: tuple[Family, ...]
    rules: tuple[Rule, ...]


def class_of(library: Library, name: str) -> Class:
    """The class, with its rules as they are: whether they are proven is what is asked."""
    hardware = load_hardware(library, name)
    families = load_families(library, hardware)
    rules = linted(load_rules(library, hardware, families))
    return Class(library=library, hardware=hardware, families=families, rules=rules)


def chosen(given: Class, names: tuple[str, ...]) -> tuple[Rule, ...]:
    """The relations that are asked for, all where none is named; a name that is no relation is a PlanError."""
    known = relations(given.rules)
    unknown = [name for name in names if name not in {rule.id for rule in known}]
    if unknown:
        message = f"class {given.hardware.name} has no relation {listed(f'`{name}`' for name in unknown)}"
        raise PlanError(Problem(message=message, fix=f"use one of: {listed(rule.id for rule in known)}"))
    return tuple(rule for rule in known if not names or rule.id in names)


def prove(given: Class, rules: tuple[Rule, ...], cache: Cache, progress: Progress) -> Iterator[Verdict]:
    """The verdict on each rule, in order; a class that this host cannot run is refused."""
    class_to_run(given.library, this_host(), given.hardware.name)
    for place, rule in enumerate(rules):

        def tell(fraction: float, place: int = place) -> None:
            progress("proving", (place + fraction) / len(rules))

        yield _verdict(given, rule, cache, tell)
    progress("proving", 1.0)


def written(given: Class, verdicts: tuple[Verdict, ...]) -> str:
    """The text of the records' file with these verdicts in it; records of rules that are gone are left out."""
    known = {rule.proof for rule in relations(given.rules)}
    records = {proof.id: proof for proof in load_proofs(given.library, given.hardware) if proof.id in known}
    records |= {verdict.proof.id: verdict.proof for verdict in verdicts}
    return proofs_text(tuple(records.values()))


def _verdict(given: Class, rule: Rule, cache: Cache, tell: Callable[[float], None]) -> Verdict:
    failures: list[str] = []
    elements = expressions = 0
    cases = cases_of(rule)
    for place, case in enumerate(cases):
        tell(0.5 * place / len(cases))
        match compared(case):
            case Equal() as equal:
                elements, expressions = elements + equal.elements, expressions + equal.expressions
            case Differs() as differs:
                where = f"{differs.where} at rows={case.rows} {case.shape}"
                failures.append(f"{where}: fused {differs.fused}, chain {differs.chain}")
    compiled: list[str] = []
    for place, mode in enumerate(rule.modes):
        tell(0.5 + 0.5 * place / len(rule.modes))
        words, wrong = _compiled(given, rule, mode, cache)
        compiled.append(words)
        failures += wrong
    proof = Proof(
        id=rule.proof or rule.id,
        verdict="differs" if failures else EQUAL,
        date=datetime.now(UTC).date().isoformat(),
        rule=hashes(rule).rule,
        modes=rule.modes,
        rows=rule.rows,
        accepts=envelope(rule),
        cases=hashes(rule).cases,
        seeds=(SEED,),
        compiled=tuple(compiled),
        file=proofs_path(given.hardware.name),
        line=None,
    )
    return Verdict(rule=rule.id, proof=proof, failures=tuple(failures), elements=elements, expressions=expressions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """A kernel of one side of one case, and its number in the compiled program."""

    group: Group
    kernel: Kernel
    number: int


def _compiled(given: Class, rule: Rule, mode: str, cache: Cache) -> tuple[str, list[str]]:
    """Both sides compiled for a mode: what was compared, in words, and where bytes differ."""
    rows_hi, lanes = rows_of(given.hardware, mode)[1], lanes_of(given.hardware)
    bodies: dict[str, int] = {}  # arguments and body of a kernel -> its number
    calls: list[str] = []

    def launch(case: Case, group: Group) -> _Launch:
        point = point_of(given.families, group, mode, rule.rows)
        kernel = realize(case.tir, group, point, wiring(case, group, panel_of(given.families), rows_hi))
        body = render_kernel("NAME", kernel.effects, lanes).removeprefix("static void NAME(")
        if body not in bodies:
            bodies[body] = len(bodies)
            calls.append(_call(kernel, bodies[body]))
        return _Launch(group=group, kernel=kernel, number=bodies[body])

    sides = []
    tile = 1
    cases = cases_of(rule, BOUNDARIES)
    for case in dict.fromkeys(cases[at] for at in COMPILED if at < len(cases)):
        singles = [group for group in _singles(given, case, mode, rule) if set(group.nodes) <= set(case.group.nodes)]
        for group in (case.group, *singles):
            values = dict(point_of(given.families, group, mode, rule.rows).values)
            tile = max(tile, values.get("row_tile", 1))
        sides.append((case, [launch(case, case.group)], [launch(case, group) for group in singles]))
    kernels = {f"k{number}": f"static void k{number}({body}" for body, number in bodies.items()}
    program = program_of(kernels, _run(calls), lanes)
    arch = arch_of(given.hardware, this_host())
    rows = tuple(sorted({1, max(tile - 1, 1), tile, tile + 1}))
    wrong: list[str] = []
    with _Team(build(program, cache, lambda what, fraction: None, arch)) as team:
        for place, (case, fused, chain) in enumerate(sides):
            for n in rows:
                wrong += _apart(team, replace(case, rows=n), fused, chain, panel_of(given.families), place)
    shapes = "; ".join(case.shape for case, _, _ in sides)
    return f"{mode}, rows {listed(map(str, rows))}, threads {listed(map(str, THREADS))}: {shapes}", wrong


def _singles(given: Class, case: Case, mode: str, rule: Rule) -> tuple[Group, ...]:
    return fuse(case.tir, given.rules, load_policy(given.library), mode, rule.rows, "reference")


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


class _Team:
    """The compiled kernels with a team of threads for each number of them."""

    def __init__(self, library: Path) -> None:
        self._library = open_library(library)
        self._teams: dict[int, int] = {}

    def __enter__(self) -> "_Team":
        for n in THREADS:
            team = self._library.met_open(n)
            if team is None:
                raise RunError(Problem(message=f"the system gives no {n} threads", fix="end other programs"))
            self._teams[n] = team
        return self

    def __exit__(self, *_: object) -> None:
        for team in self._teams.values():
            self._library.met_close(team)

    def run(self, number: int, rows: int, arrays: dict[int, Words], n_threads: int) -> None:
        """One launch; `arrays` are by slot."""
        pointers = (ctypes.c_void_p * (max(arrays) + 1))()
        for slot, array in arrays.items():
            pointers[slot] = array.ctypes.data
        arguments = Arguments(abi=ABI, plan=number, section=0, n=rows, m=rows, n_sequences=2)
        arguments.states = ctypes.cast(pointers, ctypes.c_void_p)
        status = self._library.met_step(self._teams[n_threads], ctypes.byref(arguments))
        assert status == 0, f"the program has ABI {status}, the executor {ABI}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Memory:
    edges: dict[int, Words]
    states: dict[int, Words]


def _apart(
    team: _Team, case: Case, fused: list[_Launch], chain: list[_Launch], panel: int, place: int
) -> Iterator[str]:
    """Where the bytes of the two sides differ."""
    rng = np.random.default_rng([SEED, place, case.rows])
    tir = case.tir
    edges = {e: _row_words(rng, edge, case.rows) for e, edge in enumerate(tir.edges)}
    states = {s: _numbers(rng, PAGES * page_words(state.heads, state.head_dim)) for s, state in enumerate(tir.states)}
    rows = {weight.name: _stored(rng, weight) for weight in tir.weights}
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
            yield from _differing(state.name, want.states[s], memory.states[s], state.head_dim, case, n_threads, True)


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
    team: _Team, case: Case, memory: _Memory, launch: _Launch, rows: dict[str, Bytes], panel: int, n_threads: int
) -> None:
    tir, group = case.tir, launch.group
    reads, stored, weights = read_edges(tir, group), stored_edges(case, group), read_weights(tir, group)
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


def _row_words(rng: np.random.Generator, edge: Edge, rows: int) -> Words:
    """Rows of an edge in its format."""
    if edge.format != INT8_G32:
        return _numbers(rng, rows * edge.dim)
    groups = rows * edge.dim // GROUP
    codes = rng.integers(-127, 128, (groups, GROUP), np.int8)
    scales = rng.uniform(0.01, 1.0, (groups, 1)).astype(np.float32).view(np.uint32)
    sums = codes.sum(axis=1, dtype=np.int32, keepdims=True).view(np.uint32)
    return np.concatenate((scales, sums, codes.view(np.uint32)), axis=1).reshape(-1)


def _numbers(rng: np.random.Generator, count: int) -> Words:
    """Numbers of many sizes, and some that are easily got wrong: both zeros, a subnormal."""
    values = (rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)).astype(np.float32)
    odd = np.array([0.0, -0.0, 1e-40, -1e-40], np.float32)
    chosen = rng.integers(0, 40, count)
    return np.where(chosen < len(odd), odd[np.minimum(chosen, len(odd) - 1)], values).astype(np.float32).view(np.uint32)


def _stored(rng: np.random.Generator, weight: Weight) -> Bytes:
    """A tensor as its file stores it, [rows, bytes]."""
    n, k = weight.shape if len(weight.shape) == 2 else (weight.shape[0], 1)
    values = rng.standard_normal((n, k)).astype(np.float32)
    match weight.format:
        case "f32":
            return values.view(np.uint8)
        case "bf16":
            return np.ascontiguousarray(values.view(np.uint16)[:, 1::2]).view(np.uint8)
        case "q4_0" | "q4_1" | "q5_0" | "q8_0":
            n_heads, of_codes = {"q4_0": (1, 16), "q4_1": (2, 16), "q5_0": (1, 20), "q8_0": (1, 32)}[weight.format]
            scales = rng.uniform(0.25, 1.0, (n, k // 32, n_heads)) / 16
            heads = scales.astype(np.float16).view(np.uint8)
            codes = rng.integers(0, 256, (n, k // 32, of_codes), np.uint8)
            return np.concatenate((heads, codes), axis=-1).reshape(n, -1)
        case format:
            raise AssertionError(f"no random tensor of format {format}")


def _baked(case: Case, weight: Weight, rows: dict[str, Bytes], panel: int) -> Words:
    """The words of a weight, gathered from the tensors of its recipe."""
    stored = np.stack([rows[key][row] for key, row in tensor_rows(case.tir, weight.recipe)])
    if len(weight.shape) == 1:
        return np.ascontiguousarray(stored).view(np.uint32).reshape(-1)
    return pack_panels(stored, weight.format, weight.shape[1], panel)
