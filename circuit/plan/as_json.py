"""A plan as JSON: what the text form says, for machines."""

import json

from msgspec import to_builtins

from circuit.plan.digest import kernel_digest
from circuit.plan.ir import BufferAt, Plan, StateAt, StepInput, Target, WeightAt

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def plan_json(plan: Plan) -> str:
    """One object; `digest` is the plan's, `parts` the part digests by name."""
    return json.dumps(plan_object(plan), indent=1) + "\n"


def plan_object(plan: Plan) -> dict[str, Json]:
    """The same as data."""
    return {
        "digest": plan.digest,
        "parts": dict(plan.parts),
        "arch": plan.arch,
        "class": plan.hardware_class,
        "mode": plan.mode,
        "rows": list(plan.rows),
        "context": plan.context,
        "policy": dict(plan.policy),
        "notes": list(plan.notes),
        "settings": list(plan.settings),
        "arena_bytes": plan.arena_bytes,
        "kernels": [
            {"name": kernel.name, "family": kernel.family, "point": kernel.point, "digest": kernel_digest(kernel)}
            for kernel in plan.kernels
        ],
        "launches": [
            {
                "rule": launch.rule,
                "numerics": launch.numerics,
                "kernel": launch.kernel,
                "members": list(launch.members),
                "section": launch.section,
                "layer": launch.layer,
                "targets": [
                    {"slot": slot.kind, **_target(target)}
                    for slot, target in zip(plan.kernels[launch.kernel].slots, launch.targets, strict=True)
                ],
            }
            for launch in plan.launches
        ],
        "buffers": [to_builtins(buffer) for buffer in plan.buffers],
        "weights": [
            {"name": weight.name, "shape": list(weight.shape), "format": weight.format} for weight in plan.weights
        ],
        "states": [to_builtins(state) for state in plan.states],
        "outputs": dict(plan.outputs),
        "certificate": [to_builtins(axis) for axis in plan.certificate],
    }


def _target(target: Target) -> dict[str, Json]:
    match target:
        case BufferAt(buffer=place, column=column):
            return {"buffer": place, "column": column}
        case WeightAt(weight=place):
            return {"weight": place}
        case StateAt(state=place):
            return {"state": place}
        case StepInput(name=name):
            return {"step": name}
