"""The layout of the program that `emit_program` makes of the same plans."""

from collections.abc import Iterator
from math import prod

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.emit.layout import ARRAYS, BOUNDED, PAGE, SCALARS, Input, Layout, Output, Room, Step
from circuit.lower.ir import Kernel
from circuit.plan.ir import Plan, StateAt, StepInput, Target, WeightAt
from circuit.sigma.page import PAGE as DEFINED_PAGE
from circuit.sigma.page import page_words, pages_of
from circuit.tir.ir import State
from circuit.uop.node import Param, toposort


def layout(plans: tuple[Plan, ...]) -> Layout:
    """What the executor must know of the plan set."""
    assert PAGE == DEFINED_PAGE, f"pages of {PAGE} and of {DEFINED_PAGE} positions"
    first = plans[0]
    for plan in plans:
        assert plan.weights == first.weights, f"{plan.mode} and {first.mode} read different weights"
        assert plan.states == first.states, f"{plan.mode} and {first.mode} keep different states"
        assert plan.context == first.context, f"{plan.mode} and {first.mode} have different contexts"
    inputs = _inputs(plans)
    max_words = _state_words(plans)
    return Layout(
        context=first.context,
        table_width=pages_of(first.context),
        arena_bytes=max(plan.arena_bytes for plan in plans),
        read_bytes=_read_bytes(first),
        steps=tuple(Step(mode=plan.mode, rows=plan.rows, outputs=_outputs(plan)) for plan in plans),
        inputs=tuple(inputs[name] for name in BOUNDED if name in inputs),
        states=tuple(_room(state, max_words[place]) for place, state in enumerate(first.states)),
    )


def _room(state: State, most_words: int) -> Room:
    assert state.kind == "paged_kv", f"{state.name}: a state of kind {state.kind} has no pages"
    words = page_words(state.format, state.heads, state.head_dim)
    return Room(name=state.name, page_words=words, max_pages=most_words // words)


def slot_params(kernel: Kernel) -> dict[int, Param]:
    """The PARAMs of a kernel, by slot."""
    return {node.arg.slot: node.arg for node in toposort(*kernel.effects) if isinstance(node.arg, Param)}


def _declarations(plans: tuple[Plan, ...]) -> Iterator[tuple[Target, Param]]:
    """What each slot of each launch is, and how its kernel declares it."""
    for plan in plans:
        params = tuple(slot_params(kernel) for kernel in plan.kernels)
        for launch in plan.launches:
            for slot, target in zip(plan.kernels[launch.kernel].slots, launch.targets, strict=True):
                declared = params[launch.kernel].get(slot.slot)
                if declared is not None:
                    yield target, declared


def _inputs(plans: tuple[Plan, ...]) -> dict[str, Input]:
    found: dict[str, Input] = {}
    for target, param in _declarations(plans):
        if isinstance(target, StepInput):
            if target.name == "page_tables":
                width = pages_of(plans[0].context)
                assert prod(param.shape) % width == 0, f"page tables of {param.shape} words have no rows of {width}"
            assert target.name in SCALARS or target.name in ARRAYS, f"there is no step input {target.name}"
            if target.name in BOUNDED:
                assert param.lo is not None, f"{target.name} has no lower bound"
                assert param.hi is not None, f"{target.name} has no upper bound"
                known = found.get(target.name, Input(name=target.name, lo=param.lo, hi=param.hi))
                narrower = Input(name=target.name, lo=max(known.lo, param.lo), hi=min(known.hi, param.hi))
                found[target.name] = narrower
    return found


def _state_words(plans: tuple[Plan, ...]) -> dict[int, int]:
    """For each state, the words that its kernels can address."""
    words: dict[int, int] = {}
    for target, param in _declarations(plans):
        if isinstance(target, StateAt):
            words[target.state] = min(prod(param.shape), words.get(target.state, prod(param.shape)))
    return words


def _read_bytes(plan: Plan) -> int:
    entries = build_manifest(plan.weights, PANEL).entries
    read: set[int] = set()
    for launch in plan.launches:
        if StepInput(name="tokens") not in launch.targets:
            read |= {target.weight for target in launch.targets if isinstance(target, WeightAt)}
    return sum(entries[place].n_bytes for place in read)


def _outputs(plan: Plan) -> tuple[Output, ...]:
    return tuple(
        Output(
            edge=edge,
            rows=plan.buffers[place].rows,
            columns=plan.buffers[place].columns,
            offset_bytes=plan.buffers[place].offset_bytes,
        )
        for edge, place in plan.outputs
    )
