"""Who takes part in a cell, and how each is started."""

import sys
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bench.paths import BENCH, PEER_PYTHON
from bench.peers import WORKER, built
from bench.worker import Worker
from circuit_exec.bench import Work

Engine = Literal["met", "llama.cpp", "torch"]

MET_CLASS = {"avx2": "avx2", "native": "avx512"}
POLICY = {"f32": (), "int8": ("activations=int8/g32",)}
BLOCK_FORMATS = ("Q8_0", "Q4_1", "Q4_0")
"""Formats whose activations llama.cpp rounds to int8; those that met is measured with int8 activations on, too."""

TORCH_FORMATS = ("F32", "BF16")
TORCH_WORKS = ("decode_1", "prefill_512")


class Contestant(Struct, frozen=True, kw_only=True):
    """An engine as it is compiled and set. `activations` is the format that a projection multiplies with."""

    engine: Engine
    isa: str
    activations: str

    @property
    def name(self) -> str:
        """For messages and the bar."""
        return f"{self.engine} {self.isa} {self.activations}"


def contestants(format: str, work: str, isas: tuple[str, ...], activations: tuple[str, ...]) -> tuple[Contestant, ...]:
    """All of a cell: met in each setting, then its peers."""
    wanted = [each for each in activations if each == "f32" or format in BLOCK_FORMATS]
    found = [Contestant(engine="met", isa=isa, activations=each) for isa in isas for each in wanted]
    own = "int8" if format in BLOCK_FORMATS else format.lower()
    found += [Contestant(engine="llama.cpp", isa=isa, activations=own) for isa in isas]
    if format in TORCH_FORMATS and work in TORCH_WORKS:
        found.append(Contestant(engine="torch", isa="native", activations=format.lower()))
    return tuple(found)


def start(contestant: Contestant, model: Path, n_threads: int, work: Work) -> Worker:
    """Its process, with the work made ready."""
    shape = [work.mode, *map(str, (work.n_sequences, work.n_before, work.n_tokens))]
    match contestant.engine:
        case "met":
            hardware_class = MET_CLASS[contestant.isa]
            command = [sys.executable, "-m", "bench.met_worker", str(model), str(n_threads), hardware_class, work.name]
            command += [str(work.n_tokens), *POLICY[contestant.activations]]
        case "llama.cpp":
            command = [str(built(contestant.isa) / WORKER), str(model), str(n_threads), *shape]
        case "torch":
            command = [str(PEER_PYTHON), str(BENCH / "torch_worker.py"), str(model), str(n_threads), *shape]
    return Worker(contestant.name, command)
