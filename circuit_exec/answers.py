"""What met answered before, kept in the cache, so that a question asked again is not worked out again.

An answer is a text, and what is refused after it. Its key is of everything that it depends on: the program with its
data, the checkpoints and what was asked. So nothing that is kept can be out of date; what is not asked for any more is
deleted, the oldest first, where answers take more than MOST_BYTES. A damaged entry is as good as none.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from circuit.errors import Problem, RunError
from circuit.load.inputs import Library
from circuit_exec.cache import Cache, entry_path, key_of, read_checked, remove_oldest, used, write_checked
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.program_key import checkpoint_parts, program_key

KIND = "answers"
FORM = "2"
"""Of an entry; counted up where its fields change."""
MOST_BYTES = 64 << 20


class Answer(Struct, frozen=True, kw_only=True):
    """What is printed, the problems that are refused after it was, and of a comparison whether both sides are equal."""

    text: str
    refused: tuple[Problem, ...] = ()
    equal: bool = True


def answer_key(asked: Sequence[str], checkpoints: Sequence[Checkpoint], program: str) -> str:
    """The key of everything that an answer depends on: `asked` are the words of the question, options and all, and
    `program` is the key of the program."""
    models = [(checkpoint.path, *checkpoint_parts(checkpoint)) for checkpoint in checkpoints]
    counted = (str(len(part)) for part in (asked, *models))
    return key_of(KIND, FORM, program, *counted, *asked, *(part for model in models for part in model))


def answered(
    asked: Sequence[str],
    checkpoints: Sequence[Checkpoint],
    library: Library,
    cache: Cache,
    make: Callable[[Library], Answer],
) -> Answer:
    """The answer that the cache has, or what `make` makes with the library and what is kept of it. A cache that cannot
    be written costs time and no more."""
    program = program_key(library)
    key = answer_key(asked, checkpoints, program)
    path = entry_path(cache, KIND, key)
    found = _read(path)
    if found is not None:
        return found
    from circuit_exec.kept_library import KeptLibrary  # and pickle, which an answer that is kept does not need

    kept = KeptLibrary(library, cache, program)
    made = make(kept.library)
    if answer_key(asked, checkpoints, program_key(library)) != key:
        return made  # program or checkpoint were edited meanwhile: nobody knows which of their versions answered
    kept.keep()
    problems = [[each.message, each.fix, each.file, each.line, each.excerpt] for each in made.refused]
    body = json.dumps([made.text, problems, made.equal]).encode()
    with suppress(RunError):
        write_checked(path, body)
        remove_oldest(path.parent, MOST_BYTES)
    return made


def _read(path: Path) -> Answer | None:
    """The entry, which is the newest now, or None where there is none or it is damaged."""
    body = read_checked(path)
    if body is None:
        return None
    used(path)
    text, problems, equal = json.loads(body)
    names = ("message", "fix", "file", "line", "excerpt")
    refused = tuple(Problem(**dict(zip(names, problem, strict=True))) for problem in problems)
    return Answer(text=text, refused=refused, equal=equal)
