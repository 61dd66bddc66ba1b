"""The declared precision against the tensors: what a scheme keeps in several tensors becomes one weight, or is refused.

Config and tensors must agree for every projection: one that is declared and not there, or there and not declared, is a
contradiction, and so is a tensor of another type or shape.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from circuit.errors import Problem
from circuit.load.inputs import TensorInfo
from circuit.load.precision import Precision, Quantization, covers, skipped_by
from circuit.text import check, problem_at
from circuit.tir.ir import Key, Quantized, Tir, Weight

Tensors = Mapping[str, TensorInfo]
_FIX = "correct the config, or use the checkpoint that belongs to it"
_CODES = {"fp8": "F8_E4M3", "packed": "I32", "awq": "I32", "gptq": "I32", "gptq_v2": "I32"}
_UNITS = (128, 64, 32)


def quantize(tir: Tir, quantization: Quantization, tensors: Tensors | None) -> tuple[Tir, list[Problem]]:
    """The circuit with its quantized weights, and what is wrong; without `tensors`, as the config declares them."""
    weights, problems = list(tir.weights), []
    for place, role in _projections(tir):
        weight = weights[place]
        assert isinstance(weight.recipe, Key)
        module = weight.recipe.key.removesuffix(".weight")
        declared = covers(quantization, module, role)
        stored = declared if tensors is None else _stored(quantization, module, tensors)
        if declared and not stored and tensors is not None and f"{module}.weight" in tensors:
            problems.append(_not_stored(quantization, tensors[f"{module}.weight"]))
        elif stored and not declared:
            problems.append(_not_declared(quantization, module, role))
        elif declared:
            made = _recipe(quantization.precision, module, weight, tensors)
            wrong = [*_wrong_size(quantization, module, weight)]
            if tensors is not None and not wrong:
                wrong += _wrong_tensors(quantization, made, weight, tensors)
            problems += wrong
            if not wrong:
                weights[place] = replace(weight, recipe=made, format=_format(made, weight.shape[1], tensors))
    return replace(tir, weights=tuple(weights)), problems


def as_declared(tir: Tir, quantization: Quantization | None) -> Tir:
    """The circuit of a config without tensors: quantized as it declares."""
    if quantization is None:
        return tir
    made, problems = quantize(tir, quantization, None)
    check(problems)
    return made


def _projections(tir: Tir) -> Iterator[tuple[int, str | None]]:
    """The weights of two dimensions that only projections read, with the role of the first."""
    readers: dict[int, list[tuple[str, str | None]]] = {}
    for node in tir.nodes:
        for place in node.weights:
            readers.setdefault(place, []).append((node.op, node.role))
    for place, weight in enumerate(tir.weights):
        found = readers.get(place, [])
        if (
            len(weight.shape) == 2
            and found
            and all(op == "linear" for op, _ in found)
            and isinstance(weight.recipe, Key)
        ):
            yield place, found[0][1]


def _stored(quantization: Quantization, module: str, tensors: Tensors) -> bool:
    """Whether the file has codes for the module."""
    codes = tensors.get(f"{module}.{quantization.precision.codes}")
    return codes is not None and codes.format == _CODES[quantization.precision.scheme]


def _not_stored(quantization: Quantization, tensor: TensorInfo) -> Problem:
    module = tensor.name.removesuffix(".weight")
    message = f"`{quantization.said}` says that {module} is quantized, but tensor `{tensor.name}` is {tensor.format}"
    fix = f"name it in `{quantization.skip_key}`, or use the checkpoint that belongs to the config"
    return problem_at(quantization.source, quantization.line, message, fix)


def _not_declared(quantization: Quantization, module: str, role: str | None) -> Problem:
    entry = skipped_by(quantization, module)
    if entry is not None:
        why = f"`{quantization.skip_key}` leaves {module} out (`{entry}`)"
    elif role == "head" and not quantization.head:
        why = f"`{quantization.said}` does not cover the head"
    else:
        why = f"no target of `{quantization.said}` names {module}"
    message = f"{why}, but tensor `{module}.{quantization.precision.codes}` holds codes"
    return problem_at(quantization.source, quantization.line, message, _FIX)


def _recipe(precision: Precision, module: str, weight: Weight, tensors: Tensors | None) -> Quantized:
    present = tensors or {}
    scales = [name for name in precision.scales if f"{module}.{name}" in present]
    order = precision.order if precision.order and f"{module}.{precision.order}" in present else None
    return Quantized(
        scheme=precision.scheme,
        codes=f"{module}.{precision.codes}",
        scales=f"{module}.{scales[0] if scales else precision.scales[0]}",
        zeros=None if precision.zeros is None else f"{module}.{precision.zeros}",
        order=None if order is None else f"{module}.{order}",
        rows=precision.rows or weight.shape[0],
        columns=precision.columns or weight.shape[1],
        zero=precision.zero,
    )


def _format(recipe: Quantized, k: int, tensors: Tensors | None) -> str:
    """The storage format of the rows: scales of 4-bit codes keep their type, f16 where there are no tensors yet."""
    if recipe.scheme == "fp8":
        return "f8_e4m3"
    unit = next(unit for unit in _UNITS if recipe.columns % unit == 0)
    scales = tensors.get(recipe.scales) if tensors is not None else None
    return f"i4_{scales.format if scales is not None else 'f16'}_{unit}"


def _wrong_size(quantization: Quantization, module: str, weight: Weight) -> Iterator[Problem]:
    """Groups that do not fill the rows."""
    n, k = weight.shape
    columns = quantization.precision.columns or k
    if quantization.precision.scheme == "fp8":
        return
    if k % columns or columns % _UNITS[-1]:
        groups = f"groups of {columns}" if k % columns else f"groups of {_UNITS[-1]}"
        message = f"{module} has rows of {k} inputs, which are not whole {groups}"
        yield problem_at(quantization.source, quantization.line, message, _FIX)
    if n % 8:
        message = f"{module} has {n} outputs, which are not whole words of eight"
        yield problem_at(quantization.source, quantization.line, message, _FIX)


def _wrong_tensors(
    quantization: Quantization, recipe: Quantized, weight: Weight, tensors: Tensors
) -> Iterator[Problem]:
    for key, formats, shapes in _expected(recipe, weight.shape[0], weight.shape[1]):
        tensor = tensors.get(key)
        if tensor is None:
            continue  # whoever binds says that it is missing
        if tensor.format not in formats:
            message = f"tensor `{key}` is {tensor.format}; `{quantization.said}` asks for {' or '.join(formats)}"
            yield problem_at(quantization.source, quantization.line, message, _FIX)
        elif tensor.shape not in shapes:
            message = f"tensor `{key}` is {_sides(tensor.shape)}; `{quantization.said}` asks for {_sides(shapes[0])}"
            yield problem_at(quantization.source, quantization.line, message, _FIX)


Expected = tuple[str, tuple[str, ...], tuple[tuple[int, ...], ...]]


def _expected(recipe: Quantized, n: int, k: int) -> Iterator[Expected]:
    """Of each tensor: the types and the shapes that it may have."""
    groups = -(-k // recipe.columns)
    whole, short = ("I32",), ("f16", "bf16")
    match recipe.scheme:
        case "fp8":
            scales: tuple[tuple[int, ...], ...] = ((-(-n // recipe.rows), groups),)
            if recipe.columns == k and recipe.rows == 1:
                scales += ((n,),)
            if recipe.columns == k and recipe.rows == n:
                scales = ((), (1,), (1, 1))
            yield recipe.codes, ("F8_E4M3",), ((n, k),)
            yield recipe.scales, ("f32", "f16", "bf16"), scales
        case "packed":
            yield recipe.codes, whole, ((n, k // 8),)
            yield recipe.scales, short, ((n, groups),)
            if recipe.zeros is not None:
                yield recipe.zeros, whole, ((n // 8, groups),)
        case _:
            yield recipe.codes, whole, ((k, n // 8) if recipe.scheme == "awq" else (k // 8, n),)
            yield recipe.scales, short, ((groups, n),)
            assert recipe.zeros is not None
            yield recipe.zeros, whole, ((groups, n // 8),)
            if recipe.order is not None:
                yield recipe.order, whole, ((k,),)


def _sides(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"
