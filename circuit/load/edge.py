"""A parsed document against the shape of its file, every difference as a problem with its line."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from circuit.errors import LoadError
from circuit.load.source import Document


class FileShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the private file shapes: unknown keys are errors, nothing is coerced but an integer to a float."""


Shape = TypeVar("Shape", bound=FileShape)


def validated(document: Document, shape: type[Shape]) -> Shape:
    """The document as `shape`, or a LoadError with all that is wrong."""
    try:
        return msgspec.convert(document.data, shape)
    except msgspec.ValidationError:  # it names the first difference; the others are looked for where there is one
        from circuit.load.edge_problems import problems

        raise LoadError(problems(document, shape)) from None
