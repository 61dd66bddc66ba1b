"""What is kept of the library reads back the same, is made anew where it cannot be read, and runs nothing."""

import pickle
from pathlib import Path

import pytest

from circuit.compiled import COMPILED, Compiled, Goal
from circuit.load.inputs import Library, once
from circuit.pipeline import compiled
from circuit.plan.text import unfolded_text
from circuit.reports import compiled_once
from circuit.text import Source
from circuit_exec.cache import Cache, key_of, write_checked
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.texts import checkpoint_texts
from circuit_exec.kept_library import KeptLibrary
from circuit_exec.library import library
from circuit_exec.program_key import program_key
from tests.models import tiny_config, write_config

SMALL = Library(files=(Source(path="kernels/a.toml", text="a = 1\n"),))


def small(text: str = "a = 1\n") -> Library:
    return Library(files=(Source(path="kernels/a.toml", text=text),))


def never() -> str:
    raise AssertionError("it is kept")


def kept_of(files: Library, cache: Cache) -> KeptLibrary:
    """What this program has kept of the files."""
    return KeptLibrary(files, cache, program_key(files))


def entry(cache: Cache) -> Path:
    (found,) = (cache.root / "library").iterdir()
    return found


def test_what_was_made_is_made_once_and_kept(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path)
    kept = kept_of(small(), cache)
    assert once(kept.library, ("a", 1), lambda: "made") == "made"
    assert once(kept.library, ("a", 1), never) == "made"
    kept.keep()
    assert once(kept_of(small(), cache).library, ("a", 1), never) == "made"


def test_pieces_of_several_commands_are_kept_together_and_read_alone(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path)
    for what in ("a", "b"):
        kept = kept_of(small(), cache)
        once(kept.library, what, f"made {what}".format)
        kept.keep()
    both = kept_of(small(), cache)
    assert once(both.library, "b", never) == "made b"
    assert both.library.made == {"b": "made b"}
    assert once(both.library, "a", never) == "made a"
    before = entry(cache).stat().st_mtime_ns, entry(cache).read_bytes()
    both.keep()
    assert (entry(cache).stat().st_mtime_ns, entry(cache).read_bytes()) == before


def test_another_library_or_program_has_nothing_of_it(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path)
    kept = kept_of(small(), cache)
    once(kept.library, "a", lambda: "made")
    kept.keep()
    assert kept_of(small(), cache).library.kept("a") == ("made",)
    assert kept_of(small("a = 2\n"), cache).library.kept("a") is None
    assert KeptLibrary(small(), cache, "another program").library.kept("a") is None


class _Trap:
    """Ends the test where it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("an entry was run",)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no pickle",
        pickle.dumps(_Trap()),
        pickle.dumps({"a": pytest.fail}),
        pickle.dumps("no dict"),
        pickle.dumps({"a": "no bytes"}),
        pickle.dumps({key_of(repr("a")): b"no pickle"}),
        pickle.dumps({key_of(repr("a")): pickle.dumps(_Trap())}),
        pickle.dumps({key_of(repr("a")): pickle.dumps(pytest.fail)}),
    ],
    ids=[
        "empty",
        "garbage",
        "a call",
        "a function",
        "no pieces",
        "no piece",
        "garbage in one",
        "a call in one",
        "a function in one",
    ],
)
def test_an_entry_that_somebody_else_wrote_is_as_good_as_none(tmp_path: Path, body: bytes) -> None:
    cache = Cache(root=tmp_path)
    kept = kept_of(small(), cache)
    once(kept.library, "a", lambda: "made")
    kept.keep()
    write_checked(entry(cache), body)
    again = kept_of(small(), cache)
    assert again.library.kept("a") is None
    once(again.library, "a", lambda: "made")
    again.keep()
    assert once(kept_of(small(), cache).library, "a", never) == "made"


def test_a_damaged_entry_is_as_good_as_none(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path)
    kept = kept_of(small(), cache)
    once(kept.library, "a", lambda: "made")
    kept.keep()
    entry(cache).write_bytes(entry(cache).read_bytes()[:-1])
    assert kept_of(small(), cache).library.kept("a") is None


@pytest.mark.parametrize("hardware_class", ["avx2", "hopper"])
def test_a_plan_made_with_what_is_kept_is_the_plan_made_anew(tmp_path: Path, hardware_class: str) -> None:
    texts = checkpoint_texts(open_checkpoint(str(write_config(tmp_path, tiny_config("qwen3")))))
    goal = Goal(hardware_class=hardware_class, scheduled=False)
    cache = Cache(root=tmp_path)

    def planned() -> tuple[str, bool]:
        kept = kept_of(library(), cache)
        had = kept.library.kept(("hardware", hardware_class)) is not None
        plans = compiled(texts, kept.library, goal).plans
        kept.keep()
        return "\n".join(map(unfolded_text, plans)), had

    anew = "\n".join(map(unfolded_text, compiled(texts, library(), goal).plans))
    (first, none), (again, kept) = planned(), planned()
    assert (none, kept) == (False, True)
    assert first == again == anew
    assert compiled(texts, library(), goal).plans == compiled(texts, kept_of(library(), cache).library, goal).plans


def test_a_compiled_model_is_kept_as_it_is_in_an_entry_of_its_own(tmp_path: Path) -> None:
    texts = checkpoint_texts(open_checkpoint(str(write_config(tmp_path, tiny_config("qwen3")))))
    cache = Cache(root=tmp_path)
    anew = {name: compiled(texts, library(), Goal(hardware_class=name, scheduled=False)) for name in ("avx2", "hopper")}

    def asked(name: str) -> tuple[Compiled, bool]:
        kept, goal = kept_of(library(), cache), Goal(hardware_class=name, scheduled=False)
        had = kept.library.kept((COMPILED, texts, goal)) is not None
        made = compiled_once(texts, kept.library, goal)
        kept.keep()
        return made, had

    for name, made in anew.items():
        assert asked(name) == (made, False)
        assert asked(name) == (made, True)
    entries = sorted((tmp_path / COMPILED).iterdir())
    assert len(entries) == 2
    for path in entries:
        path.write_bytes(path.read_bytes()[:-1])
    for name, made in anew.items():
        assert asked(name) == (made, False)
        assert asked(name) == (made, True)


def test_kernels_to_be_rendered_are_not_kept_with_reports(tmp_path: Path) -> None:
    texts = checkpoint_texts(open_checkpoint(str(write_config(tmp_path, tiny_config("qwen3")))))
    with pytest.raises(AssertionError, match="are kept where they are built"):
        compiled_once(texts, library(), Goal(hardware_class="avx2"))
