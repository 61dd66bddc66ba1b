"""The precision of every step of a plan: what is required of it, what its kernel does, each conversion and rounding.

What is required follows from the typed circuit: formats of rows, weights and states, after the checkpoint's declaration
and the policy. What a kernel does is read off its definition: the type and order of its sums, and the formats of what
its slots are bound to. The two must agree; a report with a difference is refused. Steps of plain operations have no sum
to be read off: f32 is the only type of fractions that a definition can have, so both sides state it. All arithmetic is
in f32 or, on codes, in exact integers, so roundings are those of f32 operations and of stores into narrower formats.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from circuit.errors import Problem
from circuit.formats import INT8_G32
from circuit.load.hardware import HardwareClass
from circuit.load.instructions import Instruction
from circuit.lower.ir import Kernel
from circuit.plan.ir import Launch, Plan, StateAt, WeightAt
from circuit.report.audit import reads_of, runs_on, weight_of
from circuit.report.operands import ROUNDED, Operand, operand
from circuit.report.said import Declared
from circuit.tir.ir import Node, Tir
from circuit.uop.node import DType, Fold, toposort

EACH = "each, to f32"
"""Every operation of the step rounds its result to f32 once."""
SUM = "each fma"
"""A fused multiply-add rounds once, to f32."""


class Step(Struct, frozen=True, kw_only=True):
    """One precision step of an op. `declared` is what the kernel does; `conversion`: none, exact, or rounds."""

    step: str
    required: str
    declared: str
    conversion: str
    rounding: str


class Steps(Struct, frozen=True, kw_only=True):
    """An op in a kernel, with its roles; `nodes` are how many of the circuit's."""

    op: str
    nodes: int
    runs_on: str
    steps: tuple[Step, ...]


class PrecisionSite(Struct, frozen=True, kw_only=True):
    """All launches of one kernel. `modes` are the plans that have it, as `decode 1-2`."""

    kernel: str
    rule: str
    numerics: str
    launches: int
    plans: tuple[str, ...]
    ops: tuple[Steps, ...]


class Path(Struct, frozen=True, kw_only=True):
    """How values of a format get into each instruction of the class that multiplies."""

    what: str
    format: str
    operands: tuple[Operand, ...]


class Precision(Struct, frozen=True, kw_only=True):
    """The report of one model on one device."""

    arch: str
    model_type: str
    device: str
    hardware_class: str
    language: str
    rendered: bool
    policy: tuple[tuple[str, str], ...]
    declared: tuple[Declared, ...]
    paths: tuple[Path, ...]
    sites: tuple[PrecisionSite, ...]


def sites(tir: Tir, plans: tuple[Plan, ...], hardware: HardwareClass) -> tuple[PrecisionSite, ...]:
    """Every kernel of the plans once, in the order of its first launch."""
    nodes = {node.id: node for node in tir.nodes}
    found: dict[tuple[str, str], list[tuple[Plan, Launch]]] = {}
    for plan in plans:
        for launch in plan.launches:
            found.setdefault((launch.rule, plan.kernels[launch.kernel].name), []).append((plan, launch))
    made = []
    for (rule, kernel), launched in found.items():
        plan, first = launched[0]
        members = [nodes[name] for name in first.members]
        kept = [launch for of, launch in launched if of is plan]
        made.append(
            PrecisionSite(
                kernel=kernel,
                rule=rule,
                numerics=first.numerics,
                launches=len(kept),
                plans=tuple(dict.fromkeys(f"{of.mode} {of.rows[0]}-{of.rows[1]}" for of, _ in launched)),
                ops=tuple(_steps(tir, members, plan, first, hardware)),
            )
        )
    return tuple(made)


def paths(tir: Tir, instructions: Iterable[Instruction], hardware: HardwareClass) -> tuple[Path, ...]:
    """For every format of a projection's rows and weights, how it gets into each instruction that multiplies."""
    own = [each for each in instructions if each.operand is not None and each.id in hardware.instructions]
    linears = [node for node in tir.nodes if node.op == "linear"]
    formats = [("rows", reads_of(tir, node)) for node in linears]
    formats += [("weights", weight_of(tir, node)) for node in linears]
    formats += [("keys, values", state.format) for state in tir.states]
    return tuple(
        Path(what=what, format=format, operands=tuple(operand(format, each) for each in own))
        for what, format in dict.fromkeys(formats)
    )


def differences(found: tuple[PrecisionSite, ...]) -> tuple[Problem, ...]:
    """One problem for each step whose kernel does something else than is required."""
    return tuple(
        Problem(
            message=f"{site.kernel}: {op.op}: {step.step}: required {step.required}, its kernel has {step.declared}",
            fix="correct the op's definition or the rule; a report would be of another model",
        )
        for site in found
        for op in site.ops
        for step in op.steps
        if step.required != step.declared
    )


class _Sums(Struct, frozen=True, kw_only=True):
    """What a kernel's definition adds up: type and order of every sum of products, and of plain sums."""

    products: tuple[tuple[DType, str], ...]
    sums: tuple[tuple[DType, str], ...]


def _sums(kernel: Kernel) -> _Sums:
    folds = [(each.dtype, each.arg) for each in toposort(*kernel.definition) if isinstance(each.arg, Fold)]
    return _Sums(
        products=tuple(dict.fromkeys((dtype, fold.order) for dtype, fold in folds if fold.op == "mulacc")),
        sums=tuple(dict.fromkeys((dtype, fold.order) for dtype, fold in folds if fold.op == "add")),
    )


def _steps(tir: Tir, members: list[Node], plan: Plan, launch: Launch, hardware: HardwareClass) -> Iterator[Steps]:
    """The ops of a launch, projections of one kind together."""
    kernel = plan.kernels[launch.kernel]
    bound = list(zip(kernel.slots, launch.targets, strict=True))
    matrices = {
        plan.weights[target.weight].format
        for _, target in bound
        if isinstance(target, WeightAt) and len(plan.weights[target.weight].shape) == 2
    }
    vectors = {
        plan.weights[target.weight].format
        for _, target in bound
        if isinstance(target, WeightAt) and len(plan.weights[target.weight].shape) == 1
    }
    states = {plan.states[target.state].format for _, target in bound if isinstance(target, StateAt)}
    has = _Declared(
        sums=_sums(kernel), matrix=" and ".join(sorted(matrices)), vectors=vectors, state=" and ".join(sorted(states))
    )
    kinds: dict[tuple[str, str, str], list[Node]] = {}
    for node in members:
        kinds.setdefault((node.op, reads_of(tir, node) if node.inputs else "", weight_of(tir, node)), []).append(node)
    for (op, reads, weight), nodes in kinds.items():
        roles = [node.role for node in nodes if node.role is not None]
        codes = op == "linear" and reads == INT8_G32
        yield Steps(
            op=f"{op} {'+'.join(dict.fromkeys(roles))}" if roles else op,
            nodes=len(nodes),
            runs_on=runs_on(codes, hardware),
            steps=(*_of_vectors(tir, nodes, has), *_of_op(op, reads, weight, has)),
        )


def _of_vectors(tir: Tir, nodes: list[Node], has: "_Declared") -> Iterator[Step]:
    """Weights of norms and biases, which are baked as f32."""
    vectors = [
        tir.weights[place].format for node in nodes for place in node.weights if len(tir.weights[place].shape) == 1
    ]
    for format in dict.fromkeys(vectors):
        declared = format if format in has.vectors else " and ".join(sorted(has.vectors)) or "no such weight"
        yield _decoded("bias" if nodes[0].op == "linear" else "weight", format, declared)


class _Declared(Struct, frozen=True, kw_only=True):
    """What a kernel has: its sums, and the formats of the matrix, the vectors and the state that it reads or writes."""

    sums: _Sums
    matrix: str
    vectors: set[str]
    state: str


def _of_op(op: str, reads: str, weight: str, has: _Declared) -> Iterator[Step]:
    """The steps of an op, in the words of its OpKind."""
    match op:
        case "embed":
            yield _decoded("gather", weight, has.matrix)
        case "linear" if reads == INT8_G32:
            yield from _of_codes(weight, has)
        case "linear":
            found = _summed(has.sums.products, "fold:256")
            yield _same("act", reads, found.partition(" ")[0])
            yield _decoded("weight", weight, has.matrix)
            yield _same("mma", "f32 x f32", " x ".join([found.partition(" ")[0]] * 2))
            yield _same("accumulate", "f32 fold:256", found, SUM)
        case "rms_norm":
            yield _same("compute", "f32 lanes:128", _summed(has.sums.products, "lanes:128"), EACH)
        case "act_quant":
            yield _same("largest", "f32", "f32")
            yield _same("scale", "f32", "f32", EACH)
            yield Step(
                step="round", required=INT8_G32, declared=INT8_G32, conversion="rounds", rounding="once, to codes"
            )
        case "kv_write":
            yield _stored("cache", weight, has.state)
        case "attention":
            yield _decoded("cache", weight, has.state)
            yield _same("scores", "f32 fold", _summed(has.sums.products, "fold"), SUM)
            yield _same("softmax", "f32 fold:256", _summed(has.sums.sums, "fold:256"), EACH)
            yield _same("accumulate", "f32 fold:256", _summed(has.sums.products, "fold:256"), SUM)
        case "index_select":
            yield _same("move", reads, reads)
        case "argmax":
            yield _same("compare", reads, reads)
        case "sample":
            yield _same("compute", "f32", "f32", EACH)
            yield _same("compare", "f32", "f32")
        case _:
            yield _same("compute", "f32", "f32", EACH)


def _of_codes(weight: str, has: _Declared) -> Iterator[Step]:
    """A projection of rows of codes: exact sums of 32 products, each scaled and added in f32."""
    exact = any(dtype is DType.I32 for dtype, _ in has.sums.products)
    scaled = any(dtype is DType.F32 for dtype, _ in has.sums.products)
    yield _same("act", INT8_G32, INT8_G32 if exact else "f32")
    yield _converted("weight", f"{weight} -> codes", f"{has.matrix} -> codes", "exact")
    yield _same("mma", "i8 x i8", "i8 x i8" if exact else "f32 x f32")
    own = " ".join(["i32 of 32,"] * exact + ["f32"] * scaled)
    yield _same("accumulate", "i32 of 32, f32", own, "each group, to f32")


def _decoded(step: str, required: str, declared: str) -> Step:
    """Values of a storage format as f32."""
    if required == declared == "f32":
        return _same(step, "f32", "f32")
    rounds = required in ROUNDED
    conversion = "rounds" if rounds else "exact"
    return _converted(
        step, f"{required} -> f32", f"{declared} -> f32", conversion, "once, to f32" if rounds else "none"
    )


def _stored(step: str, required: str, declared: str) -> Step:
    """f32 values in a storage format."""
    if required == declared == "f32":
        return _same(step, "f32", "f32")
    return _converted(step, f"f32 -> {required}", f"f32 -> {declared}", "rounds", f"once, to {required}")


def _same(step: str, required: str, declared: str, rounding: str = "none") -> Step:
    return _converted(step, required, declared, "none", rounding)


def _converted(step: str, required: str, declared: str, conversion: str, rounding: str = "none") -> Step:
    return Step(step=step, required=required, declared=declared, conversion=conversion, rounding=rounding)


def _summed(found: tuple[tuple[DType, str], ...], order: str) -> str:
    """The f32 sum of that order where the kernel has it, else what it has."""
    own = [f"{dtype} {each}" for dtype, each in found]
    wanted = f"f32 {order}"
    return wanted if wanted in own else " and ".join(own) or "no such sum"
