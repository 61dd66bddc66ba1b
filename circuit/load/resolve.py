"""Facts from what the keys said: two spellings must agree, absent values come from a stated source or are refused."""

from collections.abc import Mapping

from msgspec.structs import replace

from circuit.load.classify import Reading, Said, Value, value_text
from circuit.load.config_map import Condition, FactSpec, first_key
from circuit.load.ledger import Entry, EntryKind
from circuit.load.source import Document, Plain, path_text
from circuit.text import problem_at

FLOATS = (1e-30, 1e30)
"""The sizes of numbers whose products and quotients stay within float32."""


def resolve(
    reading: Reading, document: Document, preset: Mapping[str, int], tensors: frozenset[str]
) -> dict[str, Value]:
    """Every fact that the model has, by name; failed ones are left out. Problems and ledger entries go to `reading`."""
    values: dict[str, Value] = dict(preset)
    for fact in reading.config_map.facts:
        if any(condition.fact in reading.failed for condition in fact.when):
            reading.failed.add(fact.name)
            continue
        said = reading.said.get(fact.name, [])
        unmet = next((condition for condition in fact.when if not _holds(condition, values)), None)
        if unmet is not None:
            _unread(reading, fact, said, unmet)
            continue
        if fact.name in reading.failed:
            continue
        value = _said_value(reading, fact, said) if said else None
        if value is None and fact.name not in reading.failed:
            value = _absent_value(reading, document, fact, said, values, tensors)
        if value is not None and fact.name not in reading.failed and _legal(reading, document, fact, value, values):
            values[fact.name] = value
    return values


def ignored(reading: Reading, fact: str, why: str) -> None:
    """Reclassify the keys that gave `fact`: nothing reads it."""
    for said in reading.said.get(fact, []):
        entry = reading.entries[said.entry]
        reading.entries[said.entry] = replace(entry, kind="ignore", became=(), why=why)


def place_of(reading: Reading, document: Document, fact: str) -> tuple[Document, tuple[str | int, ...], str]:
    """Where a message about `fact` points: the key that gave it, or the document; and the key's name."""
    said = reading.said.get(fact)
    if said:
        return said[0].document, said[0].path, path_text(said[0].path)
    return document, (), first_key(reading.config_map, fact) or fact


def _holds(condition: Condition, values: Mapping[str, Value]) -> bool:
    if condition.values:
        return values.get(condition.fact) in condition.values
    return (condition.fact in values) == condition.given


def _unread(reading: Reading, fact: FactSpec, said: list[Said], unmet: Condition) -> None:
    where = first_key(reading.config_map, unmet.fact)
    name = f"`{where}`" if where is not None else unmet.fact
    if unmet.values:
        is_switch = any(each.name == unmet.fact and each.type == "switch" for each in reading.config_map.facts)
        shown = [value_text(bool(value)) if is_switch else str(value) for value in unmet.values]
        counts = f"it counts only where {name} is {' or '.join(shown)}"
    else:
        counts = f"it counts only where {name} is {'given' if unmet.given else 'absent'}"
    if unmet.fact == "has_tensors":
        counts = "the tensors themselves say it"
    if fact.otherwise == "ignore":
        ignored(reading, fact.name, counts)
        return
    for each in said:
        if each.value is not None:
            message = f"`{path_text(each.path)}` contradicts the rest: {counts}"
            reading.refuse(each.document, each.path, message, "remove one of the two")


def _said_value(reading: Reading, fact: FactSpec, said: list[Said]) -> Value | None:
    if fact.kind == "run":
        ids = [item for each in said if isinstance(each.value, tuple) for item in each.value if isinstance(item, int)]
        return tuple(sorted(set(ids)))
    first = said[0]
    for other in said[1:]:
        if other.value != first.value:
            reading.failed.add(fact.name)
            message = (
                f"`{path_text(first.path)}` and `{path_text(other.path)}` say the same thing in two ways and differ: "
                f"{_text(first)} and {_text(other)}"
            )
            reading.refuse(other.document, other.path, message, "keep the right one, remove the other")
    return first.value


def _text(said: Said) -> str:
    value: Plain = said.document.data
    for part in said.path:
        if isinstance(value, dict) and isinstance(part, str):
            value = value[part]
    return value_text(value)


def _absent_value(
    reading: Reading,
    document: Document,
    fact: FactSpec,
    said: list[Said],
    values: Mapping[str, Value],
    tensors: frozenset[str],
) -> Value | None:
    unset = bool(said)  # an explicit null: no class default
    key = first_key(reading.config_map, fact.name) or fact.name

    def note(value: Value, kind: EntryKind, why: str) -> Value:
        reading.entries.append(_absent_entry(document, key, fact.name, value, kind, why))
        return value

    if fact.const is not None:
        return note(_scalar(fact.const), "const", fact.source)
    if fact.if_tensor is not None:
        present = fact.if_tensor in tensors
        return note(int(present), "tensor", f"{fact.if_tensor} is {'there' if present else 'not there'}")
    if fact.unless_tensor is not None:
        present = fact.unless_tensor in tensors
        return note(int(not present), "tensor", f"{fact.unless_tensor} is {'there' if present else 'not there'}")
    if fact.default is not None and not unset:
        default = fact.default
        value = tuple(int(item) for item in default) if isinstance(default, tuple) else _scalar(default)
        return note(float(value) if fact.type == "float" and isinstance(value, int) else value, "default", fact.source)
    if fact.or_fact is not None:
        if fact.or_fact in values:
            return note(values[fact.or_fact], "derived", f"absent: the same as {fact.or_fact}")
        reading.failed.add(fact.name)
        return None
    if fact.or_div is not None:
        return _quotient(reading, document, fact, values, key)
    if not fact.optional:
        reading.failed.add(fact.name)
        conditions = [f"{c.fact} is {values[c.fact]}" for c in fact.when if c.fact in values and c.values]
        because = f" ({', '.join(conditions)})" if conditions else ""
        message = f"`{key}` is missing{because}"
        reading.problems.append(problem_at(document.source, None, message, f"add `{key}` to the file"))
    return None


def _absent_entry(document: Document, key: str, fact: str, value: Value, kind: EntryKind, why: str) -> Entry:
    shown: Plain = list(value) if isinstance(value, tuple) else value
    return Entry(
        file=document.source.path,
        line=None,
        key=key,
        value=value_text(shown),
        kind=kind,
        became=(fact,),
        nodes=(),
        why=why,
    )


def _quotient(
    reading: Reading, document: Document, fact: FactSpec, values: Mapping[str, Value], key: str
) -> Value | None:
    assert fact.or_div is not None
    over, under = (values.get(name) for name in fact.or_div)
    if not isinstance(over, int) or not isinstance(under, int):
        reading.failed.add(fact.name)
        return None
    names = [place_of(reading, document, name)[2] for name in fact.or_div]
    if over % under:
        reading.failed.add(fact.name)
        where, path, _ = place_of(reading, document, fact.or_div[0])
        message = f"`{key}` is absent, and `{names[0]}` {over} is not a multiple of `{names[1]}` {under}"
        reading.refuse(where, path, message, f"add `{key}` to the file")
        return None
    why = f"absent: {names[0]} / {names[1]} = {over} / {under}"
    reading.entries.append(_absent_entry(document, key, fact.name, over // under, "derived", why))
    return over // under


def _scalar(value: bool | int | float | str) -> int | float | str:
    return int(value) if isinstance(value, bool) else value


def _legal(reading: Reading, document: Document, fact: FactSpec, value: Value, values: Mapping[str, Value]) -> bool:
    where, path, key = place_of(reading, document, fact.name)
    lowest = fact.above
    if lowest is None and fact.kind != "run" and fact.type in ("int", "float"):
        lowest = 0.0
    problem: tuple[str, str] | None = None
    if isinstance(value, int | float) and lowest is not None and value <= lowest:
        problem = f"`{key}` is {value}", f"write a number above {lowest:g}"
    elif isinstance(value, int) and value > fact.most:
        problem = f"`{key}` is {value}", f"write a number up to {fact.most}"
    elif isinstance(value, float) and not FLOATS[0] <= abs(value) <= FLOATS[1]:
        problem = f"`{key}` is {value}", f"write a number from {FLOATS[0]:g} to {FLOATS[1]:g}"
    elif fact.allowed and value not in fact.allowed:
        problem = f"`{key}` is {value}", f"use one of: {', '.join(str(each) for each in fact.allowed)}"
    elif fact.divides is not None:
        whole = values.get(fact.divides)
        if isinstance(whole, int) and isinstance(value, int) and whole % value:
            other = place_of(reading, document, fact.divides)[2]
            problem = f"`{key}` {value} does not divide `{other}` {whole}", "correct one of the two"
    elif fact.same_as is not None and fact.same_as in values and value != values[fact.same_as]:
        other = place_of(reading, document, fact.same_as)[2]
        problem = f"`{key}` is {value}, `{other}` is {values[fact.same_as]}", "only equal values are supported"
    if problem is None:
        return True
    reading.failed.add(fact.name)
    reading.refuse(where, path, *problem)
    return False
