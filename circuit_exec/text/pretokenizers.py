# ruff: noqa: RUF001
"""Pre-tokenizers of byte-level BPE, by the name that GGUF files give them.

A pre-tokenizer is a list of patterns; each one splits every part that the earlier ones left. Names, patterns and flags
are those of llama.cpp (src/llama-vocab.cpp, class llm_tokenizer_bpe and llama_vocab::impl::load, as in llama-cpp-python
0.3.36), with what its splitter makes of them (src/unicode.cpp): every letter that is not ASCII is of both cases, and a
space that is not ASCII is in no range of a pattern without categories. A name that is missing here is refused: with a
near one, digits or spaces would silently become other ids.
"""

from msgspec import Struct

_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + _SPACES
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHER = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|" + _SPACES
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_OTHER}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_OTHER}"
_QWEN35 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|" + _SPACES

_UPPER, _LOWER = r"[\p{L}&&[^a-z]]", r"[\p{L}&&[^A-Z]]"
_CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*")
_OTHER_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|" + _SPACES
_TEKKEN = rf"{_CASED[0]}|{_CASED[1]}|\p{{N}}|{_OTHER_SLASH}"
_GPT4O = rf"{_CASED[0]}{_CONTRACTION}?|{_CASED[1]}{_CONTRACTION}?|\p{{N}}{{1,3}}|{_OTHER_SLASH}"

_LINE_END = r"[\r\n]"
_ASIAN = "[一-龥ࠀ-一가-\ud7ff&&\\S]+"
_CHINESE_JAPANESE = "[一-龥぀-ゟ゠-ヿ]+"
_MARKED_WORD = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|""" + _SPACES
)
_LETTERS_OF_CASE = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽ"
    "ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-"
    "Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-"
    "ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_PUNCTUATION = r"\s?[!-/:-~！-／：-～‘-‟、-。]+"
_NOT_PUNCTUATION = r" ?[^(\s|.,!?…。，、।۔،)]+"
_DEFAULT_MARKS, _FALCON_MARKS = r"[\p{P}$+<=>^~|]+", r"[\p{P}$+<=>^~|`]+"
_THREE_DIGITS = "[0-9][0-9][0-9]"


class PreTokenizer(Struct, frozen=True, kw_only=True):
    """`whole_words`: a part that is a token is that token, whatever the merges say. `adds_bos` counts without a key."""

    patterns: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False


def _named(names: str, *patterns: str, whole_words: bool = False, adds_bos: bool = False) -> dict[str, PreTokenizer]:
    pre = PreTokenizer(patterns=patterns, whole_words=whole_words, adds_bos=adds_bos)
    return dict.fromkeys(names.split(), pre)


PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    **_named("default", _DEFAULT_MARKS, _GPT2, r"\p{N}+", _THREE_DIGITS),
    **_named("gpt-2 phi-2 gigachat a.x-4.0 mellum mpt olmo jais trillion granite-docling exaone4", _GPT2),
    **_named("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", r"\p{N}", _GPT2),
    **_named(
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", _LLAMA3, whole_words=True, adds_bos=True
    ),
    **_named("dbrx smaug-bpe chatglm-bpe", _LLAMA3),
    **_named("glm4 glm5", _LLAMA3, whole_words=True),
    **_named("minicpm5", r"\p{N}{1,3}", rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_OTHER}", whole_words=True),
    **_named("qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", _QWEN2),
    # The pattern of bailingmoe has `\s*[\r\n]` for `\s*[\r\n]+`, which takes as much.
    **_named("bailingmoe bailingmoe2 llada-moe", _QWEN2),
    **_named("laguna", r"[^\n]+|\n+", _QWEN2),
    **_named("ufakzeka", rf"{_WORD}|\p{{N}}|{_OTHER}"),
    **_named("seed-coder", rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|{_SPACES}"),
    **_named("qwen35", _QWEN35),
    **_named("tekken", _TEKKEN, whole_words=True, adds_bos=True),
    **_named("gpt-4o llama4 kanana2 talkie minimax-m2", _GPT4O),
    **_named("deepseek-llm", _LINE_END, rf"\s?[{_LETTERS_OF_CASE}]+", _PUNCTUATION, r"\s+\z", _ASIAN, r"\p{N}+"),
    **_named("deepseek-coder", _LINE_END, r"\s?\p{L}+", r"\s?\p{P}+", _ASIAN, r"\p{N}"),
    **_named("deepseek-v3 hunyuan-dense joyai-llm hy_v4", r"\p{N}{1,3}", _CHINESE_JAPANESE, _MARKED_WORD),
    **_named("falcon", _FALCON_MARKS, _GPT2, _THREE_DIGITS),
    **_named("viking", _NOT_PUNCTUATION, r"\p{N}"),
    **_named("poro-chat bloom gpt3-finnish", _NOT_PUNCTUATION),
}
