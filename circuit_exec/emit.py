"""Writes a model as a folder: the C program that runs in process, a driver, its weights and its vocabulary."""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from circuit.bake.layout import PANEL
from circuit.bake.manifest import Manifest, build_manifest
from circuit.compiled import Goal
from circuit.emit.derive import layout
from circuit.emit.folder import Facts, Machine, folder_sources, manifest_source
from circuit.emit.model_text import Described
from circuit.errors import LoadError, PlanError, Problem, RunError
from circuit.load.hardware import load_hardware
from circuit.lower.ir import Which
from circuit.pipeline import compiled
from circuit_exec.bake import BakedWeights, bake
from circuit_exec.build import COMMON_FLAGS, Progress, machine_flags
from circuit_exec.cache import FULL, Cache
from circuit_exec.checkpoint.open import opened, text
from circuit_exec.checkpoint.records import Checkpoint, require_weights
from circuit_exec.checkpoint.texts import checkpoint_texts
from circuit_exec.host import MACHINES
from circuit_exec.library import library
from circuit_exec.text.chat import require_template
from circuit_exec.text.folder_tokenizer import TOKENIZER
from circuit_exec.text.load import all_stop_ids, config_stop_ids, load_tokenizer
from circuit_exec.text.tables import Chat, chat_of, encoder_rules, tables

ANYWHERE = "cpu"
"""The class of what is emitted where none is named: it is to run on the machines of others."""

WEIGHTS, TABLES, MANIFEST = "weights.bin", "tokenizer.bin", "manifest.txt"
COPY_BYTES = 4 << 20


class Asked(Struct, frozen=True, kw_only=True):
    """What the folder shall be. `policy` are KEY=VALUE. `ids_only` leaves out how text becomes ids, `chat` says whether
    a prompt is a message, `today` is for templates that write the date. `force` writes into a folder that has files.
    """

    hardware_class: str = ANYWHERE
    rules: Which = "all"
    policy: tuple[str, ...] = ()
    weights: bool = True
    ids_only: bool = False
    chat: bool = True
    today: date | None = None
    force: bool = False


class File(Struct, frozen=True, kw_only=True):
    """One file that was written; `sha256` in hex."""

    path: str
    n_bytes: int
    sha256: str


class Emitted(Struct, frozen=True, kw_only=True):
    """What was written. `digests` are (mode and rows, digest of the plan)."""

    folder: str
    bytes_digest: str
    digests: tuple[tuple[str, str], ...]
    files: tuple[File, ...]


class _Words(Struct, frozen=True, kw_only=True):
    """How the program knows words: its tables, the ids that end a text, and what manifest.txt says of both."""

    tables: bytes | None
    stops: tuple[int, ...]
    chat: Chat | None
    says: str


def emit(path: str, folder: Path, asked: Asked, cache: Cache, progress: Progress) -> Emitted:
    """Writes the folder as a whole, or nothing."""
    _check_free(folder, asked.force)
    checkpoint = opened(path, cache)
    if asked.weights and checkpoint.kind == "config":
        _refuse(path, "a config.json alone has no weights", "emit with --no-weights: the program makes some up")
    words = _words(checkpoint, asked)
    texts = library()
    hardware = load_hardware(texts, asked.hardware_class)
    arch = dict(hardware.arch)
    if hardware.language != "c":
        message = f"class {hardware.name} has no kernels in C to write"
        raise PlanError(Problem(message=message, fix="name a class of CPUs with --class"))
    goal = Goal(hardware_class=hardware.name, choices=asked.policy, rules=asked.rules)
    made = compiled(checkpoint_texts(checkpoint), texts, goal)
    manifest = build_manifest(made.plans[0].weights, PANEL, made.bound.equal)
    baked = _baked(manifest, checkpoint, cache, progress) if asked.weights else None
    facts = Facts(
        described=Described(name=_name(path), has_weights=asked.weights, stops=words.stops),
        flags=tuple(flag for flag in COMMON_FLAGS if flag != "-fPIC"),
        machines=tuple(
            Machine(name="-".join(names), flags=machine_flags(arch[machine]))
            for names, machine in MACHINES.items()
            if machine in arch
        ),
        content=None if baked is None else baked.content_hash,
        chat=None if words.chat is None else (words.chat.before, words.chat.after),
        tokenizer=words.says,
    )
    sources = folder_sources(made.plans, layout(made.plans), manifest, texts, facts)
    with _whole(folder) as into:
        files = [_write(into, source.path, source.text.encode("utf-8")) for source in sources]
        if words.tables is not None:
            files.append(_write(into, TABLES, words.tables))
        if baked is not None:
            files.append(_copy_weights(into, baked.path, progress))
        listed = tuple((file.path, file.sha256) for file in files)
        last = manifest_source(made.plans, manifest, facts, listed)
        files.append(_write(into, last.path, last.text.encode("utf-8")))
    (bytes_digest,) = {dict(plan.parts)["bytes"] for plan in made.plans}
    return Emitted(
        folder=str(folder),
        bytes_digest=bytes_digest,
        digests=tuple((f"{plan.mode}:{plan.rows[0]}-{plan.rows[1]}", plan.digest) for plan in made.plans),
        files=tuple(files),
    )


def _check_free(folder: Path, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        _refuse(str(folder), "the output is a file", "give -o a folder, or one that does not exist yet")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        _refuse(str(folder), "the folder is not empty", "give -o another one, or --force to replace its files")
    if not folder.parent.is_dir():
        _refuse(str(folder), "the folder above it does not exist", f"make it: mkdir -p {folder.parent}")


def _words(checkpoint: Checkpoint, asked: Asked) -> _Words:
    """A bare config.json may have a tokenizer beside it; where it has none, the program takes ids."""
    if checkpoint.kind != "gguf" and text(checkpoint, TOKENIZER) is None:
        if checkpoint.kind != "config" and not asked.ids_only:
            _refuse(checkpoint.path, f"the folder has no {TOKENIZER}", "download it too, or emit with --ids-only")
        return _Words(tables=None, stops=config_stop_ids(checkpoint), chat=None, says="none: the program takes ids")
    tokenizer = load_tokenizer(checkpoint)
    rules = None if asked.ids_only else encoder_rules(tokenizer)
    chat = None
    if rules is not None and asked.chat:
        chat = chat_of(tokenizer, require_template(tokenizer.template, tokenizer.file), asked.today)
    return _Words(
        tables=tables(tokenizer, rules, chat),
        stops=all_stop_ids(checkpoint, tokenizer),
        chat=chat,
        says=f"of {tokenizer.n_tokens} tokens" + (", from ids to text only" if rules is None else ""),
    )


def _baked(manifest: Manifest, checkpoint: Checkpoint, cache: Cache, progress: Progress) -> BakedWeights:
    require_weights(checkpoint)
    return bake(manifest, checkpoint, cache, lambda done, total: progress("baking the weights", done / total))


def _copy_weights(into: Path, baked: Path, progress: Progress) -> File:
    """The baked file as it is: the program checks that its header names the manifest."""
    digest, n_bytes, total = hashlib.sha256(), 0, baked.stat().st_size
    with baked.open("rb") as source, (into / WEIGHTS).open("xb") as target:
        while part := source.read(COPY_BYTES):
            target.write(part)
            digest.update(part)
            n_bytes += len(part)
            progress("copying the weights", n_bytes / total)
    return File(path=WEIGHTS, n_bytes=n_bytes, sha256=digest.hexdigest())


def _write(into: Path, path: str, data: bytes) -> File:
    (into / path).parent.mkdir(exist_ok=True)
    (into / path).write_bytes(data)
    return File(path=path, n_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder beside the asked one, which takes its place once it is whole; on any error nothing is left of it."""
    beside = folder.parent / f".{folder.name}.{secrets.token_hex(8)}.tmp"
    try:
        beside.mkdir()
        yield beside
        _move(beside, folder)
    except OSError as error:
        full = error.errno in FULL
        raise RunError(
            Problem(
                message=f"the program cannot be written: {os.strerror(error.errno or errno.EIO).lower()}",
                fix="make room there" if full else "give -o a place that can be written",
                file=str(folder),
            )
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move(beside: Path, folder: Path) -> None:
    if not folder.exists() or not any(folder.iterdir()):
        beside.replace(folder)
        return
    for file in sorted(path for path in beside.rglob("*") if path.is_file()):
        place = folder / file.relative_to(beside)
        place.parent.mkdir(exist_ok=True)
        file.replace(place)


def _name(path: str) -> str:
    name = Path(path).resolve().name
    return "".join(letter if letter.isascii() and letter.isprintable() else "_" for letter in name)


def _refuse(file: str, message: str, fix: str) -> NoReturn:
    raise LoadError(Problem(message=message, fix=fix, file=file))
