"""The tokenizer keys of GGUF metadata: which are read, which are ignored and why; readers that check their types."""

from collections.abc import Callable
from typing import NoReturn, TypeGuard, TypeVar

from msgspec import Struct

from circuit.errors import LoadError, Problem

T = TypeVar("T", int, float)
V = TypeVar("V")
Value = bool | int | float | str
Read = Callable[[str], Value | tuple[Value, ...] | None]

NAME = "general.name"
MODEL = "tokenizer.ggml.model"
PRE = "tokenizer.ggml.pre"
TOKENS = "tokenizer.ggml.tokens"
TYPES = "tokenizer.ggml.token_type"
SCORES = "tokenizer.ggml.scores"
MERGES = "tokenizer.ggml.merges"
BOS = "tokenizer.ggml.bos_token_id"
EOS = "tokenizer.ggml.eos_token_id"
EOT = "tokenizer.ggml.eot_token_id"
EOM = "tokenizer.ggml.eom_token_id"
UNKNOWN = "tokenizer.ggml.unknown_token_id"
PADDING = "tokenizer.ggml.padding_token_id"
ADD_BOS = "tokenizer.ggml.add_bos_token"
ADD_EOS = "tokenizer.ggml.add_eos_token"
SPACE_PREFIX = "tokenizer.ggml.add_space_prefix"
EXTRA_SPACES = "tokenizer.ggml.remove_extra_whitespaces"
TEMPLATE = "tokenizer.chat_template"

READ = (
    MODEL, PRE, TOKENS, TYPES, SCORES, MERGES, BOS, EOS, EOT, EOM, UNKNOWN, PADDING, ADD_BOS, ADD_EOS, SPACE_PREFIX,
    EXTRA_SPACES, TEMPLATE,
)  # fmt: skip

_INFILL = "text is only continued, never filled in"
_ENCODER = "only models that encode, not generate, use it"
IGNORED = {
    "tokenizer.ggml.seperator_token_id": _ENCODER,
    "tokenizer.ggml.separator_token_id": _ENCODER,
    "tokenizer.ggml.cls_token_id": _ENCODER,
    "tokenizer.ggml.mask_token_id": _ENCODER,
    "tokenizer.ggml.fim_pre_token_id": _INFILL,
    "tokenizer.ggml.fim_suf_token_id": _INFILL,
    "tokenizer.ggml.fim_mid_token_id": _INFILL,
    "tokenizer.ggml.fim_pad_token_id": _INFILL,
    "tokenizer.ggml.fim_rep_token_id": _INFILL,
    "tokenizer.ggml.fim_sep_token_id": _INFILL,
    "tokenizer.ggml.prefix_token_id": _INFILL,
    "tokenizer.ggml.suffix_token_id": _INFILL,
    "tokenizer.ggml.middle_token_id": _INFILL,
    "tokenizer.huggingface.json": "a second copy of the same vocabulary; the tokenizer.ggml keys are read",
    "tokenizer.chat_templates": "lists the names of further templates; tokenizer.chat_template is used",
}


class Keys(Struct, frozen=True, kw_only=True, eq=False):
    """The metadata of one file: its path, the keys it has, and how to get a value."""

    file: str
    names: tuple[str, ...]
    read: Read


def refuse(keys: Keys, message: str, fix: str) -> NoReturn:
    """Raises what is wrong with the file's tokenizer."""
    raise LoadError(Problem(message=message, fix=fix, file=keys.file))


def check_names(keys: Keys) -> None:
    """Refuses every tokenizer key that is neither read nor ignored for a reason."""
    known = {*READ, *IGNORED}
    unknown = [
        name
        for name in keys.names
        if name.startswith("tokenizer.") and name not in known and not name.startswith(f"{TEMPLATE}.")
    ]
    if unknown:
        raise LoadError(
            Problem(
                message=f"key {name}: is unknown, so what it changes in the ids is unknown",
                fix="convert the model with a converter that does not write it, or remove it with gguf-new-metadata",
                file=keys.file,
            )
            for name in unknown
        )


def text(keys: Keys, key: str) -> str | None:
    """A string, or None where the key is absent."""
    value = keys.read(key)
    if value is None or isinstance(value, str):
        return value
    _mistyped(keys, key, "a string")


def flag(keys: Keys, key: str) -> bool | None:
    """A bool, or None where the key is absent."""
    value = keys.read(key)
    if value is None or isinstance(value, bool):
        return value
    _mistyped(keys, key, "a bool")


def token_id(keys: Keys, key: str, n_tokens: int) -> int | None:
    """An id of the vocabulary, or None where the key is absent."""
    value = keys.read(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        _mistyped(keys, key, "an integer")
    if not 0 <= value < n_tokens:
        refuse(keys, f"key {key}: is {value}, but the vocabulary has {n_tokens} tokens", "convert the model again")
    return value


def texts(keys: Keys, key: str) -> list[str]:
    """An array of strings, which must be there."""
    value = _array(keys, key)
    return list(value) if _all_are(value, str) else _mistyped(keys, key, "an array of strings")


def integers(keys: Keys, key: str, n: int) -> list[int]:
    """An array of `n` integers, which must be there."""
    value = _array(keys, key)
    if not _all_are(value, int):
        _mistyped(keys, key, "an array of integers")
    return _of_length(keys, key, list(value), n)


def numbers(keys: Keys, key: str, n: int) -> list[float]:
    """An array of `n` numbers, which must be there."""
    value = _array(keys, key)
    found = [float(element) for element in value if isinstance(element, int | float)]
    if len(found) != len(value):
        _mistyped(keys, key, "an array of numbers")
    return _of_length(keys, key, found, n)


def _array(keys: Keys, key: str) -> tuple[Value, ...]:
    value = keys.read(key)
    if value is None:
        refuse(keys, f"key {key} is missing", "convert the model again, with its tokenizer")
    if not isinstance(value, tuple):
        _mistyped(keys, key, "an array")
    return value


def _of_length(keys: Keys, key: str, values: list[T], n: int) -> list[T]:
    if len(values) != n:
        refuse(keys, f"key {key}: has {len(values)} elements, but there are {n} tokens", "convert the model again")
    return values


def _all_are(value: tuple[Value, ...], kind: type[V]) -> TypeGuard[tuple[V, ...]]:
    """Whether every element of a long array is of a kind, or of a kind of it."""
    return all(issubclass(each, kind) for each in set(map(type, value)))


def _mistyped(keys: Keys, key: str, expected: str) -> NoReturn:
    refuse(keys, f"key {key}: is not {expected}", "convert the model again")
