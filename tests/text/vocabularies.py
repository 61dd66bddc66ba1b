"""Small vocabularies for tests, as GGUF metadata and as folders."""

import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split
from tokenizers.trainers import BpeTrainer

from circuit.errors import LoadError
from circuit.text import Source
from circuit_exec.text.folder_tokenizer import tokenizer_of_folder
from circuit_exec.text.gguf_keys import Keys, Value
from circuit_exec.text.gguf_tokenizer import tokenizer_of_gguf
from circuit_exec.text.tokenizer import Tokenizer as Loaded

Metadata = dict[str, Value | tuple[Value, ...]]

CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CORPUS = (
    "The quick brown fox counted 12 foxes, 123 hens and 1234567 eggs; it's more than 10 000.\n\n  They'll   see.\n",
    "def f(x):\n    return x ** 2  # 2024-11-29\n\tif x == 10: pass\r\n",
    "12 12 123 123 2024 2024 2024",
    "Ein naïver Satz über 30 Straßen, Москва 2020, 日本語の文章, 👍🏽 और हिन्दी १२३.\n",
)


def digit_splitter() -> PreTokenizer:
    """The pre-tokenizer that the tokenizer.json of a smollm model has."""
    return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)])


def trained(pre_tokenizer: PreTokenizer) -> Tokenizer:
    """A byte-level BPE of 400 tokens; its merges run over spaces and digits, so the pre-tokenizer decides a lot."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = BpeTrainer(
        vocab_size=400,
        special_tokens=list(CONTROLS),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = ByteLevelDecoder()
    return tokenizer


def gguf_metadata(tokenizer: Tokenizer, pre: str) -> Metadata:
    """The vocabulary of `tokenizer` as a GGUF file holds it."""
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=lambda token: int(model["vocab"][token]))
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tuple(tokens),
        "tokenizer.ggml.token_type": tuple(3 if token in CONTROLS else 1 for token in tokens),
        "tokenizer.ggml.merges": tuple(" ".join(pair) for pair in model["merges"]),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def sentencepiece_metadata(*learned: str) -> Metadata:
    """A vocabulary of model "llama": 3 named tokens, 256 bytes, then `learned`, the first with the highest score."""
    count = len(learned)
    tokens = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *learned)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": (2, 3, 3, *(6,) * 256, *(1,) * count),
        "tokenizer.ggml.scores": (0.0,) * 259 + tuple(float(-at) for at in range(count)),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def from_gguf(metadata: Metadata) -> Loaded:
    """The tokenizer that a file model.gguf with this metadata has."""
    return tokenizer_of_gguf(Keys(file="model.gguf", names=tuple(metadata), read=metadata.get))


def gguf_error(metadata: Metadata) -> str:
    """What the user reads about a file model.gguf with this metadata."""
    try:
        from_gguf(metadata)
    except LoadError as error:
        return str(error)
    raise AssertionError("the metadata was accepted")


def write_folder(folder: Path, tokenizer: Tokenizer, config: Mapping[str, object]) -> Path:
    """tokenizer.json and tokenizer_config.json; control tokens are marked as special."""
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in CONTROLS])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return folder


def from_folder(folder: Path) -> Loaded:
    """The tokenizer of the folder."""

    def read(name: str) -> Source | None:
        path = folder / name
        return Source(path=name, text=path.read_text(encoding="utf-8")) if path.exists() else None

    return tokenizer_of_folder("model", read)


def folder_error(folder: Path) -> str:
    """What the user reads about the folder."""
    try:
        from_folder(folder)
    except LoadError as error:
        return str(error)
    raise AssertionError("the folder was accepted")


def split(pattern: str) -> PreTokenizer:
    """One pattern in front of the byte alphabet."""
    from tokenizers import Regex

    return Sequence([Split(Regex(pattern), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])
