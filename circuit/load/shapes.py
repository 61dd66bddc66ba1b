"""Parts of file shapes that the files of a hardware class share."""

from typing import Annotated, Literal

from pydantic import Field

Schema = Annotated[Literal[1], Field(alias="schema")]
"""The version of a file's shape; `schema` itself is a name of pydantic's."""

RowRange = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)]
"""[lo, hi], inclusive."""
