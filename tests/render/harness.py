"""Kernels compiled by the system's C compiler, and run beside the evaluator."""

import ctypes
import math
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from circuit.render.c import kernel_params, render_kernel, render_prelude
from circuit.uop.build import group
from circuit.uop.evaluate import evaluate
from circuit.uop.node import DType, Op, Param, UOp, toposort
from circuit.uop.scalar import Value

# Vectors wider than this processor's are passed in memory: -Wpsabi would warn of each.
WARNINGS = ("-Wall", "-Wextra", "-Wno-psabi", "-Werror")
FLAGS = ("-std=gnu11", "-O2", "-march=native", "-ffp-contract=off", *WARNINGS, "-fPIC", "-shared")
QUICK = ("-O1", *(flag for flag in FLAGS if flag != "-O2"))
Effects = tuple[UOp, ...]
Buffers = dict[int, list[Value]]
Scalars = dict[int, Value]

_THREADS = """
#include <pthread.h>
struct met_team { pthread_barrier_t barrier; };
void met_barrier(met_team *team) { pthread_barrier_wait(&team->barrier); }
i32 met_first(met_team *team, i32 n, i32 tid, i32 nt) { (void)team, (void)n, (void)nt; return tid; }
i32 met_next(met_team *team, i32 at, i32 tid, i32 nt) { (void)team, (void)tid; return at + nt; }
i32 met_ahead(i32 others, i32 intel) { (void)intel; return others; }
typedef void kernel_t(void **a, met_team *team, int tid, int nt);
typedef struct { kernel_t *kernel; void **a; met_team *team; int tid, nt; } job_t;
static void *work(void *p) { job_t *j = p; j->kernel(j->a, j->team, j->tid, j->nt); return 0; }
static void run(kernel_t *kernel, void **a, int nt) {
  met_team team;
  pthread_t threads[8];
  job_t jobs[8];
  pthread_barrier_init(&team.barrier, 0, (unsigned)nt);
  for (int t = 0; t < nt; t++) {
    jobs[t] = (job_t){kernel, a, &team, t, nt};
    if (t) pthread_create(&threads[t], 0, work, &jobs[t]);
  }
  work(&jobs[0]);
  for (int t = 1; t < nt; t++) pthread_join(threads[t], 0);
}
"""


class Library(Struct, frozen=True):
    """Compiled kernels by name."""

    handle: ctypes.CDLL

    def run(self, name: str, effects: Effects, buffers: Buffers, scalars: Scalars, nt: int = 1) -> Buffers:
        """What the buffers hold after `nt` threads ran the kernel."""
        arrays: dict[int, ctypes.Array[ctypes.c_uint32]] = {}
        for p in kernel_params(group(*effects)):
            assert isinstance(p.arg, Param)
            values = buffers[p.arg.slot] if p.shape else [scalars[p.arg.slot]]
            arrays[p.arg.slot] = (ctypes.c_uint32 * len(values))(*(word(v, p.dtype) for v in values))
        pointers = (ctypes.c_void_p * (max(arrays) + 1))()
        for slot, array in arrays.items():
            pointers[slot] = ctypes.addressof(array)
        getattr(self.handle, f"run_{name}")(pointers, nt)
        return {
            p.arg.slot: [value(w, p.dtype) for w in arrays[p.arg.slot]]
            for p in kernel_params(group(*effects))
            if isinstance(p.arg, Param) and p.shape
        }


def compile_kernels(folder: Path, kernels: dict[str, Effects], flags: Sequence[str] = FLAGS, lanes: int = 8) -> Library:
    """All kernels in one C file, for registers of `lanes` values."""
    parts = [render_prelude(lanes), _THREADS]
    for name, effects in kernels.items():
        parts.append(render_kernel(name, effects, lanes))
        params = {p.arg.slot: p for p in kernel_params(group(*effects)) if isinstance(p.arg, Param)}
        arguments = [
            f"*({params[n].dtype}m *)a[{n}]" if n in params and not params[n].shape else f"a[{n}]"
            for n in range(max(params) + 1)
        ]
        call = f"{name}({', '.join([*arguments, 'team', 'tid', 'nt'])});"
        parts.append(f"static void call_{name}(void **a, met_team *team, int tid, int nt) {{ {call} }}")
        parts.append(f"void run_{name}(void **a, int nt) {{ run(call_{name}, a, nt); }}")
    source, target = folder / "kernels.c", folder / "kernels.so"
    source.write_text("\n".join(parts), encoding="ascii")
    done = subprocess.run(["cc", *flags, "-o", target, source, "-lm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return Library(ctypes.CDLL(str(target)))


def expected(effects: Effects, buffers: Buffers, scalars: Scalars) -> Buffers:
    """What the buffers hold after the evaluator ran the kernel."""
    after = {slot: list(values) for slot, values in buffers.items()}
    evaluate(group(*effects), after, scalars)
    return after


def written_slots(effects: Effects) -> tuple[int, ...]:
    """The slots of the arrays that a kernel stores to."""
    found: dict[int, None] = {}
    for node in toposort(*effects):
        place = node.src[0] if node.op is Op.STORE else None
        while place is not None and place.op in (Op.INDEX, Op.AFTER):
            place = place.src[0]
        if place is not None and isinstance(place.arg, Param):
            found[place.arg.slot] = None
    return tuple(sorted(found))


def same(a: Buffers, b: Buffers, slots: Sequence[int]) -> bool:
    """Whether arrays are equal to the bit; all NaNs count as equal."""
    return all(list(map(_bits, a[s])) == list(map(_bits, b[s])) for s in slots)


def word(v: Value, dtype: DType) -> int:
    """The 32 bits of a value in memory."""
    if dtype is DType.F32:
        return int.from_bytes(struct.pack("<f", v), "little")
    return int(v) % 2**32


def value(w: int, dtype: DType) -> Value:
    """The value of 32 bits in memory."""
    if dtype is DType.F32:
        return float(struct.unpack("<f", w.to_bytes(4, "little"))[0])
    return w - 2**32 if dtype is DType.I32 and w >= 2**31 else w


def _bits(v: Value) -> int:
    if isinstance(v, int):
        return v
    return 0x7FC00000 if math.isnan(v) else word(v, DType.F32)
