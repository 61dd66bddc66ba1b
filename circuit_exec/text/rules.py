"""What a tokenizer does with a text, as data for the C program of an emitted folder; what it cannot do is refused.

Covered are BPE over bytes and BPE over characters with byte fallback, as the tokenizers package describes them, and
scored vocabularies. A rule that is not listed here is refused by name, never left out.
"""

import json
import re
import unicodedata
from collections.abc import Mapping

from msgspec import Struct, field

from circuit_exec.text.byte_level import CHARACTER_OF
from circuit_exec.text.pattern_program import PatternError, Patterns, Ranges
from circuit_exec.text.sentencepiece import SPACE, ScoredVocabulary

WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What ByteLevel with use_regex splits by. Source: tokenizers 0.22, pre_tokenizers/byte_level.rs."""

Json = Mapping[str, object]


class RulesError(ValueError):
    """The tokenizer has a rule that the C program does not have; the text names it."""


class Rules(Struct):
    """`text_of` are the bytes of each id that words are looked up by. `merges` are (left, right, both) by rank; where
    there are none, `ranks` has one rank a token. `byte_ids` are -1 for bytes without an id. `added` are (text, id,
    set): those of set 0 are found first. `unstable` are characters that normalization might change.
    """

    byte_level: bool = True
    whole_words: bool = False
    spaces: bool = False
    only_first: bool = False
    not_twice: bool = False
    prepended: str = ""
    text_of: dict[int, bytes] = field(default_factory=dict)
    merges: list[tuple[int, int, int]] = field(default_factory=list)
    ranks: dict[int, int] = field(default_factory=dict)
    byte_ids: list[int] = field(default_factory=lambda: [-1] * 256)
    added: list[tuple[bytes, int, int]] = field(default_factory=list)
    patterns: Patterns = field(default_factory=Patterns)
    unstable: Ranges = ()


def rules_of_scores(vocabulary: ScoredVocabulary) -> Rules:
    """The rules of circuit_exec/text/sentencepiece.py."""
    ranks = {score: rank for rank, score in enumerate(sorted(set(vocabulary.scores), reverse=True))}
    return Rules(
        byte_level=False,
        spaces=True,
        prepended=SPACE if vocabulary.prefixes_space else "",
        text_of={id: token.encode("utf-8") for token, id in vocabulary.id_of.items()},
        ranks={id: ranks[score] for id, score in enumerate(vocabulary.scores)},
        byte_ids=list(vocabulary.byte_ids),
        added=[(token.encode("utf-8"), vocabulary.id_of[token], 0) for token in vocabulary.controls],
    )


def rules_of_json(text: str) -> Rules:
    """The rules of a tokenizer.json; RulesError for one that the program does not have."""
    whole: Json = json.loads(text)
    rules = Rules()
    model = _object(whole["model"], "model")
    ids: dict[str, int] = dict(model["vocab"])  # type: ignore[call-overload]
    try:
        _normalizer(whole.get("normalizer"), rules)
        _pre_tokenizer(whole.get("pre_tokenizer"), rules, ids)
    except PatternError as error:
        raise RulesError(str(error)) from error
    _model(model, rules, ids)
    _added(whole, rules, normalizes=whole.get("normalizer") is not None)
    return rules


def _object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise RulesError(f"{what} {json.dumps(value)}")
    return value


def _parts(value: object, what: str, inner: str) -> list[Json]:
    """A step, or the steps of a Sequence of them."""
    if value is None:
        return []
    step = _object(value, what)
    if step["type"] == "Sequence":
        return [part for one in step[inner] for part in _parts(one, what, inner)]  # type: ignore[attr-defined]
    return [step]


def _unknown(what: str, step: Json) -> RulesError:
    return RulesError(f"{what} {json.dumps(step, ensure_ascii=False)}")


def _normalizer(value: object, rules: Rules) -> None:
    for step in _parts(value, "normalizer", "normalizers"):
        match step:
            case {"type": "NFC"}:
                rules.unstable = _not_composed()
            case {"type": "Prepend", "prepend": str(text)} if not rules.spaces and not rules.prepended:
                rules.prepended = text
            case {"type": "Replace", "pattern": {"String": " "}, "content": str(mark)} if mark == SPACE:
                rules.spaces = True
            case _:
                raise _unknown("normalizer", step)


def _pre_tokenizer(value: object, rules: Rules, ids: dict[str, int]) -> None:
    byte_level = False
    for step in _parts(value, "pre_tokenizer", "pretokenizers"):
        match step:
            case {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated", "invert": False} if (
                byte_level
            ):
                # Only bytes without an id may be cut out after bytes became characters: gguf_tokenizer.py does so.
                missing = "".join(character for character in CHARACTER_OF if character not in ids)
                if pattern != f"[{re.escape(missing)}]":
                    raise _unknown("pre_tokenizer", step)
            case {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated", "invert": False}:
                rules.patterns.add(pattern)
            case {"type": "Split", "pattern": {"String": str(word)}, "behavior": "Isolated", "invert": False}:
                rules.patterns.add(re.escape(word))
            case {"type": "Digits", "individual_digits": bool(individual)} if not byte_level:
                rules.patterns.add_digits(individual)
            case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": bool(splits)} if not byte_level:
                byte_level = True
                if splits:
                    rules.patterns.add(WORDS)
            case {
                "type": "Metaspace",
                "replacement": str(mark),
                "prepend_scheme": str(scheme),
                "split": bool(splits),
            } if mark == SPACE and not rules.prepended and not byte_level and not rules.patterns.programs:
                rules.spaces = True
                rules.prepended = "" if scheme == "never" else SPACE
                rules.only_first, rules.not_twice = scheme == "first", True
                if splits:
                    rules.patterns.add(f"{SPACE}[^{SPACE}]*")
            case _:
                raise _unknown("pre_tokenizer", step)
    rules.byte_level = byte_level


def _model(model: Json, rules: Rules, ids: dict[str, int]) -> None:
    if model["type"] != "BPE":
        raise RulesError(f'model "{model["type"]}"')
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise RulesError(f"model.{key} {json.dumps(model[key])}")
    rules.whole_words = bool(model.get("ignore_merges"))
    if rules.byte_level:
        byte_of = {character: byte for byte, character in enumerate(CHARACTER_OF)}
        missing = [byte for byte, character in enumerate(CHARACTER_OF) if character not in ids]
        if missing and model.get("unk_token") is not None:
            raise RulesError(f"model.unk_token for the {len(missing)} bytes without a token")
        rules.byte_ids = [ids.get(character, -1) for character in CHARACTER_OF]
        for token, id in ids.items():
            if all(character in byte_of for character in token):
                rules.text_of[id] = bytes(byte_of[character] for character in token)
    else:
        names = [f"<0x{byte:02X}>" for byte in range(256)]
        if not model.get("byte_fallback") or any(name not in ids for name in names):
            raise RulesError("model without byte_fallback, and without byte level")
        rules.byte_ids = [ids[name] for name in names]
        rules.text_of = {id: token.encode("utf-8") for token, id in ids.items()}
    for merge in model["merges"]:  # type: ignore[attr-defined]
        left, right = merge if isinstance(merge, list) else merge.split(" ")
        rules.merges.append((ids[left], ids[right], ids[left + right]))


def _added(whole: Json, rules: Rules, normalizes: bool) -> None:
    for token in whole["added_tokens"]:  # type: ignore[attr-defined]
        for key in ("single_word", "lstrip", "rstrip"):
            if token[key]:
                raise RulesError(f'added token "{token["content"]}" with {key}')
        stays = rules.unstable and not rules.prepended and not rules.spaces and token["content"].isascii()
        if token["normalized"] and normalizes and not stays:
            raise RulesError(f'added token "{token["content"]}", which is normalized')
        if token["content"]:
            rules.added.append((token["content"].encode("utf-8"), token["id"], int(token["normalized"])))


def _not_composed() -> Ranges:
    """Characters that NFC changes, moves or composes with what stands before them; a text without them stays as it is.

    A character that this Python does not know counts too, but for the planes of emoji, which do none of it.
    """
    seconds = {int(parts[1], 16) for parts in map(_decomposition, range(0x110000)) if len(parts) == 2}
    seconds |= {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # Hangul vowels and finals
    found: list[tuple[int, int]] = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        character = chr(code)
        unknown = unicodedata.category(character) == "Cn" and not 0x1F000 <= code < 0x1FB00
        moves = code in seconds or unicodedata.combining(character) != 0
        if unknown or moves or unicodedata.normalize("NFC", character) != character:
            if found and found[-1][1] == code - 1:
                found[-1] = (found[-1][0], code)
            else:
                found.append((code, code))
    return tuple(found)


def _decomposition(code: int) -> list[str]:
    text = unicodedata.decomposition(chr(code))
    return [] if text.startswith("<") else text.split()
