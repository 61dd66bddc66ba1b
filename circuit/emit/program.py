"""A plan set as a C program: prelude, runtime, a file for every distinct kernel, one function a plan, and `met_run`.

A plan's function is the straight list of its launches, every address resolved: arena + offset, weights + the manifest's
offset, the base of a state, the arrays of the step. What runs is what is printed here. Kernels stand in files of their
own because most of the time that a compiler takes is theirs: the files compile beside each other.
"""

from collections.abc import Mapping

from circuit.bake.layout import PANEL
from circuit.bake.manifest import build_manifest
from circuit.emit.barriers import barriers_before
from circuit.emit.derive import slot_params
from circuit.emit.layout import ARRAYS, SCALARS
from circuit.emit.runtime import RUNTIME_C, RUNTIME_H
from circuit.emit.sources import Sources
from circuit.plan.ir import BufferAt, Plan, StateAt, StepInput, Target, WeightAt
from circuit.render.c import render_kernel, render_prelude
from circuit.text import Source
from circuit.uop.node import UOp

SECTIONS = {"greedy": "MET_GREEDY", "sample": "MET_SAMPLE", "score": "MET_SCORE", "hidden": "MET_HIDDEN"}


def emit_program(plans: tuple[Plan, ...]) -> Sources:
    """The C sources of a plan set. `met_args.plan` selects a plan by its place in the set."""
    lanes = plans[0].vector_lanes
    assert lanes is not None, f"no C is rendered for class {plans[0].hardware_class}"
    names, kernels = _kernels(plans, lanes)
    steps = [_step(place, plan, names[place]) for place, plan in enumerate(plans)]
    return program_of(kernels, "\n".join([_head(plans), "", *steps, _run(plans)]), lanes)


def program_of(kernels: Mapping[str, str], steps: str, lanes: int) -> Sources:
    """The files of a program: `kernels` are texts of `render_kernel` by name for `lanes`, `steps` defines `met_run`."""
    return (
        Source(path="met.h", text=_MET_H + render_prelude(lanes) + "#endif\n"),
        Source(path="kernels.h", text=_KERNELS_H + "".join(map(_prototype, kernels.values())) + "#endif\n"),
        Source(path="runtime.h", text=RUNTIME_H),
        Source(path="runtime.c", text=RUNTIME_C),
        *(Source(path=f"kernels/{name}.c", text=_KERNEL_C + _shared(text)) for name, text in kernels.items()),
        Source(path="steps.c", text=_STEPS_C + steps),
    )


_MET_H = """\
/* Types and operations that the kernels are made of. */
#ifndef MET_H
#define MET_H
"""
# A kernel inlined into a step would be compiled anew for each step, with fewer registers to itself.
_KERNELS_H = """\
/* One function a kernel: its arrays and counts by slot, then the team, this thread's number, and how many there are. */
#ifndef MET_KERNELS_H
#define MET_KERNELS_H
#include "met.h"
#define MET_KERNEL __attribute__((noinline)) void

"""
_KERNEL_C = '#include "kernels.h"\n\n'
_STEPS_C = '#include "kernels.h"\n#include "runtime.h"\n\n'


def _shared(kernel: str) -> str:
    """The kernel as a function that other files of the program can call."""
    return "MET_KERNEL " + kernel.removeprefix("static void ")


def _prototype(kernel: str) -> str:
    return _shared(kernel[: kernel.index(") {")]) + ");\n"


def _head(plans: tuple[Plan, ...]) -> str:
    lines = [f"/* {plans[0].arch} on class {plans[0].hardware_class}"]
    lines += [f" * plan {i}: {p.mode}, rows {p.rows[0]}-{p.rows[1]}, digest {p.digest}" for i, p in enumerate(plans)]
    return "\n".join([*lines, " */"])


def _kernels(plans: tuple[Plan, ...], lanes: int) -> tuple[list[list[str]], dict[str, str]]:
    """The C name of each kernel of each plan, and the functions by name: kernels that come out as the same C are one.

    Plans of different rows differ in the bounds of their kernels, which most C texts do not show.
    """
    names: list[list[str]] = []
    made: dict[str, str] = {}  # arguments and body -> name
    rendered: dict[tuple[UOp, ...], str] = {}  # program -> name
    for place, plan in enumerate(plans):
        names.append([])
        for kernel in plan.kernels:
            if kernel.effects in rendered:
                names[-1].append(rendered[kernel.effects])
                continue
            name = kernel.name if kernel.name not in made.values() else f"{kernel.name}_plan{place}"
            rest = render_kernel(name, kernel.effects, lanes).removeprefix(f"static void {name}(")
            if rest not in made:
                assert name not in made.values(), f"two kernels of plan {place} are called {kernel.name}"
                made[rest] = name
            rendered[kernel.effects] = made[rest]
            names[-1].append(made[rest])
    return names, {name: f"static void {name}({rest}" for rest, name in made.items()}


def _step(place: int, plan: Plan, names: list[str]) -> str:
    offsets = [entry.offset_bytes for entry in build_manifest(plan.weights, PANEL).entries]
    params = [slot_params(kernel) for kernel in plan.kernels]
    lines = [
        f"static void met_plan_{place}(const met_args *s, met_team *team, int tid, int nt) {{",
        "  unsigned char *const a = s->arena;",
        "  const unsigned char *const w = s->weights;",
        "  unsigned char *const *const state = s->states;",
        "  (void)a, (void)w, (void)state, (void)team, (void)tid, (void)nt;",
        "  if (s->n) {",
    ]
    section = "main"
    for launch, meets in zip(plan.launches, barriers_before(plan), strict=True):
        if launch.section != section:
            section = launch.section
            lines += ["  }", f"  if (s->sections[{SECTIONS[section]}].count) {{"]
        if meets:
            lines.append("    met_barrier(team);")
        slots = [slot.slot for slot in plan.kernels[launch.kernel].slots]
        targets = dict(zip(slots, launch.targets, strict=True))
        used = params[launch.kernel]
        span = "" if section == "main" else f"s->sections[{SECTIONS[section]}]"
        arguments = [
            _address(plan, targets[slot], offsets, span) if slot in used else "0" for slot in range(max(used) + 1)
        ]
        call = f"{names[launch.kernel]}({', '.join([*arguments, 'team', 'tid', 'nt'])});"
        lines.append(f"    {call} /* {launch.rule}: {' '.join(launch.members)} */")
    return "\n".join([*lines, "  }", "}"])


def _address(plan: Plan, target: Target, offsets: list[int], span: str) -> str:
    """The argument of a launch; `span` is that of its section, and of the rows with logits those of the span count."""
    match target:
        case BufferAt(buffer=place, column=column):
            buffer = plan.buffers[place]
            rows = f" + {4 * buffer.columns}l * {span}.first" if span and buffer.rows == "m" else ""
            return f"(void *)(a + {buffer.offset_bytes + 4 * column}{rows})"
        case WeightAt(weight=place):
            return f"(void *)(w + {offsets[place]})"
        case StateAt(state=place):
            return f"(void *)state[{place}]"
        case StepInput(name=name):
            assert name in SCALARS or name in ARRAYS, f"there is no step input {name}"
            if span and name == "m":
                return f"{span}.count"
            return f"s->{name} + {span}.first" if span and name == "logit_rows" else f"s->{name}"


def _run(plans: tuple[Plan, ...]) -> str:
    cases = [f"    case {i}: met_plan_{i}(args, team, tid, nt); break;" for i in range(len(plans))]
    head = "void met_run(const met_args *args, met_team *team, int tid, int nt) {\n  switch (args->plan) {"
    return "\n".join([head, *cases, "  }", "}", ""])
