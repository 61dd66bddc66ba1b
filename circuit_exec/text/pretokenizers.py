"""Pre-tokenizers of byte-level BPE, by the name that GGUF files give them.

A pre-tokenizer is a list of patterns; each one splits every part that the earlier ones left. Names, patterns and flags
are those of llama.cpp (src/llama-vocab.cpp, class llm_tokenizer_bpe and llama_vocab::impl::load, as in llama-cpp-python
0.3.36). A name that is missing here is refused: with a near one, digits or spaces would silently become other ids.
"""

from dataclasses import dataclass

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LLAMA3 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreTokenizer:
    """`whole_words`: a part that is a token is that token, whatever the merges say. `adds_bos` counts without a key."""

    patterns: tuple[str, ...]
    whole_words: bool
    adds_bos: bool


_PLAIN = PreTokenizer(patterns=(_GPT2,), whole_words=False, adds_bos=False)
_DIGITS = PreTokenizer(patterns=(r"\p{N}", _GPT2), whole_words=False, adds_bos=False)
_THREES = PreTokenizer(patterns=(_LLAMA3,), whole_words=False, adds_bos=False)
_THREES_WHOLE = PreTokenizer(patterns=(_LLAMA3,), whole_words=True, adds_bos=False)
_LLAMA = PreTokenizer(patterns=(_LLAMA3,), whole_words=True, adds_bos=True)
_ONES = PreTokenizer(patterns=(_QWEN2,), whole_words=False, adds_bos=False)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    **dict.fromkeys(
        (
            "gpt-2",
            "phi-2",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
        ),
        _PLAIN,
    ),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"),
        _DIGITS,
    ),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), _THREES),
    **dict.fromkeys(("glm4", "glm5"), _THREES_WHOLE),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"),
        _ONES,
    ),
}
