"""The typed circuit against the tensors of a checkpoint: each is read once, or ignored with a reason, or refused."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from circuit.errors import LoadError, Problem
from circuit.formats import BROUGHT_TOGETHER, FORMATS
from circuit.load.inputs import TensorInfo
from circuit.load.ledger import Ledger, keys_of
from circuit.load.precision import Quantization
from circuit.text import listed
from circuit.tir.ir import Bound, Concat, Key, Quantized, Recipe, Tir, Unpermute, Weight, quantized_keys
from circuit.tir.quantize import quantize

_SHOWN = 20
"""Problems that are shown one by one: a checkpoint with other names has hundreds, all of one kind."""


def bind(tir: Tir, tensors: tuple[TensorInfo, ...], ledger: Ledger, quantization: Quantization | None = None) -> Bound:
    """Each weight with the format of its tensors; a LoadError with every tensor that is missing, surplus or wrong."""
    problems: list[Problem] = []
    by_name: dict[str, TensorInfo] = {}
    for tensor in tensors:
        if tensor.name in by_name:
            problems.append(_problem(f"tensor `{tensor.name}` is there twice", "use an undamaged checkpoint"))
        by_name[tensor.name] = tensor
    if quantization is not None:
        tir, wrong = quantize(tir, quantization, by_name)
        problems.extend(wrong)
        if wrong:
            raise LoadError([*problems[:_SHOWN], *_rest(problems[_SHOWN:])])
    reader_of: dict[str, Weight] = {}
    for weight in tir.weights:
        for key in keys_in(weight.recipe):
            if key in reader_of:
                message = f"tensor `{key}` is bound twice, by {reader_of[key].name} and {weight.name}"
                problems.append(_problem(message, "bind it once in the circuit"))
            reader_of[key] = weight
    weights = []
    for weight in tir.weights:
        parts = [by_name[key] for key in keys_in(weight.recipe) if key in by_name]
        missing = [key for key in keys_in(weight.recipe) if key not in by_name]
        problems.extend(_missing(tir, ledger, weight, key) for key in missing)
        if not missing and not isinstance(weight.recipe, Quantized):
            problems.extend(_wrong(ledger, weight, parts))
            weight = replace(weight, format=_baked_format(parts))
        weights.append(weight)
    equal = tuple(pair for pair in tir.shares if pair[0] in by_name)
    ignored = []
    for name in sorted(by_name):
        if name in reader_of or any(name == shared for shared, _ in equal):
            continue
        why = next((why for pattern, why in ledger.ignored_tensors if _fits(name, pattern)), None)
        if why is None and quantization is not None:
            why = dict(quantization.unread).get(name.rpartition(".")[2])
        if why is None:
            problems.append(_surplus(tir, ledger, reader_of, name))
        else:
            ignored.append((name, why))
    if problems:
        raise LoadError([*problems[:_SHOWN], *_rest(problems[_SHOWN:])])
    return Bound(tir=replace(tir, weights=tuple(weights)), equal=equal, ignored=tuple(ignored))


def _baked_format(parts: list[TensorInfo]) -> str:
    """The format that a weight is baked in: that of its tensors, but bf16 for a matrix in f32 that loses nothing."""
    narrow = all(part.exact_bf16 and part.format == "f32" and len(part.shape) == 2 for part in parts)
    return "bf16" if narrow else parts[0].format


def _rest(problems: list[Problem]) -> Iterator[Problem]:
    if problems:
        message = f"{len(problems)} more tensors are missing, surplus or wrong"
        yield _problem(
            message, "correct the ones above first: a prefix in every name, or another model's config, does this"
        )


def keys_in(recipe: Recipe) -> tuple[str, ...]:
    """The tensors that the recipe reads, in order."""
    match recipe:
        case Key(key=key):
            return (key,)
        case Unpermute(of=of):
            return keys_in(of)
        case Concat(parts=parts):
            return tuple(key for part in parts for key in keys_in(part))
        case Quantized():
            return quantized_keys(recipe)


def _missing(tir: Tir, ledger: Ledger, weight: Weight, key: str) -> Problem:
    node = next(node for node in tir.nodes if tir.weights.index(weight) in node.weights)
    message = f"tensor `{key}` is missing; {node.id} reads it"
    if weight.name.endswith(".bias"):
        said = keys_of(ledger, _switches(ledger, node.block, node.id, "bias"))
        return _problem(f"{message} because {_said(said)}", "correct the config, or add the tensor")
    if node.role == "head":
        said = keys_of(ledger, ("tied",))
        fix = "correct the config if the head is the embedding table, or add the tensor"
        return _problem(f"{message} because {_said(said)}", fix)
    return _problem(message, "use a complete checkpoint")


def _wrong(ledger: Ledger, weight: Weight, parts: list[TensorInfo]) -> Iterator[Problem]:
    for part in parts:
        if part.format == "F8_E4M3":
            message = f"tensor `{part.name}` is stored as F8_E4M3, but the config declares no quantization"
            yield _problem(message, "use a checkpoint whose config belongs to its tensors")
        elif part.format not in FORMATS or part.format in BROUGHT_TOGETHER:
            message = f"tensor `{part.name}` is stored as {part.format}, which is not supported"
            fix = f"use a checkpoint stored as one of: {listed(f for f in FORMATS if f not in BROUGHT_TOGETHER)}"
            yield _problem(message, fix)
        elif part.format != parts[0].format:
            message = (
                f"tensors `{parts[0].name}` ({parts[0].format}) and `{part.name}` ({part.format}) differ in format"
            )
            yield _problem(message, "store them alike")
        elif part.shape and part.shape[-1] % FORMATS[part.format].block:
            message = (
                f"tensor `{part.name}` has rows of {part.shape[-1]} values, which are not whole {part.format} blocks"
            )
            yield _problem(message, "use an undamaged checkpoint")
    if len(parts) == 1 and parts[0].shape != weight.shape:
        names = tuple(dict.fromkeys(name for axis in weight.axes for name in axis.replace("+", "*").split("*")))
        said = keys_of(ledger, tuple(name.strip() for name in names))
        message = f"tensor `{parts[0].name}` is {_sides(parts[0].shape)}; the config asks for {_sides(weight.shape)}"
        if weight.axes:
            message += f" = {' x '.join(weight.axes)} ({_said(said)})"
        yield _problem(message, "correct the config, or use the checkpoint that belongs to it")


def _surplus(tir: Tir, ledger: Ledger, reader_of: dict[str, Weight], name: str) -> Problem:
    module, _, part = name.rpartition(".")
    weight = reader_of.get(f"{module}.weight")
    if part == "bias" and weight is not None:
        node = next(node for node in tir.nodes if tir.weights.index(weight) in node.weights)
        said = keys_of(ledger, _switches(ledger, node.block, node.id, "bias"))
        if said:
            message = f"tensor `{name}` is there, but {_said(said)} says {node.id} has no bias"
            return _problem(message, "correct the config, or remove the tensor")
    return _problem(f"tensor `{name}` is read by no node", f"classify it in {ledger.map_file}, or remove it")


def _switches(ledger: Ledger, block: str, node_id: str, param: str) -> tuple[str, ...]:
    """The facts that set `param` of this node: the ledger names nodes without their layer."""
    template = block.rpartition(".")[2] + node_id.removeprefix(block)
    use = f"{template}.{param}"
    return tuple(fact for fact, uses in ledger.uses if use in uses)


def _fits(name: str, pattern: str) -> bool:
    """Whether the name is the pattern with something, or nothing, in the place of each `*`."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _said(said: tuple[str, ...]) -> str:
    return ", ".join(said) or "the model type"


def _sides(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _problem(message: str, fix: str) -> Problem:
    return Problem(message=message, fix=fix)
