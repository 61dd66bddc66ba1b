"""Token ids from a text file: separated by white space or commas, or a JSON list."""

import re
from pathlib import Path

from circuit.errors import LoadError, Problem
from circuit.text import Source, problem_at

LARGEST = 2**31 - 1


def parse_tokens(source: Source) -> list[int]:
    """The ids in order; every word that is no id is a problem with its line, and so is a file without any."""
    text = source.text.strip()
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    first_line = source.text[: source.text.find(inner)].count("\n") + 1
    ids, problems = [], []
    for line, row in enumerate(inner.split("\n"), first_line):
        for word in re.split(r"[\s,]+", row):
            if re.fullmatch(r"[0-9]{1,10}", word) and int(word) <= LARGEST:
                ids.append(int(word))
            elif word:
                message = f"`{word[:40]}` is no token id"
                fix = "write whole numbers from 0, separated by white space or commas, or a JSON list of them"
                problems.append(problem_at(source, line, message, fix))
    if not ids and not problems:
        problems.append(problem_at(source, None, "the file holds no token ids", "write at least one id into it"))
    if problems:
        raise LoadError(problems)
    return ids


def read_tokens(path: Path) -> Source:
    """The text of a token file."""
    try:
        return Source(path=str(path), text=path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message, fix = f"the token file cannot be read: {reason}", "give a file of token ids"
        raise LoadError(Problem(message=message, fix=fix, file=str(path))) from error
    except UnicodeDecodeError as error:
        message, fix = "the token file is not text", "give a text file of token ids"
        raise LoadError(Problem(message=message, fix=fix, file=str(path))) from error
