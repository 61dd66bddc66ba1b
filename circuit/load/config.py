"""A checkpoint's config -> facts and the ledger. Everything that is wrong with the config is reported at once."""

from collections.abc import Mapping

from msgspec.structs import replace

from circuit.errors import LoadError, Problem
from circuit.load.circuits import fact_uses, load_circuit
from circuit.load.classify import Reading, Value, classify, value_text
from circuit.load.config_map import load_config_map, mapped_types
from circuit.load.facts import Facts, FactValue, Naming
from circuit.load.inputs import CheckpointTexts, GgufTexts, HfTexts, Library
from circuit.load.json_text import read_json
from circuit.load.ledger import Entry, Ledger
from circuit.load.precision import Quantization
from circuit.load.quantization import read_quantization
from circuit.load.quantization_nodes import quantization_uses
from circuit.load.resolve import FLOATS, ignored, place_of, resolve
from circuit.load.rope import attention_scale, frequencies
from circuit.load.source import Document, Plain, line_of, path_text
from circuit.text import Source, check, listed, problem_at, round_f32

_ROPE = "rope."
"""Facts that only the frequencies read; `inv_freq` and `rope_scale` are what becomes of them."""

_BECOME = {
    "layer_kinds": ("window",),
    "window": ("window",),
    "window_from": ("window",),
    "slides": ("window",),
    "head_dim": ("head_dim", "attn_scale"),
}
_CONSUMED = ("context", "format", "has_tensors", "layer_kinds", "slides", "window_from")


def map_config(checkpoint: CheckpointTexts, library: Library) -> tuple[Facts, Ledger]:
    """The facts of the checkpoint and what became of every key; a LoadError with every problem."""
    match checkpoint:
        case HfTexts():
            document, reading = _read_hf(checkpoint, library)
            known, factors = checkpoint.tensors, None
        case GgufTexts():
            document, reading = _read_gguf(checkpoint, library)
            known, factors = checkpoint.tensors, checkpoint.rope_factors
    tensors = frozenset(tensor.name for tensor in known or ())
    quantization = _quantization(reading, checkpoint)
    values = resolve(reading, document, {"has_tensors": int(known is not None)}, tensors)
    layers = _layers(reading, document, values)
    _rope(reading, document, values, factors)
    check(dict.fromkeys(reading.problems))
    assert not reading.failed, f"facts failed without a problem: {sorted(reading.failed)}"
    facts = replace(_facts(reading, values, layers), quantization=quantization)
    return facts, _ledger(reading, library, facts)


def _read_hf(checkpoint: HfTexts, library: Library) -> tuple[Document, Reading]:
    document = read_json(checkpoint.config)
    known = mapped_types(library, "config.json")
    name = document.data.get("model_type")
    if not isinstance(name, str) or name not in known:
        raise LoadError(_no_model_type(document, name, known))
    reading = Reading(config_map=load_config_map(library, "config.json", name))
    classify(reading, document, reading.config_map.keys)
    if checkpoint.generation_config is not None:
        classify(reading, read_json(checkpoint.generation_config), reading.config_map.generation)
    return document, reading


def _quantization(reading: Reading, checkpoint: CheckpointTexts) -> Quantization | None:
    if isinstance(checkpoint, GgufTexts):
        return None
    own = None if checkpoint.quantization is None else read_json(checkpoint.quantization)
    if len(reading.quantized) > 1:
        (_, first, _), (document, path, _) = reading.quantized[:2]
        message = f"there are `{path_text(first)}` and `{path_text(path)}`"
        reading.refuse(document, path, message, "keep the one that belongs to the tensors")
        return None
    return read_quantization(reading, reading.quantized[0] if reading.quantized else None, own)


def _no_model_type(document: Document, name: Plain, known: tuple[str, ...]) -> Problem:
    if name is None:
        message = "the file has no `model_type`"
    else:
        message = f"`model_type` is {value_text(name)}, which has no circuit"
    line = line_of(document, ("model_type",)) if "model_type" in document.data else 1
    return problem_at(document.source, line, message, f"use a checkpoint with one of: {listed(known)}")


def _read_gguf(checkpoint: GgufTexts, library: Library) -> tuple[Document, Reading]:
    data: dict[str, Plain] = {}
    problems: list[Problem] = []
    for entry in checkpoint.metadata:
        if entry.key in data:
            message = f"metadata key `{entry.key}` is there twice"
            problems.append(Problem(message=message, fix="use an undamaged file", file=checkpoint.path))
        data[entry.key] = list(entry.value) if isinstance(entry.value, tuple) else entry.value
    check(problems)
    document = Document(source=Source(path=checkpoint.path, text=""), data=data, lines={})
    known = mapped_types(library, "gguf")
    name = data.get("general.architecture")
    if not isinstance(name, str) or name not in known:
        what = (
            "has no `general.architecture`"
            if name is None
            else f"has the architecture {value_text(name)}, which has no circuit"
        )
        fix = f"use a file with one of: {listed(known)}"
        raise LoadError(Problem(message=f"the file {what}", fix=fix, file=checkpoint.path))
    reading = Reading(config_map=load_config_map(library, "gguf", name))
    classify(reading, document, reading.config_map.keys)
    return document, reading


def _layers(reading: Reading, document: Document, values: dict[str, Value]) -> tuple[str, ...]:
    """The kind of each layer: "full" or "sliding"."""
    rule = reading.config_map.layers
    count, kinds, window = values.get(rule.count), values.get(rule.kinds), values.get(rule.window)
    if not isinstance(count, int):
        return ()
    if isinstance(kinds, tuple):
        where, path, key = place_of(reading, document, rule.kinds)
        if len(kinds) != count:
            other = place_of(reading, document, rule.count)[2]
            message = f"`{key}` names {len(kinds)} layers, `{other}` is {count}"
            reading.refuse(where, path, message, "correct one of the two")
            return ()
        found = tuple(str(kind) for kind in kinds)
        if "sliding" in found and window is None:
            _, _, width = place_of(reading, document, rule.window)
            reading.refuse(where, path, f"`{key}` has sliding layers, but no window is in force", f"set `{width}`")
    elif window is None:
        found = ("full",) * count
    else:
        start = values.get(rule.start, 0)
        assert isinstance(start, int)
        found = ("full",) * min(start, count) + ("sliding",) * max(count - start, 0)
    if "sliding" not in found:
        for fact in (rule.window, rule.start):
            if values.pop(fact, None) is not None:
                ignored(reading, fact, "no layer slides")
    return found


def _rope(reading: Reading, document: Document, values: dict[str, Value], factors: tuple[float, ...] | None) -> None:
    """Adds rotary_dim, inv_freq, rope_scale and attn_scale to `values`."""
    head_dim, kind = values.get("head_dim"), values.get("rope.kind")
    numbers = {
        name.removeprefix(_ROPE): float(value)
        for name, value in values.items()
        if name.startswith(_ROPE) and isinstance(value, int | float)
    }
    if not isinstance(head_dim, int) or not isinstance(kind, str):
        return
    if any(name.startswith(_ROPE) or name == "rotary_dim" for name in reading.failed):
        return
    rotary_dim = values.get("rotary_dim")
    if rotary_dim is None:
        rotary_dim = int(head_dim * numbers["partial"])
    assert isinstance(rotary_dim, int)
    if rotary_dim % 2 or not 0 < rotary_dim <= head_dim:
        where, path, key = place_of(reading, document, "rope.partial" if "partial" in numbers else "rotary_dim")
        message = f"{rotary_dim} of {head_dim} values of a head are turned (`{key}`)"
        reading.refuse(where, path, message, f"an even number from 2 to {head_dim} can be")
        return
    for low, high in (("low", "high"), ("beta_slow", "beta_fast")):
        if low in numbers and numbers[high] <= numbers[low]:
            where, path, key = place_of(reading, document, _ROPE + high)
            other = place_of(reading, document, _ROPE + low)[2]
            reading.refuse(where, path, f"`{key}` is not above `{other}`", "correct one of the two")
            return
    if factors is not None and (len(factors) != rotary_dim // 2 or kind != "default"):
        message = f"the file has {len(factors)} rope factors for {rotary_dim // 2} frequencies of the kind {kind}"
        reading.refuse(document, (), message, "use a file with one factor for each, without another rope scaling")
        return
    if factors is not None and not all(FLOATS[0] <= factor <= FLOATS[1] for factor in factors):
        message = f"the rope factors {listed(str(factor) for factor in factors)} cannot divide a frequency"
        reading.refuse(document, (), message, f"use a file with factors from {FLOATS[0]:g} to {FLOATS[1]:g}")
        return
    rope = frequencies(kind, rotary_dim, numbers, factors)
    if factors is not None:
        shown = f"[{len(factors)} values]"
        reading.entries.append(
            Entry(
                file=document.source.path,
                line=None,
                key="rope factors",
                value=shown,
                kind="tensor",
                became=("rope.factors",),
                nodes=(),
                why="a tensor of the file divides the frequencies one by one",
            )
        )
    for name in rope.unused:
        ignored(reading, _ROPE + name, "another key of the rope scaling decides the attention factor")
    values["rotary_dim"] = rotary_dim
    values["rope_scale"] = rope.scale
    values["attn_scale"] = attention_scale(head_dim)
    values["inv_freq"] = rope.inv_freq


def _facts(reading: Reading, values: Mapping[str, Value], layers: tuple[str, ...]) -> Facts:
    kinds = {fact.name: fact.kind for fact in reading.config_map.facts} | {"rotary_dim": "dim"}
    context, stored = values["context"], values.get("format", "file")
    assert isinstance(context, int)
    assert isinstance(stored, str)
    dims: list[tuple[str, int]] = []
    params: list[tuple[str, FactValue]] = []
    run: list[tuple[str, tuple[int, ...]]] = []
    for name, value in sorted(values.items()):
        kind = kinds.get(name, "param")
        if name in _CONSUMED or name.startswith(_ROPE):
            continue
        if kind == "dim" and isinstance(value, int):
            dims.append((name, value))
        elif kind == "run" and isinstance(value, tuple):
            run.extend([(name, tuple(item for item in value if isinstance(item, int)))] if value else [])
        elif isinstance(value, tuple):
            params.append((name, tuple(item for item in value if isinstance(item, float))))
        else:
            params.append((name, round_f32(value) if isinstance(value, float) else value))
    return Facts(
        arch=reading.config_map.arch,
        context=context,
        format=stored,
        dims=tuple(dims),
        params=tuple(params),
        layers=layers,
        run=tuple(run),
        naming=Naming(names=reading.config_map.names, unpermute=reading.config_map.unpermute),
    )


def _ledger(reading: Reading, library: Library, facts: Facts) -> Ledger:
    config_map = reading.config_map
    off = frozenset(name for name, value in facts.dims if value == 0)
    circuit = load_circuit(library, config_map.arch)
    uses = fact_uses(circuit, off) | quantization_uses(circuit, facts)
    entries = []
    for entry in reading.entries:
        nodes = dict.fromkeys(use for fact in entry.became for name in _becomes(fact) for use in uses.get(name, ()))
        entries.append(replace(entry, nodes=tuple(nodes)))
    return Ledger(
        arch=config_map.arch,
        model_type=config_map.model_type,
        map_file=config_map.file,
        entries=tuple(entries),
        ignored_tensors=config_map.ignored_tensors,
        uses=tuple(uses.items()),
    )


def _becomes(fact: str) -> tuple[str, ...]:
    if fact.startswith(_ROPE):
        return ("inv_freq", "rope_scale") if fact not in _SCALE_ONLY else ("rope_scale",)
    return _BECOME.get(fact, (fact,))


_SCALE_ONLY = ("rope.attention_factor", "rope.mscale", "rope.mscale_all_dim")
