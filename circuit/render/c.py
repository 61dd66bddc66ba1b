"""Kernels as C functions.

    static void NAME(f32m *p0, const u32m *p1, i32 s2, met_team *team, i32 tid, i32 nt)

One argument a parameter, by slot: `p<slot>` an array, const where the kernel does not store to it, `s<slot>` a scalar;
a slot below the last that the kernel does not use is `const void *`. Then the team that barriers are of (met_barrier of
the prelude; NULL will do where a kernel has none), this thread's number and the number of threads; every thread calls
the function once. Arrays may be the same memory where the kernel allows it: nothing is `restrict`. An array may be
aligned to 4 bytes only.
"""

from circuit.render.body import Body
from circuit.render.expr import c_type, memory_type
from circuit.render.peephole import fit_to_processor
from circuit.render.prelude import prelude
from circuit.uop.build import group
from circuit.uop.node import Op, Param, Space, Storage, UOp, toposort
from circuit.uop.orders import expand_orders
from circuit.uop.simplify import simplify

MOST_LOOPS = 4
"""Loops of one kernel that threads share."""


def render_kernel(name: str, effects: tuple[UOp, ...], lanes: int) -> str:
    """The C function of a kernel in loops form, scheduled or not, for vector registers of `lanes` values."""
    (kernel,) = fit_to_processor((simplify(expand_orders(group(*effects))),))
    body = Body(lanes).lines(kernel)
    shared = sum("met_first(" in line for line in body)
    assert shared <= MOST_LOOPS, f"{name} has {shared} loops that threads share"
    arguments = _arguments(group(*effects))
    unused = ", ".join(f"(void){argument.split()[-1].lstrip('*')}" for argument in arguments)
    head = f"static void {name}({', '.join(arguments)}) {{"
    return "\n".join((head, f"  {unused};", *(f"  {line}" for line in body), "}", ""))


def render_prelude(lanes: int) -> str:
    """Typedefs and helpers, to stand once in a file, before its kernels, which are rendered for as many lanes.

    A program defines, in any of its files, what the prelude declares of threads: `met_barrier`, `met_first` and
    `met_next`, which share out the turns of a loop, and `struct met_team`; and `met_ahead`, which knows the processor.
    """
    return prelude(lanes)


def kernel_params(kernel: UOp) -> tuple[UOp, ...]:
    """The PARAMs of a kernel by slot."""
    params = sorted((n for n in toposort(kernel) if n.op is Op.PARAM), key=_slot)
    slots = [_slot(p) for p in params]
    assert len(set(slots)) == len(slots), f"two parameters of a kernel share a slot: {[p.arg for p in params]}"
    return tuple(params)


def local_bytes(kernel: UOp) -> int:
    """How much of a thread's stack the local arrays of a kernel take."""
    allocs = {n for n in toposort(kernel) if n.op is Op.ALLOC}
    return sum(4 * n.arg.size for n in allocs if isinstance(n.arg, Storage))


def _arguments(kernel: UOp) -> tuple[str, ...]:
    written = {_base(n.src[0]) for n in toposort(kernel) if n.op is Op.STORE}
    params = {_slot(p): _argument(p, p in written) for p in kernel_params(kernel)}
    slots = range(max(params, default=-1) + 1)
    return (*(params.get(s, f"const void *p{s}") for s in slots), "met_team *team", "i32 tid", "i32 nt")


def _argument(p: UOp, written: bool) -> str:
    if not p.shape:
        return f"{c_type(p.dtype, 1)} s{_slot(p)}"
    return f"{'' if written else 'const '}{memory_type(p.dtype, 1)} *p{_slot(p)}"


def _slot(p: UOp) -> int:
    assert isinstance(p.arg, Param), p
    return p.arg.slot


def _base(node: UOp) -> UOp:
    while node.space is Space.GLOBAL and node.src:
        node = node.src[0]
    return node
