"""Why two plan sets differ: what each part digest hashes, set beside each other by name."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from circuit.load.rules import Rule
from circuit.report.computed import value_text
from circuit.report.sides import Side, class_of_file, point_text
from circuit.text import listed
from circuit.tir.ir import Tir
from circuit.tir.text import recipe_text

Named = dict[str, str]
"""Values by name."""


class Reason(Struct, frozen=True, kw_only=True):
    """Something that a part hashes and that is not the same in both sides; "" where a side has no such thing."""

    part: str
    what: str
    own: str
    other: str


def reasons(one: Side, other: Side, parts: Iterable[str]) -> Iterator[Reason]:
    """All that is different of some parts. Where names and values do not tell, the order does."""
    for part in parts:
        own, there = _HASHED[part](one), _HASHED[part](other)
        names = [name for name in dict.fromkeys((*own, *there)) if _unlike(part, own.get(name), there.get(name))]
        if not names:
            yield Reason(part=part, what="the same things in another order", own="", other="")
        for name in names:
            if part != "parameters" or (name in own and name in there):  # a node of one side alone is in `structure`
                yield Reason(part=part, what=name, own=own.get(name, ""), other=there.get(name, ""))


def _unlike(part: str, own: str | None, there: str | None) -> bool:
    """Whether values differ; of a rule, the line that it is on is none."""
    if part != "rules" or own is None or there is None:
        return own != there
    return re.sub(r":[0-9]+ ", " ", own) != re.sub(r":[0-9]+ ", " ", there)


def _bytes(side: Side) -> Named:
    """What nodes mean is a program for each: of these, one digest of all."""
    return {**_policy(side), "what the nodes compute": dict(side.plans[0].parts)["bytes"][:12]}


def _class(side: Side) -> Named:
    hardware = side.hardware
    found = {"chain": " ".join(hardware.chain), "language": hardware.language}
    found |= {f"target of {machine}": target for machine, target in hardware.arch}
    return found | {limit.name: str(limit.value) for limit in hardware.limits}


def _formats(side: Side) -> Named:
    tir = side.tir
    return _runs(
        [
            *((f"weight {w.name}", w.format) for w in tir.weights),
            *((f"tensors of {w.name}", _layerless(recipe_text(w.recipe))) for w in tir.weights),
            *((f"edge {edge.name}", edge.format) for edge in tir.edges),
            *((f"state {state.name}", state.format) for state in tir.states),
        ]
    ) | _counts(tir)


def _kernels(side: Side) -> Named:
    """Points of each family, with their values; and of all definitions, slots and their order one digest a plan."""
    used = dict.fromkeys((k.family, k.point) for plan in side.plans for k in plan.kernels)
    points = {f"point {family}.{point}": point_text(side, family, point).partition(" ")[2] for family, point in used}
    digests = " ".join(dict(plan.parts)["kernels"][:12] for plan in side.plans)
    return {name: values or "used" for name, values in points.items()} | {"definitions of each plan": digests}


def _parameters(side: Side) -> Named:
    nodes = side.tir.nodes
    found = [(f"{n.op}.{name} of {n.id}", value_text(value)) for n in nodes for name, value in n.params]
    return {"context": str(side.tir.context), "nodes": str(len(nodes))} | _runs(found)


def _policy(side: Side) -> Named:
    return dict(side.plans[0].policy)


def _rules(side: Side) -> Named:
    """Every rule that took a node, with the class and the line that it is from and a digest; and settings."""
    used = {launch.rule for plan in side.plans for launch in plan.launches}
    found = {f"rule {rule.id}": _rule_text(rule) for rule in side.rules if rule.id in used}
    found |= {setting.partition("=")[0]: setting.partition("=")[2] for setting in side.plans[0].settings}
    return {"set of rules": side.which} | found | {"nodes": str(len(side.tir.nodes))}


def _rule_text(rule: Rule) -> str:
    digest = hashlib.sha256(repr(replace(rule, file="", line=None)).encode()).hexdigest()
    return f"{class_of_file(rule.file)}:{rule.line} {digest[:8]}"


def _run(side: Side) -> Named:
    return {name: listed(map(str, ids)) for name, ids in side.run}


def _step(side: Side) -> Named:
    """The rows of the plans of each mode."""
    modes = dict.fromkeys(plan.mode for plan in side.plans)
    return {
        f"rows of {mode}": " ".join(f"{lo}-{hi}" for lo, hi in (p.rows for p in side.plans if p.mode == mode))
        for mode in modes
    }


def _structure(side: Side) -> Named:
    tir = side.tir
    found = {"circuit": tir.arch} | {f"dim {name}": str(value) for name, value in tir.dims}
    found |= _runs((f"node {node.id}", node.op) for node in tir.nodes)
    found |= _runs((f"weight {weight.name}", "x".join(map(str, weight.shape))) for weight in tir.weights)
    shares = {"shares": listed(f"{a} = {b}" for a, b in tir.shares)}
    return found | shares | _counts(tir) | {"nodes": str(len(tir.nodes))}


_HASHED: dict[str, Callable[[Side], Named]] = {
    "bytes": _bytes,
    "class": _class,
    "formats": _formats,
    "kernels": _kernels,
    "parameters": _parameters,
    "policy": _policy,
    "rules": _rules,
    "run": _run,
    "step": _step,
    "structure": _structure,
}
"""For each part of `plan.digest`, what it hashes, by name."""


def _counts(tir: Tir) -> Named:
    return {"edges": str(len(tir.edges)), "weights": str(len(tir.weights)), "states": str(len(tir.states))}


def _runs(values: Iterable[tuple[str, str]]) -> Named:
    """Values of all layers under one name each: one value where all are the same, else runs: `0 (2x), 4096 (30x)`."""
    found: dict[str, list[str]] = {}
    for name, value in values:
        found.setdefault(_layerless(name), []).append(value)
    return {name: _run_text(each) for name, each in found.items()}


def _run_text(values: list[str]) -> str:
    runs = [(value, len(list(same))) for value, same in groupby(values)]
    return runs[0][0] if len(runs) == 1 else ", ".join(f"{value} ({count}x)" for value, count in runs)


def _layerless(name: str) -> str:
    """`l{i}.attn.q` for any layer; of tensors, `model.layers.{i}.`."""
    return re.sub(r"(?<=[.\" ]l)[0-9]+(?=\.)|(?<=\.)[0-9]+(?=\.)", "{i}", f" {name}")[1:]
