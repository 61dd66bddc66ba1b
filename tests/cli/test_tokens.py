"""Token ids from a file."""

from pathlib import Path

import pytest

from circuit.errors import LoadError
from circuit.text import Source
from cli.tokens import parse_tokens, read_tokens


@pytest.mark.parametrize(
    "text", ["1 22 333", "1\n22\n333\n", "1,22, 333", "[1, 22, 333]", "[\n 1,\n 22,\n 333\n]\n", "\n\t1  22\r\n333"]
)
def test_ids_may_stand_in_any_of_the_three_forms(text: str) -> None:
    assert parse_tokens(Source(path="ids.txt", text=text)) == [1, 22, 333]


def test_every_word_that_is_no_id_is_refused_with_its_line() -> None:
    with pytest.raises(LoadError) as caught:
        parse_tokens(Source(path="ids.txt", text="1 2\n3 -4\nfive 6\n7.0\n"))
    assert [(p.message, p.line, p.excerpt) for p in caught.value.problems] == [
        ("`-4` is no token id", 2, "3 -4"),
        ("`five` is no token id", 3, "five 6"),
        ("`7.0` is no token id", 4, "7.0"),
    ]
    fix = "write whole numbers from 0, separated by white space or commas, or a JSON list of them"
    assert {p.fix for p in caught.value.problems} == {fix}


def test_lines_are_counted_in_a_list_that_begins_late() -> None:
    with pytest.raises(LoadError) as caught:
        parse_tokens(Source(path="ids.txt", text="\n\n[\n1,\nx\n]"))
    (problem,) = caught.value.problems
    assert (problem.message, problem.line) == ("`x` is no token id", 5)


def test_an_id_beyond_31_bits_is_refused() -> None:
    with pytest.raises(LoadError, match="`2147483648` is no token id"):
        parse_tokens(Source(path="ids.txt", text="2147483647 2147483648"))


@pytest.mark.parametrize("text", ["", "\n", "[]", "[ ]"])
def test_a_file_without_ids_is_refused(text: str) -> None:
    said = r"the file holds no token ids\n --> ids.txt\n  = fix: write at least one id into it"
    with pytest.raises(LoadError, match=said):
        parse_tokens(Source(path="ids.txt", text=text))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_bytes(b"1 2 \xff")
    with pytest.raises(LoadError) as caught:
        read_tokens(path)
    assert str(caught.value) == (
        f"error: the token file is not text\n --> {path}\n  = fix: give a text file of token ids"
    )
