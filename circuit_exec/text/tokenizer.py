"""A tokenizer as the executor uses it: text to ids, ids to bytes, and the ids that end a text."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from circuit.errors import LoadError, Problem, RunError
from circuit_exec.text.chat import ChatTemplate
from circuit_exec.text.sentencepiece import ScoredVocabulary


class Tokenizer(Struct, frozen=True, kw_only=True, eq=False):
    """One vocabulary with its rules. `file` is what the user knows it by.

    `segment` gives the ids of a text in which control tokens are recognized; it adds nothing around them.
    `piece` gives the bytes of an id as part of a text, empty for a control token. `strips_space` says that decoding a
    text from its start drops the one space that `segment` put there. `named` has the texts of bos_token, eos_token, …
    `controls` has the texts of the control tokens by id, ascending.
    `rules` are what `segment` does, as data: the JSON of the tokenizers package, or scores.
    `plain_problem` says why it is unknown what belongs around a plain text; a chat template writes that itself.
    """

    file: str
    n_tokens: int
    segment: Callable[[str], list[int]]
    rules: Callable[[], str] | ScoredVocabulary
    piece: Callable[[int], bytes]
    strips_space: bool
    bos_id: int | None
    adds_bos: bool
    plain_problem: Problem | None
    stop_ids: tuple[int, ...]
    named: Mapping[str, str]
    controls: Mapping[int, str]
    template: ChatTemplate | None


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of `text`, nothing added: for a rendered chat template, which writes its own beginning."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RunError(
            Problem(
                message=f"the text is not Unicode: character {error.start} is half of a surrogate pair",
                fix="give the text as UTF-8",
            )
        ) from error
    return tokenizer.segment(text)


def encode_prompt(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a plain text from its beginning: with the beginning-of-text token where the tokenizer adds one."""
    if tokenizer.plain_problem is not None:
        raise LoadError(tokenizer.plain_problem)
    ids = encode(tokenizer, text)
    if not tokenizer.adds_bos:
        return ids
    assert tokenizer.bos_id is not None, "a tokenizer that adds a beginning knows its id"
    return [tokenizer.bos_id, *ids]


def decode(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """The text of `ids` from its start, without control tokens; what is not UTF-8, or no token, becomes U+FFFD."""
    text = b"".join(piece_of(tokenizer, id) for id in ids).decode("utf-8", errors="replace")
    return text[1:] if tokenizer.strips_space and text.startswith(" ") else text


def piece_of(tokenizer: Tokenizer, id: int) -> bytes:
    """The bytes of one id. A head that is padded beyond the vocabulary can give an id without a token: U+FFFD."""
    return tokenizer.piece(id) if 0 <= id < tokenizer.n_tokens else "\N{REPLACEMENT CHARACTER}".encode()


def stop_ids(tokenizer: Tokenizer, others: Iterable[int]) -> tuple[int, ...]:
    """Every id that ends a text: the tokenizer's own and those of the configuration files, ascending.

    It is the union: files that name only one of end-of-text and end-of-turn are common, and the model uses both.
    """
    ids = sorted({*tokenizer.stop_ids, *others})
    if not ids:
        raise LoadError(
            Problem(
                message="no file names a token that ends the text, so the model would never stop",
                fix="add eos_token_id to the model's generation_config.json, or to its metadata",
                file=tokenizer.file,
            )
        )
    return tuple(ids)
