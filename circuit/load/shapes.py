"""Parts of file shapes that the files of a hardware class share."""

from typing import Annotated, Literal

from msgspec import Meta

Schema = Literal[1]
"""The version of a file's shape."""

RowRange = Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=2, max_length=2)]
"""[lo, hi], inclusive."""
