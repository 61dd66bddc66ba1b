"""An object of a quantization config as it is read: the class of every key, values of the right kind, refusals."""

from collections.abc import Mapping

from circuit.load.classify import Reading, value_text
from circuit.load.precision import Pattern, Precision, Quantization
from circuit.load.quantization_keys import Rule, Table
from circuit.load.source import Document, Path, Plain, line_of, path_text
from circuit.text import listed

GROUPS = (32, 64, 128)
FLOATS = "use the checkpoint with float weights, or a GGUF file"


class Refused(Exception):
    """The declaration cannot be used; the reading has the problem."""


class Scope:
    """An object of the document that is being read; what is wrong goes to the reading."""

    def __init__(
        self, reading: Reading, document: Document, path: Path, words: Mapping[str, str] | None = None
    ) -> None:
        self.reading, self.document, self.path, self.words = reading, document, path, words or {}

    def used(self, table: Table, needed: tuple[str, ...] = ()) -> dict[str, Plain]:
        """The values of the keys that count; every other key is noted or refused. Null counts as absent."""
        value = value_at(self.document, self.path)
        assert isinstance(value, dict)
        found: dict[str, Plain] = {}
        wrong = len(self.reading.problems)
        for name, item in value.items():
            at = (*self.path, name)
            rule = None if name in self.words.values() else table.get(self.words.get(name, name))
            if rule is None:
                message = f"unknown key `{path_text(at)}` of a quantization config"
                self.reading.refuse(self.document, at, message, f"remove it if it changes nothing; {FLOATS}")
            elif item is None:
                self.reading.note(self.document, at, item, "ignore", "null counts as absent")
            else:
                self._key(at, item, rule, found)
        for name in needed:
            if value.get(name) is None:
                message = f"`{path_text((*self.path, name))}` is missing"
                self.reading.refuse(self.document, self.path, message, "use a checkpoint whose config is complete")
        if len(self.reading.problems) > wrong:
            raise Refused
        return found

    def _key(self, at: Path, item: Plain, rule: Rule, found: dict[str, Plain]) -> None:
        match rule.kind:
            case "ignore":
                self.reading.note(self.document, at, item, "ignore", rule.why)
            case "use":
                name = str(at[-1])
                found[self.words.get(name, name)] = item
                self.reading.note(self.document, at, item, "param", rule.why, (rule.decides,))
            case "object":
                found[str(at[-1])] = item
                self.reading.note(self.document, at, item, "object")
            case "require" if item in rule.values and isinstance(item, bool) == isinstance(rule.values[0], bool):
                self.reading.note(self.document, at, item, "require", rule.why)
            case "require":
                wanted = " or ".join(value_text(value) for value in rule.values)
                message = f"`{path_text(at)}` is {value_text(item)}; only {wanted} is supported: {rule.why}"
                self.reading.refuse(self.document, at, message, FLOATS)

    def inner(self, *names: str | int) -> "Scope":
        """An object inside."""
        scope = Scope(self.reading, self.document, (*self.path, *names))
        if not isinstance(value_at(self.document, scope.path), dict):
            scope.refuse((), "an object")
        return scope

    def refuse(self, names: Path, wanted: str) -> None:
        """Stops: the value at `names` is not what it must be."""
        at = (*self.path, *names)
        value = value_at(self.document, at)
        said = "is missing" if value is None else f"is {value_text(value)}"
        message = f"`{path_text(at)}` {said}; {wanted} is supported"
        self.reading.refuse(self.document, at, message, FLOATS)
        raise Refused

    def number(self, found: Mapping[str, Plain], name: str) -> int:
        value = found.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse((name,), "an integer")
            raise AssertionError
        return value

    def switch(self, found: Mapping[str, Plain], name: str) -> bool:
        value = found.get(name)
        if not isinstance(value, bool):
            self.refuse((name,), "true or false")
            raise AssertionError
        return value

    def names(self, found: Mapping[str, Plain], name: str) -> tuple[str, ...]:
        """A list of names; none where it is absent."""
        value = found.get(name, [])
        texts = [item for item in value if isinstance(item, str)] if isinstance(value, list) else None
        if texts is None or not isinstance(value, list) or len(texts) != len(value):
            self.refuse((name,), "a list of names")
            raise AssertionError
        return tuple(texts)

    def group(self, found: Mapping[str, Plain], name: str) -> int | None:
        """Inputs that share a scale; None where -1 says all of them."""
        size = self.number(found, name)
        if size != -1 and size not in GROUPS:
            self.refuse((name,), f"-1 or one of {listed(map(str, GROUPS))}")
        return None if size == -1 else size

    def made(
        self,
        precision: Precision,
        skipped: tuple[Pattern, ...],
        skip_key: str,
        head: bool,
        targets: tuple[Pattern, ...] = (),
        unread: tuple[tuple[str, str], ...] = (),
    ) -> Quantization:
        return Quantization(
            source=self.document.source,
            line=line_of(self.document, self.path),
            said=path_text(self.path) or "quantization",
            precision=precision,
            head=head,
            targets=targets,
            skipped=skipped,
            skip_key=path_text((*self.path, skip_key)),
            unread=unread,
        )


def value_at(document: Document, path: Path) -> Plain:
    value: Plain = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) and isinstance(part, str) else None
    return value
