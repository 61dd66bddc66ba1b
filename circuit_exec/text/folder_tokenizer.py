"""The tokenizer of a checkpoint's folder: tokenizer.json, tokenizer_config.json and the chat template beside them."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

from circuit.errors import LoadError, Problem
from circuit.text import Source
from circuit_exec.text.byte_level import bytes_of
from circuit_exec.text.chat import ChatTemplate
from circuit_exec.text.sentencepiece import SPACE
from circuit_exec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"

Read = Callable[[str], Source | None]
"""Gives a text file of the folder by its name, None where there is none."""


def tokenizer_of_folder(folder: str, read: Read) -> Tokenizer:
    """The tokenizer that the folder's files describe together; files that contradict each other are refused."""
    main = read(TOKENIZER)
    if main is None:
        raise LoadError(
            Problem(
                message=f"the folder has no {TOKENIZER}, so text cannot become tokens",
                fix=f"download {TOKENIZER} too, or write it with AutoTokenizer.from_pretrained(…).save_pretrained(…)",
                file=folder,
            )
        )
    backend = _backend(main)
    config_source = read(CONFIG)
    config = {} if config_source is None else _object(config_source)
    config_file = folder if config_source is None else config_source.path
    _check_added(backend, config, config_file)
    named = _named(config, config_file)
    stops = tuple(_id_of(backend, named[name], name, config_file) for name in ("eos_token",) if name in named)
    bos = _id_of(backend, named["bos_token"], "bos_token", config_file) if "bos_token" in named else None
    plain_problem = _plain_problem(backend, config, config_file, main.path, bos)
    added = _added(backend)
    piece, strips_space = _pieces(backend, main.path)
    special = backend.get_added_tokens_decoder()
    return Tokenizer(
        file=main.path,
        n_tokens=backend.get_vocab_size(with_added_tokens=True),
        segment=lambda text: list(backend.encode(text, add_special_tokens=False).ids),
        rules=backend.to_str,
        piece=piece,
        strips_space=strips_space,
        bos_id=bos if bos is not None or not added else added[0],
        adds_bos=bool(added),
        plain_problem=plain_problem,
        stop_ids=stops,
        named=named,
        controls={id: token.content for id, token in sorted(special.items()) if token.special},
        template=_template(config, config_file, read(TEMPLATE)),
    )


def _backend(main: Source) -> "Backend":
    from tokenizers import Tokenizer as Backend

    try:
        backend = Backend.from_str(main.text)
    except Exception as error:  # the package raises nothing narrower
        _refuse(main.path, f"the tokenizers package cannot read the file: {error}", "download it again")
    backend.no_truncation()
    backend.no_padding()
    return backend


def _object(source: Source) -> Mapping[str, object]:
    try:
        value: object = json.loads(source.text)
    except (json.JSONDecodeError, RecursionError) as error:
        _refuse(source.path, f"the file is not JSON: {str(error).lower()}", "download it again")
    if not isinstance(value, dict):
        _refuse(source.path, "the file is not a JSON object", "download it again")
    return value


def _check_added(backend: "Backend", config: Mapping[str, object], file: str) -> None:
    """The token table of tokenizer_config.json must not say anything else than tokenizer.json."""
    table = config.get("added_tokens_decoder")
    if table is None:
        return
    if not isinstance(table, dict):
        _refuse(file, "added_tokens_decoder is not an object", "download the file again")
    for number, entry in table.items():
        content = entry.get("content") if isinstance(entry, dict) else None
        held = backend.id_to_token(int(number)) if number.isdecimal() else None
        if content != held:
            _refuse(
                file,
                f'added_tokens_decoder: token {number} is "{content}", but {TOKENIZER} says "{held}"',
                f"download both files again, or correct {CONFIG}",
            )


def _named(config: Mapping[str, object], file: str) -> dict[str, str]:
    """The texts of the named tokens, for templates and as ids: a text, or an object with the text as `content`."""
    named = {}
    for name in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"):
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if text is None:
            continue
        if not isinstance(text, str):
            _refuse(file, f"{name} is not a token's text", "write it as a string")
        named[name] = text
    return named


def _id_of(backend: "Backend", token: str, name: str, file: str) -> int:
    id = backend.token_to_id(token)
    if id is None:
        _refuse(
            file,
            f'{name} is "{token}", which is not a token of {TOKENIZER}',
            f"correct {name}, or download both files again",
        )
    return id


def _added(backend: "Backend") -> tuple[int, ...]:
    """What the post-processor of tokenizer.json puts around a text."""
    return tuple(backend.encode("", add_special_tokens=True).ids)


def _plain_problem(
    backend: "Backend", config: Mapping[str, object], config_file: str, main_file: str, bos: int | None
) -> Problem | None:
    """Why it is unknown what belongs around a plain text, if it is.

    transformers 4 obeyed add_bos_token and add_eos_token. transformers 5.24.0 drops both and obeys the post-processor
    of tokenizer.json (tokenization_utils_base.py). So a folder where they differ has two readings.
    """
    added = _added(backend)
    if len(added) > 1 or (added and bos is not None and added != (bos,)):
        tokens = " ".join(backend.id_to_token(id) or "?" for id in added)
        return Problem(
            message=f"post_processor: puts {tokens} around a text, which is not its beginning alone",
            fix="correct the post_processor, or use the chat template",
            file=main_file,
        )
    for name, does in (("add_bos_token", bool(added)), ("add_eos_token", False)):
        said = _flag(config, name, config_file)
        if said is not None and said != does:
            return Problem(
                message=f"{name} is {str(said).lower()}, but the post_processor of {TOKENIZER} does the opposite",
                fix=f"set {name} to {str(does).lower()}, correct the post_processor, or use the chat template",
                file=config_file,
            )
    return None


def _flag(config: Mapping[str, object], name: str, file: str) -> bool | None:
    value = config.get(name)
    if value is None or isinstance(value, bool):
        return value
    _refuse(file, f"{name} is not true or false", "write it as a bool")


def _pieces(backend: "Backend", file: str) -> tuple[Callable[[int], bytes], bool]:
    """How ids become bytes, by the decoder that tokenizer.json names, and whether a text loses its first space."""
    added = backend.get_added_tokens_decoder()
    decoder: object = None if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    kind, strips_space = _decoder(decoder, file)
    ordinary = {"ByteLevel": bytes_of, "Metaspace": _spaced, "ByteFallback": _spaced_or_byte}[kind]

    def piece(id: int) -> bytes:
        if id in added:
            return b"" if added[id].special else added[id].content.encode("utf-8")
        token = backend.id_to_token(id)
        return ordinary("\N{REPLACEMENT CHARACTER}" if token is None else token)

    return piece, strips_space


def _decoder(decoder: object, file: str) -> tuple[str, bool]:
    match decoder:
        case {"type": "ByteLevel"}:
            return "ByteLevel", False
        case {"type": "Sequence", "decoders": [{"type": "ByteLevel"}]}:
            return "ByteLevel", False
        case {"type": "Metaspace", "replacement": str(mark), "prepend_scheme": scheme} if mark == SPACE:
            return "Metaspace", scheme != "never"
        case {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]} if (
            replace == {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
            and strip in ([], [{"type": "Strip", "content": " ", "start": 1, "stop": 0}])
        ):
            return "ByteFallback", bool(strip)
        case _:
            _refuse(
                file,
                f"decoder: {json.dumps(decoder, ensure_ascii=False)} is unknown, so tokens cannot become text",
                "use a model whose decoder is ByteLevel, Metaspace, or Replace + ByteFallback + Fuse",
            )


def _spaced(token: str) -> bytes:
    return token.replace(SPACE, " ").encode("utf-8")


def _spaced_or_byte(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            return _spaced(token)
    return _spaced(token)


def _template(config: Mapping[str, object], file: str, own: Source | None) -> ChatTemplate | None:
    """The template of chat_template.jinja or of tokenizer_config.json; of several named ones, `default`."""
    value = config.get("chat_template")
    if isinstance(value, list):
        by_name = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        if "default" not in by_name:
            names = ", ".join(str(name) for name in by_name)
            _refuse(file, f"chat_template has no template named default, only {names}", "name the one to use default")
        value = by_name["default"]
    if value is not None and not isinstance(value, str):
        _refuse(file, "chat_template is not a template's text", "write it as a string")
    if own is not None:
        if value is not None and value != own.text:
            _refuse(file, f"chat_template differs from {TEMPLATE}", "remove one of the two")
        return ChatTemplate(text=own.text, file=own.path, key=None)
    return None if value is None else ChatTemplate(text=value, file=file, key="chat_template")


def _refuse(file: str, message: str, fix: str) -> NoReturn:
    raise LoadError(Problem(message=message, fix=fix, file=file))
