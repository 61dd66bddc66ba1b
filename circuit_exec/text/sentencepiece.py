"""SentencePiece-style BPE: the pair whose token scores highest merges first, the left one of equals.

Spaces are written as U+2581, a character without a token becomes its UTF-8 bytes. Each part between control tokens may
get one space in front. Source: Kudo and Richardson 2018, arXiv:1808.06226; order of ties and the space per part as in
llama.cpp, src/llama-vocab.cpp, llm_tokenizer_spm_session (llama-cpp-python 0.3.36). A list of merges cannot say "the
left one of equals" when a token has two splits, so this is not a BPE of the tokenizers package.
"""

import heapq
import re
from collections.abc import Callable, Mapping

from msgspec import Struct

SPACE = "\u2581"


class ScoredVocabulary(Struct, frozen=True, kw_only=True, eq=False):
    """`id_of` and `scores` cover all tokens, `byte_ids` the 256 bytes, `controls` the texts matched as they are."""

    id_of: Mapping[str, int]
    scores: tuple[float, ...]
    byte_ids: tuple[int, ...]
    controls: tuple[str, ...]
    prefixes_space: bool


def segmenter(vocabulary: ScoredVocabulary) -> Callable[[str], list[int]]:
    """The function from a text to its ids."""
    longest_first = sorted(vocabulary.controls, key=lambda text: (-len(text), text))
    split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
    prefix = SPACE if vocabulary.prefixes_space else ""
    words = _word_pattern(vocabulary)

    def segment(text: str) -> list[int]:
        parts = [text] if split is None else split.split(text)
        ids: list[int] = []
        for at, part in enumerate(parts):
            if at % 2:
                ids.append(vocabulary.id_of[part])
            elif part:
                ids += _part_ids(vocabulary, words, prefix + part.replace(" ", SPACE))
        return ids

    return segment


def _word_pattern(vocabulary: ScoredVocabulary) -> re.Pattern[str] | None:
    """Where no token has a space behind another character, no merge crosses that place, and words can go one by one."""
    if any(SPACE in token.lstrip(SPACE) for token in vocabulary.id_of):
        return None
    return re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")


def _part_ids(vocabulary: ScoredVocabulary, words: re.Pattern[str] | None, text: str) -> list[int]:
    if words is None:
        return _merge(vocabulary, text)
    return [id for word in words.findall(text) for id in _merge(vocabulary, word)]


def _merge(vocabulary: ScoredVocabulary, text: str) -> list[int]:
    symbols = list(text)
    before = list(range(-1, len(symbols) - 1))
    after = [*range(1, len(symbols)), -1]
    queue: list[tuple[float, int, int, str]] = []

    def offer(left: int, right: int) -> None:
        if left >= 0 and right >= 0:
            merged = symbols[left] + symbols[right]
            id = vocabulary.id_of.get(merged)
            if id is not None:
                heapq.heappush(queue, (-vocabulary.scores[id], left, right, merged))

    for at in range(1, len(symbols)):
        offer(at - 1, at)
    while queue:
        _, left, right, merged = heapq.heappop(queue)
        if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != len(merged):
            continue  # one side has merged with another symbol since
        symbols[left], symbols[right] = merged, ""
        after[left] = after[right]
        if after[right] >= 0:
            before[after[right]] = left
        offer(before[left], left)
        offer(left, after[left])
    return [id for symbol in symbols if symbol for id in _symbol_ids(vocabulary, symbol)]


def _symbol_ids(vocabulary: ScoredVocabulary, symbol: str) -> tuple[int, ...]:
    id = vocabulary.id_of.get(symbol)
    return (id,) if id is not None else tuple(vocabulary.byte_ids[byte] for byte in symbol.encode("utf-8"))
