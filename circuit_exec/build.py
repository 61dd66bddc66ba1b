"""Compiles an emitted C program into a shared library, once for each source, compiler, flags and target.

An entry of the cache is `<key>.c`, `<key>.so` and, written last, `<key>.sha256`; an entry that is damaged or was left
half-made is made again.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from circuit.errors import Problem, RunError
from circuit_exec.cache import Cache, entry_path, key_of, write_entry

Progress = Callable[[str, float], None]
"""Told what is being done, and how much of it is: 0.0 to 1.0."""

COMMON_FLAGS = (
    "-O3",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fvisibility=hidden",
    "-Wno-psabi",
    "-shared",
    "-fPIC",
    "-pthread",
)
NAMES = ("cc", "gcc", "clang")
KEPT_LINES = 12
KIND = "programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A C compiler: the words that start it, and what it says of its version."""

    command: tuple[str, ...]
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of machine: the flags that name it, and the processor features without which it is refused."""

    name: str
    flags: tuple[str, ...]
    zig_flags: tuple[str, ...]
    features: tuple[str, ...]


TARGETS = {
    ("Linux", "x86_64"): Target(
        name="x86-64-v3-linux",
        flags=("-march=x86-64-v3",),
        zig_flags=("-mcpu=x86_64_v3", "-fno-sanitize=undefined"),
        features=("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"),
    ),
    ("Linux", "aarch64"): Target(
        name="aarch64-linux",
        flags=("-march=armv8-a",),
        zig_flags=("-mcpu=generic", "-fno-sanitize=undefined"),
        features=("fp", "asimd"),
    ),
    ("Darwin", "arm64"): Target(
        name="arm64-macos",
        flags=("-march=armv8-a",),
        zig_flags=("-mcpu=generic", "-fno-sanitize=undefined"),
        features=(),
    ),
}


def build(source: str, cache: Cache, progress: Progress) -> Path:
    """The library of a C program, from the cache or freshly compiled."""
    compiler = find_compiler(os.environ.get("PATH", ""))
    target = find_target(platform.system(), platform.machine(), processor_features())
    flags = COMMON_FLAGS + (target.zig_flags if "ziglang" in compiler.command else target.flags)
    key = key_of(source, *compiler.command, compiler.identity, *flags, target.name)
    library = entry_path(cache, KIND, f"{key}.so")
    if not _is_whole(library):
        progress("compiling the program", 0.0)
        _compile(source, compiler, flags, library)
        progress("compiling the program", 1.0)
    return library


def find_compiler(search_path: str) -> Compiler:
    """The first of cc, gcc and clang on the search path, else the ziglang package of this Python."""
    for name in NAMES:
        found = shutil.which(name, path=search_path)
        if found is not None:
            return _identified((found,))
    if importlib.util.find_spec("ziglang") is not None:
        return _identified((sys.executable, "-m", "ziglang", "cc"))
    raise RunError(
        Problem(
            message=f"no C compiler: none of {', '.join(NAMES)} is on PATH, and the package ziglang is not installed",
            fix="install one, for example with `apt install gcc`, `xcode-select --install` or `pip install ziglang`",
        )
    )


def find_target(system: str, machine: str, features: frozenset[str]) -> Target:
    """The target of this machine; `features` are those that the processor says it has."""
    target = TARGETS.get((system, machine))
    if target is None:
        known = ", ".join(f"{s} {m}" for s, m in TARGETS)
        raise RunError(
            Problem(message=f"class cpu does not run on {system} {machine}", fix=f"run it on one of these: {known}")
        )
    missing = [feature for feature in target.features if feature not in features]
    if missing:
        raise RunError(
            Problem(
                message=f"class cpu is compiled for {target.name}, and this processor lacks {', '.join(missing)}",
                fix="run it on a processor that has them",
            )
        )
    return target


def processor_features() -> frozenset[str]:
    """The features that Linux lists for the first processor; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def _identified(command: tuple[str, ...]) -> Compiler:
    try:
        done = subprocess.run((*command, "--version"), capture_output=True, text=True, check=True, errors="replace")
    except (OSError, subprocess.CalledProcessError) as error:
        raise RunError(
            Problem(
                message=f"the C compiler {' '.join(command)} does not answer --version: {error}",
                fix="repair it, or put another one first on PATH",
            )
        ) from error
    return Compiler(command=command, identity=done.stdout)


def _is_whole(library: Path) -> bool:
    try:
        stated = library.with_suffix(".sha256").read_bytes()
        return stated == hashlib.sha256(library.read_bytes()).hexdigest().encode()
    except OSError:
        return False  # not there, or not readable, which compiling again finds out


def _compile(source: str, compiler: Compiler, flags: tuple[str, ...], library: Path) -> None:
    """Leaves the source beside the library, for reading. The hash comes last: without it an entry is not whole."""
    _write(library.with_suffix(".c"), source.encode())
    with tempfile.TemporaryDirectory(prefix="met-") as folder:
        (Path(folder) / "program.c").write_text(source, encoding="utf-8")
        # The names are relative, so that the library's bytes do not depend on where the folder is.
        command = (*compiler.command, *flags, "-o", "program.so", "program.c", "-lm")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise _refused(compiler, done.stderr, library.with_suffix(".c"))
        data = (Path(folder) / "program.so").read_bytes()
    _write(library, data)
    _write(library.with_suffix(".sha256"), hashlib.sha256(data).hexdigest().encode())


def _write(path: Path, data: bytes) -> None:
    def write(file: BinaryIO) -> None:
        file.write(data)

    write_entry(path, write)


def _refused(compiler: Compiler, said: str, source: Path) -> RunError:
    lines = "\n".join(said.splitlines()[:KEPT_LINES])
    return RunError(
        Problem(
            message=f"the C compiler {' '.join(compiler.command)} refused the program:\n{lines}",
            fix="put another compiler first on PATH, and report this with the file",
            file=str(source),
        )
    )
