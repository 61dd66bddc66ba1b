"""What the machine could do at best: how fast it reads and multiplies, and what a work has to read and multiply."""

import statistics
import subprocess
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bench.errors import BenchError
from bench.paths import BENCH, BUILD
from circuit_exec.bench import Work
from circuit_exec.cache import user_cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.probe import ReadProbe

PASSES = 7
UNSTEADY = 0.2
"""A cell whose probes before and after differ by more is marked."""

KV_BYTES = 4
"""Of one key or value as met keeps it by default."""

FLAGS = {"avx2": "-march=x86-64-v3", "native": "-march=native"}


class Speeds(Struct, frozen=True, kw_only=True):
    """Bytes read, f32 operations (an fma is two) and int8 operations a second, on all threads together."""

    read: float
    f32: float
    int8: float


class Needs(Struct, frozen=True, kw_only=True):
    """What a work reads and computes at least, a token of all sequences together taken as one step.

    `projections` are operations that multiply weights, `attention` those that multiply keys and values.
    """

    n_bytes: float
    projections: float
    attention: float


class Sizes(Struct, frozen=True, kw_only=True):
    """Of a model file: bytes of weights that a step reads; elements of the matrices in the layers and of the head."""

    weight_bytes: int
    layer_elements: int
    head_elements: int
    n_layers: int
    q_width: int
    kv_width: int


class Probes:
    """Measures the speeds whenever it is asked."""

    def __init__(self, n_threads: int) -> None:
        self._read = ReadProbe(user_cache(), n_threads, lambda what, part: None)
        self._n_threads = n_threads

    def speeds(self, isa: str) -> Speeds:
        """The median of several passes over memory, and one run of the arithmetic probe of the instruction set."""
        read = statistics.median(self._read.bytes_per_s() for _ in range(PASSES))
        done = subprocess.run(
            [str(_compute_probe(isa)), str(self._n_threads)], check=True, capture_output=True, text=True
        )
        f32, int8 = map(float, done.stdout.split())
        return Speeds(read=read, f32=f32, int8=int8)

    def close(self) -> None:
        """Ends the threads."""
        self._read.close()


def steady(before: Speeds, after: Speeds) -> bool:
    """Whether the machine kept its speed while the cell was measured."""
    pairs = ((before.read, after.read), (before.f32, after.f32))
    return all(abs(a - b) <= UNSTEADY * max(a, b) for a, b in pairs)


def mean(before: Speeds, after: Speeds) -> Speeds:
    """The speeds that a cell is held against."""
    return Speeds(
        read=(before.read + after.read) / 2, f32=(before.f32 + after.f32) / 2, int8=(before.int8 + after.int8) / 2
    )


def ceiling(needs: Needs, speeds: Speeds, activations: str) -> tuple[float, Literal["memory", "arithmetic"]]:
    """Steps a second at best, and what bounds them: the roofline."""
    projecting = needs.projections / (speeds.int8 if activations == "int8" else speeds.f32)
    computing = projecting + needs.attention / speeds.f32
    reading = needs.n_bytes / speeds.read
    return 1 / max(computing, reading), "memory" if reading >= computing else "arithmetic"


def needs(sizes: Sizes, work: Work) -> Needs:
    """Of one step on average: a step of decode is a token in each sequence, a prefill is one step."""
    a_position = 4 * sizes.n_layers * sizes.q_width  # a score and a value: two operations each, in every head
    kv_position = 2 * sizes.n_layers * sizes.kv_width * KV_BYTES
    if work.mode == "prefill":
        n = work.n_tokens
        return Needs(
            n_bytes=sizes.weight_bytes + n * kv_position,
            projections=2.0 * (n * sizes.layer_elements + sizes.head_elements),
            attention=a_position * n * (n + 1) / 2,
        )
    visible = (work.n_before + 1 + work.n_before + work.n_tokens) / 2
    return Needs(
        n_bytes=sizes.weight_bytes + work.n_sequences * visible * kv_position,
        projections=2.0 * work.n_sequences * (sizes.layer_elements + sizes.head_elements),
        attention=a_position * work.n_sequences * visible,
    )


def sizes(path: Path) -> Sizes:
    """Read from a GGUF file of the demo model's kind: dense layers, grouped-query attention, a tied head."""
    tensors = open_checkpoint(str(path)).tensors
    if "output.weight" in tensors:
        raise BenchError(f"{path.name}: its head is a tensor of its own", "compare files of the demo model")
    matrices = {name: tensor.shape for name, tensor in tensors.items() if len(tensor.shape) == 2}
    embedding = matrices.pop("token_embd.weight")
    return Sizes(
        weight_bytes=sum(tensor.n_bytes for tensor in tensors.values()),
        layer_elements=sum(n * k for n, k in matrices.values()),
        head_elements=embedding[0] * embedding[1],
        n_layers=sum(name.endswith(".attn_q.weight") for name in matrices),
        q_width=matrices["blk.0.attn_q.weight"][0],
        kv_width=matrices["blk.0.attn_k.weight"][0],
    )


def _compute_probe(isa: str) -> Path:
    source, path = BENCH / "compute_probe.c", BUILD / f"compute_probe.{isa}"
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-O3", FLAGS[isa], "-pthread", "-o", str(path), str(source)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise BenchError(f"{source.name} does not compile:\n{done.stderr}", "install a C compiler for x86-64")
    return path
