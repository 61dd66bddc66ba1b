"""Patterns of pre-tokenizers as programs for kernels/cpu/program/pattern.c.

A pattern is parsed into alternatives, sequences, repetitions and classes of characters. Which characters a class has is
not read off the pattern: the tokenizers package, which met uses, is asked. So categories are those of its Unicode
version, and what its engine takes for the same letter in another case is the same letter here.

What the parser does not know is refused: anchors but `\\z`, lookahead but `(?!class)`, lazy and possessive repetition.
"""

from msgspec import Struct, field

TAKE, TRY, GO, NONE_NEXT, AT_END, FOUND = range(6)
Ranges = tuple[tuple[int, int], ...]
Steps = tuple[tuple[int, int, int], ...]

_ASSIGNED = (range(0xD800), range(0xE000, 0x32400), range(0xE0000, 0xE0200))
"""Where Unicode 16 has characters; the rest is private, or nothing, which the characters of _REST stand for."""
_REST = ((0x32400, 0xDFFFF), (0xE0200, 0x10FFFF))
_DIGITS = "digits of the tokenizers package"
_LARGEST = 1000


class PatternError(ValueError):
    """A pattern has something that the programs do not do; the text says what."""


class _Class(Struct, frozen=True):
    source: str


class _NoneNext(Struct, frozen=True):
    source: str


class _AtEnd(Struct, frozen=True):
    pass


class _Sequence(Struct, frozen=True):
    parts: tuple["_Node", ...]


class _Either(Struct, frozen=True):
    parts: tuple["_Node", ...]


class _Repeat(Struct, frozen=True):
    of: "_Node"
    least: int
    most: int | None


_Node = _Class | _NoneNext | _AtEnd | _Sequence | _Either | _Repeat


class Patterns(Struct):
    """Programs that share their classes. `classes` are the characters of each, by the text of the class."""

    programs: list[Steps] = field(default_factory=list)
    classes: dict[str, Ranges] = field(default_factory=dict)

    def add(self, pattern: str) -> None:
        """Another pattern, which cuts what the earlier ones left; PatternError for one that cannot be one."""
        self._add(_Parser(pattern).whole())

    def add_digits(self, individual: bool) -> None:
        """The pre-tokenizer Digits: each digit by itself, or runs of them."""
        self._add(_Class(_DIGITS) if individual else _Repeat(_Class(_DIGITS), 1, None))

    def _add(self, node: _Node) -> None:
        steps: list[tuple[int, int, int]] = []
        self._write(node, steps)
        self.programs.append((*steps, (FOUND, 0, 0)))

    def _class(self, source: str) -> int:
        if source not in self.classes:
            self.classes[source] = members(source)
        return list(self.classes).index(source)

    def _write(self, node: _Node, steps: list[tuple[int, int, int]]) -> None:
        match node:
            case _Class():
                steps.append((TAKE, self._class(node.source), 0))
            case _NoneNext():
                steps.append((NONE_NEXT, self._class(node.source), 0))
            case _AtEnd():
                steps.append((AT_END, 0, 0))
            case _Sequence():
                for part in node.parts:
                    self._write(part, steps)
            case _Either():
                self._either(node.parts, steps)
            case _Repeat():
                self._repeat(node, steps)

    def _either(self, parts: tuple[_Node, ...], steps: list[tuple[int, int, int]]) -> None:
        leaves = []
        for part in parts[:-1]:
            choice = len(steps)
            steps.append((TRY, choice + 1, 0))
            self._write(part, steps)
            leaves.append(len(steps))
            steps.append((GO, 0, 0))
            steps[choice] = (TRY, choice + 1, len(steps))
        self._write(parts[-1], steps)
        for place in leaves:
            steps[place] = (GO, len(steps), 0)

    def _repeat(self, node: _Repeat, steps: list[tuple[int, int, int]]) -> None:
        for _ in range(node.least):
            self._write(node.of, steps)
        if node.most is None:
            first = len(steps)
            steps.append((TRY, first + 1, 0))
            self._write(node.of, steps)
            steps.append((GO, first, 0))
            steps[first] = (TRY, first + 1, len(steps))
            return
        choices = []
        for _ in range(node.most - node.least):
            choices.append(len(steps))
            steps.append((TRY, len(steps) + 1, 0))
            self._write(node.of, steps)
        for place in choices:
            steps[place] = (TRY, place + 1, len(steps))


def members(source: str) -> Ranges:
    """The characters of a class, as the tokenizers package has them: sorted ranges, both ends inclusive."""
    if len(source) == 1:
        return ((ord(source), ord(source)),)
    codes = [code for part in _ASSIGNED for code in part]
    rest = [code for part in _REST for code in part]
    found = _matched(source, codes + rest)
    inside = found[: len(codes)]
    ranges: list[tuple[int, int]] = []
    for code, is_member in zip(codes, inside, strict=True):
        if is_member:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    if len(set(found[len(codes) :])) != 1:
        raise PatternError(f"the class {source} tells characters apart that Unicode does not assign")
    return tuple(sorted((*ranges, *(_REST if found[-1] else ()))))


def _matched(source: str, codes: list[int]) -> list[bool]:
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Digits, Split

    if source == _DIGITS:  # every digit is a piece by itself; the letters between them keep others from being one
        pieces = Digits(individual_digits=True).pre_tokenize_str("".join(f"x{chr(code)}" for code in codes))
        alone = {start for _, (start, end) in pieces if end == start + 1 and start % 2}
        return [2 * place + 1 in alone for place in range(len(codes))]
    found = [True] * len(codes)
    left = Split(Regex(f"(?:{source})+"), "removed").pre_tokenize_str("".join(map(chr, codes)))
    for _, (start, end) in left:
        found[start:end] = [False] * (end - start)
    return found


class _Parser:
    """Recursive descent over the dialect that pre-tokenizers use."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.ignores_case = False

    def whole(self) -> _Node:
        node = self._either()
        if self.at < len(self.text):
            raise self._unknown(self.text[self.at :])
        return node

    def _unknown(self, what: str) -> PatternError:
        return PatternError(f"the pattern {self.text} has {what}")

    def _takes(self, word: str) -> bool:
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def _either(self) -> _Node:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else _Either(tuple(parts))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return _Sequence(tuple(parts))

    def _repeated(self, of: _Node) -> _Node:
        least, most = 1, 1
        unlimited = False
        if self._takes("?"):
            least = 0
        elif self._takes("*"):
            least, unlimited = 0, True
        elif self._takes("+"):
            unlimited = True
        elif self._takes("{"):
            inner = self.text[self.at : self.text.index("}", self.at)]
            self.at += len(inner) + 1
            low, comma, high = inner.partition(",")
            if not (low.isdecimal() and (high.isdecimal() or not high)) or int(high or low) > _LARGEST:
                raise self._unknown(f"the repetition {{{inner}}}")
            least, most, unlimited = int(low), int(high or low), bool(comma and not high)
        else:
            return of
        if self.text[self.at : self.at + 1] in ("?", "+", "*"):
            raise self._unknown(f"a repetition that ends in {self.text[self.at]}")
        if unlimited and _may_be_empty(of):
            raise self._unknown("a repetition of something that may be empty")
        return _Repeat(of, least, None if unlimited else most)

    def _atom(self) -> _Node:
        if self._takes("(?!"):
            start = self.at
            inner = self._either()
            parts = inner.parts if isinstance(inner, _Sequence) else ()
            only = parts[0] if len(parts) == 1 else None
            if not isinstance(only, _Class) or not self._takes(")"):
                raise self._unknown(f"the lookahead (?!{self.text[start : self.at]})")
            return _NoneNext(only.source)
        if self._takes("(?i:"):
            before, self.ignores_case = self.ignores_case, True
            node = self._closed()
            self.ignores_case = before
            return node
        if self._takes("(?:"):
            return self._closed()
        if self.text.startswith("(?", self.at):
            raise self._unknown(f"the group {self.text[self.at : self.at + 4]}")
        if self._takes("("):
            return self._closed()
        if self._takes(r"\z"):
            return _AtEnd()
        return _Class(f"(?i:{self._class()})" if self.ignores_case else self._class())

    def _closed(self) -> _Node:
        node = self._either()
        if not self._takes(")"):
            raise self._unknown("a group without an end")
        return node

    def _class(self) -> str:
        """The text of one class, of one escape, or of one character."""
        start = self.at
        head = self.text[self.at]
        self.at += 1
        if head in "^$.*+?{":
            raise self._unknown(f"the sign {head}")
        if head == "[":
            depth = 1
            while depth:
                if self.at >= len(self.text):
                    raise self._unknown("a class without an end")
                letter = self.text[self.at]
                self.at += 2 if letter == "\\" else 1
                depth += (letter == "[") - (letter == "]")
        elif head == "\\":
            letter = self.text[self.at]
            self.at += 1
            if letter in "pP":
                self.at = self.text.index("}", self.at) + 1
            elif letter.isalnum() and letter not in "sSdDwWrnt":
                raise self._unknown(f"the escape \\{letter}")
        return self.text[start : self.at]


def _may_be_empty(node: _Node) -> bool:
    match node:
        case _Class():
            return False
        case _NoneNext() | _AtEnd():
            return True
        case _Sequence():
            return all(map(_may_be_empty, node.parts))
        case _Either():
            return any(map(_may_be_empty, node.parts))
        case _Repeat():
            return node.least == 0 or _may_be_empty(node.of)
