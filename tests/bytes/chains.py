"""A few ops on random rows as a program of its own, its weights in a GGUF file: a rule against its single ops."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.emit.derive import layout
from circuit.emit.program import emit_program
from circuit.emit.runtime import MAIN
from circuit.load.hardware import load_hardware
from circuit.load.policy import load_policy
from circuit.lower.fuse import fuse
from circuit.lower.scheduled import realize
from circuit.plan.build import Request, plan
from circuit.plan.ir import Plan
from circuit.tir.ir import Edge, Key, Node, Tir, Value, Weight
from circuit_exec.bake import bake
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.cpu import Program
from circuit_exec.step import Rows
from tests.checkpoint.files import GGML, GgufTensor, gguf
from tests.lower.library import class_families, class_rules, own_library
from tests.shared import compiled_quickly

Words = NDArray[np.uint32]

LIBRARY = own_library()
RULES = class_rules(LIBRARY)
FAMILIES = class_families(LIBRARY)
N_TOKENS = 70
STEPS = (("decode", (1, 8)), ("prefill", (1, N_TOKENS)))


class Chain(Struct):
    """Ops in the making. An input is a table of random rows, one for each token.

    `flipped` is the byte of the weights, counted from the end, whose lowest bit is turned over.
    """

    seed: int
    flipped: int | None = None
    edges: list[Edge] = field(default_factory=lambda: [Edge(name="tokens", rows="n", dim=1, format="i32")])
    weights: list[Weight] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def rows(self, name: str, dim: int) -> int:
        """An input edge."""
        table = self.weight(f"table_{name}", (N_TOKENS, dim), "f32")
        return self.op(f"embed_{name}", "embed", (0,), name, dim, weights=(table,))

    def weight(self, name: str, shape: tuple[int, ...], format: str) -> int:
        """A weight under its own name in the file."""
        self.weights.append(Weight(name=name, shape=shape, format=format, recipe=Key(key=name)))
        return len(self.weights) - 1

    def op(
        self,
        id: str,
        op: str,
        inputs: tuple[int, ...],
        output: str,
        dim: int,
        weights: tuple[int, ...] = (),
        role: str | None = None,
        rows: str = "n",
        **params: Value,
    ) -> int:
        """A node and its output edge."""
        self.edges.append(Edge(name=output, rows=rows, dim=dim, format="f32"))
        made = Node(
            id=id,
            op=op,
            role=role,
            inputs=inputs,
            outputs=(len(self.edges) - 1,),
            weights=weights,
            params=tuple(sorted(params.items())),
            block="chain",
        )
        self.nodes.append(made)
        return len(self.edges) - 1

    def copy(self, edge: int) -> int:
        """An edge with the same values in a buffer of its own: the columns of a shared one are no output of a step."""
        of = self.edges[edge]
        return self.op(f"copy_{of.name}", "index_select", (edge,), f"copy_{of.name}", of.dim, rows="m")

    def tir(self, outputs: Sequence[int]) -> Tir:
        """The instance that leaves these edges behind."""
        return Tir(
            arch="chain",
            context=N_TOKENS,
            dims=(),
            edges=tuple(self.edges),
            weights=tuple(self.weights),
            states=(),
            nodes=tuple(self.nodes),
            inputs=(0,),
            outputs=tuple(outputs),
        )

    def write(self, path: Path) -> None:
        """The random weights as a GGUF file; scales are such that sums of a few hundred products stay near 1."""
        random = np.random.default_rng(self.seed)
        tensors = [
            GgufTensor(name=w.name, type=GGML[w.format], shape=w.shape, data=_stored(random, w.format, w.shape))
            for w in self.weights
        ]
        data = bytearray(gguf(tensors=tensors))
        if self.flipped is not None:
            data[-self.flipped] ^= 1
        path.write_bytes(data)


def outputs(
    chain: Chain,
    ends: Sequence[int],
    rule: str | None,
    folder: Path,
    threads: Sequence[int],
    modes: Sequence[str] = ("decode", "prefill"),
) -> list[list[Words]]:
    """For each number of threads, the words of every end edge after several steps of each mode.

    The rules are the single-op ones and, if given, `rule`, which then must fire. Without it the program is compiled
    quickly.
    """
    tir = chain.tir(ends)
    most = {known.id: known.rows[1] for known in RULES}.get(rule or "", N_TOKENS)
    steps = [(mode, (lo, min(hi, most))) for mode, (lo, hi) in STEPS if mode in modes]
    plans = tuple(_planned(tir, rule, mode, rows) for mode, rows in steps)
    for made in plans:
        used = [launch.rule for launch in made.launches]
        assert rule is None or used.count(rule) == 1, f"{rule} does not fire: {used}"
        assert rule is not None or all(len(launch.members) == 1 for launch in made.launches)
    path, cache = folder / "weights.gguf", Cache(root=folder / "cache")
    chain.write(path)
    baked = bake(build_manifest(plans[0].weights, PANEL), open_checkpoint(str(path)), cache, lambda done, total: None)
    with compiled_quickly() if rule is None else nullcontext():
        library = build(emit_program(plans), cache, lambda what, part: None)
    found = []
    for n_threads in threads:
        program = Program(library, layout(plans), baked.words.view(np.uint8), n_threads, 1)
        found.append(list(_run(program, [tir.edges[end].name for end in ends], modes)))
        program.close()
    return found


def _run(program: Program, edges: Sequence[str], modes: Sequence[str]) -> Iterator[Words]:
    for mode, n in (
        ("decode", 1),
        ("decode", 2),
        ("decode", 5),
        ("decode", 8),
        ("prefill", 1),
        ("prefill", 7),
        ("prefill", N_TOKENS),
    ):
        if mode not in modes or n > program.max_rows(mode):
            continue
        program.step(_rows(mode, n, program.layout.table_width))
        for edge in edges:
            yield program._output(edge).view(np.uint32).copy()


def _planned(tir: Tir, rule: str | None, mode: str, rows: tuple[int, int]) -> Plan:
    chosen = (known for known in RULES if len(known.pattern) == 1 or known.id == rule)
    rules = tuple(replace(known, used=True) for known in chosen)
    policy = load_policy(LIBRARY)
    request = Request(
        hardware=load_hardware(LIBRARY, "cpu"),
        families=FAMILIES,
        policy=policy,
        mode=mode,
        rows=rows,
        run=(),
        realize=realize,
        scheduled=True,
    )
    return plan(tir, fuse(tir, rules, policy, mode, rows, "all"), request)


def _rows(mode: str, n: int, table_width: int) -> Rows:
    return Rows(
        mode=mode,
        tokens=[(7 * i + 3) % N_TOKENS for i in range(n)],
        positions=range(n),
        sequences=[0] * n,
        page_tables=np.zeros((1, table_width), np.int32),
        logit_rows=range(n),
        section=MAIN,
    )


def _stored(random: np.random.Generator, format: str, shape: tuple[int, ...]) -> bytes:
    values = random.standard_normal(shape, dtype=np.float32)
    if len(shape) == 2 and "f" in format:
        values /= np.float32(8)
    match format:
        case "f32":
            return values.tobytes()
        case "f16":
            return values.astype(np.float16).tobytes()
        case "bf16":
            return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes()
    n = values.size // 32
    scale = (random.standard_normal((n, 1)) * 0.02).astype(np.float16).view(np.uint8)
    if format == "q8_0":
        return np.hstack([scale, random.integers(0, 256, (n, 32), np.uint8)]).tobytes()
    codes = random.integers(0, 256, (n, 16), np.uint8)
    if format == "q4_0":
        return np.hstack([scale, codes]).tobytes()
    assert format == "q4_1"
    least = (random.standard_normal((n, 1)) * 0.1).astype(np.float16).view(np.uint8)
    return np.hstack([scale, least, codes]).tobytes()
