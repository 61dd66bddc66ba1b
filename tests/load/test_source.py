"""Lines of keys in JSON and TOML, and what is refused there."""

import json
import math
import struct
import tomllib
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuit.errors import LoadError
from circuit.load.json_text import _DIGITS, read_json
from circuit.load.source import Plain, line_of
from circuit.load.toml_text import read_toml
from circuit.text import Source, literal, parse_literal, quoted, round_f32, unquoted
from tests.cases.texts import library


def json_error(text: str) -> str:
    with pytest.raises(LoadError) as caught:
        read_json(Source(path="config.json", text=text))
    return str(caught.value)


def test_each_json_key_has_its_line() -> None:
    document = read_json(Source(path="c", text='{\n "a": 1,\n "b": {"c": [\n  1,\n  {"d": 2}]},\n\n "e": null}'))
    assert document.data == {"a": 1, "b": {"c": [1, {"d": 2}]}, "e": None}
    places = [("a",), ("b",), ("b", "c"), ("b", "c", 1, "d"), ("e",), ("b", "c", 0)]
    assert [line_of(document, place) for place in places] == [2, 3, 3, 5, 7, 3]


def test_bare_infinity_and_nan_are_read() -> None:
    data = read_json(Source(path="c", text='{"a": Infinity, "b": -Infinity, "c": NaN, "d": 1e3, "e": 1000}')).data
    assert data["a"] == math.inf
    assert data["b"] == -math.inf
    assert math.isnan(cast(float, data["c"]))
    assert isinstance(data["d"], float)
    assert isinstance(data["e"], int)


def test_all_duplicate_keys_are_refused_with_their_lines() -> None:
    text = json_error('{\n "a": 1,\n "b": {"x": 1,\n "x": 2},\n "a": 3\n}')
    assert text == (
        "error: key `b.x` is written twice, first on line 3\n --> config.json:4\n"
        '  | "x": 2},\n  = fix: remove one of the two `b.x`\n'
        "error: key `a` is written twice, first on line 2\n --> config.json:5\n"
        '  | "a": 3\n  = fix: remove one of the two `a`'
    )


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ('{"a": 1', "`,` or `}` is expected here", 1),
        ('{"a": \n}', "a JSON value is expected here", 2),
        ('{"a": [1 2]}', "`,` or `]` is expected here", 1),
        ('{\n\n"a" 1}', "`:` is expected here", 3),
        ("{a: 1}", "a JSON string is expected here", 1),
        ('{"a": 01}', "a JSON value is expected here", 1),
        ('{"a": 1}\nx', "text after the end of the JSON value", 2),
        ("[1]", "the file holds no JSON object", 1),
        ("", "the JSON text ends in the middle", 1),
        ('{"a": ' + "[" * 80, "JSON is nested deeper than 64", 1),
    ],
)
def test_malformed_json_names_its_line(text: str, message: str, line: int) -> None:
    error = json_error(text)
    assert error.startswith(f"error: {message}\n --> config.json:{line}\n")
    assert error.endswith("  = fix: correct the JSON text on this line")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1" * 5000, f"a number has more than {_DIGITS} digits"),
        (r'"\ud800"', "the string has half of a surrogate pair"),
    ],
)
def test_json_values_that_nothing_can_hold_are_refused(value: str, message: str) -> None:
    error = json_error(f'{{\n "a": {value}\n}}')
    assert error.startswith(f"error: {message}\n --> config.json:2\n")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=5), st.sampled_from([None, 1]))
def test_json_reads_what_the_standard_module_writes(data: dict[str, Plain], indent: int | None) -> None:
    for ascii_only in (True, False):
        text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
        assert read_json(Source(path="c", text=text)).data == data


def test_each_toml_key_has_its_line() -> None:
    text = '''a = 1
"b.c" = """
x = 1
[y]
"""   # [z]
d = [
  1, # ]
  { e = "]" },
]
[t]
f.g = 2
[[t.list]]
h = 1

[[t.list]]
h = "#"  # comment
i = { j = 1 }
'''
    document = read_toml(Source(path="c", text=text))
    lines = {
        ("a",): 1,
        ("b.c",): 2,
        ("d",): 6,
        ("d", 1, "e"): 6,
        ("t",): 10,
        ("t", "f", "g"): 11,
        ("t", "list", 0): 12,
        ("t", "list", 0, "h"): 13,
        ("t", "list", 1): 15,
        ("t", "list", 1, "h"): 16,
        ("t", "list", 1, "i", "j"): 17,
    }
    assert {place: line_of(document, place) for place in lines} == lines


def test_a_key_has_its_line_whatever_stands_around_it() -> None:
    rows = (
        'a.b = "x # [y]" # c', "c = 1979-05-27 07:32:00\r", "d-e = '#'\t", 'f = ["]", # "[', """  '''#[""",
        """''', [1], # ]""", "]", "[t] # [u]", "'g' = 0x1F", 'h = """', '"""', 'i = ""', "j = {k = '}'} # {",
        "l = [{m = [1]},", " {m = 2}]", "n = 1",
    )  # fmt: skip
    document = read_toml(Source(path="c", text="\n".join(rows)))
    written = {("a", "b"): 1, ("c",): 2, ("d-e",): 3, ("f",): 4, ("t",): 8, ("t", "g"): 9, ("t", "h"): 10}
    written |= {("t", "i"): 12, ("t", "j"): 13, ("t", "l"): 14, ("t", "n"): 16}
    assert {path: line_of(document, path) for path in written} == written
    assert document.data["f"] == ["]", "#[\n", [1]]


def test_an_inline_table_may_go_over_several_lines() -> None:
    document = read_toml(Source(path="c", text='a = {b = 1,\n  c = "\\e", # x }\n}\nd = 1\n'))
    assert document.data == {"a": {"b": 1, "c": "\x1b"}, "d": 1}
    assert (line_of(document, ("a", "c")), line_of(document, ("d",))) == (1, 4)


def test_every_written_key_of_our_own_files_has_a_line_that_shows_it() -> None:
    for source in library().files:
        document, rows = read_toml(source), source.text.splitlines()
        assert document.data == tomllib.loads(source.text)
        for path, line in document.lines.items():
            names = [part for part in path if isinstance(part, str)]
            assert names[-1] in rows[line - 1], f"{source.path}:{line} has no {names[-1]}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1\nb = \n", "error: invalid value\n --> x.toml:2\n  | b =\n"),
        ("a = 1\nb = [\n1,\n\n", "error: invalid value (at end of document)\n --> x.toml:3\n  | 1,\n"),
        ("[a]\n[a]\n", "error: cannot declare ('a',) twice\n --> x.toml:2\n  | [a]\n"),
        ('a = "\\z"', "error: unescaped '\\' in a string\n --> x.toml:1\n  | a = \"\\z\"\n"),
    ],
)
def test_malformed_toml_names_its_line(text: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        read_toml(Source(path="x.toml", text=text))
    assert str(caught.value) == said + "  = fix: correct the TOML text on this line"


@settings(deadline=None)
@given(st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
def test_literals_read_back_with_type_and_bits(value: bool | int | float | str) -> None:
    back = parse_literal(literal(value))
    assert type(back) is type(value)
    assert back == value
    assert "\n" not in literal(value)
    if isinstance(value, float):
        assert back.hex() == value.hex() if isinstance(back, float) else False
    if isinstance(value, str):
        assert unquoted(quoted(value)) == value


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-3e38, max_value=3e38))
def test_rounding_to_float32_is_that_of_struct(value: float) -> None:
    assert round_f32(value) == struct.unpack("<f", struct.pack("<f", value))[0]
