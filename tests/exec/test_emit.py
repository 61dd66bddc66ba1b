"""Emitting is all or nothing: an interrupt or an error leaves no folder, and one that was there stays as it was."""

import errno
from pathlib import Path

import pytest

from circuit.errors import RunError
from circuit_exec import emit as emitting
from circuit_exec.cache import Cache
from circuit_exec.emit import Asked, emit
from tests.models import tiny_config, write_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("models") / "tiny", tiny_config("llama"))


def interrupting(what: str, part: float) -> None:
    if what == "copying the weights":
        raise KeyboardInterrupt


@pytest.mark.parametrize("before", [None, "empty", "full"])
def test_an_interrupt_leaves_everything_as_it_was(
    model: Path, cache: Cache, tmp_path: Path, before: str | None
) -> None:
    folder = tmp_path / "out"
    if before is not None:
        folder.mkdir()
    if before == "full":
        (folder / "main.c").write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        emit(str(model), folder, Asked(force=True), cache, interrupting)
    assert list(tmp_path.iterdir()) == ([] if before is None else [folder])
    assert before is None or [path.name for path in folder.iterdir()] == (["main.c"] if before == "full" else [])
    assert before != "full" or (folder / "main.c").read_text() == "mine"


@pytest.mark.parametrize(
    ("number", "message", "fix"),
    [
        (errno.ENOSPC, "no space left on device", "make room there"),
        (errno.EROFS, "read-only file system", "give -o a place that can be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(
    model: Path, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str, fix: str
) -> None:
    def fails(into: Path, path: str, data: bytes) -> None:
        raise OSError(number, "")

    monkeypatch.setattr(emitting, "_write", fails)
    with pytest.raises(RunError) as caught:
        emit(str(model), tmp_path / "out", Asked(weights=False), cache, lambda what, part: None)
    (problem,) = caught.value.problems
    assert (problem.message, problem.fix) == (f"the program cannot be written: {message}", fix)
    assert problem.file == str(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_two_runs_write_the_same_bytes(model: Path, cache: Cache, tmp_path: Path) -> None:
    found = [emit(str(model), tmp_path / name, Asked(), cache, lambda what, part: None) for name in ("a", "b")]
    assert found[0].files == found[1].files
