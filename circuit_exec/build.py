"""Compiles an emitted C program into a shared library, once for each source, compiler, flags and target.

The files of a program are packed into units of similar size, which compile beside each other, one process a processor.
A unit includes its files, so that what they share is read once: a model has some twenty kernels, and reading the
prelude takes as long as compiling a small one. How files are packed depends on their texts alone, and so do the bytes
of the library.

An entry of the cache is `<key>.c` (all files, for reading), `<key>.so` and, written last, `<key>.sha256`; an entry that
is damaged or was left half-made is made again.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from circuit.emit.sources import Sources, program_text
from circuit.errors import Problem, RunError
from circuit.text import Source
from circuit_exec.cache import Cache, entry_path, key_of, write_entry
from circuit_exec.host import this_host

Progress = Callable[[str, float], None]
"""Told what is being done, and how much of it is: 0.0 to 1.0."""

COMMON_FLAGS = (
    "-O3",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fvisibility=hidden",
    "-Wno-psabi",
    "-fPIC",
    "-pthread",
    "-I.",
)
NAMES = ("cc", "gcc", "clang")
KEPT_LINES = 12
KIND = "programs"
UNIT_BYTES = 96 << 10
"""Text of a unit: about half a second of gcc 12, so that a processor is rarely left without one."""


class Compiler(Struct, frozen=True, kw_only=True):
    """A C compiler: the words that start it, and what it says of its version."""

    command: tuple[str, ...]
    identity: str


BASE = {"x86_64": "x86-64-v3", "aarch64": "armv8-a"}
"""What a program is compiled for on each machine type where no class says it: what class cpu states."""


def build(sources: Sources, cache: Cache, progress: Progress, arch: str | None = None) -> Path:
    """The library of a C program, from the cache or freshly compiled; `arch` is what its class compiles for."""
    compiler = find_compiler(os.environ.get("PATH", ""))
    host = this_host()
    flags = COMMON_FLAGS + target_flags(arch or BASE[host.machine], compiler)
    texts = [part for source in sources for part in (source.path, source.text)]
    key = key_of(str(len(texts)), *texts, *compiler.command, compiler.identity, *flags, platform.system())
    library = entry_path(cache, KIND, f"{key}.so")
    if not _is_whole(library):
        _compile(sources, compiler, flags, library, lambda part: progress("compiling the program", part))
    return library


def available_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def units(sources: Sources) -> tuple[Source, ...]:
    """C files that include the program's C files, each of them once; the largest unit comes first."""
    files = sorted((s for s in sources if s.path.endswith(".c")), key=lambda s: (-len(s.text), s.path))
    packed: list[list[Source]] = [[] for _ in range(-(-sum(len(s.text) for s in files) // UNIT_BYTES))]
    sizes = [0] * len(packed)
    for source in files:
        least = sizes.index(min(sizes))
        packed[least].append(source)
        sizes[least] += len(source.text)
    return tuple(
        Source(path=f"unit{place}.c", text="".join(f'#include "{source.path}"\n' for source in unit))
        for place, unit in enumerate(sorted(filter(None, packed), key=lambda unit: -sum(len(s.text) for s in unit)))
    )


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


def target_flags(arch: str, compiler: Compiler) -> tuple[str, ...]:
    """The flags that name what is compiled for; ziglang has names of its own, and traps that C does not ask for."""
    if "ziglang" not in compiler.command:
        return machine_flags(arch)
    return (f"-mcpu={arch.replace('-', '_') if arch.startswith('x86') else 'generic'}", "-fno-sanitize=undefined")


def machine_flags(arch: str) -> tuple[str, ...]:
    """The flags of gcc and clang for a target: a level, or one with features behind it, each after a `+`."""
    level, *features = arch.split("+")
    return (f"-march={level}", *(f"-m{feature}" for feature in features))


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


def _compile(
    sources: Sources, compiler: Compiler, flags: tuple[str, ...], library: Path, report: Callable[[float], None]
) -> None:
    """Leaves the sources beside the library, for reading. The hash comes last: without it an entry is not whole."""
    report(0.0)
    text = library.with_suffix(".c")
    _write(text, program_text(sources).encode())
    parts = units(sources)
    with tempfile.TemporaryDirectory(prefix="met-") as folder:
        for source in (*sources, *parts):
            path = Path(folder) / source.path
            path.parent.mkdir(exist_ok=True)
            path.write_text(source.text, encoding="utf-8")

        def run(words: Sequence[str]) -> None:
            # The names are relative, so that the library's bytes do not depend on where the folder is.
            command = (*compiler.command, *flags, *words)
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
            if done.returncode != 0:
                raise _refused(compiler, done.stderr, text)

        objects = [source.path.replace(".c", ".o") for source in parts]
        with ThreadPoolExecutor(max_workers=available_threads()) as pool:
            jobs = [pool.submit(run, ("-c", "-o", o, part.path)) for o, part in zip(objects, parts, strict=True)]
            try:
                for done, job in enumerate(as_completed(jobs), start=1):
                    job.result()
                    report(done / (len(jobs) + 1))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        run(("-shared", "-o", "program.so", *objects, "-lm"))
        data = (Path(folder) / "program.so").read_bytes()
    _write(library, data)
    _write(library.with_suffix(".sha256"), hashlib.sha256(data).hexdigest().encode())
    report(1.0)


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
