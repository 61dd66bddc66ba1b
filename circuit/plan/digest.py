"""Part digests of a plan: each hashes one respect in which two plans can differ, so that the parts say which.

`bytes` hashes what output bytes depend on, and no more: two plans of equal `bytes` with equal weights give equal bytes.
"""

import hashlib
from collections.abc import Hashable, Iterable

from circuit.load.hardware import HardwareClass
from circuit.load.policy import Policy
from circuit.lower.ir import Group, Kernel
from circuit.lower.meaning import meaning_of, reads_codes
from circuit.tir.ir import Concat, Key, Node, Quantized, Recipe, Tir, Unpermute, Value, quantized_keys
from circuit.uop.text import digest as program_digest

Run = tuple[tuple[str, tuple[int, ...]], ...]
"""What only the executor reads: end, start and padding tokens."""


def instance_parts(tir: Tir) -> dict[str, str]:
    """Structure, parameters and formats. Names of edges, weights and nodes are for people and in no part but `formats`,
    where a recipe names the checkpoint's tensors."""
    return {
        "structure": _hash(
            [f"arch {tir.arch}", f"dims {tir.dims}", f"in {tir.inputs} out {tir.outputs} shares {tir.shares}"]
            + [f"edge {edge.rows} {edge.dim}" for edge in tir.edges]
            + [f"weight {weight.shape}" for weight in tir.weights]
            + [f"state {state.kind} {state.heads} {state.head_dim}" for state in tir.states]
            + [_wiring(node) for node in tir.nodes]
        ),
        "parameters": _hash([f"context {tir.context}", *(_parameters(node) for node in tir.nodes)]),
        "formats": _hash(
            [edge.format for edge in tir.edges]
            + [f"{weight.format} {_recipe(weight.recipe)}" for weight in tir.weights]
            + [state.format for state in tir.states]
        ),
    }


def meanings(tir: Tir) -> list[str]:
    """For each node how it is wired, and the digest of what it means for one row, as a program over decoded weights."""
    seen: dict[Hashable, str] = {}
    lines: list[str] = []
    place_of: dict[int, int] = {}
    for node in tir.nodes:
        key = _kind(tir, node)
        if key not in seen:
            seen[key] = program_digest(*meaning_of(tir, node))
        weights = [place_of.setdefault(weight, len(place_of)) for weight in node.weights]
        wiring = f"{node.op} {node.inputs} {node.outputs} {weights} {node.states}"
        lines.append(f"{wiring} {seen[key]}")
    return lines


def bytes_part(meanings: list[str], policy: Policy, changed: Iterable[tuple[int, str]]) -> str:
    """The digest of all that output bytes depend on besides the weights' values: the policy and what nodes mean.

    `changed` are nodes that a launch computes at another numerics point than their definition's, with that point.
    """
    others = dict(changed)
    own = (f"{meaning} {others.get(place, '')}" for place, meaning in enumerate(meanings))
    return _hash((f"policy {policy.entries}", *own))


def rules_part(groups: tuple[Group, ...], settings: tuple[str, ...] = ()) -> str:
    """Which nodes are computed together, and by which rule; and the settings that were asked for."""
    return _hash([*(f"{group.rule} {group.family} {group.numerics} {group.nodes}" for group in groups), *settings])


def kernels_part(kernels: Iterable[Kernel], order: Iterable[int]) -> str:
    """The programs that launches run, in order; names are not in it."""
    digests = [f"{k.family} {k.point} {kernel_digest(k)} {k.slots}" for k in kernels]
    return _hash([*digests, *(str(place) for place in order)])


def kernel_digest(kernel: Kernel) -> str:
    """The digest of one scheduled program."""
    return program_digest(*kernel.effects)


def class_part(hardware: HardwareClass) -> str:
    """The class: its chain, what it compiles for, its limits. Sources of figures are not in it."""
    limits = tuple((limit.name, limit.value) for limit in hardware.limits)
    return _hash([f"{hardware.chain} {hardware.language} {hardware.arch}", str(limits)])


def step_part(mode: str, rows: tuple[int, int]) -> str:
    """What the step does, and the rows it may have."""
    return _hash([f"{mode} {rows[0]} {rows[1]}"])


def policy_part(policy: Policy) -> str:
    """The stated choices."""
    return _hash(f"{key}={value}" for key, value in policy.entries)


def run_part(run: Run) -> str:
    """What only the executor reads."""
    return _hash(f"{name} {ids}" for name, ids in sorted(run))


def digest_of(parts: dict[str, str]) -> str:
    """The digest of a plan: a hash of every part but `bytes`, which follows from them."""
    return _hash(f"{name} {value}" for name, value in sorted(parts.items()) if name != "bytes")


def _hash(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def _wiring(node: Node) -> str:
    role = f":{node.role}" if node.role else ""
    places = f"{node.inputs} {node.outputs} {node.weights} {node.states}"
    return f"{node.op}{role} {places} layer {node.layer} {node.section}"


def _parameters(node: Node) -> str:
    return " ".join(f"{name}={_exact(value)}" for name, value in node.params)


def _exact(value: Value) -> str:
    match value:
        case bool() | int():
            return str(value)
        case float():
            return value.hex()
        case str():
            return f'"{value}"'
        case tuple():
            return ",".join(part.hex() for part in value)


def _recipe(recipe: Recipe) -> str:
    match recipe:
        case Key(key=key):
            return f'"{key}"'
        case Unpermute(of=of, heads=heads):
            return f"unpermute({heads}, {_recipe(of)})"
        case Concat(parts=parts):
            return f"concat({', '.join(_recipe(part) for part in parts)})"
        case Quantized(scheme=scheme, rows=rows, columns=columns, zero=zero):
            return f"{scheme}({rows}, {columns}, {zero}, {', '.join(quantized_keys(recipe))})"


def _kind(tir: Tir, node: Node) -> Hashable:
    """What the meaning of a node depends on within one instance."""
    return (
        node.op,
        node.params,
        tuple((tir.edges[e].dim, tir.edges[e].format, tir.edges[e].rows) for e in (*node.inputs, *node.outputs)),
        tuple(tir.weights[w].shape for w in node.weights),
        tuple(tir.weights[w].format for w in node.weights[:1]) if reads_codes(tir, node) else (),
        tuple((tir.states[s].heads, tir.states[s].head_dim, tir.states[s].format) for s in node.states),
    )
