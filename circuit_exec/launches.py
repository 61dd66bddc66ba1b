"""The launches of a step of a model as a list to show, kept in the cache like the plan set that they are of."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, to_builtins

from circuit.errors import RunError
from circuit.lower.ir import Which
from circuit_exec.cache import Cache, entry_path, write_entry
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.host import class_to_run, described, this_host
from circuit_exec.library import library
from circuit_exec.planned import planning_key

KIND = "launches"


class Shown(Struct, frozen=True, kw_only=True):
    """One launch of the plan for single rows: `rule` names the group that it computes, `layer` is None outside of
    the layers.
    """

    layer: int | None
    rule: str
    kernel: str
    point: str
    numerics: str


def decode_launches(
    checkpoint: Checkpoint, cache: Cache, rules: Which, policy: tuple[str, ...], hardware_class: str | None = None
) -> tuple[Shown, ...]:
    """Every launch that makes the logits of one token, in order. Without `hardware_class` it is what this host runs."""
    texts, host = library(), this_host()
    key = planning_key(checkpoint, texts, policy, rules, f"{hardware_class or ''} on {described(host)}")
    path = entry_path(cache, KIND, f"{key}.json")
    found = _read(path)
    if found is not None:
        return found
    made = _made(checkpoint, rules, policy, hardware_class)
    body = json.dumps([to_builtins(each) for each in made]).encode()
    with suppress(RunError):  # a cache that cannot be written costs the next start its time
        write_entry(path, lambda file: _put(file, body))
    return made


def _made(
    checkpoint: Checkpoint, rules: Which, policy: tuple[str, ...], hardware_class: str | None
) -> tuple[Shown, ...]:
    from circuit.compiled import Goal
    from circuit.pipeline import compiled
    from circuit_exec.checkpoint.texts import checkpoint_texts

    texts = library()
    hardware = class_to_run(texts, this_host(), hardware_class)
    goal = Goal(hardware_class=hardware.name, choices=policy, rules=rules, steps=(("decode", None),))
    plan = compiled(checkpoint_texts(checkpoint), texts, goal).plans[0]
    return tuple(
        Shown(
            layer=launch.layer,
            rule=launch.rule,
            kernel=plan.kernels[launch.kernel].name,
            point=f"{plan.kernels[launch.kernel].family}.{plan.kernels[launch.kernel].point}",
            numerics=launch.numerics,
        )
        for launch in plan.launches
        if launch.section == "main"
    )


def _put(file: BinaryIO, body: bytes) -> None:
    file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def _read(path: Path) -> tuple[Shown, ...] | None:
    """The entry, or None where there is none or it is damaged."""
    try:
        head, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if head != hashlib.sha256(body).hexdigest().encode():
        return None
    return tuple(Shown(**each) for each in json.loads(body))
