"""The shape of a file: two checks that must agree, the quick one and the one that names all that is wrong."""

import datetime
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from pydantic import ValidationError

from circuit.errors import LoadError
from circuit.load.edge import FileShape, validated
from circuit.load.edge_problems import model_of
from circuit.load.toml_text import read_toml
from circuit.text import Source
from tests.lower.library import own_library

ROOT = Path(__file__).resolve().parents[2]


class _Part(FileShape, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern=r"^[a-z]+\Z")]
    count: Annotated[int, Meta(ge=1)] = 1


class _Whole(FileShape, frozen=True, kw_only=True):
    schema: Literal[1] = 1
    kind: Literal["a", "b"] | None = None
    switch: bool | None = None
    ratio: Annotated[float, Meta(gt=0, le=1)] | None = None
    text: Annotated[str, Meta(min_length=1)] | None = None
    scalar: bool | int | float | str | None = None
    names: str | list[str] | None = None
    rows: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=2, max_length=2)] | None = None
    modes: dict[Literal["decode", "prefill"], list[int]] | None = None
    mixed: dict[str, Literal["any"] | list[bool | int | float | str]] | None = None
    anything: object = None
    own: Annotated[str, Meta(pattern=r"^x")] | None = msgspec.field(name="class", default=None)
    part: list[_Part] = msgspec.field(default_factory=list)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([2**31, 2**63, 2**64, -(2**70), 0.5, 1.0, 2.0, -0.0, float("nan"), float("inf")]),
    st.sampled_from(["", "a", "a\n", "x", "any", "decode", "abc", "1", datetime.date(2026, 1, 2)]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["decode", "name", "count", "other"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from([each.encode_name for each in msgspec.structs.fields(_Whole)] + ["own", "other"])


def accepted(shape: type[FileShape], data: object) -> tuple[bool, bool]:
    """Whether the quick check takes it, and the one that names what is wrong."""
    quick = named = True
    try:
        msgspec.convert(data, shape)
    except msgspec.ValidationError:
        quick = False
    try:
        model_of(shape).model_validate(data)
    except ValidationError:
        named = False
    return quick, named


@given(st.dictionaries(FIELDS, VALUES, max_size=3))
def test_both_checks_take_the_same_documents(data: dict[str, object]) -> None:
    quick, named = accepted(_Whole, data)
    assert quick == named


def shapes() -> Iterator[type[FileShape]]:
    """The shape of every file."""
    for path in sorted((ROOT / "circuit/load").glob("*.py")):
        module = importlib.import_module(f"circuit.load.{path.stem}")
        for name, found in inspect.getmembers(module, inspect.isclass):
            if issubclass(found, FileShape) and found.__module__ == module.__name__ and name.endswith("File"):
                yield found


def test_every_shape_is_a_model_too() -> None:
    found = list(shapes())
    assert {shape.__name__ for shape in found} >= {"_RulesFile", "_CircuitFile", "_PlansFile", "_RecipeFile"}
    for shape in found:
        model_of(shape)


@given(st.data())
def test_both_checks_take_the_same_files_with_a_value_changed(data: st.DataObject) -> None:
    source = data.draw(st.sampled_from([s for s in own_library().files if s.path.endswith(".toml")]))
    document = read_toml(source)
    shape = next((each for each in shapes() if accepted(each, document.data) == (True, True)), None)
    assert shape is not None, source.path
    table: Any = document.data
    for _ in range(data.draw(st.integers(0, 3))):
        values = list(table.values()) if isinstance(table, dict) else table
        inner = [value for value in values if isinstance(value, dict | list) and value]
        if not inner:
            break
        table = data.draw(st.sampled_from(inner))
    places = list(table) if isinstance(table, dict) else list(range(len(table)))
    table[data.draw(st.sampled_from(places))] = data.draw(VALUES)
    quick, named = accepted(shape, document.data)
    assert quick == named


def test_everything_that_is_wrong_is_named_with_its_line() -> None:
    lines = ("schema = true", 'kind = "c"', "switch = 1", "rows = [0, 1]", 'class = "a"')
    parts = ("[[part]]", 'name = "A\\n"', "size = 2", "[[part]]", "count = 0")
    text = "\n".join((*lines, *parts))
    with pytest.raises(LoadError) as caught:
        validated(read_toml(Source(path="a.toml", text=text)), _Whole)
    assert [(each.line, each.message, each.fix) for each in caught.value.problems] == [
        (1, "`schema`: input should be 1", "correct the value of `schema`"),
        (2, "`kind`: input should be 'a' or 'b'", "correct the value of `kind`"),
        (3, "`switch`: input should be a valid boolean", "correct the value of `switch`"),
        (4, "`rows[0]`: input should be greater than or equal to 1", "correct the value of `rows[0]`"),
        (5, "`class`: string should match pattern '^x'", "correct the value of `class`"),
        (7, "`part[0].name`: string should match pattern '^[a-z]+\\Z'", "correct the value of `name`"),
        (8, "unknown key `part[0].size`", "remove or rename `size`"),
        (9, "missing key `part[1].name`", "add `name = ...`"),
        (10, "`part[1].count`: input should be greater than or equal to 1", "correct the value of `count`"),
    ]


@pytest.mark.parametrize("value", [1.0, True, 2, "1"])
def test_the_version_of_a_file_is_the_number_1(value: object) -> None:
    assert accepted(_Whole, {"schema": 1}) == (True, True)
    assert accepted(_Whole, {"schema": value}) == (False, False)
