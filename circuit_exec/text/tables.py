"""tokenizer.bin of an emitted folder: what kernels/cpu/program/tokenizer.c reads, and the texts around a message.

"mettext1", then one section after the other: its bytes as a u32, its data, filled up to a multiple of 4. Numbers are
little-endian u32.
"""

import struct
from collections.abc import Iterable, Sequence
from datetime import date

import numpy as np
from msgspec import Struct

from circuit.errors import LoadError, Problem
from circuit_exec.text.chat import ChatTemplate, Message, render_chat
from circuit_exec.text.rules import Rules, RulesError, rules_of_json, rules_of_scores
from circuit_exec.text.sentencepiece import ScoredVocabulary
from circuit_exec.text.tokenizer import Tokenizer

MAGIC = b"mettext1"
_FLAGS = "whole_words strips_space adds_bos trims byte_level spaces only_first not_twice".split()
_MARK = "MESSAGE-8B21F4"
_PROBES = ("", "Hello", " a  b ", "\n\tx\r\n", "\u3000é\u00a0", "{{ 1 }} {% if %}", "'\"\\<&>", "ß" * 50)


class Chat(Struct, frozen=True, kw_only=True):
    """What a template writes before and after a message; `trims`: it takes white space off the message first."""

    before: str
    after: str
    trims: bool


def chat_of(tokenizer: Tokenizer, template: ChatTemplate, today: date | None) -> Chat:
    """The texts around one message of a user; a template that does more with a message is refused."""

    def rendered(message: str) -> str:
        return render_chat(template, tokenizer.named, [Message(role="user", content=message)], today)

    before, mark, after = rendered(_MARK).partition(_MARK)
    for trims in (False, True):
        expected = [before + (probe.strip() if trims else probe) + after for probe in _PROBES]
        if mark and _MARK not in after and list(map(rendered, _PROBES)) == expected:
            return Chat(before=before, after=after, trims=trims)
    raise LoadError(
        Problem(
            message="the chat template does more with a message than to write texts before and after it",
            fix="emit with --no-chat, and give the program whole texts",
            file=template.file,
        )
    )


def encoder_rules(tokenizer: Tokenizer) -> Rules:
    """How text becomes ids; a tokenizer with a rule that the program does not have is refused by the rule's name."""
    rules = tokenizer.rules
    try:
        return rules_of_scores(rules) if isinstance(rules, ScoredVocabulary) else rules_of_json(rules())
    except RulesError as error:
        raise LoadError(
            Problem(
                message=f"the emitted program has no rule for {error}",
                fix="emit with --ids-only, and give the program token ids with --ids",
                file=tokenizer.file,
            )
        ) from error


def tables(tokenizer: Tokenizer, rules: Rules | None, chat: Chat | None) -> bytes:
    """The file. Without rules it has what ids stand for only; without `chat` the program takes plain texts only."""
    known = Rules() if rules is None else rules
    flags = {
        "whole_words": known.whole_words,
        "strips_space": tokenizer.strips_space,
        "adds_bos": tokenizer.adds_bos,
        "trims": chat is not None and chat.trims,
        "byte_level": known.byte_level,
        "spaces": known.spaces,
        "only_first": known.only_first,
        "not_twice": known.not_twice,
    }
    bits = sum(flags[name] << place for place, name in enumerate(_FLAGS))
    n = tokenizer.n_tokens
    ranks = [known.ranks[id] for id in range(n)] if known.ranks else []
    classes = [[len(ranges), *(end for pair in ranges for end in pair)] for ranges in known.patterns.classes.values()]
    programs = [[len(steps), *(word for step in steps for word in step)] for steps in known.patterns.programs]
    plain = tokenizer.plain_problem
    no_chat = "" if chat is not None else "the program was written without a chat template"
    sections = [
        _words([bits, n, tokenizer.bos_id if tokenizer.bos_id is not None else 0]),
        *_list([tokenizer.piece(id) for id in range(n)]),
        *_list([known.text_of.get(id, b"") for id in range(n)]),
        _words([number for merge in known.merges for number in merge]),
        _words(ranks),
        np.array(known.byte_ids, "<i4").tobytes(),
        *_list([text for text, _, _ in known.added]),
        _words([number for _, id, which in known.added for number in (id, which)]),
        b"" if chat is None else chat.before.encode("utf-8"),
        b"" if chat is None else chat.after.encode("utf-8"),
        known.prepended.encode("utf-8"),
        _words([len(programs), *(word for program in programs for word in program)]),
        _words([len(classes), *(word for ranges in classes for word in ranges)]),
        _words([end for pair in known.unstable for end in pair]),
        b"" if rules is not None else b"the program was written without rules for text",
        b"" if plain is None else plain.message.encode("utf-8"),
        no_chat.encode("utf-8"),
    ]
    return MAGIC + b"".join(struct.pack("<I", len(s)) + s + bytes(-len(s) % 4) for s in sections)


def _words(numbers: Iterable[int]) -> bytes:
    return np.array(list(numbers), "<u4").tobytes()


def _list(texts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The ends of the texts, and the texts."""
    return np.cumsum([len(text) for text in texts]).astype("<u4").tobytes(), b"".join(texts)
