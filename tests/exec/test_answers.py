"""The cache of answers: what is kept, when it is made again, what its key depends on, and how much of it stays."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from circuit.errors import Problem
from circuit.load.inputs import Library, once
from circuit.text import Source
from circuit_exec import answers
from circuit_exec.answers import Answer, answer_key, answered
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.files_key import files_key
from circuit_exec.program_key import code_key, program_key
from tests import models

REFUSED = Problem(message="no", fix="yes", file="a.toml", line=3, excerpt="b = 1")
SAID = Answer(text="two\nlines, and an é\n", refused=(REFUSED, Problem(message="nor this", fix="yes")))
LIBRARY = Library(files=(Source(path="kernels/a.toml", text="a = 1\n"),))
ASKED = ("display", "text", "rows=None")


def never(library: Library) -> Answer:
    raise AssertionError("the cache has it")


def entry(root: Path) -> Path:
    (found,) = (root / "answers").iterdir()
    return found


def test_an_answer_reads_back_from_the_cache_with_what_is_refused(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path)
    assert answered(ASKED, (), LIBRARY, cache, lambda _: SAID) == SAID
    assert answered(ASKED, (), LIBRARY, cache, never) == SAID


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:-1], lambda data: data + b" ", lambda data: data.replace(b"two", b"six")],
    ids=["empty", "cut", "longer", "changed"],
)
def test_a_damaged_answer_is_made_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    cache = Cache(root=tmp_path)
    answered(ASKED, (), LIBRARY, cache, lambda _: SAID)
    path = entry(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert answered(ASKED, (), LIBRARY, cache, lambda _: Answer(text="anew")) == Answer(text="anew")
    assert answered(ASKED, (), LIBRARY, cache, never) == Answer(text="anew")


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("a file where the folder should be")
    assert answered(ASKED, (), LIBRARY, Cache(root=tmp_path), lambda _: SAID) == SAID


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        answered(ASKED, (), LIBRARY, Cache(root=tmp_path), never)
    assert not (tmp_path / "answers").exists()


def test_an_answer_of_a_program_that_was_edited_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(("one", "two"))
    monkeypatch.setattr(answers, "program_key", lambda library: next(versions))

    def made(kept: Library) -> Answer:
        once(kept, "a", lambda: "made by nobody knows which version")
        return SAID

    assert answered(ASKED, (), LIBRARY, Cache(root=tmp_path), made) == SAID
    assert list(tmp_path.iterdir()) == []


def test_what_was_made_of_the_library_for_an_answer_is_kept_too(tmp_path: Path) -> None:
    cache, pieces = Cache(root=tmp_path), list[tuple[object] | None]()

    def made(kept: Library) -> Answer:
        pieces.append(kept.kept("a"))
        return Answer(text=once(kept, "a", lambda: "made"))

    for question in (("one",), ("two",)):
        assert answered(question, (), LIBRARY, cache, made).text == "made"
    assert pieces == [None, ("made",)]


def test_the_answers_asked_for_longest_ago_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(root=tmp_path)
    for at in range(3):
        answered((str(at),), (), LIBRARY, cache, lambda _: Answer(text="x" * 1000))
        os.utime(max((tmp_path / "answers").iterdir(), key=lambda path: path.stat().st_mtime_ns), (at, at))
    answered(("0",), (), LIBRARY, cache, never)  # the first is the newest now
    monkeypatch.setattr(answers, "MOST_BYTES", 3500)
    answered(("3",), (), LIBRARY, cache, lambda _: Answer(text="x" * 1000))
    assert len(list((tmp_path / "answers").iterdir())) == 3
    for kept in ("0", "2", "3"):
        answered((kept,), (), LIBRARY, cache, never)
    with pytest.raises(AssertionError):
        answered(("1",), (), LIBRARY, cache, never)


@pytest.mark.parametrize("kind", ["safetensors", "gguf", "config"])
def test_the_key_depends_on_everything_that_is_read_and_asked(tmp_path: Path, kind: str) -> None:
    def key(name: str, asked: tuple[str, ...] = ASKED, library: Library = LIBRARY, **changes: float) -> str:
        folder = tmp_path / name
        config = models.tiny_config("llama", **changes)
        if not folder.exists():
            if kind == "config":
                folder.mkdir()
                models.write_config(folder, config)
            else:
                models.write_checkpoint(folder, config)
            models.write_gguf(folder / "model.gguf", config)
        at = {"safetensors": folder, "gguf": folder / "model.gguf", "config": folder / "config.json"}[kind]
        return answer_key(asked, (open_checkpoint(str(at)),), program_key(library))

    first = key("a")
    assert key("a") == first
    others = [
        key("b", rope_theta=2e4),
        key("c", vocab_size=300),
        key("d"),  # the same elsewhere: messages have the path
        key("a", (*ASKED, "policy=()")),
        key("a", ("display", "textrows=None")),
        key("a", library=Library(files=(Source(path="kernels/a.toml", text="a = 2\n"),))),
    ]
    assert len({first, *others}) == 7


def test_a_changed_file_of_the_program_gives_another_key(tmp_path: Path) -> None:
    (tmp_path / "inside" / "__pycache__").mkdir(parents=True)
    source, data = tmp_path / "a.py", tmp_path / "inside" / "b.toml"
    seen = []
    for step in (
        lambda: source.write_bytes(b"x = 1\n"),
        lambda: source.write_bytes(b"x = 2\n"),
        lambda: data.write_bytes(b""),
        lambda: data.rename(tmp_path / "b.toml"),
        lambda: source.unlink(),
    ):
        step()
        seen.append(files_key(tmp_path))
    assert len(set(seen)) == len(seen)
    (tmp_path / "inside" / "__pycache__" / "a.pyc").write_bytes(b"what Python makes is no source")
    assert files_key(tmp_path) == seen[-1]


def test_the_program_is_the_packages_with_their_data_and_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def name_of(place: Path) -> str:
        seen.append(place.name)
        return place.name

    monkeypatch.setattr("circuit_exec.program_key.files_key", name_of)
    first = program_key(LIBRARY)
    assert seen == ["circuit", "circuit_exec", "cli"]
    monkeypatch.setattr("sys.version", "another Python")
    assert program_key(LIBRARY) != first
    assert code_key() == "circuit"
