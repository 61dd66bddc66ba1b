"""The tokenizer inside a GGUF file: byte-level BPE ("gpt2") and SentencePiece-style BPE ("llama").

What the keys mean, and their values where they are absent, follow llama.cpp (src/llama-vocab.cpp,
llama_vocab::impl::load, as in llama-cpp-python 0.3.36); ids are equal to its ids. One thing is not followed: it takes a
token for a control token because of its text, as `</s>`; here only the file says what a token is.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from circuit.errors import Problem
from circuit_exec.text import gguf_keys as gguf
from circuit_exec.text.byte_level import CHARACTER_OF, bytes_of
from circuit_exec.text.chat import ChatTemplate
from circuit_exec.text.gguf_keys import Keys, refuse
from circuit_exec.text.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from circuit_exec.text.sentencepiece import SPACE, ScoredVocabulary, segmenter
from circuit_exec.text.tokenizer import Tokenizer

# Values of tokenizer.ggml.token_type. Source: enum llama_token_type in llama.h.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
TYPES = (0, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, 5, BYTE)
HIDDEN = (UNKNOWN, CONTROL)
MATCHED = (UNKNOWN, CONTROL, USER_DEFINED)
"""Types whose text is one token wherever it stands; in llama.cpp the special tokens of a text that parses them."""


def tokenizer_of_gguf(keys: Keys) -> Tokenizer:
    """The tokenizer that the file's metadata describes, or LoadError with the key that cannot be understood."""
    gguf.check_names(keys)
    _check_control_tokens(keys)
    match gguf.text(keys, gguf.MODEL):
        case None:
            refuse(keys, f"key {gguf.MODEL} is missing", "convert the model again, with its tokenizer")
        case "gpt2":
            return _byte_level(keys)
        case "llama":
            return _sentencepiece(keys)
        case other:
            refuse(
                keys,
                f'key {gguf.MODEL}: is "{other}"; known are gpt2, llama',
                "use a model with one of these tokenizers",
            )


def _check_control_tokens(keys: Keys) -> None:
    """Control tokens of Phi-3 drop the spaces behind them; no key says so, and llama.cpp goes by the model's name."""
    name = gguf.text(keys, gguf.NAME)
    if name is not None and any(part in name.lower() for part in ("phi-3", "phi3")):
        refuse(
            keys,
            f'key {gguf.NAME}: is "{name}", whose control tokens drop the spaces behind them, which no key says',
            "use the model's folder with a tokenizer.json",
        )


class _Vocabulary(Struct, frozen=True, kw_only=True, eq=False):
    """`types` is of every token, `marked` are the few that are not ordinary text, by id."""

    tokens: list[str]
    types: list[int]
    id_of: dict[str, int]
    marked: list[int]

    def of_types(self, types: tuple[int, ...]) -> dict[int, str]:
        """The tokens of types other than ordinary text, by id, ascending."""
        return {id: self.tokens[id] for id in self.marked if self.types[id] in types}


def _byte_level(keys: Keys) -> Tokenizer:
    pre = _pre_tokenizer(keys)
    if gguf.flag(keys, gguf.SPACE_PREFIX):
        refuse(
            keys,
            f"key {gguf.SPACE_PREFIX}: is true, but {gguf.MODEL} = gpt2 has no rule for it",
            f"set {gguf.SPACE_PREFIX} to false with gguf-set-metadata",
        )
    vocabulary = _vocabulary(keys)

    def piece(id: int) -> bytes:
        token = vocabulary.tokens[id]
        match vocabulary.types[id]:
            case 2 | 3:
                return b""
            case 4:
                return token.encode("utf-8")
            case _:
                return bytes_of(token)

    segment, rules = _byte_level_segmenter(keys, pre, vocabulary)
    return _tokenizer(keys, vocabulary, segment, rules, piece, strips_space=False, adds_bos=pre.adds_bos)


def _pre_tokenizer(keys: Keys) -> PreTokenizer:
    name = gguf.text(keys, gguf.PRE)
    if name is None:
        refuse(
            keys,
            f"key {gguf.PRE} is missing, so how digits and spaces are split is unknown",
            f"convert the model again, or add {gguf.PRE} with gguf-new-metadata",
        )
    if name not in PRE_TOKENIZERS:
        refuse(
            keys,
            f'key {gguf.PRE}: is "{name}"; known are {", ".join(sorted(PRE_TOKENIZERS))}',
            "use a model with one of these, or its folder with a tokenizer.json",
        )
    return PRE_TOKENIZERS[name]


def _byte_level_segmenter(
    keys: Keys, pre: PreTokenizer, vocabulary: _Vocabulary
) -> tuple[Callable[[str], list[int]], Callable[[], str]]:
    """The function from a text to its ids, and its rules."""
    from tokenizers import AddedToken, Regex
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

    merges = _merges(keys)
    try:
        model = BPE(vocab=vocabulary.id_of, merges=merges, ignore_merges=pre.whole_words)
    except Exception as error:  # the package raises nothing narrower
        refuse(keys, f"key {gguf.MERGES}: does not fit {gguf.TOKENS}: {error}", "convert the model again")
    splits: list[ByteLevel | Digits | Split] = [
        Digits(individual_digits=True) if pattern == r"\p{N}" else Split(Regex(pattern), "isolated")
        for pattern in pre.patterns
    ]
    splits.append(ByteLevel(add_prefix_space=False, use_regex=False))
    missing = "".join(character for character in CHARACTER_OF if character not in vocabulary.id_of)
    if missing:  # such a byte has no id at all, and its neighbours do not merge across it
        splits.append(Split(Regex(f"[{re.escape(missing)}]"), "isolated"))
    backend = Backend(model)
    backend.pre_tokenizer = Sequence(splits)
    for add, kinds in ((backend.add_special_tokens, HIDDEN), (backend.add_tokens, (USER_DEFINED,))):
        tokens = vocabulary.of_types(kinds).values()
        add([AddedToken(token, normalized=False, special=kinds is HIDDEN) for token in tokens])

    def segment(text: str) -> list[int]:
        ids: list[int] = backend.encode(text, add_special_tokens=False).ids
        return ids

    return segment, backend.to_str


def _merges(keys: Keys) -> list[tuple[str, str]]:
    """The pairs in order; of a pair that is listed twice the first place counts."""
    pairs = [merge.partition(" ") for merge in dict.fromkeys(gguf.texts(keys, gguf.MERGES))]
    for left, space, right in pairs:
        if not left or not right:
            refuse(keys, f'key {gguf.MERGES}: "{left}{space}{right}" is not two tokens', "convert the model again")
    return [(left, right) for left, _, right in pairs]


def _sentencepiece(keys: Keys) -> Tokenizer:
    if gguf.text(keys, gguf.PRE) not in (None, "default"):
        refuse(
            keys,
            f'key {gguf.PRE}: is "{gguf.text(keys, gguf.PRE)}", but {gguf.MODEL} = llama has no pre-tokenizer',
            "convert the model again",
        )
    if gguf.flag(keys, gguf.EXTRA_SPACES):
        refuse(
            keys,
            f"key {gguf.EXTRA_SPACES}: is true, and {gguf.MODEL} = llama has no rule for it",
            "use the model's folder with a tokenizer.json",
        )
    vocabulary = _vocabulary(keys)
    prefixes_space = gguf.flag(keys, gguf.SPACE_PREFIX) is not False  # absent is true in files of this kind
    byte_ids = _byte_ids(keys, vocabulary)
    byte_of = {id: byte for byte, id in enumerate(byte_ids)}

    def piece(id: int) -> bytes:
        token = vocabulary.tokens[id]
        match vocabulary.types[id]:
            case 2 | 3:
                return b""
            case 4:
                return token.encode("utf-8")
            case 6:
                return bytes([byte_of[id]])
            case _:
                return token.replace(SPACE, " ").encode("utf-8")

    rules = ScoredVocabulary(
        id_of=vocabulary.id_of,
        scores=tuple(gguf.numbers(keys, gguf.SCORES, len(vocabulary.tokens))),
        byte_ids=byte_ids,
        controls=tuple(vocabulary.of_types(MATCHED).values()),
        prefixes_space=prefixes_space,
    )
    return _tokenizer(keys, vocabulary, segmenter(rules), rules, piece, strips_space=prefixes_space, adds_bos=True)


def _byte_ids(keys: Keys, vocabulary: _Vocabulary) -> tuple[int, ...]:
    ids = []
    for byte in range(256):
        id = vocabulary.id_of.get(f"<0x{byte:02X}>")
        if id is None or vocabulary.types[id] != BYTE:
            refuse(
                keys,
                f"key {gguf.TOKENS}: has no byte token <0x{byte:02X}>, so some texts would have no ids",
                "convert the model again",
            )
        ids.append(id)
    return tuple(ids)


def _vocabulary(keys: Keys) -> _Vocabulary:
    tokens = gguf.texts(keys, gguf.TOKENS)
    types = gguf.integers(keys, gguf.TYPES, len(tokens))
    id_of = dict(zip(tokens, range(len(tokens)), strict=True))
    if len(id_of) != len(tokens):
        twice = next(id for id, token in enumerate(tokens) if id_of[token] != id)
        refuse(
            keys,
            f'key {gguf.TOKENS}: "{tokens[twice]}" is token {twice} and {id_of[tokens[twice]]}',
            "convert the model again",
        )
    if "" in id_of:
        refuse(keys, f"key {gguf.TOKENS}: token {id_of['']} is empty", "convert the model again")
    marked = [id for id, type in enumerate(types) if type != NORMAL]
    odd = next((id for id in marked if types[id] not in TYPES), None)
    if odd is not None:
        refuse(keys, f"key {gguf.TYPES}: token {odd} has the unknown type {types[odd]}", "convert the model again")
    return _Vocabulary(tokens=tokens, types=types, id_of=id_of, marked=marked)


def _tokenizer(
    keys: Keys,
    vocabulary: _Vocabulary,
    segment: Callable[[str], list[int]],
    rules: Callable[[], str] | ScoredVocabulary,
    piece: Callable[[int], bytes],
    *,
    strips_space: bool,
    adds_bos: bool,
) -> Tokenizer:
    tokens = vocabulary.tokens
    bos = gguf.token_id(keys, gguf.BOS, len(tokens))
    said = gguf.flag(keys, gguf.ADD_BOS)
    adds_bos = adds_bos if said is None else said
    if adds_bos and bos is None:
        refuse(
            keys, f"key {gguf.BOS} is missing, but every text begins with it", f"add {gguf.BOS} with gguf-new-metadata"
        )
    ends = Problem(
        message=f"key {gguf.ADD_EOS}: is true, but a prompt that ends with the end of text cannot be continued",
        fix=f"set {gguf.ADD_EOS} to false with gguf-set-metadata",
        file=keys.file,
    )
    named = {"bos_token": gguf.BOS, "eos_token": gguf.EOS, "unk_token": gguf.UNKNOWN, "pad_token": gguf.PADDING}
    ids = {name: gguf.token_id(keys, key, len(tokens)) for name, key in named.items()}
    template = gguf.text(keys, gguf.TEMPLATE)
    return Tokenizer(
        file=keys.file,
        n_tokens=len(tokens),
        segment=segment,
        rules=rules,
        piece=piece,
        strips_space=strips_space,
        bos_id=bos,
        adds_bos=adds_bos,
        plain_problem=ends if gguf.flag(keys, gguf.ADD_EOS) else None,
        stop_ids=_stop_ids(keys, vocabulary),
        named={name: tokens[id] for name, id in ids.items() if id is not None},
        controls=vocabulary.of_types(HIDDEN),
        template=None if template is None else ChatTemplate(text=template, file=keys.file, key=gguf.TEMPLATE),
    )


def _stop_ids(keys: Keys, vocabulary: _Vocabulary) -> tuple[int, ...]:
    """End of text, of turn and of message, each where the file has it, ascending."""
    found = set()
    for key in (gguf.EOS, gguf.EOT, gguf.EOM):
        id = gguf.token_id(keys, key, len(vocabulary.tokens))
        if id is None:
            continue
        if vocabulary.types[id] not in MATCHED:
            refuse(
                keys,
                f'key {key}: names token {id}, "{vocabulary.tokens[id]}", but {gguf.TYPES} says it is ordinary text',
                "convert the model again; its type should be 3, control",
            )
        found.add(id)
    return tuple(sorted(found))
